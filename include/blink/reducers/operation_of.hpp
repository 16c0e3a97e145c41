// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/array_operation.hpp>
#include <blink/reducers/detail/array_kernels.hpp>
#include <blink/reducers/element_type.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

template <class = when_used>
[[nodiscard]] array_operation rows_of(element_type type, operation what) {
  switch (type) {
    case element_type::int8:
      return array_kernels<element_type::int8>::rows(what);
    case element_type::uint8:
      return array_kernels<element_type::uint8>::rows(what);
    case element_type::int16:
      return array_kernels<element_type::int16>::rows(what);
    case element_type::uint16:
      return array_kernels<element_type::uint16>::rows(what);
    case element_type::int32:
      return array_kernels<element_type::int32>::rows(what);
    case element_type::uint32:
      return array_kernels<element_type::uint32>::rows(what);
    case element_type::int64:
      return array_kernels<element_type::int64>::rows(what);
    case element_type::uint64:
      return array_kernels<element_type::uint64>::rows(what);
    case element_type::float16:
      return array_kernels<element_type::float16>::rows(what);
    case element_type::bfloat16:
      return array_kernels<element_type::bfloat16>::rows(what);
    case element_type::float32:
      return array_kernels<element_type::float32>::rows(what);
    case element_type::float64:
      return array_kernels<element_type::float64>::rows(what);
    case element_type::boolean:
      return array_kernels<element_type::boolean>::rows(what);
    case element_type::complex64:
      return array_kernels<element_type::complex64>::rows(what);
    case element_type::complex128:
      return array_kernels<element_type::complex128>::rows(what);
  }
  return {};
}

}  // namespace detail

/// True if an operation is defined on a type.
template <class = when_used>
[[nodiscard]] bool has_operation(element_type type, operation what) {
  return detail::rows_of(type, what).combine != nullptr;
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
  auto result = detail::rows_of(type, what);
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
// once, in one or several of its units: it defines BLINK_EXTERN_ARRAY_KERNELS for all units, and
// has a line such as BLINK_ARRAY_KERNELS(float32) for each type.
#define BLINK_ARRAY_KERNELS(name) \
  template struct blink::detail::array_kernels<blink::element_type::name>;
#if defined(BLINK_EXTERN_ARRAY_KERNELS)
namespace detail {
extern template struct array_kernels<element_type::int8>;
extern template struct array_kernels<element_type::uint8>;
extern template struct array_kernels<element_type::int16>;
extern template struct array_kernels<element_type::uint16>;
extern template struct array_kernels<element_type::int32>;
extern template struct array_kernels<element_type::uint32>;
extern template struct array_kernels<element_type::int64>;
extern template struct array_kernels<element_type::uint64>;
extern template struct array_kernels<element_type::float16>;
extern template struct array_kernels<element_type::bfloat16>;
extern template struct array_kernels<element_type::float32>;
extern template struct array_kernels<element_type::float64>;
extern template struct array_kernels<element_type::boolean>;
extern template struct array_kernels<element_type::complex64>;
extern template struct array_kernels<element_type::complex128>;
}  // namespace detail
#endif

}}  // namespace blink::BLINK_ABI
