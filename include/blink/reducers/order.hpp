// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// What a reducer may rely on about the order in which an element of the ranks is combined; it
/// decides the last bits of sums that are rounded. Without a wish it is `run`.
enum class order_promise : std::uint8_t {
  any,    ///< what has come is combined while the rest is awaited: bits depend on the timing
  run,    ///< equal schedules, counts and inputs give equal bits, whatever the timing
  shape,  ///< and element i is combined in the same order whatever the count: `periodic_part`
};

/// The promise that a reducer asks for: `static constexpr order_promise order = …`, or `run`.
template <class R>
inline constexpr order_promise order_of = order_promise::run;
template <class R>
  requires requires { std::integral_constant<order_promise, R::order>{}; }
inline constexpr order_promise order_of<R> = R::order;

/// A reducer with another promise.
template <order_promise Order, class Reducer>
struct ordered_reducer : Reducer {
  static_assert(std::is_class_v<Reducer> && !std::is_final_v<Reducer>,
                "blink: a promise is added to function objects; wrap pointers in a lambda");
  static constexpr order_promise order = Order;
};

/// `all_reduce(…, with_order<order_promise::shape>(sum{}))`: equal elements give equal bits, also
/// when they are reduced in buffers of other lengths. `any` saves time where ranks have many
/// children that come late or one after the other.
template <order_promise Order, class Reducer>
[[nodiscard]] BLINK_HOST_DEVICE constexpr ordered_reducer<Order, Reducer> with_order(
    Reducer const& reduce) {
  return {reduce};
}

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// May elements be reduced at another place of a buffer than their own?
template <class Reducer, class T>
inline constexpr bool may_move_elements =
    order_of<Reducer> != order_promise::shape && !lifts_with_place<Reducer, T> &&
    !sends_with_place<Reducer, accumulator_t<Reducer, T>> &&
    !finishes_with_place<Reducer, accumulator_t<Reducer, T>> &&
    !requires(Reducer const& reduce) { reduce.epilogue; };

}}}  // namespace blink::BLINK_ABI::detail
