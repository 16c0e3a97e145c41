// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// Which element a step of a reducer works on, for the few whose result depends on it: random
/// rounding, places.
struct element_place {
  std::uint64_t index = 0;  ///< in the reduced buffer; reduce-scatter: in the one of all blocks
  int rank = 0;             ///< `lift`: whose element it is; `send`, `finish`: who does the step
};

namespace detail {

template <class R, class T>
concept lifts_with_place = requires(R const reduce, T const value, element_place const place) {
  reduce.lift(value, place);
};
template <class R, class T>
concept lifts =
    lifts_with_place<R, T> || requires(R const reduce, T const value) { reduce.lift(value); };

template <class R, class A>
concept sends_with_place = requires(R const reduce, A const total, element_place const place) {
  reduce.send(total, place);
};
template <class R, class A>
concept has_send =
    sends_with_place<R, A> || requires(R const reduce, A const total) { reduce.send(total); };

template <class R, class A>
concept finishes_with_place =
    requires(R const reduce, A const total, int rank_count, element_place const place) {
      reduce.finish(total, rank_count, place);
    };
template <class R, class A>
concept finishes =
    finishes_with_place<R, A> ||
    requires(R const reduce, A const total, int rank_count) { reduce.finish(total, rank_count); };

/// What an element of a buffer becomes before it is combined.
template <class R, class T>
[[nodiscard]] BLINK_HOST_DEVICE constexpr auto lift(R const& reduce, T const& value,
                                                    element_place const& place) {
  if constexpr (lifts_with_place<R, T>) {
    return reduce.lift(value, place);
  } else if constexpr (lifts<R, T>) {
    return reduce.lift(value);
  } else {
    return value;
  }
}

/// What a partial result becomes before it crosses a connection.
template <class R, class A>
[[nodiscard]] BLINK_HOST_DEVICE constexpr auto send(R const& reduce, A const& total,
                                                    element_place const& place) {
  if constexpr (sends_with_place<R, A>) {
    return reduce.send(total, place);
  } else if constexpr (has_send<R, A>) {
    return reduce.send(total);
  } else {
    return total;
  }
}

/// What the root makes of the total.
template <class R, class A>
[[nodiscard]] BLINK_HOST_DEVICE constexpr auto finish(R const& reduce, A const& total,
                                                      int rank_count, element_place const& place) {
  if constexpr (finishes_with_place<R, A>) {
    return reduce.finish(total, rank_count, place);
  } else if constexpr (finishes<R, A>) {
    return reduce.finish(total, rank_count);
  } else {
    return total;
  }
}

/// As `std::declval`, which clang does not let device code name.
template <class T>
BLINK_HOST_DEVICE T const& some() noexcept;

}  // namespace detail

/// What a reducer holds while it combines elements of type `T`: what its `lift` returns.
template <class R, class T>
using accumulator_t = std::remove_cvref_t<decltype(detail::lift(
    detail::some<R>(), detail::some<T>(), element_place{}))>;

/// What partial results are while they cross a wire: what the reducer's `send` returns.
template <class R, class T>
using sent_t = std::remove_cvref_t<decltype(detail::send(
    detail::some<R>(), detail::some<accumulator_t<R, T>>(), element_place{}))>;

namespace detail {

/// Back from a connection.
template <class T, class R>
[[nodiscard]] BLINK_HOST_DEVICE constexpr auto receive(R const& reduce, sent_t<R, T> const& sent) {
  if constexpr (has_send<R, accumulator_t<R, T>>) {
    return reduce.recv(sent);
  } else {
    return sent;
  }
}

template <class R, class T>
concept combines =
    requires(R const reduce, accumulator_t<R, T> const a, accumulator_t<R, T> const b) {
      { reduce(a, b) } -> std::convertible_to<accumulator_t<R, T>>;
    };

template <class R, class T>
concept restores_what_it_sends =
    !has_send<R, accumulator_t<R, T>> || requires(R const reduce, sent_t<R, T> const sent) {
      { reduce.recv(sent) } -> std::convertible_to<accumulator_t<R, T>>;
    };

template <class R, class T>
concept ends_as_an_element =
    requires(R const reduce, accumulator_t<R, T> const total, element_place const place) {
      static_cast<T>(detail::finish(reduce, total, 1, place));
    };

}  // namespace detail

/// A binary operation that collectives apply to the elements `T` of buffers; any callable will do,
/// in host code also a lambda.
///
/// Three types may differ: what a buffer holds (`T`), what is combined (the accumulator), and what
/// partial results are while they cross a link. The optional members that lead from one to the
/// other, each with or without an `element_place` as last argument:
///
///     lift(T) -> accumulator             each element once, before it is combined
///     operator()(accumulator, accumulator) -> accumulator
///     send(accumulator) -> connection          before a partial result crosses a link;
///     recv(connection) -> accumulator          and after (without a place)
///     finish(accumulator, rank_count) -> T       at the root, once for each element
///
/// What `finish` returns, or without it the accumulator, may also be what `T` converts from
/// explicitly. Without `lift` the accumulator is `T`; without `send` the accumulator itself crosses links. A
/// leaf of a tree has one element and nothing combined: it hands on the element if that is not
/// larger than the wire's type, to be lifted at the other end, and `send(lift(…))` otherwise, or always if
/// the reducer says `static constexpr bool lift_at_source = true`: its `lift` knows of its own rank alone.
///
/// Semantics beyond the syntax: associative up to rounding, no side effects; the three types are
/// copied as bytes. It is taken to be commutative unless it says `static constexpr bool
/// is_commutative = false`; then the operands keep the order of the ranks, and schedules that
/// cannot keep it are refused (`reduces_in_order`).
template <class R, class T>
concept reducer_for =
    std::copy_constructible<R> && detail::combines<R, T> && detail::restores_what_it_sends<R, T> &&
    detail::ends_as_an_element<R, T> && std::is_trivially_copyable_v<accumulator_t<R, T>> &&
    std::is_trivially_copyable_v<sent_t<R, T>>;

/// A reducer that has a last step, applied once to each element at the root, such as the division
/// of an average.
template <class R, class T>
concept has_finish = reducer_for<R, T> && detail::finishes<R, accumulator_t<R, T>>;

/// A reducer that combines elements as they are: what most are, and the path without conversions.
template <class R, class T>
concept combines_elements = reducer_for<R, T> && !detail::lifts<R, T> && !detail::has_send<R, T>;

/// Whether the operands of a reducer may change places.
template <class R>
inline constexpr bool is_commutative = true;
template <class R>
  requires requires { std::bool_constant<R::is_commutative>{}; }
inline constexpr bool is_commutative<R> = R::is_commutative;

/// Whether elements are lifted before they cross a connection, by the process of their rank: only that one
/// knows what `lift` needs. Refused over links by which ranks read each other's buffers; in a communicator of
/// devices that does, one process has all ranks, and its reducer knows all.
template <class R>
inline constexpr bool lift_at_source = false;
template <class R>
  requires requires { std::bool_constant<R::lift_at_source>{}; }
inline constexpr bool lift_at_source<R> = R::lift_at_source;

/// A reducer may say what of its state is the same on all ranks, in 64 bits: a factor, a seed. Calls of ranks
/// that do not agree about it fail as those with other reducers do. What may differ, such as an address, is
/// left out; without this nothing of the state is compared.
template <class R>
concept has_common_state = requires(R const reduce) {
  { reduce.common_state() } -> std::same_as<std::uint64_t>;
};

namespace detail {

/// Equal for equal numbers: their bits.
template <class Value>
  requires(sizeof(Value) <= sizeof(std::uint64_t) &&
           (std::is_arithmetic_v<Value> || std::has_unique_object_representations_v<Value>))
[[nodiscard]] std::uint64_t bits_of(Value const& value) {
  std::uint64_t result = 0;
  std::memcpy(&result, &value, sizeof value);
  return result;
}

}  // namespace detail

/// Bytes of an element in a buffer, and of a partial result on a connection.
struct element_sizes {
  std::size_t value = 1;
  std::size_t connection = 1;
  bool lift_at_source = false;  ///< do connections carry no elements that were not lifted?

  [[nodiscard]] BLINK_HOST_DEVICE constexpr std::size_t largest() const {
    return value < connection ? connection : value;
  }
};

template <class R, class T>
  requires reducer_for<R, T>
[[nodiscard]] BLINK_HOST_DEVICE constexpr element_sizes sizes_of() {
  return {sizeof(T), sizeof(sent_t<R, T>), lift_at_source<R>};
}

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Stands where a collective does not reduce.
struct no_reducer {
  template <class T>
  BLINK_HOST_DEVICE T const& operator()(T const& a, T const&) const {
    return a;
  }
};

}}}  // namespace blink::BLINK_ABI::detail
