// SPDX-License-Identifier: Apache-2.0
// Faults at random places in thread ranks, over slots, direct reads and shaped links. All other
// ranks must name the faulty rank, shrink the communicator, and continue. BLINK_FAULTS=200 runs as
// many.

#include <blink/collectives.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/expect_error.hpp"
#include "support/fault_injection.hpp"
#include "support/faulty_transport.hpp"
#include <gtest/gtest.h>

#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace thread_faults_test { namespace {

using blink_test::harm;
using blink_test::injection;

constexpr auto deadline = std::chrono::milliseconds(600);

/// Number of ranks that have ended; a rank that hangs does so until all its peers have.
std::atomic<int> through = 0;
std::atomic<int> awaited = 0;
void hang() {
  while (through.load() < awaited.load()) std::this_thread::yield();
}

template <class Transport>
std::string run_rank(blink::thread_communicator<Transport, blink::lone_thread>& comm,
                     injection const& planned) {
  bool const is_victim = comm.rank() == planned.victim;
  if (is_victim) blink_test::arm(planned, hang, [] { std::this_thread::sleep_for(deadline / 6); });
  return blink_test::run_planned(comm, planned).text;
}

/// Runs one fault. Returns true if it happened.
template <class Transport>
bool inject(injection const& planned) {
  SCOPED_TRACE("seed " + std::to_string(planned.seed) + ": rank " + std::to_string(planned.victim) +
               " of " + std::to_string(planned.ranks) + " " +
               blink_test::harm_names[static_cast<std::size_t>(planned.what)]);
  blink::communicator_options options;
  options.slot_bytes = 512;
  options.window = 2;
  options.waits.deadline = deadline;
  through = 0;
  awaited = planned.ranks - 1;
  std::vector<std::string> ends(static_cast<std::size_t>(planned.ranks));
  blink::basic_thread_ranks<Transport> threads(planned.ranks, options);
  threads.run([&](auto& comm) {
    ends[static_cast<std::size_t>(comm.rank())] = run_rank(comm, planned);
    ++through;
  });
  bool const happened =
      ends[planned.victim == 0 ? 1 : 0] != "no fault" && planned.what != harm::delay;
  EXPECT_TRUE(happened || planned.what <= harm::delay);
  for (auto const& end : ends) EXPECT_EQ(end, happened ? "reported" : "no fault");
  return happened;
}

/// A sum that hangs once, beyond the deadline.
struct hanging_sum {
  static constexpr bool is_commutative = true;
  bool* is_to_hang;
  int operator()(int a, int b) const {
    if (std::exchange(*is_to_hang, false)) {
      std::this_thread::sleep_for(std::chrono::milliseconds(900));
    }
    return a + b;
  }
};

// A rank that has done its part waits for the entry of each rank, one after the other. An entry
// wakes only those that wait for it.
TEST(thread_faults, a_rank_that_has_done_its_part_says_whose_entry_it_waits_for) {
  blink::communicator_options options;
  options.eager_payload = 0;
  blink::basic_thread_ranks<blink::slot_transport> threads(3, options);
  auto& chain = threads.prepare(blink::chain_schedule(3, 0));
  std::atomic<bool> has_seen = false;
  threads.run([&](auto& comm) {
    std::vector<int> in(8, 1), out(8);
    if (comm.rank() == 0) {  // rank 2 has sent its part, and rank 1 waits for it
      for (int look = 0; look < 4000 && !has_seen; ++look) {
        auto const waits = threads.state().waiting(2);
        has_seen = waits.is_reported && waits.where.peer == 0 && waits.where.tree < 0;
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      }
    }
    blink::reduce(comm, chain, in.data(), out.data(), 8, blink::sum{});
    if (comm.rank() == 0) {
      EXPECT_EQ(out[7], 3);
    }
  });
  EXPECT_TRUE(has_seen);
}

/// The failures of a reduce to rank 0 along a chain, by rank, while a rank hangs as it combines.
std::vector<std::string> failures_while_one_hangs(int ranks, int hangs, std::size_t count) {
  blink::communicator_options options;
  options.slot_bytes = 256;
  options.window = 2;
  options.eager_payload = 0;
  options.waits.deadline = std::chrono::milliseconds(300);
  std::vector<std::string> result(static_cast<std::size_t>(ranks));
  blink::basic_thread_ranks<blink::slot_transport> threads(ranks, options);
  auto& chain = threads.prepare(blink::chain_schedule(ranks, 0));
  threads.run([&](auto& comm) {
    int const rank = comm.rank();
    std::vector<int> in(count, 1), out(count);
    bool is_to_hang = rank == hangs;
    try {
      blink::reduce(comm, chain, in.data(), out.data(), count, hanging_sum{&is_to_hang});
    } catch (blink::collective_error const& failure) {
      result[static_cast<std::size_t>(rank)] = failure.what();
    }
  });
  return result;
}

TEST(thread_faults, say_whether_a_rank_does_not_send_or_does_not_take) {
  // Rank 1 of three hangs with a chunk that fits into the slots: rank 0 waits for its sum.
  auto const unsent = failures_while_one_hangs(3, 1, 8)[0];
  EXPECT_NE(unsent.find("waits for rank 1"), std::string::npos) << unsent;
  EXPECT_NE(unsent.find("to send it"), std::string::npos) << unsent;
  EXPECT_EQ(unsent.find("to take it"), std::string::npos) << unsent;
  // Rank 0 of two hangs, and the slots are full: rank 1 waits for its credit.
  auto const untaken = failures_while_one_hangs(2, 0, 5000)[1];
  EXPECT_NE(untaken.find("waits for rank 0"), std::string::npos) << untaken;
  EXPECT_NE(untaken.find("to take it"), std::string::npos) << untaken;
  EXPECT_EQ(untaken.find("to send it"), std::string::npos) << untaken;
}

TEST(thread_faults, are_named_by_all_others_who_then_go_on) {
  int const number = blink_test::number_of_faults();
  int happened = 0;
  for (int seed = 0; seed < number; ++seed) {
    injection const planned(static_cast<std::uint64_t>(seed));
    constexpr std::array inject_over{inject<blink_test::faulty<blink::slot_transport>>,
                                     inject<blink_test::faulty<blink::threads_link>>,
                                     inject<blink_test::faulty<blink::shaped_transport>>};
    auto const kind = static_cast<std::size_t>(seed / blink_test::harms) % inject_over.size();
    if (inject_over[kind](planned)) ++happened;
  }
  EXPECT_GE(happened, number / 2);
}

/// A peer that does its part and ends while it is looked at.
struct ends_meanwhile final : blink::failure_detector {
  blink::shared_state& state;
  explicit ends_meanwhile(blink::shared_state& of) : state(of) {}
  bool is_dead(int rank) const override {
    state.exit_call(rank);
    if (state.barriers_of(rank) == 0) state.come(rank);
    return true;
  }
  std::string describe(int) const override { return ""; }
};

TEST(shared_state, ranks_that_do_their_part_and_leave_during_a_search_are_not_lost) {
  for (bool const leaves : {false, true}) {
    blink::shared_state state(3);
    ends_meanwhile const signs(state);
    for (int rank = 0; rank < 3; ++rank) state.enter(rank, {});
    state.exit_call(2);
    EXPECT_EQ(state.loss_before_end(1, 1), blink::shared_state::loss::none) << "all are inside";
    state.set_failure_detector(&signs);
    if (leaves) state.set_gone(1, true);
    EXPECT_EQ(state.loss_before_arrival(1, 1),
              leaves ? blink::shared_state::loss::left : blink::shared_state::loss::none);
    if (!leaves) {
      EXPECT_EQ(state.loss_before_end(1, 1), blink::shared_state::loss::none);
    }
    EXPECT_EQ(state.loss_before_end(1, 2),
              leaves ? blink::shared_state::loss::left : blink::shared_state::loss::died)
        << "it does not enter the next call";
  }
}

// A waiting rank looks at some peers at a time. It finds a lost one long before the deadline, even
// if it is the only rank that waits, and waits for another peer.
TEST(thread_faults, one_of_many_ranks_that_is_lost_is_found_by_a_rank_that_waits_for_another) {
  constexpr int ranks = 70, lost = 41;
  blink::thread_ranks threads(ranks);
  std::atomic<bool> is_found = false;
  std::string found;
  threads.run([&](auto& comm) {
    if (comm.rank() == lost) return;
    std::vector<int> data(1);
    if (comm.rank() != 0) {
      while (!is_found) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    auto const why = blink_test::error_of([&] { blink::all_reduce(comm, data); });
    if (comm.rank() != 0) return;
    found = why;
    is_found = true;
  });
  EXPECT_EQ(found, "rank 0, all_reduce: rank 41 has left without entering call 1");
}

}}  // namespace thread_faults_test
