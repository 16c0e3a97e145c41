// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace blink::inline BLINK_ABI {

/// A binary operation on `T`; any callable will do, in host code also a lambda.
///
/// Semantics beyond the syntax: associative up to rounding, no side effects. It is taken to be
/// commutative unless it says `static constexpr bool is_commutative = false`; then the operands
/// keep the order of the ranks, and schedules that cannot keep it are refused (`reduces_in_order`).
template <class R, class T>
concept reducer_for = std::copy_constructible<R> && requires(R const reduce, T const a, T const b) {
  { reduce(a, b) } -> std::convertible_to<T>;
};

/// A reducer may have a last step, applied once to each element at the root, such as the division
/// of an average.
template <class R, class T>
concept has_finish = reducer_for<R, T> && requires(R const reduce, T const total, int rank_count) {
  { reduce.finish(total, rank_count) } -> std::convertible_to<T>;
};

/// Whether the operands of a reducer may change places.
template <class R>
inline constexpr bool is_commutative = true;
template <class R>
  requires requires { std::bool_constant<R::is_commutative>{}; }
inline constexpr bool is_commutative<R> = R::is_commutative;

namespace detail {

/// What to compute in: integers wrap around like unsigned ones instead of being undefined, and
/// narrow ones become as wide as `unsigned`, because their own products would become (signed) int.
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

/// The sum divided by the number of ranks. Integers: the wrapped sum, divided towards zero.
struct avg {
  static constexpr bool is_commutative = true;
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

static_assert(reducer_for<sum, float> && reducer_for<max, std::uint8_t> && has_finish<avg, double>);
static_assert(!reducer_for<bit_xor, float>, "floats have no bits to combine");
static_assert(!reducer_for<sum, void*>);

}  // namespace blink::inline BLINK_ABI
