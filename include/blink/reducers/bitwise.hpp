// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// Bitwise and of two integers.
struct bit_and {
  static constexpr bool is_commutative = true;
  template <class T>
    requires requires(T const a, T const b) {
      { a& b } -> std::convertible_to<T>;
    }
  BLINK_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>(a & b);
  }
};

/// Bitwise or of two integers.
struct bit_or {
  static constexpr bool is_commutative = true;
  template <class T>
    requires requires(T const a, T const b) {
      { a | b } -> std::convertible_to<T>;
    }
  BLINK_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>(a | b);
  }
};

/// Bitwise exclusive or of two integers.
struct bit_xor {
  static constexpr bool is_commutative = true;
  template <class T>
    requires requires(T const a, T const b) {
      { a ^ b } -> std::convertible_to<T>;
    }
  BLINK_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return static_cast<T>(a ^ b);
  }
};

BLINK_MODELS(reducer_for<bit_xor, std::uint8_t>);
BLINK_MODELS(!reducer_for<bit_xor, float>);  // floats have no bits to combine

}}  // namespace blink::BLINK_ABI
