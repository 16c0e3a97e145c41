// SPDX-License-Identifier: Apache-2.0
#include <blink/collectives/probe.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/fit_machine.hpp>
#include <blink/topology/topology.hpp>
#include <blink/transports/host/threads.hpp>
#include <blink/transports/messages/message_communicator.hpp>
#include <blink/transports/messages/message_transport.hpp>

#include "support/expect_error.hpp"
#include "support/message_ranks.hpp"
#include "support/thread_channel.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <thread>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::probe_test { namespace {

/// The results of all ranks are equal, and fit a machine that can be planned for.
void expect_equal_and_fitting(std::vector<measured_rates> const& results) {
  auto const& first = results[0];
  for (auto const& other : results) EXPECT_TRUE(other == first);
  auto const machine = fit_machine(first);
  EXPECT_NO_THROW(validate(machine));
  EXPECT_NO_THROW(require_connected(machine));
  EXPECT_EQ(machine.rank_positions().size(), results.size());
}

/// So that no load of the computer leaves a pattern out.
constexpr double unlimited_seconds = 1e9;

TEST(probe, threads_are_one_host_with_equal_results_on_all_ranks) {
  thread_ranks threads(3);
  std::vector<measured_rates> results(3);
  probe_options options;
  options.bytes = 1 << 16;
  options.calls = 2;
  options.seconds = unlimited_seconds;
  threads.run(
      [&](auto& comm) { results[static_cast<std::size_t>(comm.rank())] = probe(comm, options); });
  auto const& first = results[0];
  EXPECT_EQ(first.host_of, (std::vector<int>{0, 0, 0}));
  for (std::size_t a = 0; a < 3; ++a) {
    EXPECT_GT(first.together[a], 0);
    for (std::size_t b = 0; b < 3; ++b) {
      EXPECT_EQ(first.alone[a][b] > 0, a != b);
      EXPECT_EQ(first.start_up[a][b] > 0, a != b);
    }
  }
  expect_equal_and_fitting(results);
}

TEST(probe, pairs_are_left_out_when_the_time_is_over) {
  thread_ranks threads(4);
  probe_options options;
  options.bytes = 1 << 12;
  options.seconds = 1e-9;
  threads.run([&](auto& comm) {
    auto const found = probe(comm, options);
    EXPECT_GT(found.together[0], 0);  // the first pattern is always measured
    EXPECT_EQ(found.alone[0][1], 0);
  });
}

TEST(probe, many_hosts_are_sampled) {
  constexpr int ranks = 20;
  std::vector<measured_rates> results(ranks);
  probe_options options;
  options.bytes = 1 << 10;
  options.calls = 1;
  options.seconds = unlimited_seconds;
  blink_test::run_over_messages(ranks, {.ranks_of_host = 2}, [&](auto& comm) {
    results[static_cast<std::size_t>(comm.rank())] = probe(comm, options);
  });
  expect_equal_and_fitting(results);
  auto const& first = results[0];
  ASSERT_GE(first.hosts(), 10U);
  std::size_t measured = 0;
  for (std::size_t a = 0; a < first.hosts(); ++a) {
    EXPECT_GT(first.out[a], 0);
    EXPECT_GT(first.in[a], 0);
    measured += static_cast<std::size_t>(
        std::ranges::count_if(first.between[a], [](double each) { return each > 0; }));
  }
  EXPECT_GT(measured, 0U);
  EXPECT_LT(measured, first.hosts() * (first.hosts() - 1));
  for (std::size_t r = 0; r < ranks; r += 2) {
    if (first.host_of[r] != first.host_of[r + 1]) continue;  // one rank for each host
    EXPECT_GT(first.alone[r][r + 1], 0);
    EXPECT_GT(first.start_up[r + 1][r], 0);
    EXPECT_GT(first.together[r], 0);
  }
}

/// A channel whose messages leave later if they go to another group of ranks.
class distant_channel : public blink_test::thread_channel {
 public:
  static constexpr int near = 3;  // ranks of a group
  static constexpr std::chrono::milliseconds near_delay{1}, far_delay{3};

  distant_channel(blink_test::thread_network& network, int rank)
      : thread_channel(network, rank), network_ranks_(static_cast<std::size_t>(rank_count())) {
    for (int r = 0; r < rank_count(); ++r) network_ranks_[static_cast<std::size_t>(r)] = r;
  }
  void send(void const* from, std::size_t bytes, int peer, int tag, request& operation) {
    bool const is_near = in_network(rank()) / near == in_network(peer) / near;
    std::this_thread::sleep_for(is_near ? near_delay : far_delay);
    thread_channel::send(from, bytes, peer, tag, operation);
  }
  [[nodiscard]] distant_channel duplicate() {
    return {thread_channel::duplicate(), network_ranks_};
  }
  [[nodiscard]] distant_channel among(std::vector<int> const& members) {
    std::vector<int> ranks;
    for (int const member : members) ranks.push_back(in_network(member));
    return {thread_channel::among(members), std::move(ranks)};
  }

 private:
  distant_channel(thread_channel channel, std::vector<int> network_ranks)
      : thread_channel(std::move(channel)), network_ranks_(std::move(network_ranks)) {}
  [[nodiscard]] int in_network(int rank) const {
    return network_ranks_[static_cast<std::size_t>(rank)];
  }

  std::vector<int> network_ranks_;  // by rank of the channel
};
static_assert(message_channel<distant_channel>);

TEST(probe, distant_hosts_have_long_start_ups) {
  constexpr int ranks = 6;
  blink_test::thread_network network(ranks);
  std::vector<measured_rates> results(ranks);
  probe_options options;
  options.bytes = 1 << 10;
  options.calls = 1;
  options.seconds = 6;  // a quarter of it for start-ups
  blink_test::run_threads(ranks, [&](int rank) {
    basic_message_communicator<message_transport<distant_channel>> comm(
        distant_channel(network, rank), communicator_options{});
    results[static_cast<std::size_t>(rank)] = probe(comm, options);
  });
  expect_equal_and_fitting(results);
  auto const& first = results[0];
  ASSERT_EQ(first.hosts(), std::size_t{ranks});
  // A load lengthens all times. So it changes which hosts are found together, but no least time.
  double const there_and_back =
      2 * std::chrono::duration<double>(distant_channel::far_delay).count();
  auto const start_ups = start_up_of_hosts(first);
  int measured = 0;
  for (std::size_t a = 0; a < 3; ++a) {
    for (std::size_t b = 3; b < 6; ++b) {
      if (start_ups[a][b] <= 0) continue;  // no time was left
      EXPECT_GE(start_ups[a][b], there_and_back);
      ++measured;
    }
  }
  EXPECT_GT(measured, 0);  // groups are odd, so that each round crosses
}

TEST(probe, options_out_of_range) {
  thread_ranks threads(2);
  probe_options options;
  options.calls = 0;
  threads.run(
      [&](auto& comm) { EXPECT_ERROR((void)probe(comm, options), "expected more than 0"); });
}

}}  // namespace blink::probe_test
