// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/order.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/config.hpp>

namespace blink::inline BLINK_ABI::detail {

/// May elements be reduced at another place of a buffer than their own?
template <class Reducer, class T>
inline constexpr bool may_move_elements =
    order_of<Reducer> != order_promise::shape && !lifts_with_place<Reducer, T> &&
    !sends_with_place<Reducer, accumulator_t<Reducer, T>> &&
    !finishes_with_place<Reducer, accumulator_t<Reducer, T>> &&
    !requires(Reducer const& reduce) { reduce.epilogue; };

}  // namespace blink::inline BLINK_ABI::detail
