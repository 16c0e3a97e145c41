// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/array_operation.hpp>
#include <blink/reducers/bitwise.hpp>
#include <blink/reducers/detail/rows.hpp>
#include <blink/reducers/element_type.hpp>
#include <blink/reducers/logical.hpp>
#include <blink/reducers/nan.hpp>
#include <blink/reducers/small_float.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

// Functions over arrays for each element type and operation. Loops are vectorised at -O2.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The functions of an operation; all null if there is none.
using array_rows = array_operation;

/// Calls `each(i)` for the numbers below `count`. Calls are independent. Runs have a length that
/// the compiler knows and begin at 0, so that g++ vectorises them at -O2.
///
/// bytes: of the elements of one call
template <std::size_t Bytes, class Each>
void for_each_below(std::size_t count, Each const& each) {
  constexpr std::size_t run = 256 / Bytes;
  std::size_t first = 0;
  for (; first + run <= count; first += run) {
    BLINK_INDEPENDENT
    for (std::size_t k = 0; k < run; ++k) each(first + k);
  }
  for (; first < count; ++first) each(first);
}

/// Numbers as they are stored and read. g++ vectorises no copies of classes, so that small numbers
/// are stored as their codes.
template <class T>
struct stored {
  using type = T;
  static T read(T value) { return value; }
  static T written(T value) { return value; }
};
template <class T>
  requires requires { typename T::code_type; }
struct stored<T> {
  using type = typename T::code_type;
  static float read(type code) { return T::from_code(code); }
  static type written(float value) { return T(value).code(); }
};
template <class T>
using stored_t = typename stored<T>::type;

template <class T, class Reducer, std::size_t Parts = 1>
void combine_array(void const* a, void const* b, void* result, std::size_t count,
                   array_operation const&) {
  auto const* const x = static_cast<stored_t<T> const*>(a);
  auto const* const y = static_cast<stored_t<T> const*>(b);
  auto* const to = static_cast<stored_t<T>*>(result);
  for_each_below<sizeof(T)>(count * Parts, [=](std::size_t i) {
    to[i] = stored<T>::written(Reducer{}(stored<T>::read(x[i]), stored<T>::read(y[i])));
  });
}
template <class T, class Total>
void lift_array(void const* values, void* totals, std::size_t count) {
  auto const* const from = static_cast<stored_t<T> const*>(values);
  auto* const to = static_cast<Total*>(totals);
  for_each_below<sizeof(Total)>(
      count, [=](std::size_t i) { to[i] = static_cast<Total>(stored<T>::read(from[i])); });
}
template <class Total, class T, class Reducer, std::size_t Parts = 1>
void finish_array(void const* totals, void* results, std::size_t count, int rank_count) {
  auto const* const from = static_cast<Total const*>(totals);
  auto* const to = static_cast<stored_t<T>*>(results);
  for_each_below<sizeof(Total)>(count * Parts, [=](std::size_t i) {
    Total const total = finish(Reducer{}, from[i], rank_count, element_place{});
    if constexpr (std::is_same_v<stored_t<T>, T>) {
      to[i] = static_cast<T>(total);
    } else {
      to[i] = stored<T>::written(total);
    }
  });
}

/// An operation without conversions.
template <class T, class Reducer, std::size_t Parts = 1>
[[nodiscard]] constexpr array_rows plain_rows() {
  array_rows rows{.element_bytes = sizeof(T) * Parts,
                  .total_bytes = sizeof(T) * Parts,
                  .alignment = alignof(T),
                  .combine = &combine_array<T, Reducer, Parts>};
  if constexpr (finishes<Reducer, T>) rows.finish = &finish_array<T, T, Reducer, Parts>;
  return rows;
}
/// An operation on totals of another type.
template <class T, class Total, class Reducer>
[[nodiscard]] constexpr array_rows wide_rows() {
  return {.element_bytes = sizeof(T),
          .total_bytes = sizeof(Total),
          .alignment = alignof(T),
          .combine = &combine_array<Total, Reducer>,
          .lift = &lift_array<T, Total>,
          .finish = &finish_array<Total, T, Reducer>};
}

/// Complex products, with the parts one behind the other. Infinities are not recovered from NaN, as
/// annex G of C does.
template <class T>
void multiply_complex(void const* a, void const* b, void* result, std::size_t count,
                      array_operation const&) {
  auto const* const x = static_cast<T const*>(a);
  auto const* const y = static_cast<T const*>(b);
  auto* const to = static_cast<T*>(result);
  for_each_below<2 * sizeof(T)>(count, [=](std::size_t i) {
    T const real = x[2 * i] * y[2 * i] - x[2 * i + 1] * y[2 * i + 1];
    T const imaginary = x[2 * i] * y[2 * i + 1] + x[2 * i + 1] * y[2 * i];
    to[2 * i] = real;
    to[2 * i + 1] = imaginary;
  });
}

template <class T>
[[nodiscard]] constexpr array_rows integer_rows(operation what) {
  // Both signs have the same bits, so that functions are shared.
  using bits = std::make_unsigned_t<T>;
  switch (what) {
    case operation::sum:
      return plain_rows<bits, blink::sum>();
    case operation::product:
      return plain_rows<bits, prod>();
    case operation::min:
      return plain_rows<T, min>();
    case operation::max:
      return plain_rows<T, max>();
    case operation::bit_and:
      return plain_rows<bits, bit_and>();
    case operation::bit_or:
      return plain_rows<bits, bit_or>();
    case operation::bit_xor:
      return plain_rows<bits, bit_xor>();
    case operation::logical_and:
      return plain_rows<bits, logical_and>();
    case operation::logical_or:
      return plain_rows<bits, logical_or>();
    case operation::logical_xor:
      return plain_rows<bits, logical_xor>();
    case operation::average:
      if constexpr (sizeof(T) < sizeof(std::int32_t))
        return wide_rows<T, std::int32_t, avg>();
      else
        return plain_rows<T, avg>();
  }
  return {};
}
template <class T>
[[nodiscard]] constexpr array_rows float_rows(operation what) {
  switch (what) {
    case operation::sum:
      return plain_rows<T, blink::sum>();
    case operation::product:
      return plain_rows<T, prod>();
    case operation::min:
      return plain_rows<T, minimum>();
    case operation::max:
      return plain_rows<T, maximum>();
    case operation::average:
      return plain_rows<T, avg>();
    default:
      return {};
  }
}
template <class T>
[[nodiscard]] constexpr array_rows small_float_rows(operation what) {
  switch (what) {
    case operation::sum:
      return wide_rows<T, float, blink::sum>();
    case operation::product:
      return wide_rows<T, float, prod>();
    case operation::min:
      return plain_rows<T, minimum>();
    case operation::max:
      return plain_rows<T, maximum>();
    case operation::average:
      return wide_rows<T, float, avg>();
    default:
      return {};
  }
}
template <class T>
[[nodiscard]] constexpr array_rows complex_rows(operation what) {
  switch (what) {
    case operation::sum:
      return plain_rows<T, blink::sum, 2>();
    case operation::product: {
      auto rows = plain_rows<T, blink::sum, 2>();
      rows.combine = &multiply_complex<T>;
      return rows;
    }
    case operation::average:
      return plain_rows<T, avg, 2>();
    default:
      return {};
  }
}
/// Numbers 0 and 1 as truth values: a sum is true if one of them is, a product if all are.
[[nodiscard]] constexpr array_rows boolean_rows(operation what) {
  switch (what) {
    case operation::sum:
    case operation::max:
    case operation::bit_or:
    case operation::logical_or:
      return plain_rows<std::uint8_t, logical_or>();
    case operation::product:
    case operation::min:
    case operation::bit_and:
    case operation::logical_and:
      return plain_rows<std::uint8_t, logical_and>();
    case operation::bit_xor:
    case operation::logical_xor:
      return plain_rows<std::uint8_t, logical_xor>();
    default:
      return {};
  }
}

template <element_type Type>
struct array_kernels {
  /// The functions of an operation; all null if the type has none.
  [[nodiscard]] static array_rows rows(operation what);
};
template <element_type Type>
array_rows array_kernels<Type>::rows(operation what) {
  using enum element_type;
  if constexpr (Type == int8) return integer_rows<std::int8_t>(what);
  if constexpr (Type == uint8) return integer_rows<std::uint8_t>(what);
  if constexpr (Type == int16) return integer_rows<std::int16_t>(what);
  if constexpr (Type == uint16) return integer_rows<std::uint16_t>(what);
  if constexpr (Type == int32) return integer_rows<std::int32_t>(what);
  if constexpr (Type == uint32) return integer_rows<std::uint32_t>(what);
  if constexpr (Type == int64) return integer_rows<std::int64_t>(what);
  if constexpr (Type == uint64) return integer_rows<std::uint64_t>(what);
  if constexpr (Type == element_type::float16) return small_float_rows<blink::float16>(what);
  if constexpr (Type == element_type::bfloat16) return small_float_rows<blink::bfloat16>(what);
  if constexpr (Type == float32) return float_rows<float>(what);
  if constexpr (Type == float64) return float_rows<double>(what);
  if constexpr (Type == boolean) return boolean_rows(what);
  if constexpr (Type == complex64) return complex_rows<float>(what);
  if constexpr (Type == complex128) return complex_rows<double>(what);
}

}}}  // namespace blink::BLINK_ABI::detail
