// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <concepts>
#include <cstddef>

namespace blink::inline BLINK_ABI {

/// How processes that want to share memory find each other: all that they need beforehand.
///
/// Semantics beyond the syntax: processes have numbers from 0; `all_gather` is called by all of them
/// with equal `bytes`, and `all` holds what each has given, in order. It throws if somebody does not
/// come: nobody waits for ever.
template <class B>
concept process_bootstrap = requires(B& group, void const* own, void* all, std::size_t bytes) {
  { group.process() } -> std::same_as<int>;
  { group.process_count() } -> std::same_as<int>;
  { group.all_gather(own, all, bytes) } -> std::same_as<void>;
};
static_assert(!process_bootstrap<int>);

}  // namespace blink::inline BLINK_ABI
