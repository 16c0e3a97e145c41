// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// A floating-point number of 8 or 16 bits, for storage.
///
/// It converts to `float` without loss. It is made from `float` explicitly, rounded to the nearest,
/// ties to even. It has no arithmetic of its own, so that no rounding at each step is implicit.
///
/// With infinity the codes are those of IEEE 754. Without, the largest code is NaN, all others are
/// numbers, and values that are too large become NaN (OCP 8-bit floating point, E4M3).
///
/// Source: IEEE 754-2019, section 3.4; "OCP 8-bit Floating Point Specification (OFP8)", 1.0, 2023.
template <int ExponentBits, int MantissaBits, bool HasInfinity = true>
class small_float {
 public:
  static_assert(ExponentBits + MantissaBits == 7 || ExponentBits + MantissaBits == 15);
  using code_type =
      std::conditional_t<ExponentBits + MantissaBits == 7, std::uint8_t, std::uint16_t>;

  small_float() = default;
  BLINK_HOST_DEVICE explicit constexpr small_float(float value) : code_(nearest(value)) {}

  /// Rounds up or down at random so that the mean is kept, by 32 random bits.
  ///
  /// Error: the mean of many results is off by at most 2^-8 of the smallest number, for values
  ///        below it.
  [[nodiscard]] BLINK_HOST_DEVICE static constexpr small_float at_random(float value,
                                                                         std::uint32_t random) {
    auto const bits = __builtin_bit_cast(std::uint32_t, value);
    std::uint32_t const magnitude = bits & 0x7fffffffU;
    if (magnitude >= 0x7f800000U) return small_float(value);
    bool const is_tiny = magnitude < 0x00800000U;  // without the leading digit
    int const exponent = is_tiny ? -126 : static_cast<int>(magnitude >> 23) - 127;
    std::uint32_t const significand = is_tiny ? magnitude : (magnitude & 0x7fffffU) | 0x800000U;
    constexpr int lowest = 1 - static_cast<int>(bias);  // exponent of numbers that keep all digits
    int const below = exponent < lowest ? lowest - exponent : 0;
    int const dropped = 23 - MantissaBits + below;  // digits that are lost
    std::uint64_t const fraction = dropped > 31 ? 0 : random >> (32 - dropped);
    std::uint64_t const rounded = dropped > 31 ? 0 : (significand + fraction) >> dropped;
    // The leading digit of `rounded` adds 1 to the exponent's field, and so does a carry.
    std::uint32_t const steps = below > 0 ? 0 : static_cast<std::uint32_t>(exponent - lowest);
    return with_sign(bits, (steps << MantissaBits) + static_cast<std::uint32_t>(rounded));
  }

  BLINK_HOST_DEVICE constexpr operator float() const {
    std::uint32_t const code = code_;
    std::uint32_t const sign = code >> (ExponentBits + MantissaBits) << 31;
    std::uint32_t const magnitude = code & most;
    if constexpr (ExponentBits == 8) {
      return from_bits(sign | magnitude << (23 - MantissaBits));
    } else {
      std::uint32_t const shifted = magnitude << (23 - MantissaBits);
      std::uint32_t const usual = shifted + ((127U - bias) << 23);
      std::uint32_t const special =
          HasInfinity && magnitude == first_special ? 0x7f800000U : 0x7fc00000U;
      auto const tiny =  // below the smallest number with all its digits
          __builtin_bit_cast(std::uint32_t, static_cast<float>(magnitude) * smallest());
      std::uint32_t const finite = magnitude < 1U << MantissaBits ? tiny : usual;
      return from_bits(sign | (magnitude < first_special ? finite : special));
    }
  }

  [[nodiscard]] BLINK_HOST_DEVICE static constexpr small_float from_code(code_type code) {
    small_float result;
    result.code_ = code;
    return result;
  }
  [[nodiscard]] BLINK_HOST_DEVICE constexpr code_type code() const { return code_; }

 private:
  static constexpr std::uint32_t bias = (1U << (ExponentBits - 1)) - 1U;
  static constexpr std::uint32_t most = (1U << (ExponentBits + MantissaBits)) - 1U;
  static constexpr std::uint32_t first_special =
      HasInfinity ? ((1U << ExponentBits) - 1U) << MantissaBits : most;
  static constexpr std::uint32_t nan_code =
      HasInfinity ? first_special | 1U << (MantissaBits - 1) : most;

  BLINK_HOST_DEVICE static constexpr float from_bits(std::uint32_t bits) {
    return __builtin_bit_cast(float, bits);
  }
  // The smallest positive number, 2^(1 - bias - MantissaBits).
  BLINK_HOST_DEVICE static constexpr float smallest() {
    return from_bits((128U - bias - static_cast<std::uint32_t>(MantissaBits)) << 23);
  }

  // Codes that are too large become infinity, or NaN in formats without infinity.
  BLINK_HOST_DEVICE static constexpr small_float with_sign(std::uint32_t bits, std::uint32_t code) {
    std::uint32_t const sign = bits >> 31 << (ExponentBits + MantissaBits);
    return from_code(static_cast<code_type>(sign | (code < first_special ? code : first_special)));
  }

  // One of two values: on hosts by a mask, of which compilers make no branch.
  BLINK_HOST_DEVICE static constexpr std::uint32_t selected(bool is_first, std::uint32_t first,
                                                            std::uint32_t second) {
#if BLINK_DEVICE_PASS
    return is_first ? first : second;
#else
    std::uint32_t const mask = 0U - std::uint32_t{is_first};
    return (mask & first) | (~mask & second);
#endif
  }

  // Rounds to the nearest code. It has no branches, so that it can be vectorised.
  BLINK_HOST_DEVICE static constexpr code_type nearest(float value) {
    auto const bits = __builtin_bit_cast(std::uint32_t, value);
    std::uint32_t const magnitude = bits & 0x7fffffffU;
    constexpr int dropped = 23 - MantissaBits;
    constexpr std::uint32_t below_half = (1U << (dropped - 1)) - 1U;
    std::uint32_t const even = magnitude >> dropped & 1U;
    std::uint32_t code = ((magnitude + below_half + even) >> dropped) -
                         ((127U - bias) << MantissaBits);  // a carry goes to the exponent
    if constexpr (ExponentBits < 8) {
      // Subnormal results. Adding a number whose last digit is the smallest number rounds them.
      constexpr std::uint32_t aligned = (151U - bias - static_cast<std::uint32_t>(MantissaBits))
                                        << 23;
      auto const sum = __builtin_bit_cast(std::uint32_t, from_bits(magnitude) + from_bits(aligned));
      code = selected(magnitude < (128U - bias) << 23, sum - aligned, code);
    }
    code = code < first_special ? code : first_special;
    code = selected(magnitude > 0x7f800000U, nan_code, code);
    return static_cast<code_type>(bits >> 31 << (ExponentBits + MantissaBits) | code);
  }

  code_type code_;
};

using bfloat16 = small_float<8, 7>;
using float16 = small_float<5, 10>;
using float8_e5m2 = small_float<5, 2>;
using float8_e4m3 = small_float<4, 3, false>;

static_assert(std::is_trivially_copyable_v<bfloat16> && sizeof(float16) == 2);
static_assert(sizeof(float8_e4m3) == 1 && float(float8_e4m3(448.0F)) == 448.0F);

}}  // namespace blink::BLINK_ABI
