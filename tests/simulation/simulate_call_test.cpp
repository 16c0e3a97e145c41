// SPDX-License-Identifier: Apache-2.0
// Simulated calls are cut into the chunks that calls of real ranks move.
#include <blink/collectives.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/simulation/simulate_call.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>
#include <blink/transports/host/threads.hpp>

#include "support/expect_error.hpp"
#include "support/random_machines.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <ostream>
#include <random>
#include <tuple>
#include <vector>

// Rooms may be compiled as one source.
namespace simulate_call_test { namespace {

using namespace blink;

/// Messages and bytes of a tree edge: by tree, phase, sender and receiver.
using edge_key = std::tuple<int, bool, int, int>;
struct edge_traffic {
  std::uint64_t chunks = 0;
  std::uint64_t bytes = 0;
  friend bool operator==(edge_traffic const&, edge_traffic const&) = default;
};
std::ostream& operator<<(std::ostream& out, edge_traffic const& t) {
  return out << t.chunks << " chunks of " << t.bytes << " bytes";
}

/// The traffic of a call of threads along the schedule. Edges without traffic are left out.
std::map<edge_key, edge_traffic> traffic_of_threads(schedule const& source, collective kind,
                                                    std::size_t count,
                                                    communicator_options const& options) {
  shaped_thread_ranks ranks(source.rank_count, options);
  auto& prepared = ranks.prepare(source);
  auto const all = static_cast<std::size_t>(source.rank_count);
  ranks.run([&](auto& comm) {
    std::vector<float> in(count * all, 1), out(count * all);
    if (kind == collective::all_reduce) {
      all_reduce(comm, prepared, in.data(), out.data(), count, sum{});
    } else if (kind == collective::broadcast) {
      broadcast(comm, prepared, in.data(), out.data(), count);
    } else if (kind == collective::all_gather) {
      all_gather(comm, prepared, in.data(), out.data(), count);
    } else {
      reduce_scatter(comm, prepared, in.data(), out.data(), count, sum{});
    }
  });
  std::map<edge_key, edge_traffic> result;
  for (auto const& e : prepared.edges()) {
    if (e.bytes > 0) result[{e.tree, e.is_reduce, e.from, e.to}] = {e.chunks, e.bytes};
  }
  return result;
}

TEST(simulate_call, moves_the_chunks_that_real_ranks_move) {
  std::size_t messages = 0;
  for (unsigned seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto machine = test::make_random_duplex_machine(seed, 3 + seed % 3, seed % 2, 3, 4);
    machine.unit = "GB/s";
    collective const kinds[] = {collective::all_reduce, collective::broadcast,
                                collective::all_gather, collective::reduce_scatter};
    auto const kind = kinds[seed % 4];
    auto const p = make_plan(machine, {kind, {}, "exact"});
    std::size_t const count = 1 + random() % (seed % 3 == 0 ? 3000 : 200'000);
    communicator_options options;
    options.eager_payload = 0;
    options.slot_bytes = std::size_t{1} << (10 + random() % 7);
    options.window = static_cast<std::uint32_t>(1 + random() % 5);
    // Rates at which the call takes no time to speak of, in proportion to the links.
    constexpr double unit = 1e9;
    auto const source = make_schedule(machine, p, unit);
    auto const real = traffic_of_threads(source, kind, count, options);

    simulated_call call;
    call.count = count * (has_blocks(kind) ? p.ranks.size() : 1);
    call.layout = connection_layout_of<shaped_transport>(options, source);
    call.costs = options.costs;
    simulation_options simulated;
    simulated.bytes_per_unit = unit;
    simulated.records_events = true;
    auto const result = simulate_call(machine, p, call, simulated);
    std::map<int, int> rank_of;
    for (std::size_t i = 0; i < p.ranks.size(); ++i) rank_of[p.ranks[i]] = static_cast<int>(i);
    std::map<edge_key, edge_traffic> found;
    for (auto const& c : result.crossings) {
      if (c.edge_from != c.link_from) continue;  // the first link of the route
      auto& edge = found[{static_cast<int>(c.tree), c.is_reduce, rank_of.at(c.edge_from),
                          rank_of.at(c.edge_to)}];
      ++edge.chunks;
      edge.bytes += static_cast<std::uint64_t>(c.bytes);
    }
    EXPECT_EQ(found, real);
    messages += static_cast<std::size_t>(result.messages);
  }
  EXPECT_GT(messages, 1000U);
}

TEST(simulate_call, chunk_sizes_of_the_schedule_are_kept_in_whole_elements) {
  auto const machine = subset(machines::dgx1v(), {0, 1, 2, 3});
  auto const p = make_plan(machine, {collective::all_reduce, {}, "exact"});
  simulated_call call;
  call.count = 1'000'003;
  call.chunk_bytes.assign(p.trees.size(), 10'001);  // 2,500 elements
  simulation_options options;
  options.records_events = true;
  auto const result = simulate_call(machine, p, call, options);
  double all = 0;
  for (auto const& c : result.crossings) {
    EXPECT_LE(c.bytes, 10'000);
    all += c.is_reduce ? c.bytes : 0;
  }
  EXPECT_EQ(all, 4.0 * 1'000'003 * 3);  // three edges of each tree
}

TEST(simulate_call, large_buffers_take_as_long_as_with_equal_chunks) {
  auto const machine = machines::dgx1v();
  for (auto const kind : {collective::all_reduce, collective::all_gather, collective::broadcast,
                          collective::all_to_all, collective::scatter}) {
    auto const p = make_plan(machine, {kind, {}, "exact"});
    simulated_call call;
    call.count = std::size_t{64} << 20;
    call.chunk_bytes.assign(p.trees.size(), 1 << 18);
    auto const cut = simulate_call(machine, p, call).seconds;
    auto const equal = simulate(machine, p, 4.0 * static_cast<double>(call.count), 1 << 18).seconds;
    EXPECT_NEAR(cut, equal, 0.1 * equal) << to_text(kind);
  }
}

TEST(simulate_call, one_shot_moves_the_whole_buffer_along_the_trees_of_each_rank) {
  auto const machine = machines::dgx1v();
  auto const p = make_plan(machine, {collective::reduce_scatter, {}, "exact"});
  simulated_call call;
  call.count = 1 << 20;
  call.is_one_shot = true;
  simulation_options options;
  options.records_events = true;
  double all = 0;
  for (auto const& c : simulate_call(machine, p, call, options).crossings) all += c.bytes;
  EXPECT_EQ(all, 8.0 * 7 * 4 * (1 << 20));  // eight ranks receive from seven
  auto const other = make_plan(machine, {collective::all_reduce, {}, "exact"});
  EXPECT_ERROR((void)simulate_call(machine, other, call),
               "one shot along a plan for all_reduce, expected reduce_scatter");
}

TEST(simulate_call, refuses_what_no_runtime_runs) {
  auto const machine = machines::dgx1v();
  auto const p = make_plan(machine, {collective::all_reduce, {}, "exact"});
  simulated_call call;
  call.count = std::numeric_limits<std::size_t>::max() / 2;
  EXPECT_ERROR((void)simulate_call(machine, p, call), "expected less than 2^63 bytes");
  call.count = 1000;
  call.element_bytes = 0;
  EXPECT_ERROR((void)simulate_call(machine, p, call), "elements of 0 bytes");
  call.element_bytes = 4;
  call.chunk_bytes = {1, 2};
  EXPECT_ERROR((void)simulate_call(machine, p, call), "2 chunk sizes, expected none or one for");
}

}}  // namespace simulate_call_test
