// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// A sum of numbers that does not depend on their order.
///
/// The binary digits of all numbers are cut at the same places, 40 digits apart. The pieces are
/// whole numbers, which are added for each place. Only the `Bins` highest places that any number
/// reaches are kept.
///
/// Error:  below n 2^(-40 (Bins - 1)) max |x| for n numbers before the one rounding in `value`;
///         none if all numbers end within the places that are kept.
/// Pre:    at most 2^23 numbers.
///
/// Source: the idea of fixed bins: J. Demmel and H. D. Nguyen, "Parallel reproducible summation",
///         IEEE Trans. Computers 64, 2015; here the bins hold integers.
template <class T, int Bins = sizeof(T) <= 4 ? 2 : 3>
struct binned {
  static_assert(std::is_floating_point_v<T> && sizeof(T) <= 8,
                "blink: sums in bins are for float and double");
  static_assert(Bins >= 2 && (sizeof(T) <= 4 || Bins >= 3), "blink: one number must fit");

  std::int64_t digits[std::size_t{Bins}]{};  ///< by place, the highest first
  std::int32_t top = lowest_place;  ///< place of `digits[0]`: it counts multiples of 2^(40 top)
  std::uint32_t special = 0;        ///< bits: +infinity, -infinity, NaN among the numbers

  [[nodiscard]] BLINK_HOST_DEVICE static constexpr binned of(T number) {
    auto const bits = __builtin_bit_cast(std::uint64_t, static_cast<double>(number));
    bool const is_negative = bits >> 63 != 0;
    auto const field = static_cast<std::int32_t>(bits >> 52 & 0x7ff);
    std::uint64_t const fraction = bits & ((std::uint64_t{1} << 52) - 1);
    binned result;
    if (field == 0x7ff) {
      result.special = fraction != 0 ? 4U : (is_negative ? 2U : 1U);
      return result;
    }
    // |number| = significand * 2^exponent
    std::uint64_t const significand = field == 0 ? fraction : fraction | std::uint64_t{1} << 52;
    std::int32_t const exponent = (field == 0 ? 1 : field) - 1075;
    if (significand == 0) return result;
    result.top = place_of(exponent + bit_length(significand) - 1);
    BLINK_UNROLL
    for (int k = 0; k < Bins; ++k) {
      std::int32_t const shift = place_bits * (result.top - k) - exponent;
      std::uint64_t digit = 0;
      if (shift >= 0 && shift < 64) digit = significand >> shift;
      if (shift < 0 && shift > -place_bits) digit = significand << -shift;
      auto const piece = static_cast<std::int64_t>(digit & place_mask);
      result.digits[k] = is_negative ? -piece : piece;
    }
    return result;
  }

  [[nodiscard]] BLINK_HOST_DEVICE constexpr binned plus(binned const& other) const {
    binned result = *this;
    binned lower = other;
    if (top < other.top) {  // copies, not references: on a device both stay in registers
      result = other;
      lower = *this;
    }
    std::int32_t const distance = result.top - lower.top;
    BLINK_UNROLL
    for (int k = 0; k < Bins; ++k) {
      BLINK_UNROLL
      for (int from = 0; from <= k; ++from) {  // constant indices, so that it stays in registers
        if (from + distance == k) result.digits[k] += lower.digits[from];
      }
    }
    result.special |= lower.special;
    return result;
  }
  BLINK_HOST_DEVICE constexpr void add(T number) { *this = plus(of(number)); }

  /// The sum, rounded once to the nearest, ties to even. A sum of 0 is +0.
  [[nodiscard]] BLINK_HOST_DEVICE constexpr T value() const {
    if (special != 0) return special_value();
    binned carried = *this;
    carried.carry();
    bool const is_negative = carried.digits[0] < 0;
    if (is_negative) {
      BLINK_UNROLL
      for (int k = 0; k < Bins; ++k) carried.digits[k] = -digits[k];
      carried.carry();
    }
    __extension__ typedef unsigned __int128 wide;
    wide significand = static_cast<wide>(carried.digits[0]);
    std::int32_t exponent = place_bits * top;
    bool is_more = false;  // true if there are digits below those of `significand`
    BLINK_UNROLL
    for (int k = 1; k < Bins; ++k) {
      if (significand >> (127 - place_bits) == 0) {
        significand = significand << place_bits | static_cast<wide>(carried.digits[k]);
        exponent -= place_bits;
      } else {
        is_more = is_more || carried.digits[k] != 0;
      }
    }
    if (significand == 0) return T{0};
    constexpr int precision = sizeof(T) <= 4 ? 24 : 53;
    constexpr int lowest = sizeof(T) <= 4 ? -149 : -1074;
    auto const high = static_cast<std::uint64_t>(significand >> 64);
    int const length =
        high == 0 ? bit_length(static_cast<std::uint64_t>(significand)) : 64 + bit_length(high);
    int const too_long = length - precision;
    int const too_low = lowest - exponent;
    int const dropped = too_long > too_low ? too_long : too_low;
    if (dropped > 0) {
      wide const middle = wide{1} << (dropped - 1);
      wide const rest = significand & (middle - 1 + middle);
      significand >>= dropped;
      exponent += dropped;
      if (rest > middle || (rest == middle && (is_more || (significand & 1) != 0))) ++significand;
    }
    double const result =
        scaled(static_cast<double>(static_cast<std::uint64_t>(significand)), exponent);
    return static_cast<T>(is_negative ? -result : result);
  }

 private:
  static constexpr int place_bits = 40;
  static constexpr std::uint64_t place_mask = (std::uint64_t{1} << place_bits) - 1;
  static constexpr std::int32_t lowest_place = -28;  // below the place of the smallest double

  BLINK_HOST_DEVICE static constexpr std::int32_t place_of(std::int32_t exponent) {
    return (exponent + place_bits * 64) / place_bits - 64;  // rounded down, also below 0
  }
  BLINK_HOST_DEVICE static constexpr int bit_length(std::uint64_t bits) {
    if (bits == 0) return 0;
#if BLINK_DEVICE_PASS
    return 64 - __clzll(static_cast<long long>(bits));
#else
    return 64 - __builtin_clzll(bits);
#endif
  }
  // All pieces but the highest are from 0 to 2^40.
  BLINK_HOST_DEVICE constexpr void carry() {
    BLINK_UNROLL
    for (int k = Bins - 1; k > 0; --k) {
      digits[k - 1] += digits[k] >> place_bits;
      digits[k] = static_cast<std::int64_t>(static_cast<std::uint64_t>(digits[k]) & place_mask);
    }
  }
  BLINK_HOST_DEVICE constexpr T special_value() const {
    bool const is_nan = (special & 4U) != 0 || special == 3U;
    double const infinity = __builtin_huge_val();
    if (is_nan) return static_cast<T>(__builtin_nanf(""));
    return static_cast<T>(special == 1U ? infinity : -infinity);
  }
  // number * 2^exponent, in steps that a double can represent.
  BLINK_HOST_DEVICE static constexpr double scaled(double number, std::int32_t exponent) {
    while (exponent != 0) {
      std::int32_t const step = exponent > 1000 ? 1000 : (exponent < -1000 ? -1000 : exponent);
      number *= __builtin_bit_cast(double, static_cast<std::uint64_t>(1023 + step) << 52);
      exponent -= step;
    }
    return number;
  }
};

/// Merges sums that the ranks have begun in `binned<double>` buffers, to which each rank has added
/// its numbers. The bits depend on the numbers alone. They do not depend on the order, on the
/// number of ranks, or on the rank that holds a number.
struct merge_binned {
  static constexpr bool is_commutative = true;
  template <class T, int Bins>
  BLINK_HOST_DEVICE constexpr binned<T, Bins> operator()(binned<T, Bins> const& a,
                                                         binned<T, Bins> const& b) const {
    return a.plus(b);
  }
};

/// The sum of floating-point numbers. Its bits do not depend on the order: not on the schedule, the
/// counts or the numbering of ranks.
///
/// Error:  see `binned`; usually below an ulp.
/// Moves:  24 bytes for each `float`, 32 for each `double` between inner ranks; plain elements from
///         leaves and to all ranks.
struct reproducible_sum {
  static constexpr bool is_commutative = true;
  template <class T>
    requires std::is_floating_point_v<T>
  BLINK_HOST_DEVICE constexpr binned<T> lift(T number) const {
    return binned<T>::of(number);
  }
  template <class T>
  BLINK_HOST_DEVICE constexpr binned<T> operator()(binned<T> const& a, binned<T> const& b) const {
    return a.plus(b);
  }
  template <class T>
  BLINK_HOST_DEVICE constexpr T finish(binned<T> const& total, int) const {
    return total.value();
  }
};

static_assert(reducer_for<reproducible_sum, float> && reducer_for<reproducible_sum, double>);
static_assert(sizeof(binned<float>) == 24 && sizeof(binned<double>) == 32);
static_assert(combines_elements<merge_binned, binned<double>>);
static_assert(!reducer_for<reproducible_sum, int>, "integer sums are reproducible: use `sum`");

}}  // namespace blink::BLINK_ABI
