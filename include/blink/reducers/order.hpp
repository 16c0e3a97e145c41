// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// A guarantee about the order in which the ranks' elements are combined. The order decides the
/// last bits of rounded sums. The default is `run`.
enum class order_promise : std::uint8_t {
  any,    ///< a rank combines inputs as they arrive: bits depend on the timing
  run,    ///< equal schedules, counts and inputs give equal bits with any timing
  shape,  ///< as `run`, and element i has the same order for any count: `periodic_part`
  /// Operands are combined along one binary tree of the ranks, which depends on their number alone:
  /// equal bits for any count, along any schedule, on any hosts. Schedules that cannot do so are
  /// refused (`operands_of`). Devices refuse it.
  ranks,
};

/// The promise that a reducer asks for in `static constexpr order_promise order`; else `run`.
template <class R>
inline constexpr order_promise order_of = order_promise::run;
template <class R>
  requires requires { std::integral_constant<order_promise, R::order>{}; }
inline constexpr order_promise order_of<R> = R::order;

/// A reducer with a promise of another order, made by `with_order`.
template <order_promise Order, class Reducer>
struct ordered_reducer : Reducer {
  static_assert(std::is_class_v<Reducer> && !std::is_final_v<Reducer>,
                "blink: a promise needs a reducer of class type; wrap pointers in a lambda");
  static constexpr order_promise order = Order;
};

/// Gives a reducer another promise.
///
/// `all_reduce(…, with_order<order_promise::shape>(sum{}))`: equal elements give equal bits, also
/// in buffers of other lengths. With `ranks` they also do on other machines and along other trees.
/// `any` saves time where ranks have many children whose data arrives late or one after the other.
template <order_promise Order, class Reducer>
[[nodiscard]] BLINK_HOST_DEVICE constexpr ordered_reducer<Order, Reducer> with_order(
    Reducer const& reduce) {
  return {reduce};
}

/// A reducer whose operands keep the order of the ranks, made by `in_order_of_ranks`.
template <class Reducer>
struct rank_ordered_reducer : Reducer {
  static constexpr bool is_commutative = false;
};

/// Makes a reducer that is not commutative, whatever `reduce` is.
template <class Reducer>
  requires std::is_class_v<Reducer>
[[nodiscard]] constexpr rank_ordered_reducer<Reducer> in_order_of_ranks(Reducer const& reduce) {
  return {reduce};
}

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// True if elements may be reduced at another place of a buffer than their own.
template <class Reducer, class T>
inline constexpr bool may_move_elements =
    order_of<Reducer> != order_promise::shape && !lifts_with_place<Reducer, T> &&
    !sends_with_place<Reducer, accumulator_t<Reducer, T>> &&
    !finishes_with_place<Reducer, accumulator_t<Reducer, T>> &&
    !requires(Reducer const& reduce) { reduce.epilogue; };

}}}  // namespace blink::BLINK_ABI::detail
