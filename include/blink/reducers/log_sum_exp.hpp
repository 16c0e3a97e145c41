// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <cmath>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// A sum of exponentials, scale * exp(largest). `scale` is at least 1, or 0 for an empty sum.
template <class T>
struct scaled_exponential {
  T largest{};
  T scale{};
};

/// log(exp(x_1) + … + exp(x_n)) without overflow. It adds probabilities given as logarithms, and
/// merges partial soft-maxima.
///
/// Source: M. Milakov and N. Gimelshein, "Online normalizer calculation for softmax", 2018.
/// Error:  a few ulp of max(1, |result|) for each of the n - 1 combinations.
/// Post:   -infinity is neutral; +infinity and NaN stay.
struct log_sum_exp {
  static constexpr bool is_commutative = true;

  template <class T>
    requires std::is_floating_point_v<T>
  BLINK_HOST_DEVICE scaled_exponential<T> lift(T value) const {
    return {value, T{1}};
  }
  template <class T>
  BLINK_HOST_DEVICE scaled_exponential<T> operator()(scaled_exponential<T> const& a,
                                                     scaled_exponential<T> const& b) const {
    if (a.largest == b.largest) return {a.largest, a.scale + b.scale};  // holds for infinities also
    bool const a_is_larger = !(a.largest < b.largest);                  // exp propagates NaN
    auto const& more = a_is_larger ? a : b;
    auto const& less = a_is_larger ? b : a;
    return {more.largest, more.scale + less.scale * exponential(less.largest - more.largest)};
  }
  template <class T>
  BLINK_HOST_DEVICE T finish(scaled_exponential<T> const& total, int) const {
#if BLINK_DEVICE_PASS
    return total.largest + ::log(total.scale);
#else
    return total.largest + std::log(total.scale);
#endif
  }

 private:
  template <class T>
  BLINK_HOST_DEVICE static T exponential(T value) {
#if BLINK_DEVICE_PASS
    return ::exp(value);
#else
    return std::exp(value);
#endif
  }
};

static_assert(reducer_for<log_sum_exp, float> && reducer_for<log_sum_exp, double>);
static_assert(!reducer_for<log_sum_exp, int>, "logarithms of integers are not integers");

}}  // namespace blink::BLINK_ABI
