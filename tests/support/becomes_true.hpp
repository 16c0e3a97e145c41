// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <chrono>
#include <thread>

namespace blink_test {

/// Waits for a condition. Bounded, so that a broken transport fails a test instead of hanging.
template <class Condition>
bool becomes_true(Condition const& condition) {
  auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(20);
  while (!condition()) {
    if (std::chrono::steady_clock::now() > end) return false;
    std::this_thread::yield();
  }
  return true;
}

}  // namespace blink_test
