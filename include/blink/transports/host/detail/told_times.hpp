// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <array>
#include <atomic>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// What moving chunks took one rank, for its peers to read in the call after it: of the last calls with an even and
/// with an odd number. All bytes 0 at first.
struct told_times {
  std::array<std::atomic<std::uint64_t>, 2> of_calls;

  /// By the rank, in its call of that number.
  void tell(std::uint64_t call, std::uint64_t nanoseconds) {
    std::uint64_t const told = nanoseconds < most ? nanoseconds : most;
    of_calls[call % 2].store(told << call_bits | call % calls, std::memory_order_release);
  }
  /// Nanoseconds; 0 if the rank has told nothing of that call.
  /// Pre: the rank has not entered the call two later.
  [[nodiscard]] std::uint64_t of(std::uint64_t call) const {
    std::uint64_t const told = of_calls[call % 2].load(std::memory_order_acquire);
    return told % calls == call % calls ? told >> call_bits : 0;
  }

 private:
  static constexpr unsigned call_bits = 24;
  static constexpr std::uint64_t calls = std::uint64_t{1} << call_bits;
  static constexpr std::uint64_t most = ~std::uint64_t{0} >> call_bits;
};

}}}  // namespace blink::BLINK_ABI::detail
