// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// A sum and its accumulated rounding errors.
template <class T>
struct compensated {
  T sum{};
  T lost{};
};

/// The sum of floating-point numbers. The rounding errors of all additions are added at the end.
///
/// Source: A. Neumaier, "Rundungsfehleranalyse einiger Verfahren zur Summation endlicher Summen",
///         ZAMM 54, 1974; the error of an addition: D. Knuth, TAOCP 2, section 4.2.2.
/// Error:  u |s| + n^2 u^2 (|x_1| + … + |x_n|) to first order for n numbers of sum s and half an
///         ulp u: as if summed in twice the precision, in any order. Not with -ffast-math.
struct compensated_sum {
  static constexpr bool is_commutative = true;

  template <class T>
    requires std::is_floating_point_v<T>
  BLINK_HOST_DEVICE constexpr compensated<T> lift(T value) const {
    return {value, T{0}};
  }
  template <class T>
  BLINK_HOST_DEVICE constexpr compensated<T> operator()(compensated<T> const& a,
                                                        compensated<T> const& b) const {
    T const sum = a.sum + b.sum;
    T const of_b = sum - a.sum;
    T const lost = (a.sum - (sum - of_b)) + (b.sum - of_b);
    return {sum, a.lost + b.lost + lost};
  }
  template <class T>
  BLINK_HOST_DEVICE constexpr T finish(compensated<T> const& total, int) const {
    T const result = total.sum + total.lost;
    return result == result ? result : total.sum;  // with an infinite sum, `lost` is NaN
  }
};

static_assert(reducer_for<compensated_sum, float> && reducer_for<compensated_sum, double>);
static_assert(sizeof(sent_t<compensated_sum, float>) == 8);
static_assert(!reducer_for<compensated_sum, int>, "integer sums are exact: use `sum`");

}}  // namespace blink::BLINK_ABI
