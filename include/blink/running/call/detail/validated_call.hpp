// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The last call that this thread checked. It is compared by value, so that neither communicator
/// nor schedule need outlive it. Programs repeat calls, and checking each one again is a large part
/// of a small call.
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

/// A call that was checked, and whether it needs a copy of its input.
struct known_call {
  checked_call call;
  bool needs_copy = false;
};

}}}  // namespace blink::BLINK_ABI::detail
