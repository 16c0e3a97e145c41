// SPDX-License-Identifier: Apache-2.0
// Faults at random places in thread ranks, over slots, direct reads and shaped links. All other
// ranks must name the faulty rank, shrink the communicator, and continue. BLINK_FAULTS=200 runs as
// many.

#include <blink/collectives.hpp>
#include <blink/transports/host/slots.hpp>

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

}}  // namespace thread_faults_test
