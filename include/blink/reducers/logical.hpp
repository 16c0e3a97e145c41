// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Types of which each value is true or false.
template <class T>
concept truth = std::is_integral_v<T>;

/// What the three share: the result is 1 or 0, whatever number stood for true, also where nothing
/// was combined.
struct truth_reducer {
  static constexpr bool is_commutative = true;
  template <truth T>
  BLINK_HOST_DEVICE constexpr T finish(T total, int) const {
    return static_cast<T>(total != T{});
  }
};

}  // namespace detail

/// Are all true? 1 or 0.
struct logical_and : detail::truth_reducer {
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>(a != T{} && b != T{});
  }
};

/// Is one true? 1 or 0.
struct logical_or : detail::truth_reducer {
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>(a != T{} || b != T{});
  }
};

/// Is an odd number of them true? 1 or 0.
struct logical_xor : detail::truth_reducer {
  template <detail::truth T>
  BLINK_HOST_DEVICE constexpr T operator()(T a, T b) const {
    return static_cast<T>((a != T{}) != (b != T{}));
  }
};

static_assert(reducer_for<logical_or, bool>);
static_assert(!reducer_for<logical_and, float>, "a rounded number is neither true nor false");

}}  // namespace blink::BLINK_ABI
