// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The input of a chunking policy: equal on all ranks, so that both ends of an edge agree.
struct chunk_request {
  std::size_t count = 0;            ///< elements of this tree's part
  std::size_t element_bytes = 1;    ///< size of one element
  std::size_t scheduled_bytes = 0;  ///< from the schedule or the pipeline formula
};

/// A policy that cuts a tree's part into chunks: the elements of each chunk but the last. It is an
/// empty type, not a value, because it selects a kernel.
///
/// Semantics beyond the syntax: the result depends on the request alone. The runtime raises 0 to 1,
/// and lowers a result that does not fit into a slot.
template <class C>
concept chunking = std::is_empty_v<C> && requires(chunk_request const request) {
  { C::elements(request) } -> std::same_as<std::size_t>;
};

/// The chunk size of the schedule.
struct scheduled_chunks {
  [[nodiscard]] BLINK_HOST_DEVICE static constexpr std::size_t elements(
      chunk_request const& request) {
    return request.scheduled_bytes / request.element_bytes;
  }
};
static_assert(chunking<scheduled_chunks>);

/// `Elements` for each chunk.
template <std::size_t Elements>
struct fixed_chunks {
  [[nodiscard]] BLINK_HOST_DEVICE static constexpr std::size_t elements(chunk_request const&) {
    return Elements;
  }
};
static_assert(chunking<fixed_chunks<1024>>);
static_assert(!chunking<int>);

/// A policy as a function, for code that is compiled once for all policies.
using chunk_cutter = std::size_t (*)(chunk_request const&);

/// The chunk of policy `C`, in elements: `cut_by<C>` is a `chunk_cutter`.
template <chunking C>
[[nodiscard]] constexpr std::size_t cut_by(chunk_request const& request) {
  return C::elements(request);
}

}}  // namespace blink::BLINK_ABI
