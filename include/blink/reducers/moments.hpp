// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <concepts>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The count of numbers, their mean, and the sum of their squared distances from the mean.
template <class T>
struct moments {
  T count{};
  T mean{};
  T squares{};

  /// The moments of one number.
  [[nodiscard]] BLINK_HOST_DEVICE static constexpr moments of(T value) {
    return {T{1}, value, T{0}};
  }
  /// Adds one number (Welford's step).
  BLINK_HOST_DEVICE constexpr void add(T value) {
    count += T{1};
    T const distance = value - mean;
    mean += distance / count;
    squares += distance * (value - mean);
  }
  /// The variance of the numbers as a whole population; 0 without numbers.
  [[nodiscard]] BLINK_HOST_DEVICE constexpr T variance() const {
    return count == T{0} ? T{0} : squares / count;
  }
  /// The unbiased estimate of the variance from a sample; 0 below two numbers.
  [[nodiscard]] BLINK_HOST_DEVICE constexpr T sample_variance() const {
    return count <= T{1} ? T{0} : squares / (count - T{1});
  }
};

/// Merges moments of disjoint sets of numbers, as if all had been added to one.
///
/// Source: B. Welford, "Note on an algorithm for calculating corrected sums of squares and
///         products", Technometrics 4, 1962; T. Chan, G. Golub and R. LeVeque, "Updating formulae
///         and a pairwise algorithm for computing sample variances", COMPSTAT 1982.
/// Error:  relative, of the order of ulp * (condition of the numbers) for each merge. Squares do
///         not cancel, even with a mean far from 0.
struct merge_moments {
  static constexpr bool is_commutative = true;
  template <class T>
    requires std::is_floating_point_v<T>
  BLINK_HOST_DEVICE constexpr moments<T> operator()(moments<T> const& a,
                                                    moments<T> const& b) const {
    T const count = a.count + b.count;
    if (count == T{0}) return a;
    T const distance = b.mean - a.mean;
    T const part = b.count / count;
    return {count, a.mean + distance * part,
            a.squares + b.squares + distance * distance * a.count * part};
  }
};

namespace detail {

/// Accumulates one element of each rank as moments, so that the sum cannot overflow.
struct moments_of_ranks : merge_moments {
  template <class T>
    requires std::is_floating_point_v<T>
  BLINK_HOST_DEVICE constexpr moments<T> lift(T value) const {
    return moments<T>::of(value);
  }
};

}  // namespace detail

/// The mean of an element over the ranks.
struct mean_of_ranks : detail::moments_of_ranks {
  template <class T>
  BLINK_HOST_DEVICE constexpr T finish(moments<T> const& total, int) const {
    return total.mean;
  }
};

/// The variance of an element over the ranks, as a whole population.
struct variance_of_ranks : detail::moments_of_ranks {
  template <class T>
  BLINK_HOST_DEVICE constexpr T finish(moments<T> const& total, int) const {
    return total.variance();
  }
};

static_assert(combines_elements<merge_moments, moments<double>>);
static_assert(reducer_for<variance_of_ranks, float> && !combines_elements<mean_of_ranks, float>);
static_assert(!reducer_for<variance_of_ranks, int>, "variances of integers are not integers");

}}  // namespace blink::BLINK_ABI
