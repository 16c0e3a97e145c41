// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// A reducer with a last step of each rank's own, in the same pass over the data: `with_epilogue`.
template <class Reducer, class Epilogue>
struct fused_reducer : Reducer {
  static_assert(std::is_class_v<Reducer> && !std::is_final_v<Reducer>,
                "blink: an epilogue is added to function objects; wrap pointers in a lambda");
  Epilogue epilogue;
};

/// Adds an epilogue: after each chunk of results on each rank that gets them,
/// `epilogue(group, results, index, count)` is called by all threads of the group together, while the
/// chunk is still in the caches. Normalising, quantising, a step of an optimiser: instead of another
/// kernel that would read everything again. What comes before the sum is the reducer's `lift`.
///
/// Semantics beyond the syntax:
/// - results: elements `index` to `index + count` of this rank's output, all written. Chunks come in
///   any order, each element is in one of them.
/// - The threads share the work by `group.thread_rank()` and `group.size()`, and may `group.sync()`.
/// - It may write elsewhere, and change `results` where no peer reads them: on transports that hand
///   copies on, not where ranks read each other's outputs (`reaching_transport`).
/// - Rows of R elements stay whole if the schedule has one tree and chunks of a multiple of R
///   elements (`fixed_chunks`) that fit into a slot.
template <class Reducer, class Epilogue>
[[nodiscard]] BLINK_HOST_DEVICE constexpr fused_reducer<Reducer, Epilogue> with_epilogue(
    Reducer const& reduce, Epilogue const& epilogue) {
  return {reduce, epilogue};
}

namespace detail {

/// Has this reducer an epilogue for some elements and groups?
template <class R>
concept carries_epilogue = requires(R const& reduce) { reduce.epilogue; };

template <class R, class Group, class T>
concept has_epilogue =
    requires(R const reduce, Group const group, T* results, std::uint64_t index,
             std::size_t count) { reduce.epilogue(group, results, index, count); };

}  // namespace detail

}}  // namespace blink::BLINK_ABI
