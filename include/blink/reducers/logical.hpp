// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/reducer.hpp>
#include <blink/config.hpp>

#include <type_traits>

namespace blink::inline BLINK_ABI {

namespace detail {

/// Types of which each value is true or false.
template <class T>
concept truth = std::is_integral_v<T>;

}  // namespace detail

/// Are all true? 1 or 0, whatever number stood for true.
struct logical_and {
  static constexpr bool is_commutative = true;
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>(a != T{} && b != T{});
  }
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T finish(T total, int) const {
    return static_cast<T>(total != T{});
  }
};

/// Is one true? 1 or 0.
struct logical_or {
  static constexpr bool is_commutative = true;
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>(a != T{} || b != T{});
  }
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T finish(T total, int) const {
    return static_cast<T>(total != T{});
  }
};

/// Is an odd number of them true? 1 or 0.
struct logical_xor {
  static constexpr bool is_commutative = true;
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>((a != T{}) != (b != T{}));
  }
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T finish(T total, int) const {
    return static_cast<T>(total != T{});
  }
};

static_assert(reducer_for<logical_or, bool>);
static_assert(!reducer_for<logical_and, float>, "a rounded number is neither true nor false");

}  // namespace blink::inline BLINK_ABI
