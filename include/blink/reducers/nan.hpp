// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/reducer.hpp>
#include <blink/config.hpp>

#include <type_traits>

namespace blink::inline BLINK_ABI {

namespace detail {

template <class T>
[[nodiscard]] BLINK_HOST_DEVICE constexpr bool is_negative_zero(T value) {
  return value == T{0} && T{1} / value < T{0};
}

/// The smaller of two numbers, -0 being smaller than +0.
template <class T>
[[nodiscard]] BLINK_HOST_DEVICE constexpr T smaller(T a, T b) {
  if (a == b) return is_negative_zero(a) ? a : b;
  return a < b ? a : b;
}
template <class T>
[[nodiscard]] BLINK_HOST_DEVICE constexpr T larger(T a, T b) {
  if (a == b) return is_negative_zero(a) ? b : a;
  return a < b ? b : a;
}

/// One NaN for all, so that the bits do not depend on which one came first.
template <class T>
[[nodiscard]] BLINK_HOST_DEVICE constexpr T any_nan() {
  return static_cast<T>(__builtin_nanf(""));
}

}  // namespace detail

// The four operations of IEEE 754-2019, section 9.6. Unlike `min` and `max` they give the same bits
// in every order, whatever is NaN and whichever zero is negative.

/// The smallest number; NaN if one of them is NaN.
struct minimum {
  static constexpr bool is_commutative = true;
  template <class T>
    requires std::is_floating_point_v<T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    if (a != a || b != b) return detail::any_nan<T>();
    return detail::smaller(a, b);
  }
};

/// The largest number; NaN if one of them is NaN.
struct maximum {
  static constexpr bool is_commutative = true;
  template <class T>
    requires std::is_floating_point_v<T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    if (a != a || b != b) return detail::any_nan<T>();
    return detail::larger(a, b);
  }
};

/// The smallest number; NaN only if all are NaN.
struct minimum_number {
  static constexpr bool is_commutative = true;
  template <class T>
    requires std::is_floating_point_v<T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    if (a != a) return b != b ? detail::any_nan<T>() : b;
    return b != b ? a : detail::smaller(a, b);
  }
};

/// The largest number; NaN only if all are NaN.
struct maximum_number {
  static constexpr bool is_commutative = true;
  template <class T>
    requires std::is_floating_point_v<T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    if (a != a) return b != b ? detail::any_nan<T>() : b;
    return b != b ? a : detail::larger(a, b);
  }
};

static_assert(combines_elements<minimum, float> && combines_elements<maximum_number, double>);
static_assert(!reducer_for<minimum, int>, "integers have no NaN: `min` and `max` are for them");

}  // namespace blink::inline BLINK_ABI
