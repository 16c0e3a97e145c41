// SPDX-License-Identifier: Apache-2.0
// Processes that meet at a call before they create something together. All find the same result,
// also late ones.

#include <blink/running/call/call_description.hpp>
#include <blink/transports/host/host_processes.hpp>

#include "support/expect_error.hpp"
#include "support/forked_host_processes.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace host_rendezvous_test { namespace {

using blink::host_processes;
using blink_test::call_of;
using blink_test::with_host_processes;

blink::call_description named(char const* name) {
  return {{.kind = ~std::uint64_t{0}, .types = 7}, name};
}

TEST(host_rendezvous, equal_calls_agree) {
  auto const texts =
      with_host_processes(3, std::chrono::seconds(20), [](host_processes& all, int process) {
        std::mt19937_64 random(static_cast<std::uint64_t>(process));
        for (std::uint64_t call = 0; call < 700; ++call) {
          if (random() % 100 == 0) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          auto text = all.enter(call_of(call));
          if (text.empty() && call % 3 == 0) text = all.match();
          if (!text.empty()) return text;
        }
        return std::string("right");
      });
  for (auto const& text : texts) EXPECT_EQ(text, "right");
}

// With `enter` alone, only the process that comes later notices at once.
TEST(host_rendezvous, a_difference_is_found_by_all) {
  auto const texts =
      with_host_processes(3, std::chrono::seconds(20), [](host_processes& all, int process) {
        (void)all.enter(call_of(1));
        auto text = all.enter(process == 1 ? named("another function") : call_of(2));
        if (text.empty()) text = all.match();
        (void)all.gather("end", 0);
        return text;
      });
  for (auto const& text : texts) EXPECT_SAYS(text, "call 2: process ");
  EXPECT_SAYS(texts[0], "with operation all_reduce, process 1 has another function");
  EXPECT_SAYS(texts[1], "process 1 calls another function, with operation another function, ");
}

/// The reason why a call that cannot be met is refused.
std::string why_not_met(host_processes& all) {
  (void)all.enter(call_of(1));
  try {
    auto const text = all.match();
    return text.empty() ? std::string(all.failure().what()) : text;
  } catch (blink::collective_error const& failure) {
    all.fail(failure);
    return failure.what();
  }
}

TEST(host_rendezvous, who_does_not_come_is_named) {
  auto const texts =
      with_host_processes(3, std::chrono::milliseconds(500), [](host_processes& all, int process) {
        if (process == 1) {
          while (!all.has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
          return std::string();
        }
        return why_not_met(all);
      });
  for (int const process : {0, 2}) {
    auto const& text = texts[static_cast<std::size_t>(process)];
    EXPECT_SAYS(text, "calls all_reduce and waits for process 1 (process ");
    EXPECT_SAYS(text, "which has not arrived and has made 0 calls");
  }
}

TEST(host_rendezvous, who_dies_is_named_and_a_failure_ends_it) {
  auto const texts =
      with_host_processes(3, std::chrono::seconds(100), [](host_processes& all, int process) {
        if (process == 1) (void)raise(SIGKILL);
        return why_not_met(all);
      });
  for (int const process : {0, 2}) {
    EXPECT_SAYS(texts[static_cast<std::size_t>(process)], "which has died and has made 0 calls");
  }
}

}}  // namespace host_rendezvous_test
