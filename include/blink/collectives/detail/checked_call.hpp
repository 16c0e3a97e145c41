// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/config.hpp>

#include <cstddef>

namespace blink::inline BLINK_ABI::detail {

/// What a rank has checked last of the calls along a schedule. Programs repeat calls, and to check one anew takes a
/// tenth of a call of a few bytes: over Open MPI 20 of 300 ns, and 40 to 55 of 530 at slower times of the same machine.
struct checked_call {
  void const* session = nullptr;
  collective kind{};
  std::size_t count = 0;
  void const* input = nullptr;
  void const* output = nullptr;
  void const* types = nullptr;  ///< `call_types`
  friend bool operator==(checked_call const&, checked_call const&) = default;
};

/// A call that was found to be right, and whether it needs a copy of its input.
struct alignas(128) known_call {  // ranks that are threads have theirs side by side
  checked_call call;
  bool needs_copy = false;
};

}  // namespace blink::inline BLINK_ABI::detail
