// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/thread_messengers.hpp>

#include "support/collective_case.hpp"
#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <new>
#include <random>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// Counts allocations of calls. Not inlined, because gcc would report a mismatch of new and free.
// clang's ThreadSanitizer has operators of its own, so there is no such test.
#if defined(__clang__)
#if __has_feature(thread_sanitizer)
#define BLINK_TEST_CANNOT_COUNT
#endif
#endif
#ifndef BLINK_TEST_CANNOT_COUNT
namespace {
std::atomic<std::size_t> allocations = 0;
}
[[gnu::noinline]] void* operator new(std::size_t bytes) {
  ++allocations;
  if (void* const memory = std::malloc(bytes == 0 ? 1 : bytes)) return memory;
  throw std::bad_alloc();
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}
#endif

// A folder may be compiled as one source.
namespace thread_ranks_test { namespace {

using blink_test::collective_case;

template <class Transport>
class threads : public testing::Test {};
using links = testing::Types<blink::threads_link, blink::slot_transport, blink::shaped_transport>;
TYPED_TEST_SUITE(threads, links);

TYPED_TEST(threads, prepares_a_schedule_once) {
  blink::basic_thread_ranks<TypeParam> ranks(3);
  auto const star = blink::star_schedule(3);
  auto& first = ranks.prepare(star);
  EXPECT_EQ(&ranks.prepare(blink::star_schedule(3)), &first);
  EXPECT_NE(&ranks.prepare(blink::chain_schedule(3, 0)), &first);
}

TYPED_TEST(threads, runs_once_at_a_time) {
  blink::basic_thread_ranks<TypeParam> both(2);
  auto const call = [](auto& comm) { blink::barrier(comm, blink::star_schedule(2)); };
  both.run([&](auto& comm) {
    call(comm);
    if (comm.rank() == 1) EXPECT_ERROR(both.run(call), "run already");
    call(comm);
  });
  both.run(call);
}

// A call equal to the one before is not checked again. Any difference is checked, and a refused
// call is refused again.
TYPED_TEST(threads, a_rank_that_ends_its_thread_is_reported) {
  for (bool const is_cancelled : {false, true}) {
    blink::basic_thread_ranks<TypeParam> owner(3);
    std::string told;
    EXPECT_ERROR(owner.run([&](auto& comm) {
      std::vector<float> data(10000, 1.0F);
      blink::all_reduce(comm, data);
      if (comm.rank() == 1) {
        if (is_cancelled) {
          ::pthread_cancel(::pthread_self());
          ::pthread_testcancel();
        }
        ::pthread_exit(nullptr);
      }
      auto const text = blink_test::error_of([&] { blink::all_reduce(comm, data); });
      if (comm.rank() == 0) told = text;
    }),
                 "rank 1 ended its thread");
    EXPECT_SAYS(told, "rank 1");
    owner.run([&](auto& comm) { EXPECT_EQ(comm.rank_count(), 3); });
  }
}

TYPED_TEST(threads, a_single_rank_shifts_to_itself) {
  blink::basic_thread_ranks<TypeParam> owner(1);
  owner.run([&](auto& comm) {
    int const input = 5;
    int output = 0;
    blink::send_to_next(comm, blink::send_to_next_schedule(1), &input, &output, 1);
    EXPECT_EQ(output, 5);
  });
}

TYPED_TEST(threads, what_was_right_is_checked_again_when_anything_differs) {
  auto const star = blink::star_schedule(2);
  auto const from_first = blink::flat_schedule(2, 0);
  for (int round = 0; round < 2; ++round) {  // a later communicator may have the address of an
                                             // earlier one
    blink::basic_thread_ranks<TypeParam> ranks(2);
    auto& carries_sums = ranks.prepare(star);
    auto& carries_copies = ranks.prepare(from_first);
    ranks.run([&](auto& comm) {
      std::vector<int> data(8, 1);
      for (int turn = 0; turn < 3; ++turn) {
        int* const first = data.data();
        blink::all_reduce(comm, carries_sums, first, first, 4, blink::sum{});
        EXPECT_EQ(data[3], 2);
        std::fill(data.begin(), data.end(), 1);
        EXPECT_THROW(blink::all_reduce(comm, carries_sums, first, first + 1, 4, blink::sum{}),
                     blink::precondition_error);
        EXPECT_THROW(blink::all_reduce(comm, carries_sums, static_cast<int*>(nullptr), first, 4,
                                       blink::sum{}),
                     blink::precondition_error);
        EXPECT_THROW(blink::all_gather(comm, carries_copies, first, first, 4),
                     blink::precondition_error);
        blink::broadcast(comm, carries_copies, first, first, 4);
      }
    });
  }
}

#ifndef BLINK_TEST_CANNOT_COUNT
TYPED_TEST(threads, calls_along_a_prepared_schedule_allocate_nothing) {
  blink::basic_thread_ranks<TypeParam> ranks(3);
  auto& prepared = ranks.prepare(blink::binomial_schedule(3, 1));
  std::atomic<std::size_t> most = 0;
  ranks.run([&](auto& comm) {
    std::vector<float> data(5000, 1);
    auto const call = [&] {
      blink::all_reduce(comm, prepared, data.data(), data.data(), data.size(), blink::max{});
      blink::broadcast(comm, prepared, data.data(), data.data(), data.size());
    };
    call();  // all ranks are past the start of their threads
    auto const before = allocations.load();
    for (int k = 0; k < 20; ++k) call();
    // Peers may have left the last call and end their threads; they free memory, but allocate none.
    most = std::max(most.load(), allocations.load() - before);
  });
  EXPECT_EQ(most.load(), 0U);
}

TYPED_TEST(threads, sends_and_receives_allocate_nothing) {
  blink::basic_thread_ranks<TypeParam> ranks(2);
  std::atomic<std::size_t> most = 0;
  ranks.run([&](auto& comm) {
    int const peer = 1 - comm.rank();
    std::vector<int> data(10'000), got(data.size());
    auto const call = [&] {
      for (std::size_t const count : {std::size_t{1}, std::size_t{600}, data.size()}) {
        auto first = blink::start_receive(comm, peer, got.data(), count, 1);
        blink::send(comm, peer, data.data(), count, 0);  // is kept until the other one has come
        blink::send(comm, peer, data.data(), count, 1);
        first.wait();
        blink::receive(comm, peer, got.data(), count, 0);
      }
    };
    // Larger messages that are kept take memory each time, smaller ones use it again.
    for (int k = 0; k < 20; ++k) call();
    auto const before = allocations.load();
    for (int k = 0; k < 20; ++k) call();
    most = std::max(most.load(), allocations.load() - before);
  });
  EXPECT_EQ(most.load(), 0U);
}
#endif

// An eager payload has one of two places, by its size. Each call overwrites that of two calls
// before.
TYPED_TEST(threads, inputs_that_are_eager_may_have_any_size) {
  std::mt19937_64 random(5);
  for (int ranks = 1; ranks <= 4; ++ranks) {
    blink::basic_thread_ranks<TypeParam> all(ranks);
    for (std::size_t const count : {0U, 1U, 7U, 8U, 9U, 16U, 31U, 32U, 33U, 40U}) {
      for (auto const kind : {blink::collective::all_reduce, blink::collective::broadcast,
                              blink::collective::reduce_scatter, blink::collective::all_to_all}) {
        auto const source = blink_test::random_schedule(random, ranks, kind);
        collective_case const what{kind, count, false, 0, random()};
        ASSERT_EQ(blink_test::run_case<std::uint8_t>(all, source, what, blink::sum{}, 3), "")
            << to_text(kind) << ", " << ranks << " ranks, " << count;
      }
    }
  }
}

TYPED_TEST(threads, counts_what_each_edge_carries) {
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 2 + blink_test::below(random, 4);
    auto const kind = static_cast<blink::collective>(seed % blink::collective_names.size());
    auto source = blink_test::random_schedule(random, ranks, kind);
    source.link_bytes_per_second = {1e12, 1e12};
    for (auto& tree : source.trees) {  // link 0 carries data up, link 1 down
      if (!tree.reduce_parent.empty()) {
        tree.reduce_route.assign(static_cast<std::size_t>(ranks), {0});
      }
      if (!tree.broadcast_parent.empty()) {
        tree.broadcast_route.assign(static_cast<std::size_t>(ranks), {1});
      }
    }
    blink::communicator_options options;
    options.eager_payload = 0;
    blink::basic_thread_ranks<TypeParam> all(ranks, options);
    collective_case const what{kind, 500 + seed, false, 0, seed};
    ASSERT_EQ(blink_test::run_case<std::int32_t>(all, source, what, blink::sum{}, 2), "");
    auto& prepared = all.prepare(source);
    std::uint64_t up = 0;
    std::uint64_t down = 0;
    for (auto const& edge : prepared.edges()) {
      (edge.is_reduce ? up : down) += edge.bytes;
      auto const& tree = source.trees[static_cast<std::size_t>(edge.tree)];
      EXPECT_EQ(edge.is_reduce ? tree.reduce_parent[static_cast<std::size_t>(edge.from)]
                               : tree.broadcast_parent[static_cast<std::size_t>(edge.to)],
                edge.is_reduce ? edge.to : edge.from);
      if (kind != blink::collective::barrier) {
        EXPECT_EQ(edge.bytes == 0, edge.chunks == 0);
      }
      EXPECT_GE(edge.receiver_seconds, 0);
      EXPECT_LT(edge.receiver_seconds + edge.sender_seconds, 100);
    }
    EXPECT_EQ(prepared.link_bytes(), (std::vector<std::uint64_t>{up, down}));
    if (kind == blink::collective::barrier) {
      EXPECT_EQ(up + down, 0U);
    }
    if (blink::is_point_to_point(kind)) {  // data arrives once, over one edge or more
      std::uint64_t arrived = 0;
      for (auto const& edge : prepared.edges()) {
        bool const is_last =
            blink::flow_end(source.trees[static_cast<std::size_t>(edge.tree)]) == edge.to;
        arrived += is_last ? edge.bytes : 0;
      }
      std::set<std::pair<int, int>> pairs;
      for (auto const& tree : source.trees) {
        if (tree.root != blink::flow_end(tree)) pairs.insert({tree.root, blink::flow_end(tree)});
      }
      EXPECT_EQ(arrived, 2 * sizeof(std::int32_t) * what.count * pairs.size());
      EXPECT_GE(down, arrived);
    }
    if (blink::is_point_to_point(kind) || kind == blink::collective::barrier) continue;
    // Each tree spans all ranks: every element crosses ranks - 1 edges in each phase.
    auto const blocks = blink::has_equal_roots(kind) ? static_cast<std::uint64_t>(ranks) : 1;
    auto const expected =
        2 * sizeof(std::int32_t) * what.count * blocks * static_cast<std::uint64_t>(ranks - 1);
    EXPECT_EQ(up, blink::has_reduce_phase(kind) ? expected : 0);
    EXPECT_EQ(down, blink::has_broadcast_phase(kind) ? expected : 0);
  }
}

// Times have lower bounds only, because the machine may be busy.
TEST(shaped, nothing_is_sooner_than_its_links_allow) {
  using clock = std::chrono::steady_clock;
  constexpr std::size_t bytes = 200'000;
  auto const seconds_along = [&](blink::schedule const& source) {
    blink::shaped_thread_ranks threads(2);
    auto& prepared = threads.prepare(source);
    auto const start = clock::now();
    threads.run([&](auto& comm) {
      std::vector<char> data(bytes, static_cast<char>(comm.rank() + 1));
      blink::broadcast(comm, prepared, data.data(), data.data(), bytes);
      EXPECT_EQ(data.front(), 1);
      EXPECT_EQ(data.back(), 1);
    });
    return std::chrono::duration<double>(clock::now() - start).count();
  };
  auto source = blink::flat_schedule(2, 0);
  source.link_bytes_per_second = {1e7, 4e7};
  source.trees[0].broadcast_route = {{}, {0, 1}};
  EXPECT_GE(seconds_along(source), bytes / 1e7);
  // A second tree shares the slower link, but not the other one.
  source.trees.push_back(source.trees[0]);
  EXPECT_GE(seconds_along(source), bytes / 1e7 * 0.99);
  source.trees[1].broadcast_route = {{}, {1}};
  EXPECT_GE(seconds_along(source), bytes / 2 / 1e7 * 0.99);
  EXPECT_DOUBLE_EQ(blink::predicted_bytes_per_second(source, blink::collective::broadcast), 2e7);
}

TEST(shaped, latency_is_of_each_message) {
  blink::communicator_options options;
  options.costs.latency_seconds = 0.01;
  blink::shaped_thread_ranks threads(3, options);
  auto const start = std::chrono::steady_clock::now();
  threads.run([&](auto& comm) {
    int data = comm.rank();
    blink::all_reduce(comm, blink::chain_schedule(3, 0), &data, &data, 1, blink::sum{});
    EXPECT_EQ(data, 3);
  });
  auto const passed = std::chrono::steady_clock::now() - start;
  EXPECT_GE(passed, std::chrono::milliseconds(40));  // two edges up, two down
}

// Includes policies without spins or yields before the sleep.
TEST(wait_policy, has_a_deadline_whatever_comes_before_it) {
  for (int const spins : {0, 3}) {
    for (int const yields : {0, 1, 5}) {
      SCOPED_TRACE(std::to_string(spins) + " spins, " + std::to_string(yields) + " yields");
      blink::communicator_options options;
      options.waits = {std::chrono::milliseconds(60), spins, yields};
      blink::thread_ranks threads(2, options);
      try {
        threads.run([&](auto& comm) {
          int data = comm.rank();
          if (comm.rank() == 1) std::this_thread::sleep_for(std::chrono::milliseconds(400));
          blink::all_reduce(comm, blink::star_schedule(2), &data, &data, 1, blink::sum{});
        });
        ADD_FAILURE() << "no rank saw an error";
      } catch (blink::collective_error const& failure) {
        EXPECT_EQ(failure.peer, 1) << failure.what();
      }
    }
  }
}

TEST(pipeline_chunk, is_the_best_of_the_formula) {
  double const a = 1e-4;
  double const b = 1e7;
  for (std::size_t const part : {1000U, 100000U, 5000000U}) {
    for (int const steps : {2, 3, 8}) {
      auto const time = [&](double chunk) {
        return (std::ceil(static_cast<double>(part) / chunk) + steps - 1) * (a + chunk / b);
      };
      auto const best = static_cast<double>(blink::pipeline_chunk_bytes(part, steps, a, b));
      EXPECT_LE(best, static_cast<double>(part));
      double const rounding = 1 + 16 / (a * b + best);  // chunks are of whole elements
      for (double chunk = 16; chunk < static_cast<double>(part) + 16; chunk += 16) {
        double const other = std::min(chunk, static_cast<double>(part));
        EXPECT_LE(time(best), time(other) * 1.0001 * rounding) << chunk;
      }
    }
  }
  EXPECT_EQ(blink::pipeline_chunk_bytes(777, 1, a, b), 777U);
}

}}  // namespace thread_ranks_test
