// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/reducers/small_float.hpp>

#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// `operation` on numbers that are combined as `Accumulator`, for any type of the buffers.
template <class Accumulator, class Operation>
struct widened {
  static constexpr bool is_commutative = blink::is_commutative<Operation>;
  static constexpr order_promise order = order_of<Operation>;
  static constexpr bool lift_at_source = blink::lift_at_source<Operation>;
  using total_type = accumulator_t<Operation, Accumulator>;

  template <class T>
    requires std::is_constructible_v<Accumulator, T const&>
  BLINK_HOST_DEVICE constexpr total_type lift(T const& value, element_place const& place) const {
    return detail::lift(operation, static_cast<Accumulator>(value), place);
  }
  BLINK_HOST_DEVICE constexpr total_type operator()(total_type const& a,
                                                    total_type const& b) const {
    return static_cast<total_type>(operation(a, b));
  }
  BLINK_HOST_DEVICE constexpr Accumulator finish(total_type const& total, int rank_count,
                                                 element_place const& place) const {
    return static_cast<Accumulator>(detail::finish(operation, total, rank_count, place));
  }

  [[nodiscard]] std::uint64_t common_state() const
    requires has_common_state<Operation>
  {
    return operation.common_state();
  }

  Operation operation;
};

/// `widened` with partial results rounded to `Sent` on links.
template <class Accumulator, class Sent, class Operation>
struct widened_when_sent : widened<Accumulator, Operation> {
  using typename widened<Accumulator, Operation>::total_type;

  BLINK_HOST_DEVICE constexpr Sent send(total_type const& total) const {
    return static_cast<Sent>(total);
  }
  BLINK_HOST_DEVICE constexpr total_type recv(Sent const& sent) const {
    return static_cast<total_type>(sent);
  }
};

}  // namespace detail

/// Combines numbers in a wider type.
///
/// `accumulate_in<float>(sum{})` on buffers of `bfloat16` adds `float`s. Partial results also cross
/// links as `float`, and the root rounds once. A leaf sends its elements unchanged.
///
/// Error:  that of `operation` in `Accumulator`, and one rounding to the buffers' type.
template <class Accumulator, class Operation>
  requires reducer_for<Operation, Accumulator>
[[nodiscard]] BLINK_HOST_DEVICE constexpr auto accumulate_in(Operation const& operation) {
  return detail::widened<Accumulator, Operation>{operation};
}

/// Combines numbers in a wider type and rounds partial results to `Sent` on links. That halves the
/// bytes, and costs one rounding for each inner rank between a leaf and the root.
template <class Accumulator, class Sent, class Operation>
  requires(reducer_for<Operation, Accumulator> &&
           std::is_constructible_v<Sent, accumulator_t<Operation, Accumulator>>)
[[nodiscard]] BLINK_HOST_DEVICE constexpr auto accumulate_in(Operation const& operation) {
  return detail::widened_when_sent<Accumulator, Sent, Operation>{{operation}};
}

static_assert(reducer_for<decltype(accumulate_in<float>(sum{})), bfloat16>);
static_assert(sizeof(sent_t<decltype(accumulate_in<float, bfloat16>(avg{})), bfloat16>) == 2);
static_assert(reducer_for<decltype(accumulate_in<std::int64_t>(sum{})), std::int8_t>);
static_assert(!reducer_for<sum, bfloat16>, "16 bits are for storage; name the type to add in");
static_assert(reducer_for<max, float8_e5m2>, "a maximum needs no arithmetic");

}}  // namespace blink::BLINK_ABI
