// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <cstdint>
#include <limits>

namespace blink { inline namespace BLINK_ABI {

/// A value and its index: the elements of `min_location` and `max_location`.
template <class Value, class Index = std::int64_t>
struct located {
  Value value{};
  Index index{};

  friend bool operator==(located const&, located const&) = default;
};

/// The choice between two equal values.
enum class tie : std::uint8_t { lowest_index, highest_index };

namespace detail {

/// True if `value` is NaN: it does not equal itself.
template <class Value>
[[nodiscard]] BLINK_HOST_DEVICE constexpr bool is_unordered(Value const& value) {
  if constexpr (requires { value != value; }) {
    return value != value;
  } else {
    return false;
  }
}

/// The better of two values, by the strict order `is_better(a, b)`. NaN is better than any number,
/// so that its index is found. Among NaNs the tie rule decides.
template <class Value, class Index, class Better>
[[nodiscard]] BLINK_HOST_DEVICE constexpr located<Value, Index> better_of(
    located<Value, Index> const& a, located<Value, Index> const& b, tie rule,
    Better const& is_better) {
  bool const a_is_nan = is_unordered(a.value);
  bool const b_is_nan = is_unordered(b.value);
  if (a_is_nan != b_is_nan) return a_is_nan ? a : b;
  if (!a_is_nan) {
    if (is_better(a.value, b.value)) return a;
    if (is_better(b.value, a.value)) return b;
  }
  bool const a_is_lower = a.index < b.index;
  return a_is_lower == (rule == tie::lowest_index) ? a : b;
}

}  // namespace detail

/// The smallest value and its index (MPI's MINLOC with the default rule). A NaN counts as smaller
/// than any number. The bits do not depend on the order.
template <tie Rule = tie::lowest_index>
struct min_location {
  static constexpr bool is_commutative = true;
  template <class Value, class Index>
    requires requires(Value const a, Value const b) { static_cast<bool>(a < b); }
  BLINK_HOST_DEVICE constexpr located<Value, Index> operator()(
      located<Value, Index> const& a, located<Value, Index> const& b) const {
    return detail::better_of(a, b, Rule, [](Value const& x, Value const& y) { return x < y; });
  }
};

/// The largest value and its index (MPI's MAXLOC with the default rule). A NaN counts as larger
/// than any number. The bits do not depend on the order.
template <tie Rule = tie::lowest_index>
struct max_location {
  static constexpr bool is_commutative = true;
  template <class Value, class Index>
    requires requires(Value const a, Value const b) { static_cast<bool>(a < b); }
  BLINK_HOST_DEVICE constexpr located<Value, Index> operator()(
      located<Value, Index> const& a, located<Value, Index> const& b) const {
    return detail::better_of(a, b, Rule, [](Value const& x, Value const& y) { return y < x; });
  }
};

static_assert(combines_elements<min_location<>, located<float>>);
static_assert(reducer_for<max_location<tie::highest_index>, located<int, int>>);
static_assert(!reducer_for<min_location<>, float>, "elements need an index: use `located`");

}}  // namespace blink::BLINK_ABI
