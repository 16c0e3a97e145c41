// SPDX-License-Identifier: Apache-2.0
// Several communicators of the same processes that share devices. A different order of their calls
// in another process is reported; the same order is not.

#include <blink/reducers/arithmetic.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda/calls/call_order_check.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/host/call_clock.hpp>
#include <blink/transports/host/communicator_bootstrap.hpp>
#include <blink/transports/host/host_processes.hpp>
#include <blink/transports/host/processes.hpp>

#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/forked_host_processes.hpp"
#include "support/forked_ranks.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_orders_test { namespace {

using blink_test::below;
using blink_test::call_of;
using blink_test::case_of;
using blink_test::device_case;
using blink_test::emulated_devices;
using blink_test::error_of;
using blink_test::forked_ranks;
using ranks = blink::basic_device_ranks<emulated_devices, blink::slot_peer_transport>;

/// One process's devices, and communicators of all processes. `devices` lists the devices of each
/// communicator, the same in all processes.
struct part {
  part(std::string const& path, int process, std::vector<std::vector<int>> const& devices)
      : communicator(path, process), bootstrap(communicator) {
    for (auto const& own : devices) {
      auto options = blink_test::options_in_vectors(own);
      options.deadline = std::chrono::seconds(20);
      rank_owners.push_back(std::make_unique<ranks>(machine, options, bootstrap));
      (void)rank_owners.back()->prepare(blink::ring_schedule(rank_owners.back()->rank_count()));
    }
  }

  /// A call of a communicator, in separate streams.
  void start(std::size_t which, std::size_t count = 40) {
    auto& all = *rank_owners[which];
    cases.emplace_back(case_of(blink::collective::all_reduce, count, which + 1),
                       blink::ring_schedule(all.rank_count()), all.first_rank(), all.ranks_here());
    std::vector<int> streams;
    for (std::size_t k = 0; k < all.devices().size(); ++k) streams.push_back(machine.make_stream());
    cases.back().enqueue(all, blink::sum{}, streams);
    last.resize(rank_owners.size());
    last[which] = streams;
  }
  /// Waits for the last call of a communicator.
  void wait(std::size_t which) { rank_owners[which]->wait(last[which]); }
  [[nodiscard]] std::string wrong() {
    std::string all;
    for (auto& each : cases) all += each.wrong(blink::sum{});
    return all;
  }

  emulated_devices machine{{.devices = 4, .shares_memory = true}};
  blink::process_communicator communicator;
  blink::communicator_bootstrap<blink::process_communicator> bootstrap;
  std::vector<std::unique_ptr<ranks>> rank_owners;
  std::vector<std::vector<int>> last;
  std::deque<device_case<int>> cases;
};

template <class Body>
std::vector<std::string> run(int processes, Body const& body) {
  forked_ranks all(processes);
  all.start([&](int process) { return std::string(body(all.path(), process)); });
  std::vector<std::string> texts;
  for (auto const& end : all.finish()) texts.push_back(end.text);
  return texts;
}

TEST(device_orders, another_order_is_named_on_all_and_the_other_communicator_goes_on) {
  for (int const more : {0, 3}) {  // calls in the same order before
    auto const texts = run(2, [&](std::string const& path, int process) -> std::string {
      part mine(path, process, {{0}, {0}});
      for (int call = 0; call < more; ++call) mine.start(static_cast<std::size_t>(call % 2));
      // The process that comes later refuses the call. The process that made it before sees it
      // fail. If both come at once, both refuse.
      std::vector<std::string> why(2);
      for (std::size_t const which : {std::size_t(process), std::size_t(1 - process)}) {
        why[which] = error_of([&] { mine.start(which); });
      }
      for (std::size_t which = 0; which < 2; ++which) {
        if (why[which] == "no error") why[which] = error_of([&] { mine.wait(which); });
      }
      for (std::size_t which = 0; which < 2; ++which) {
        if (why[which] != "no error") mine.rank_owners[which]->recover();
      }
      mine.cases.clear();
      for (std::size_t const which : {0U, 1U, 1U, 0U}) mine.start(which);
      mine.wait(1);
      mine.wait(0);
      return why[0] + "|" + why[1] + "|" + mine.wrong();
    });
    EXPECT_EQ(texts[0], texts[1]);
    EXPECT_SAYS(texts[0], "calls all_reduce, process ");
    EXPECT_SAYS(texts[0], " calls of another communicator with a device in common (its number ");
    EXPECT_SAYS(texts[0], "expected the same order of their calls in all processes");
    EXPECT_SAYS(texts[0], " after " + std::to_string((more + 1) / 2) + " ");
    EXPECT_EQ(texts[0].back(), '|') << texts[0];
  }
}

TEST(device_orders, the_same_order_is_none_of_these) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    auto const texts =
        run(2 + static_cast<int>(seed % 2), [&](std::string const& path, int process) {
          // Some communicators share devices; those that share none may be called in any order.
          std::mt19937_64 random(seed), own(seed * 100 + static_cast<std::uint64_t>(process));
          part mine(path, process, {{0, 1}, {1, 2}, {0}, {3}});
          std::vector<std::size_t> calls;
          for (int call = 0; call < 30; ++call) calls.push_back(random() % 3);
          int apart = 10;  // calls of the last one, at other positions in each process
          for (std::size_t const which : calls) {
            for (; apart > 0 && own() % 3 == 0; --apart) mine.start(3);
            mine.start(which);
          }
          for (; apart > 0; --apart) mine.start(3);
          for (std::size_t which = 0; which < 4; ++which)
            mine.rank_owners[which]->wait(mine.last[which]);
          return mine.wrong();
        });
    for (auto const& text : texts) EXPECT_EQ(text, "") << seed;
  }
}

TEST(device_orders, communicators_that_come_go_or_begin_anew_are_not_compared_with_what_was) {
  auto const texts = run(2, [](std::string const& path, int process) -> std::string {
    part mine(path, process, {{0}, {0}, {0}});
    mine.start(0);
    mine.start(1);
    mine.wait(0);
    mine.wait(1);
    mine.start(2);
    mine.rank_owners[2]->wait(mine.last[2]);
    // The second communicator fails. The first one continues before and after the second recovers,
    // at another position in each process.
    if (process == 1) mine.rank_owners[1]->abort();
    while (!mine.rank_owners[1]->has_failed()) std::this_thread::yield();
    if (process == 0) mine.start(0);
    mine.rank_owners[1]->recover();
    if (process == 1) mine.start(0);
    mine.start(1);
    mine.wait(0);
    mine.wait(1);
    // The third one ends before the first one continues in one process, and after it in the other.
    if (process == 0) mine.start(0);
    mine.rank_owners.pop_back();
    if (process == 1) mine.start(0);
    mine.start(1);
    mine.wait(0);
    mine.wait(1);
    return mine.wrong();
  });
  for (auto const& text : texts) EXPECT_EQ(text, "");
}

TEST(device_orders, captured_calls_have_no_place_in_it) {
  auto const texts = run(2, [](std::string const& path, int process) -> std::string {
    part mine(path, process, {{0}, {0}});
    device_case<int> now(case_of(blink::collective::all_reduce, 40, 1), blink::ring_schedule(2),
                         process, 1);
    auto const stream = mine.machine.make_stream();
    auto const capture = [&] {
      mine.machine.begin_capture({stream});
      now.enqueue(*mine.rank_owners[1], blink::sum{}, {stream});
      return mine.machine.end_capture({stream});
    };
    std::uint64_t graph = 0;
    if (process == 0) graph = capture();
    mine.start(0);
    if (process == 1) graph = capture();
    mine.wait(0);
    mine.machine.replay(graph);
    mine.rank_owners[1]->wait({stream});
    return now.wrong(blink::sum{}) + mine.wrong();
  });
  for (auto const& text : texts) EXPECT_EQ(text, "");
}

// A communicator that does not compare calls takes no room in the clocks of those that do.
TEST(device_orders, calls_that_are_not_compared_are_counted_by_none) {
  forked_ranks forked(2);
  forked.start([&](int process) -> std::string {
    blink::segment_bootstrap bootstrap(forked.path(), process, std::chrono::seconds(20));
    blink::call_counts counts;
    blink::host_processes one(bootstrap, std::chrono::seconds(20));
    blink::host_processes other(bootstrap, std::chrono::seconds(20));
    blink::call_order_check silent(counts, &one, {0}, false);
    blink::call_order_check here(counts, &other, {0});
    if (process == 0) (void)silent.enter(call_of(1), false);
    auto const found = here.enter(call_of(1), false) + silent.match();
    bool const is_counted = one.calls(process) == (process == 0 ? 1U : 0U);
    bool const is_alone = other.clock_of(process, 0).count == 0;
    (void)other.gather("end", 0);
    return found.empty() && is_counted && is_alone ? "right" : "wrong: " + found;
  });
  for (auto const& end : forked.finish()) EXPECT_EQ(end.text, "right");
}

// --- clocks ---

TEST(call_clock, compares_what_both_have) {
  blink::call_clock a, b;
  EXPECT_EQ(a.difference(b, "a", "b"), "");
  a.add({7, 3, 1});
  b.add({8, 4, 1});
  EXPECT_EQ(a.difference(b, "a", "b"), "");
  b.add({7, 3, 2});
  EXPECT_EQ(a.difference(b, "a", "b"), "");
  EXPECT_EQ(b.find(7)->calls, 3U);
  EXPECT_EQ(b.find(9), nullptr);
  a.add({8, 5, 2});
  EXPECT_EQ(
      a.difference(b, "a", "b"),
      "a makes it after 5 calls of another communicator with a device in common (its number "
      "2), b after 4 (its number 1): expected the same order of their calls in all processes");
  EXPECT_SAYS(b.difference(a, "b", "a"), "b makes it after 4 calls");
}

TEST(call_clock, keeps_no_more_than_fits) {
  blink::call_clock clock;
  for (std::uint64_t number = 0; number < 100; ++number) clock.add({number, number, 1});
  EXPECT_EQ(clock.count, blink::call_clock::most);
  EXPECT_EQ(clock.marks.back().communicator, blink::call_clock::most - 1);
}

// Random orders of calls of several communicators, some of which share a device, against a
// comparison of whole sequences. A conflict must be reported exactly if two communicators that
// share a device have calls in different orders in the two processes.
TEST(call_order_check, finds_another_order_exactly_where_there_is_one) {
  int unlike = 0;
  for (std::uint64_t seed = 0; seed < 80; ++seed) {
    std::mt19937_64 random(seed);
    std::vector<std::vector<int>> devices(3);
    for (auto& own : devices) {
      own = {below(random, 3)};
      if (random() % 2 == 0) own.push_back(below(random, 3));
    }
    std::vector<std::vector<std::size_t>> orders(2);
    for (int call = 0; call < 6; ++call) orders[0].push_back(random() % 3);
    orders[1] = orders[0];
    for (std::size_t swaps = random() % 3; swaps > 0; --swaps) {
      std::size_t const at = random() % 5;
      std::swap(orders[1][at], orders[1][at + 1]);
    }
    auto const in_common = [&](std::size_t a, std::size_t b) {
      for (int const device : devices[a]) {
        for (int const other : devices[b]) {
          if (device == other) return true;
        }
      }
      return false;
    };
    bool is_unlike = false;
    for (std::size_t a = 0; a < 3; ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        auto const of_both = [&](std::vector<std::size_t> const& order) {
          std::vector<std::size_t> result;
          for (std::size_t const each : order) {
            if (each == a || each == b) result.push_back(each);
          }
          return result;
        };
        is_unlike |= in_common(a, b) && of_both(orders[0]) != of_both(orders[1]);
      }
    }
    unlike += is_unlike ? 1 : 0;
    forked_ranks forked(2);
    forked.start([&](int process) -> std::string {
      blink::segment_bootstrap bootstrap(forked.path(), process, std::chrono::seconds(20));
      blink::call_counts counts;
      std::deque<blink::host_processes> processes;
      std::deque<blink::call_order_check> communicators;
      for (auto const& own : devices) {
        processes.emplace_back(bootstrap, std::chrono::seconds(20));
        communicators.emplace_back(counts, &processes.back(), own);
      }
      std::string found;
      for (std::size_t const which : orders[static_cast<std::size_t>(process)]) {
        found += communicators[which].enter(call_of(1), false);
      }
      (void)processes[0].gather("end", 0);
      return found.empty() ? "none" : found;
    });
    bool is_found = false;
    for (auto const& end : forked.finish()) is_found |= end.text != "none";
    EXPECT_EQ(is_found, is_unlike) << seed;
  }
  EXPECT_GT(unlike, 10);
  EXPECT_LT(unlike, 70);
}

TEST(call_order_check, says_of_calls_that_meet_in_another_order_why_nobody_comes) {
  forked_ranks forked(2);
  forked.start([&](int process) -> std::string {
    blink::segment_bootstrap bootstrap(forked.path(), process, std::chrono::seconds(20));
    blink::call_counts counts;
    std::deque<blink::host_processes> processes;
    std::deque<blink::call_order_check> communicators;
    for (int k = 0; k < 2; ++k) {
      processes.emplace_back(bootstrap, std::chrono::milliseconds(1500));
      communicators.emplace_back(counts, &processes.back(), std::vector<int>{0});
    }
    auto const call = [&](int which) {
      auto& here = communicators[static_cast<std::size_t>(which)];
      std::string found = here.enter(call_of(1), false);
      return found += here.match();
    };
    for (int const which : {0, 1}) {
      if (auto const found = call(which); !found.empty()) return found;
    }
    return error_of([&] { (void)call(process); });
  });
  for (auto const& end : forked.finish()) {
    EXPECT_SAYS(end.text, "call 2: process ");
    EXPECT_SAYS(end.text, " and has made 1 calls; process ");
    EXPECT_SAYS(end.text, "has made more than 1 calls of another communicator");
    EXPECT_SAYS(end.text, "expected the same order of their calls in all processes");
  }
}

}}  // namespace device_orders_test
