// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <cstdint>
#include <type_traits>

namespace blink::inline BLINK_ABI {

/// A floating-point number of 8 or 16 bits, for storage: it turns into `float`, which loses
/// nothing, and is made from `float` explicitly, which rounds to the nearest, ties to even. It has
/// no arithmetic of its own, so that nobody rounds at each step without saying so.
///
/// With infinity the codes are those of IEEE 754; without, the largest code is NaN, all others are
/// numbers, and what is too large becomes NaN (OCP 8-bit floating point, E4M3).
///
/// Source: IEEE 754-2019, section 3.4; "OCP 8-bit Floating Point Specification (OFP8)", 1.0, 2023.
template <int ExponentBits, int MantissaBits, bool HasInfinity = true>
class small_float {
 public:
  static_assert(ExponentBits + MantissaBits == 7 || ExponentBits + MantissaBits == 15);
  using code_type =
      std::conditional_t<ExponentBits + MantissaBits == 7, std::uint8_t, std::uint16_t>;

  small_float() = default;
  BLINK_HOST_DEVICE explicit constexpr small_float(float value)
      : code_(encode(value, [](std::uint32_t significand, int dropped) {
          std::uint32_t const below_half = (1U << (dropped - 1)) - 1U;
          return (significand + below_half + (significand >> dropped & 1U)) >> dropped;
        })) {}

  /// Rounds up with the probability that keeps the mean, by 32 random bits.
  ///
  /// Error: the mean of many is off by at most 2^-8 of the smallest number, for numbers below it.
  [[nodiscard]] BLINK_HOST_DEVICE static constexpr small_float at_random(float value,
                                                                         std::uint32_t random) {
    return from_code(encode(value, [=](std::uint32_t significand, int dropped) {
      std::uint64_t const below = random >> (32 - dropped);  // `dropped` random bits
      return static_cast<std::uint32_t>((significand + below) >> dropped);
    }));
  }

  BLINK_HOST_DEVICE constexpr operator float() const {
    std::uint32_t const code = code_;
    std::uint32_t const sign = code >> (ExponentBits + MantissaBits) << 31;
    std::uint32_t const magnitude = code & most;
    if constexpr (ExponentBits == 8) {
      return from_bits(sign | magnitude << (23 - MantissaBits));
    } else {
      if (magnitude >= first_special) {
        bool const is_infinity = HasInfinity && magnitude == first_special;
        return from_bits(sign | (is_infinity ? 0x7f800000U : 0x7fc00000U));
      }
      if (magnitude < 1U << MantissaBits) {  // below the smallest number with all its digits
        float const size = static_cast<float>(magnitude) * smallest();
        return sign == 0 ? size : -size;
      }
      return from_bits(sign | ((magnitude << (23 - MantissaBits)) + ((127U - bias) << 23)));
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
  // The smallest number above 0, 2^(1 - bias - MantissaBits).
  BLINK_HOST_DEVICE static constexpr float smallest() {
    return from_bits((128U - bias - static_cast<std::uint32_t>(MantissaBits)) << 23);
  }

  // `round` drops the given number of binary digits, 1 to 32, of a significand of 24.
  template <class Round>
  BLINK_HOST_DEVICE static constexpr code_type encode(float value, Round const& round) {
    auto const bits = __builtin_bit_cast(std::uint32_t, value);
    std::uint32_t const sign = bits >> 31 << (ExponentBits + MantissaBits);
    std::uint32_t const magnitude = bits & 0x7fffffffU;
    if (magnitude > 0x7f800000U) return static_cast<code_type>(sign | nan_code);
    if (magnitude == 0x7f800000U) return static_cast<code_type>(sign | first_special);
    int const exponent = magnitude < 0x00800000U ? -126 : static_cast<int>(magnitude >> 23) - 127;
    std::uint32_t const significand =
        magnitude < 0x00800000U ? magnitude : (magnitude & 0x007fffffU) | 0x00800000U;
    constexpr int lowest = 1 - static_cast<int>(bias);  // exponent of numbers that keep all digits
    int const below = exponent < lowest ? lowest - exponent : 0;
    int const dropped = 23 - MantissaBits + below;
    std::uint32_t const rounded = dropped > 31 ? 0 : round(significand, dropped);
    // The leading digit of `rounded` adds 1 to the exponent's field, and so does a carry.
    std::uint32_t const steps = below > 0 ? 0 : static_cast<std::uint32_t>(exponent - lowest);
    std::uint32_t const code = (steps << MantissaBits) + rounded;
    return static_cast<code_type>(sign | (code < first_special ? code : first_special));
  }

  code_type code_;
};

using bfloat16 = small_float<8, 7>;
using float16 = small_float<5, 10>;
using float8_e5m2 = small_float<5, 2>;
using float8_e4m3 = small_float<4, 3, false>;

static_assert(std::is_trivially_copyable_v<bfloat16> && sizeof(float16) == 2);
static_assert(sizeof(float8_e4m3) == 1 && float(float8_e4m3(448.0F)) == 448.0F);

}  // namespace blink::inline BLINK_ABI
