// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// What a thread has checked last, by value: neither communicator nor schedule need live on. Programs repeat calls, and to
/// check one anew takes 170 of our 1250 instructions (callgrind, an all-reduce of one double over MPI).
struct checked_call {
  std::uint64_t schedule_hash = 0;  ///< `prepared_schedule::hash`
  int rank = -1;
  int rank_count = 0;
  collective kind{};
  std::size_t count = 0;
  void const* input = nullptr;
  void const* output = nullptr;
  void const* types = nullptr;  ///< `call_types`
  friend bool operator==(checked_call const&, checked_call const&) = default;
};

/// A call that was found to be right, and whether it needs a copy of its input.
struct known_call {
  checked_call call;
  bool needs_copy = false;
};

}}}  // namespace blink::BLINK_ABI::detail
