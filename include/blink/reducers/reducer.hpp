// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The element that a step of a reducer works on. Only reducers whose result depends on it ask for
/// it: random rounding, locations.
struct element_place {
  std::uint64_t index = 0;  ///< in the reduced buffer; reduce-scatter: in the buffer of all blocks
  /// `lift`: the element's rank; `send`, `finish`: the rank that runs the step
  int rank = 0;
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

/// An element as it is combined: the result of the reducer's `lift`, if any.
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

/// A partial result as it crosses a connection: the result of the reducer's `send`, if any.
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

/// The final result at the root: the result of the reducer's `finish`, if any.
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

/// `std::declval` for device code, where clang does not allow the original.
template <class T>
BLINK_HOST_DEVICE T const& some() noexcept;

}  // namespace detail

/// The type in which a reducer combines elements of type `T`: the result of its `lift`.
template <class R, class T>
using accumulator_t = std::remove_cvref_t<decltype(detail::lift(
    detail::some<R>(), detail::some<T>(), element_place{}))>;

/// The type of partial results on a connection: the result of the reducer's `send`.
template <class R, class T>
using sent_t = std::remove_cvref_t<decltype(detail::send(
    detail::some<R>(), detail::some<accumulator_t<R, T>>(), element_place{}))>;

namespace detail {

/// A partial result as it arrives from a connection: the result of the reducer's `recv`, if any.
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

// The same steps over arrays.

template <class R, class A>
concept combines_rows = requires(R const reduce, A const* a, A* result, std::size_t count) {
  reduce.combine(a, a, result, count);
};
template <class R, class T, class A>
concept lifts_rows = requires(R const reduce, T const* values, A* totals, std::size_t count) {
  reduce.lift(values, totals, count);
};
template <class R, class T, class A>
concept finishes_rows =
    requires(R const reduce, A const* totals, T* results, std::size_t count, int rank_count) {
      reduce.finish(totals, results, count, rank_count);
    };

}  // namespace detail

/// A binary operation that collectives apply to the elements `T` of buffers. Any callable will do,
/// in host code also a lambda.
///
/// Three types may differ: the buffer's element (`T`), the accumulator, and the sent type, in which
/// partial results cross a link. Optional members convert between them, each with or without an
/// `element_place` as last argument:
///
///     lift(T) -> accumulator               each element once, before it is combined;
///     operator()(accumulator, accumulator) -> accumulator;
///     send(accumulator) -> sent            before a partial result crosses a link;
///     recv(sent) -> accumulator            after it crossed a link (without a place);
///     finish(accumulator, rank_count) -> T at the root, once for each element.
///
/// `finish` may return any type from which `T` is made explicitly. The same holds for the
/// accumulator if there is no `finish`. Without `lift` the accumulator is `T`. Without `send` the
/// accumulator itself crosses links.
///
/// A leaf of a tree has one element and nothing combined. It sends the element itself if that is
/// not larger than the sent type, and the receiver lifts it. Otherwise it sends `send(lift(…))`. It
/// always does so if the reducer has `static constexpr bool lift_at_source = true`, because such a
/// `lift` works for its own rank only.
///
/// A reducer may also combine arrays, by one call for many elements (`combines_arrays`).
///
/// Semantics beyond the syntax: associative up to rounding, no side effects; the three types are
/// copied as bytes. A reducer is commutative unless it has `static constexpr bool is_commutative =
/// false`. Then the operands keep the order of the ranks, and schedules that cannot keep it are
/// refused (`reduces_in_order`).
template <class R, class T>
concept reducer_for =
    std::copy_constructible<R> && detail::combines<R, T> && detail::restores_what_it_sends<R, T> &&
    detail::ends_as_an_element<R, T> && std::is_trivially_copyable_v<accumulator_t<R, T>> &&
    std::is_trivially_copyable_v<sent_t<R, T>>;

/// A reducer with a last step, applied once to each element at the root. An example is the division
/// of an average.
template <class R, class T>
concept has_finish = reducer_for<R, T> && detail::finishes<R, accumulator_t<R, T>>;

/// A reducer that combines elements without conversions, as most do.
template <class R, class T>
concept combines_elements = reducer_for<R, T> && !detail::lifts<R, T> && !detail::has_send<R, T>;

/// A reducer that also combines arrays. On hosts all elements of a call are combined so, and single
/// elements only where arrays would have one.
///
///     combine(accumulator const* a, accumulator const* b, accumulator* result, count)
///
/// It sets result[i] to a[i] combined with b[i]. `a` comes from the lower ranks. `result` may be
/// `a` or `b`, and overlaps neither otherwise. Arrays have 1 to many thousand elements; where a
/// chunk is cut depends on the schedule and the sizes alone.
///
/// Such a reducer may also convert arrays, if it has no `send`:
///
///     lift(T const* values, accumulator* totals, count)
///     finish(accumulator const* totals, T* results, count, rank_count)
///
/// These are used in place of the same steps for one element. A reducer without `lift` may have
/// `bool needs_finish() const`, which is false if results need no `finish` after all.
template <class R, class T>
concept combines_arrays = reducer_for<R, T> && detail::combines_rows<R, accumulator_t<R, T>>;

/// A reducer of items that are several elements long, such as bytes: `unit()` elements each, at
/// most `R::most_unit`.
///
/// Counts of calls are multiples of it, arrays begin and end between items, and blocks of
/// `reduce_scatter_v` are counted in items. Such a reducer combines arrays, on hosts only.
template <class R>
concept has_unit = requires(R const reduce) {
  { reduce.unit() } -> std::same_as<std::size_t>;
  { std::integral_constant<std::size_t, R::most_unit>{} };
};

/// True if the operands of a reducer may change places.
template <class R>
inline constexpr bool is_commutative = true;
template <class R>
  requires requires { std::bool_constant<R::is_commutative>{}; }
inline constexpr bool is_commutative<R> = R::is_commutative;

/// True if elements are lifted before they cross a connection, by the process of their rank. Only
/// that process has the state that `lift` needs.
///
/// Refused on connections by which ranks read each other's buffers. Device ranks are exempt,
/// because one process has all ranks and its reducer has the state of all.
template <class R>
inline constexpr bool lift_at_source = false;
template <class R>
  requires requires { std::bool_constant<R::lift_at_source>{}; }
inline constexpr bool lift_at_source<R> = R::lift_at_source;

/// A reducer that names the state that must be equal on all ranks, in 64 bits: a factor, a seed.
///
/// Calls of ranks with different values fail, as those with different reducers do. State that may
/// differ, such as an address, is left out. Without this member no state is compared.
template <class R>
concept has_common_state = requires(R const reduce) {
  { reduce.common_state() } -> std::same_as<std::uint64_t>;
};

namespace detail {

/// Elements of an item of the reducer.
template <class R>
[[nodiscard]] constexpr std::size_t unit_of([[maybe_unused]] R const& reduce) {
  if constexpr (has_unit<R>) {
    return reduce.unit();
  } else {
    return 1;
  }
}

/// The most elements of an item of the reducer.
template <class R>
inline constexpr std::size_t most_unit = 1;
template <has_unit R>
inline constexpr std::size_t most_unit<R> = R::most_unit;

/// The bits of a number: equal for equal numbers.
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
  bool lift_at_source = false;  ///< true if connections carry only lifted elements

  [[nodiscard]] BLINK_HOST_DEVICE constexpr std::size_t largest() const {
    return value < connection ? connection : value;
  }
};

/// The sizes of items that are `unit` elements long.
[[nodiscard]] constexpr element_sizes item_sizes(element_sizes const& sizes, std::size_t unit) {
  return {sizes.value * unit, sizes.connection * unit, sizes.lift_at_source};
}

template <class R, class T>
  requires reducer_for<R, T>
[[nodiscard]] BLINK_HOST_DEVICE constexpr element_sizes sizes_of() {
  return {sizeof(T), sizeof(sent_t<R, T>), lift_at_source<R>};
}

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The reducer of collectives that do not reduce.
struct no_reducer {
  template <class T>
  BLINK_HOST_DEVICE T const& operator()(T const& a, T const&) const {
    return a;
  }
};

}}}  // namespace blink::BLINK_ABI::detail
