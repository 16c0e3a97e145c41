// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// A reducer with an epilogue in the same pass over the data, made by `with_epilogue`.
template <class Reducer, class Epilogue>
struct fused_reducer : Reducer {
  static_assert(std::is_class_v<Reducer> && !std::is_final_v<Reducer>,
                "blink: an epilogue needs a reducer of class type; wrap pointers in a lambda");
  Epilogue epilogue;
};

/// Adds an epilogue to a reducer.
///
/// Each rank that gets results calls `epilogue(group, results, index, count)` after each chunk. All
/// threads of the group call it together, while the chunk is still in the caches. It replaces
/// another kernel that would read the results again: normalising, quantising, a step of an
/// optimiser. A step before the sum belongs in the reducer's `lift`.
///
/// Semantics beyond the syntax:
/// - `results` are the elements `index` to `index + count` of this rank's output, all written.
///   Chunks come in any order. Each element is in exactly one of them.
/// - The threads share the work by `group.thread_rank()` and `group.size()`, and may call
///   `group.sync()`.
/// - It may write elsewhere. It may change `results` only on transports that send copies, not where
///   ranks read each other's outputs (`reaching_transport`).
/// - Rows of R elements stay whole if the schedule has one tree and chunks of a multiple of R
///   elements (`fixed_chunks`) that fit into a slot.
template <class Reducer, class Epilogue>
[[nodiscard]] BLINK_HOST_DEVICE constexpr fused_reducer<Reducer, Epilogue> with_epilogue(
    Reducer const& reduce, Epilogue const& epilogue) {
  return {reduce, epilogue};
}

namespace detail {

/// A reducer that has an epilogue, for any elements and groups.
template <class R>
concept carries_epilogue = requires(R const& reduce) { reduce.epilogue; };

template <class R, class Group, class T>
concept has_epilogue =
    requires(R const reduce, Group const group, T* results, std::uint64_t index,
             std::size_t count) { reduce.epilogue(group, results, index, count); };

}  // namespace detail

}}  // namespace blink::BLINK_ABI
