// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/array_operation.hpp>
#include <blink/reducers/detail/array_kernels.hpp>
#include <blink/reducers/element_type.hpp>

namespace blink { inline namespace BLINK_ABI {

/// True if an operation is defined on a type.
template <class = when_used>
[[nodiscard]] bool has_operation(element_type type, operation what) {
  return detail::find_operation(type, what).combine != nullptr;
}

/// The reduction of elements of `type` by `what`, for a call whose elements are chosen at run time:
/// `all_reduce(comm, input, output, count, operation_of(element_type::float32, operation::sum))`.
///
/// - All types have sum and product; all but `complex` have min and max; all but `boolean` have
///   average. Integers and `boolean` also have the bitwise and the logical operations.
/// - Integers wrap around. Averages are divided by the number of ranks at the root, those of
///   integers towards zero; integers of 8 and 16 bits are added in 32 bits.
/// - `float16` and `bfloat16` are added and multiplied in `float`, also between ranks, and rounded
///   once at the root.
/// - min and max of numbers with a fraction are NaN if one of them is NaN, and -0 < +0.
/// - Logical results are 1 or 0. A sum or maximum of `boolean` is true if one of them is, a product
///   or minimum if all are.
/// - Complex products give NaN for some infinite factors, as C does without annex G.
///
/// Throws: input_error if the type has no such operation.
template <class = when_used>
[[nodiscard]] array_operation operation_of(element_type type, operation what) {
  auto result = detail::find_operation(type, what);
  if (result.combine == nullptr) {
    throw input_error(detail::text_of({"operation_of: ", to_text(type), " has no ", to_text(what),
                                       ", expected an operation on this type"}));
  }
  result.id = detail::reduction_id(type, what);
  return result;
}
template <has_element_type T>
[[nodiscard]] array_operation operation_of(operation what) {
  return operation_of(element_type_of<T>, what);
}

// The functions of all types take a second to compile. A program of many units may compile them
// once: it defines BLINK_EXTERN_ARRAY_KERNELS for all units, and one of them has the line
// BLINK_ARRAY_KERNELS().
#define BLINK_ARRAY_KERNELS()                                                          \
  template blink::array_operation blink::detail::find_operation<>(blink::element_type, \
                                                                  blink::operation)
#if defined(BLINK_EXTERN_ARRAY_KERNELS)
extern BLINK_ARRAY_KERNELS();
#endif

}}  // namespace blink::BLINK_ABI
