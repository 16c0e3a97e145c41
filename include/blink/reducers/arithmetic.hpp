// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The type to compute in. Integers wrap around like unsigned ones, because signed overflow is
/// undefined. Narrow ones become as wide as `unsigned`, because their products would become signed
/// int.
template <class T, bool Wraps = std::is_integral_v<T> && !std::is_same_v<T, bool>>
struct arithmetic {
  using type = T;
};
template <class T>
struct arithmetic<T, true> {
  using type = std::common_type_t<unsigned, std::make_unsigned_t<T>>;
};
template <class T>
using arithmetic_t = typename arithmetic<T>::type;

}  // namespace detail

/// a + b. Integers wrap around.
struct sum {
  static constexpr bool is_commutative = true;
  template <class T>
    requires requires(T const a, T const b) {
      { a + b } -> std::convertible_to<T>;
    }
  BLINK_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    using A = detail::arithmetic_t<T>;
    return static_cast<T>(static_cast<A>(a) + static_cast<A>(b));
  }
};

/// a * b. Integers wrap around.
struct prod {
  static constexpr bool is_commutative = true;
  template <class T>
    requires requires(T const a, T const b) {
      { a* b } -> std::convertible_to<T>;
    }
  BLINK_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    using A = detail::arithmetic_t<T>;
    return static_cast<T>(static_cast<A>(a) * static_cast<A>(b));
  }
};

/// The smaller operand; the first if neither is smaller.
struct min {
  static constexpr bool is_commutative = true;
  template <class T>
    requires requires(T const a, T const b) {
      { b < a } -> std::convertible_to<bool>;
    }
  BLINK_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return b < a ? b : a;
  }
};

/// The larger operand; the first if neither is larger.
struct max {
  static constexpr bool is_commutative = true;
  template <class T>
    requires requires(T const a, T const b) {
      { a < b } -> std::convertible_to<bool>;
    }
  BLINK_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return a < b ? b : a;
  }
};

/// The sum divided by the number of ranks. Integers: divided towards zero. Those of 8 and 16 bits
/// are added as `std::int32_t`, wider ones wrap around in their own type.
struct avg {
  static constexpr bool is_commutative = true;
  template <class T>
    requires(std::is_integral_v<T> && !std::is_same_v<T, bool> && sizeof(T) < sizeof(std::int32_t))
  BLINK_HOST_DEVICE constexpr std::int32_t lift(T const& a) const {
    return a;
  }
  template <class T>
    requires requires(T const a, T const b) {
      { a + b } -> std::convertible_to<T>;
    }
  BLINK_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return sum{}(a, b);
  }
  template <class T>
    requires requires(T const a, int n) {
      { a / static_cast<T>(n) } -> std::convertible_to<T>;
    }
  BLINK_HOST_DEVICE constexpr T finish(T const& total, int rank_count) const {
    return static_cast<T>(total / static_cast<T>(rank_count));
  }
};

/// factor * a + factor * b + ….
///
/// Each element is multiplied before it is added, by the rank that holds it at that time. The
/// factor must therefore be equal on all ranks, which calls check. Integers take integral factors
/// only, and wrap around.
template <class Factor>
struct scaled_sum {
  static constexpr bool is_commutative = true;
  Factor factor;

  template <class T>
    requires(reducer_for<prod, T> && std::is_convertible_v<Factor, T> &&
             std::is_integral_v<T> <= std::is_integral_v<Factor>)
  BLINK_HOST_DEVICE constexpr T lift(T const& a) const {
    return prod{}(static_cast<T>(factor), a);
  }
  [[nodiscard]] std::uint64_t common_state() const
    requires requires(Factor const value) { detail::bits_of(value); }
  {
    return detail::bits_of(factor);
  }
  template <class T>
    requires(reducer_for<sum, T> && requires(scaled_sum const self, T const a) { self.lift(a); })
  BLINK_HOST_DEVICE constexpr T operator()(T const& a, T const& b) const {
    return sum{}(a, b);
  }
};
template <class Factor>
scaled_sum(Factor) -> scaled_sum<Factor>;

BLINK_MODELS(reducer_for<sum, float>);
BLINK_MODELS(reducer_for<max, std::uint8_t>);
BLINK_MODELS(has_finish<avg, double>);
BLINK_MODELS(has_finish<avg, std::int8_t>);
BLINK_MODELS(!reducer_for<sum, void*>);  // addresses have no sum
BLINK_MODELS(combines_elements<prod, int> && !combines_elements<scaled_sum<float>, float>);
BLINK_MODELS(!reducer_for<scaled_sum<float>, int>);  // the factor would lose its fraction

}}  // namespace blink::BLINK_ABI
