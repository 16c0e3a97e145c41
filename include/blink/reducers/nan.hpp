// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

template <class T>
concept signed_by_its_first_bit = std::is_floating_point_v<T> && (sizeof(T) == 4 || sizeof(T) == 8);

enum class extreme { smaller, larger };

/// The larger or the smaller of two numbers, where -0 < +0. It selects bits, because g++ vectorises
/// that.
template <extreme Which, class T>
[[nodiscard]] BLINK_HOST_DEVICE constexpr T extreme_of(T a, T b) {
  using bits = std::conditional_t<sizeof(T) == 4, std::int32_t, std::int64_t>;
  constexpr bool is_larger = Which == extreme::larger;
  auto const x = __builtin_bit_cast(bits, a);
  auto const y = __builtin_bit_cast(bits, b);
  bits const of_equal = is_larger ? x & y : x | y;  // only the signs of zeros differ
  bits const of_other = (a < b) != is_larger ? x : y;
  return __builtin_bit_cast(T, a == b ? of_equal : of_other);
}

/// One fixed NaN, so that the bits do not depend on which NaN came first.
template <class T>
[[nodiscard]] BLINK_HOST_DEVICE constexpr T any_nan() {
  return static_cast<T>(__builtin_nanf(""));
}

// The two rules of IEEE 754-2019, section 9.6, for NaN. Unlike `min` and `max`, they give the same
// bits in every order, also with NaN and zeros of both signs.

template <extreme Which>
struct extreme_unless_nan {
  static constexpr bool is_commutative = true;
  template <signed_by_its_first_bit T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    bool const has_nan = (a != a) | (b != b);
    return has_nan ? any_nan<T>() : extreme_of<Which>(a, b);
  }
};

template <extreme Which>
struct extreme_number {
  static constexpr bool is_commutative = true;
  template <signed_by_its_first_bit T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    T const of_numbers = b != b ? a : extreme_of<Which>(a, b);
    T const of_b = b != b ? any_nan<T>() : b;
    return a != a ? of_b : of_numbers;
  }
};

}  // namespace detail

/// The smallest number; NaN if one of them is NaN.
struct minimum : detail::extreme_unless_nan<detail::extreme::smaller> {};

/// The largest number; NaN if one of them is NaN.
struct maximum : detail::extreme_unless_nan<detail::extreme::larger> {};

/// The smallest number; NaN only if all are NaN.
struct minimum_number : detail::extreme_number<detail::extreme::smaller> {};

/// The largest number; NaN only if all are NaN.
struct maximum_number : detail::extreme_number<detail::extreme::larger> {};

static_assert(combines_elements<minimum, float> && combines_elements<maximum_number, double>);
static_assert(!reducer_for<minimum, int>, "integers have no NaN: use `min` and `max`");

}}  // namespace blink::BLINK_ABI
