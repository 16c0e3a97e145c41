// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Integral types; 0 is false and any other value is true.
template <class T>
concept truth = std::is_integral_v<T>;

/// The common `finish` of the three logical reducers. The result is 1 or 0, for any representation
/// of true, also where only one rank has an input.
struct truth_reducer {
  static constexpr bool is_commutative = true;
  template <truth T>
  BLINK_HOST_DEVICE constexpr T finish(T total, int) const {
    return static_cast<T>(total != T{});
  }
};

}  // namespace detail

/// 1 if all elements are true, else 0.
struct logical_and : detail::truth_reducer {
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>((a != T{}) & (b != T{}));  // both are looked at: this is vectorised
  }
};

/// 1 if at least one element is true, else 0.
struct logical_or : detail::truth_reducer {
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>((a != T{}) | (b != T{}));
  }
};

/// 1 if an odd number of elements are true, else 0.
struct logical_xor : detail::truth_reducer {
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>((a != T{}) != (b != T{}));
  }
};

static_assert(reducer_for<logical_or, bool>);
static_assert(!reducer_for<logical_and, float>, "floating-point numbers are no truth values");

}}  // namespace blink::BLINK_ABI
