// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/array_operation.hpp>
#include <blink/running/call/detail/check_buffers.hpp>

#include <cstddef>
#include <initializer_list>
#include <limits>
#include <type_traits>

// Calls whose elements are chosen at run time. They move bytes, by one of three instances of a
// call.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Checks the elements of a call against an operation.
///
/// count:       as for `as_bytes`
/// value_bytes: of the buffers' type; 0: void
/// Throws: precondition_error if the operation is not complete; precondition_error if the buffers
///         have other elements, are not aligned, or are larger than an address can name.
template <class = when_used>
void check_operation(collective kind, int rank, void const* input, void const* output,
                     std::size_t count, std::size_t value_bytes, array_operation const& how) {
  auto const refuse = [&](std::initializer_list<text_piece> what) {
    throw precondition_error(text_of({to_text(kind), " on rank ", rank, ": ", text_of(what)}));
  };
  auto const bytes = how.element_bytes;
  if (how.combine == nullptr)
    refuse({"an operation without a function, expected one that combines"});
  if (bytes == 0 || bytes > most_item_bytes) {
    refuse({"an operation on elements of ", bytes, " bytes, expected 1 to ", most_item_bytes});
  }
  std::size_t const growth = how.total_bytes / bytes;
  bool const is_whole = how.total_bytes % bytes == 0;
  bool const is_plain = growth == 1 && how.lift == nullptr;
  bool const is_wide = (growth == 2 || growth == 4) && how.total_bytes <= 8 &&
                       how.lift != nullptr && how.finish != nullptr;
  if (!is_whole || (!is_plain && !is_wide)) {
    refuse(
        {"an operation on elements of ", bytes, " bytes with accumulators of ", how.total_bytes,
         ", expected as many without a lift, or 2 or 4 times as many, up to 8, with a lift and a "
         "finish"});
  }
  if (value_bytes != 0 && value_bytes != bytes) {
    refuse({"buffers with elements of ", value_bytes, " bytes and an operation on elements of ",
            bytes, ", expected the same"});
  }
  if (count > std::numeric_limits<std::size_t>::max() / bytes) {
    refuse({"count ", count, " times ", bytes,
            " bytes is more than an address can name, expected fewer elements"});
  }
  if (count == 0) return;
  expect_aligned(kind, rank, "input", input, how.alignment);
  expect_aligned(kind, rank, "output", output, how.alignment);
}

template <class T>
inline constexpr std::size_t bytes_of_value = sizeof(T);
template <>
inline constexpr std::size_t bytes_of_value<void> = 0;

/// Calls `run(input, output, reducer)` with the bytes of a call and the reducer of bytes that the
/// operation stands for. Returns its result.
///
/// count: elements of a rank's buffer, or blocks; 0: addresses are not checked. The call itself
///        checks the size of all ranks' elements.
/// Throws: as `check_operation`.
template <class T, chosen_at_run_time Operation, class Run>
decltype(auto) as_bytes(collective kind, int rank, T const* input, T* output, std::size_t count,
                        Operation const& how, Run const& run) {
  check_operation(kind, rank, input, output, count, bytes_of_value<T>, how);
  auto const* const from = static_cast<std::byte const*>(static_cast<void const*>(input));
  auto* const to = static_cast<std::byte*>(static_cast<void*>(output));
  switch (how.total_bytes / how.element_bytes) {
    case 1:
      return run(from, to, run_time_reducer<Operation, 1>{how});
    case 2:
      return run(from, to, run_time_reducer<Operation, 2>{how});
    default:
      return run(from, to, run_time_reducer<Operation, 4>{how});
  }
}

}}}  // namespace blink::BLINK_ABI::detail
