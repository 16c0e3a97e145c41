// SPDX-License-Identifier: Apache-2.0
// Processes that agree through memory of the host: messages, comparison of calls without waiting,
// and the named process if one is absent.

#include <blink/running/call/call_description.hpp>
#include <blink/transports/host/host_processes.hpp>
#include <blink/transports/host/segment_bootstrap.hpp>

#include "support/expect_error.hpp"
#include "support/forked_host_processes.hpp"
#include "support/forked_ranks.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace host_processes_test { namespace {

using blink::host_processes;
using blink_test::below;
using blink_test::call_of;
using blink_test::error_of;
using blink_test::forked_ranks;
using blink_test::with_host_processes;

TEST(host_processes, messages_arrive_round_by_round) {
  auto const texts =
      with_host_processes(3, std::chrono::seconds(20), [](host_processes& all, int process) {
        std::mt19937_64 random(static_cast<std::uint64_t>(process));
        for (int round = 0; round < 200; ++round) {
          if (random() % 50 == 0)
            std::this_thread::sleep_for(std::chrono::microseconds(random() % 2000));
          auto const messages = all.gather("round", 1000 * round + process);
          for (int peer = 0; peer < 3; ++peer) {
            if (messages[static_cast<std::size_t>(peer)] != 1000 * round + peer) return "wrong";
          }
        }
        return "right";
      });
  for (auto const& text : texts) EXPECT_EQ(text, "right");
}

// A process that is ahead waits only for those far behind; equal calls never differ.
TEST(host_processes, equal_calls_agree_however_far_apart) {
  auto const texts =
      with_host_processes(3, std::chrono::seconds(20), [](host_processes& all, int process) {
        std::mt19937_64 random(static_cast<std::uint64_t>(process));
        std::mt19937_64 same(5);
        for (int call = 0; call < 3000; ++call) {
          if (random() % 500 == 0)
            std::this_thread::sleep_for(std::chrono::milliseconds(random() % 5));
          if (auto const text = all.enter(call_of(same())); !text.empty()) return text;
        }
        return std::string("right");
      });
  for (auto const& text : texts) EXPECT_EQ(text, "right");
}

TEST(host_processes, the_later_one_finds_a_difference) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    std::mt19937_64 random(seed);
    int const odd_call = below(random, 600), odd_process = below(random, 2);
    auto const texts =
        with_host_processes(2, std::chrono::seconds(20), [&](host_processes& all, int process) {
          std::mt19937_64 own(seed * 2 + static_cast<std::uint64_t>(process));
          for (int call = 0; call < 600; ++call) {
            if (own() % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
            bool const is_odd = call == odd_call && process == odd_process;
            auto const text = all.enter(call_of(is_odd ? 11 : 10));
            if (!text.empty()) all.fail({text, -1, -1, -1, -1});
            if (all.has_failed()) break;
          }
          (void)all.gather("end", 0);  // the other process may not have noticed yet
          return std::string(all.has_failed() ? all.failure().what() : "nothing");
        });
    for (auto const& text : texts) {
      EXPECT_SAYS(text, "call " + std::to_string(odd_call + 1) + ": process ");
      EXPECT_SAYS(text, "calls all_reduce, with count 1");
    }
  }
}

TEST(host_processes, who_is_too_far_behind_is_named) {
  auto const texts =
      with_host_processes(2, std::chrono::milliseconds(200), [](host_processes& all, int process) {
        if (process == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(600));
          return std::string();
        }
        for (std::uint64_t call = 0; call < host_processes::most_ahead; ++call) {
          if (!all.enter(call_of(1)).empty()) return std::string("too early");
        }
        return all.enter(call_of(1));
      });
  EXPECT_SAYS(texts[0], "has made 0 calls, process 0 has made 256");
}

TEST(host_processes, an_absent_process_is_named_and_no_process_waits_twice) {
  auto const texts =
      with_host_processes(3, std::chrono::milliseconds(1000), [](host_processes& all, int process) {
        (void)all.gather("first", process);
        if (process == 1) {
          std::this_thread::sleep_for(std::chrono::milliseconds(3000));
          return std::string();
        }
        auto const text = error_of([&] { (void)all.gather("second", process); });
        auto const begin = std::chrono::steady_clock::now();
        auto const again = error_of([&] { (void)all.gather("third", process); });
        bool const waits =
            std::chrono::steady_clock::now() - begin > std::chrono::milliseconds(900);
        return again == text && !waits ? text : "waits again: " + again;
      });
  EXPECT_SAYS(texts[0], "second: waits for process 1 (process ");
  EXPECT_SAYS(texts[0], "which has not arrived");
  EXPECT_SAYS(texts[2], "second: waits for process 1 (process ");
}

TEST(host_processes, who_died_or_left_is_named_at_once) {
  forked_ranks forked(2);
  forked.start([&](int process) {
    blink::segment_bootstrap bootstrap(forked.path(), process, std::chrono::seconds(20));
    host_processes all(bootstrap, std::chrono::seconds(100));  // more than the test may take
    if (process == 1) (void)raise(SIGKILL);
    return error_of([&] { (void)all.gather("first", process); });
  });
  EXPECT_SAYS(forked.finish()[0].text, "which has died");
  auto const texts =
      with_host_processes(2, std::chrono::seconds(100), [](host_processes& all, int process) {
        return process == 1 ? "" : error_of([&] { (void)all.gather("first", process); });
      });
  EXPECT_SAYS(texts[0], "which has left");
}

TEST(host_processes, steps_and_refusals_are_reported) {
  auto const texts =
      with_host_processes(2, std::chrono::seconds(20), [](host_processes& all, int process) {
        auto const refusal = error_of([&] {
          all.agree("a step", [&] {
            if (process == 1) throw blink::resource_error("nothing left");
          });
        });
        all.agree("a step", [] {});  // a refusal has no lasting effect
        auto const step = error_of([&] { all.agree(process == 0 ? "this" : "that", [] {}); });
        return refusal + "|" + step;
      });
  EXPECT_SAYS(texts[0], "a step: process 1 (process ");
  EXPECT_SAYS(texts[0], "refuses: nothing left|process 0 is at \"this\", process 1 (process ");
  EXPECT_SAYS(texts[1], "nothing left|process 1 is at \"that\"");
}

/// A bootstrap that reports a false process or host.
struct false_bootstrap {
  blink::segment_bootstrap& true_one;
  bool is_one_process = false;  // otherwise two hosts
  [[nodiscard]] int process() const { return true_one.process(); }
  [[nodiscard]] int process_count() const { return true_one.process_count(); }
  void all_gather(void const* own, void* all, std::size_t bytes) {
    std::vector<unsigned char> message(bytes);
    std::memcpy(message.data(), own, bytes);
    // A message begins with a hash of the host and the number of the process, 8 bytes each.
    if (is_one_process) std::memset(message.data() + 8, 1, 8);
    if (!is_one_process && process() == 1) message[0] ^= 1;
    true_one.all_gather(message.data(), all, bytes);
  }
};

TEST(host_processes, other_hosts_are_refused) {
  forked_ranks forked(2);
  forked.start([&](int process) {
    blink::segment_bootstrap bootstrap(forked.path(), process, std::chrono::seconds(20));
    std::string text;
    for (bool const is_one_process : {false, true}) {
      false_bootstrap elsewhere{bootstrap, is_one_process};
      text += error_of([&] { host_processes all(elsewhere, std::chrono::seconds(20)); }) + "|";
    }
    return text;
  });
  for (auto const& end : forked.finish()) {
    EXPECT_SAYS(end.text, "processes 0 and 1 are not of one host");
    EXPECT_SAYS(end.text, "|processes 0 and 1 are one, process ");
  }
}

}}  // namespace host_processes_test
