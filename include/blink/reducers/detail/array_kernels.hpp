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

/// Numbers as they are stored and read. g++ vectorises no copies of classes, so that small numbers
/// are stored as their codes.
template <class T>
struct stored {
  using type = T;
  static T read(T value) { return value; }
  template <class Total>
  static T written(Total value) {
    return static_cast<T>(value);
  }
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
    to[i] = stored<T>::written(total);
  });
}

/// The operation on elements of `Parts` numbers each, by a reducer of numbers.
///
/// Total: the type in which numbers are combined
template <class T, class Reducer, class Total = T, std::size_t Parts = 1>
[[nodiscard]] constexpr array_operation operation_by() {
  constexpr bool converts = !std::is_same_v<Total, T>;
  array_operation result{.element_bytes = sizeof(T) * Parts,
                         .total_bytes = sizeof(Total) * Parts,
                         .alignment = alignof(T),
                         .combine = &combine_array<Total, Reducer, Parts>};
  if constexpr (converts) result.lift = &lift_array<T, Total>;
  if constexpr (converts || finishes<Reducer, Total>) {
    result.finish = &finish_array<Total, T, Reducer, Parts>;
  }
  return result;
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

// The operations of a kind of numbers, without functions where there is none.

template <class T>
[[nodiscard]] constexpr array_operation operation_on_integers(operation what) {
  // Both signs have the same bits, so that functions are shared.
  using bits = std::make_unsigned_t<T>;
  // Sums of small numbers are divided before they are cut.
  using wide = std::conditional_t<(sizeof(T) < sizeof(std::int32_t)), std::int32_t, T>;
  switch (what) {
    case operation::sum:
      return operation_by<bits, blink::sum>();
    case operation::product:
      return operation_by<bits, prod>();
    case operation::min:
      return operation_by<T, min>();
    case operation::max:
      return operation_by<T, max>();
    case operation::bit_and:
      return operation_by<bits, bit_and>();
    case operation::bit_or:
      return operation_by<bits, bit_or>();
    case operation::bit_xor:
      return operation_by<bits, bit_xor>();
    case operation::logical_and:
      return operation_by<bits, logical_and>();
    case operation::logical_or:
      return operation_by<bits, logical_or>();
    case operation::logical_xor:
      return operation_by<bits, logical_xor>();
    case operation::average:
      return operation_by<T, avg, wide>();
  }
  return {};
}
/// Total: the type of sums and products
template <class T, class Total = T>
[[nodiscard]] constexpr array_operation operation_on_floats(operation what) {
  switch (what) {
    case operation::sum:
      return operation_by<T, blink::sum, Total>();
    case operation::product:
      return operation_by<T, prod, Total>();
    case operation::min:
      return operation_by<T, minimum>();
    case operation::max:
      return operation_by<T, maximum>();
    case operation::average:
      return operation_by<T, avg, Total>();
    default:
      return {};
  }
}
/// T: of the two parts
template <class T>
[[nodiscard]] constexpr array_operation operation_on_complex(operation what) {
  switch (what) {
    case operation::sum:
      return operation_by<T, blink::sum, T, 2>();
    case operation::product: {
      auto result = operation_by<T, blink::sum, T, 2>();
      result.combine = &multiply_complex<T>;
      return result;
    }
    case operation::average:
      return operation_by<T, avg, T, 2>();
    default:
      return {};
  }
}
/// Numbers 0 and 1 as truth values: a sum is true if one of them is, a product if all are.
[[nodiscard]] constexpr array_operation operation_on_booleans(operation what) {
  switch (what) {
    case operation::sum:
    case operation::max:
    case operation::bit_or:
    case operation::logical_or:
      return operation_by<std::uint8_t, logical_or>();
    case operation::product:
    case operation::min:
    case operation::bit_and:
    case operation::logical_and:
      return operation_by<std::uint8_t, logical_and>();
    case operation::bit_xor:
    case operation::logical_xor:
      return operation_by<std::uint8_t, logical_xor>();
    default:
      return {};
  }
}

/// The operation on a type; without functions if there is none. All functions are compiled where
/// this one is.
template <class = when_used>
[[nodiscard]] array_operation find_operation(element_type type, operation what) {
  switch (type) {
    case element_type::int8:
      return operation_on_integers<std::int8_t>(what);
    case element_type::uint8:
      return operation_on_integers<std::uint8_t>(what);
    case element_type::int16:
      return operation_on_integers<std::int16_t>(what);
    case element_type::uint16:
      return operation_on_integers<std::uint16_t>(what);
    case element_type::int32:
      return operation_on_integers<std::int32_t>(what);
    case element_type::uint32:
      return operation_on_integers<std::uint32_t>(what);
    case element_type::int64:
      return operation_on_integers<std::int64_t>(what);
    case element_type::uint64:
      return operation_on_integers<std::uint64_t>(what);
    case element_type::float16:
      return operation_on_floats<blink::float16, float>(what);
    case element_type::bfloat16:
      return operation_on_floats<blink::bfloat16, float>(what);
    case element_type::float32:
      return operation_on_floats<float>(what);
    case element_type::float64:
      return operation_on_floats<double>(what);
    case element_type::boolean:
      return operation_on_booleans(what);
    case element_type::complex64:
      return operation_on_complex<float>(what);
    case element_type::complex128:
      return operation_on_complex<double>(what);
  }
  return {};
}

}}}  // namespace blink::BLINK_ABI::detail
