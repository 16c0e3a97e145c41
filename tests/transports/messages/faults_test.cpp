// SPDX-License-Identifier: Apache-2.0
// Ranks over messages that die, hang or make another call. All other ranks must name the faulty
// rank, shrink the communicator, and continue. BLINK_FAULTS=200 runs as many.

#include <blink/collectives.hpp>
#include <blink/transports/messages/message_communicator.hpp>

#include "support/expect_error.hpp"
#include "support/fault_injection.hpp"
#include "support/faulty_transport.hpp"
#include "support/message_ranks.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <latch>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace message_faults_test { namespace {

using blink_test::harm;
using blink_test::injection;
using blink_test::message_options;
using blink_test::run_over;
using blink_test::run_over_messages;
using blink_test::thread_communicator;
using blink_test::thread_network;
using std::chrono::milliseconds;
using faulty_transport = blink_test::faulty<blink_test::thread_message_transport>;
using communicator = blink::basic_message_communicator<faulty_transport>;

/// Number of ranks that have ended; a rank that hangs or has died waits for its peers there.
std::atomic<int> through = 0;
std::atomic<int> awaited = 0;
void hang() {
  while (through.load() < awaited.load()) std::this_thread::yield();
}
thread_local thread_network* network_of_victim = nullptr;
thread_local int victim = 0;
void die() {
  network_of_victim->cut_off(victim);
  hang();
}

constexpr milliseconds deadline(600);
constexpr auto long_deadline = std::chrono::seconds(20);

std::string run_rank(communicator& comm, thread_network& network, injection const& planned) {
  bool const is_victim = comm.rank() == planned.victim;
  if (is_victim) {
    network_of_victim = &network;
    victim = planned.victim;
    blink_test::arm(planned, planned.what == harm::kill ? die : hang,
                    [] { std::this_thread::sleep_for(deadline / 6); });
  }
  return blink_test::run_planned(comm, planned).text;
}

/// Runs one fault. Returns true if it happened.
///
/// way:           along trees with slots, along trees with zero copy, eagerly if inputs are small
/// ranks_of_host: that share memory
bool inject(injection const& planned, int way, int ranks_of_host) {
  SCOPED_TRACE("seed " + std::to_string(planned.seed) + ": rank " + std::to_string(planned.victim) +
               " of " + std::to_string(planned.ranks) + " " +
               blink_test::harm_names[static_cast<std::size_t>(planned.what)]);
  message_options with;
  with.options.slot_bytes = way == 1 ? 1 << 14 : 512;
  with.options.window = 2;
  // Dead ranks are found at once, hanging ones at the deadline.
  bool const hangs = planned.what == harm::stop || planned.what == harm::delay;
  with.options.waits.deadline = hangs ? blink::nanoseconds(deadline) : long_deadline;
  with.eager_limit = way == 2 ? std::size_t{1} << 12 : 0;
  with.options.eager_payload = with.eager_limit;
  with.zero_copy_threshold = way == 1 ? 1 : 1 << 20;
  through = 0;
  awaited = planned.ranks - 1;
  std::vector<std::string> ends(static_cast<std::size_t>(planned.ranks));
  thread_network network(planned.ranks, blink_test::has_thread_sanitizer ? 1 : ranks_of_host);
  auto const started = std::chrono::steady_clock::now();
  run_over<faulty_transport>(network, planned.ranks, with, [&](communicator& comm) {
    ends[static_cast<std::size_t>(comm.rank())] = run_rank(comm, network, planned);
    ++through;
    hang();  // the rank that hung ends its communicator beside the others
    while (through.load() < planned.ranks) std::this_thread::yield();
  });
  EXPECT_LT(std::chrono::steady_clock::now() - started, long_deadline);
  bool const happened =
      ends[planned.victim == 0 ? 1 : 0] != "no fault" && planned.what != harm::delay;
  EXPECT_TRUE(happened || planned.what <= harm::delay);
  for (int rank = 0; rank < planned.ranks; ++rank) {
    auto const& end = ends[static_cast<std::size_t>(rank)];
    // A rank that hung may find on waking that its peers have sent all that its last call needs.
    if (rank == planned.victim && !planned.is_mismatch() && end == "no fault") continue;
    EXPECT_EQ(end, happened ? "reported" : "no fault") << "rank " << rank;
  }
  return happened;
}

TEST(message_faults, are_named_by_all_others_who_then_go_on) {
  int const number = std::max(3 * blink_test::harms, blink_test::number_of_faults());
  int happened = 0;
  for (int seed = 0; seed < number; ++seed) {
    injection const planned(static_cast<std::uint64_t>(seed));
    int const turn = seed / blink_test::harms;
    int const ranks_of_host =
        std::array{1, 2, planned.ranks}[static_cast<std::size_t>(turn + seed) % 3];
    if (inject(planned, turn % 3, ranks_of_host)) ++happened;
  }
  EXPECT_GE(happened, number / 2);
}

message_options patient_for(blink::nanoseconds longest) {
  message_options result;
  result.options.waits.deadline = longest;
  result.options.slot_bytes = 512;
  return result;
}

int sum_of_ranks(thread_communicator& comm, std::size_t count) {
  std::vector<int> data(count, comm.rank() + 1);
  blink::all_reduce(comm, blink::star_schedule(comm.rank_count()), data.data(), data.data(), count,
                    blink::sum{});
  for (int const value : data) EXPECT_EQ(value, data[0]);
  return data[0];
}

TEST(message_faults, a_rank_that_dies_between_calls_is_lost_long_before_the_deadline) {
  auto const started = std::chrono::steady_clock::now();
  thread_network network(3);
  std::latch has_ended(3);  // the first call, on all ranks
  run_over(network, 3, patient_for(long_deadline), [&](thread_communicator& comm) {
    EXPECT_EQ(sum_of_ranks(comm, 100), 6);
    has_ended.arrive_and_wait();
    if (comm.rank() == 1) {
      network.cut_off(1);
      return;
    }
    auto const text = blink_test::error_of([&] { (void)sum_of_ranks(comm, 100); });
    EXPECT_SAYS(text, "rank 1 is lost");
    auto smaller = comm.shrink();
    EXPECT_EQ(smaller.rank(), comm.rank() / 2);
    EXPECT_EQ(sum_of_ranks(smaller, 3000), 3);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - started, long_deadline);
}

TEST(message_faults, a_rank_that_leaves_is_named_long_before_the_deadline) {
  auto const started = std::chrono::steady_clock::now();
  run_over_messages(3, patient_for(long_deadline), [](thread_communicator& whole) {
    std::optional<thread_communicator> comm(std::in_place, std::move(whole));
    EXPECT_EQ(sum_of_ranks(*comm, 100), 6);
    if (comm->rank() == 0) {
      comm.reset();
      return;
    }
    auto const text = blink_test::error_of([&] { (void)sum_of_ranks(*comm, 100); });
    EXPECT_SAYS(text, "rank 0 has left without entering call 2");
    auto smaller = comm->shrink();
    EXPECT_EQ(sum_of_ranks(smaller, 3000), 3);
  });
  EXPECT_LT(std::chrono::steady_clock::now() - started, long_deadline);
}

TEST(message_faults, a_rank_that_never_comes_is_named_at_the_deadline) {
  std::atomic<int> done = 0;
  auto const with = patient_for(milliseconds(200));
  run_over_messages(3, with, [&](thread_communicator& comm) {
    if (comm.rank() == 2) {
      while (done < 2) std::this_thread::yield();
      return;
    }
    auto const text = blink_test::error_of([&] { (void)sum_of_ranks(comm, 3000); });
    EXPECT_SAYS(text, "rank 2 has not entered call 1");
    ++done;
  });
}

/// A sum that waits on one rank until a flag is set.
struct waiting_sum {
  std::atomic<bool> const* may_go_on;  // null: it does not wait
  int operator()(int a, int b) const {
    while (may_go_on != nullptr && !*may_go_on) std::this_thread::yield();
    return a + b;
  }
};

// A sender with zero copy gets its buffer back although its peer neither dies nor receives.
TEST(message_faults, a_peer_that_keeps_a_buffer_is_abandoned) {
  auto with = patient_for(milliseconds(200));
  with.eager_limit = 0;
  with.zero_copy_threshold = 1;
  with.options.slot_bytes = 1 << 14;
  with.options.shares_memory = false;
  std::atomic<bool> is_done = false;
  thread_network network(2, 2);
  run_over(network, 2, with, [&](thread_communicator& comm) {
    constexpr std::size_t count = 100'000;
    auto const to_rank_1 = blink::flat_schedule(2, 1);  // rank 0 only sends until rank 1 has summed
    auto const call = [&](std::atomic<bool> const* may_go_on) {
      std::vector<int> data(count, 1);  // in place: arrivals have one slot, and others wait
      blink::all_reduce(comm, to_rank_1, data.data(), data.data(), count, waiting_sum{may_go_on});
    };
    call(nullptr);
    if (comm.rank() == 1) {
      EXPECT_THROW(call(&is_done), blink::collective_error);
      return;
    }
    auto const text = blink_test::error_of([&] { call(nullptr); });
    EXPECT_SAYS(text, "waits for rank 1 to take it, which does not answer");
    EXPECT_TRUE(blink_test::thread_channel(network, 0).is_lost(1));
    is_done = true;
    auto alone = comm.shrink();
    EXPECT_EQ(alone.rank_count(), 1);
  });
}

TEST(message_faults, who_shrinks_while_others_call_is_the_cause) {
  run_over_messages(3, patient_for(long_deadline), [](thread_communicator& comm) {
    if (comm.rank() != 1) {
      auto const text = blink_test::error_of([&] { (void)sum_of_ranks(comm, 100); });
      EXPECT_SAYS(text, "rank 1 shrinks the communicator");
    }
    auto again = comm.shrink();
    EXPECT_EQ(sum_of_ranks(again, 100), 6);
    EXPECT_ERROR((void)comm.shrink(), "thread_communicator: a second shrink(), expected one");
  });
}

TEST(message_faults, another_count_is_reported_by_all_and_shrinking_goes_on) {
  run_over_messages(3, patient_for(long_deadline), [](thread_communicator& comm) {
    auto const text =
        blink_test::error_of([&] { (void)sum_of_ranks(comm, comm.rank() == 2 ? 7 : 8); });
    EXPECT_SAYS(text, "count");
    auto again = comm.shrink();
    EXPECT_EQ(sum_of_ranks(again, 100), 6);
  });
}

TEST(message_faults, a_rank_that_dies_while_options_are_compared_is_named) {
  thread_network network(3);
  network.cut_off(2);
  blink_test::run_threads(2, [&](int rank) {
    EXPECT_ERROR((thread_communicator(blink_test::thread_channel(network, rank))),
                 "rank 2 has not compared its options");
  });
}

}}  // namespace message_faults_test
