// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <new>
#include <type_traits>

// Steps of reducers on rows of elements: by the reducer's own functions over arrays, or element by
// element.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Calls `each(i)` for the numbers below `count`. Calls are independent. Runs have a length that
/// the compiler knows and begin at 0, so that g++ vectorises them at -O2.
///
/// Bytes: of the elements of one call
template <std::size_t Bytes, class Each>
void for_each_below(std::size_t count, Each const& each) {
  constexpr std::size_t run = Bytes < 256 ? 256 / Bytes : 1;
  std::size_t first = 0;
  for (; first + run <= count; first += run) {
    BLINK_INDEPENDENT
    for (std::size_t k = 0; k < run; ++k) each(first + k);
  }
  for (; first < count; ++first) each(first);
}

/// Writes result[i] = make(i), constructed in place, because g++ does not vectorise copies of
/// classes.
///
/// `make` must not refer to the result while it makes it. Copies of the result go to `more`.
template <class T, class Make, class... More>
void fill(T* result, std::size_t count, Make const& make, More*... more) {
  for_each_below<sizeof(T)>(count, [=, &make](std::size_t i) {
    T const& made = *::new (static_cast<void*>(result + i)) T(static_cast<T>(make(i)));
    (..., ::new (static_cast<void*>(more + i)) T(made));
  });
}

/// Combines a[i] and b[i] into result[i]. The result may be `a` or `b`.
template <class A, class Reducer>
void combine_rows(A const* a, A const* b, A* result, std::size_t count, Reducer const& reduce) {
  if constexpr (combines_rows<Reducer, A>) {
    reduce.combine(a, b, result, count);
  } else {
    fill(result, count, [=, &reduce](std::size_t i) {
      A const own = a[i];  // a copy: the result may take its place
      return reduce(own, b[i]);
    });
  }
}

/// The largest items that functions over arrays combine, in bytes.
inline constexpr std::size_t most_item_bytes = 16384;

/// Combines arrays by a function that replaces its second operand: function(in, inout, count). Its
/// addresses are of `void`.
///
/// a, b, result: items of `item_bytes` each, at most `most_item_bytes`
template <class Function>
void combine_into_second(void const* a, void const* b, void* result, std::size_t count,
                         std::size_t item_bytes, Function const& function) {
  if (result == b) {
    function(a, result, count);
    return;
  }
  // The second operand is copied to the place of the result. If the first is there, the result is
  // made elsewhere. Copies stay in a first-level cache.
  constexpr std::size_t copied = 8192;
  alignas(64) std::byte elsewhere[most_item_bytes];
  std::size_t const most = item_bytes < copied ? copied / item_bytes : 1;
  for (std::size_t done = 0; done < count; done += most) {
    std::size_t const n = most < count - done ? most : count - done;
    std::size_t const at = done * item_bytes;
    auto* const to = static_cast<std::byte*>(result) + at;
    std::byte* const made = result == a ? elsewhere : to;
    std::memcpy(made, static_cast<std::byte const*>(b) + at, n * item_bytes);
    function(static_cast<std::byte const*>(a) + at, made, n);
    if (made == elsewhere) std::memcpy(to, made, n * item_bytes);
  }
}

/// Makes the results of a row of totals, at the root.
///
/// place: of the first element, and the root
template <class T, class A, class Reducer>
void finish_rows(A const* totals, T* results, std::size_t count, int rank_count,
                 element_place const& place, Reducer const& reduce) {
  if constexpr (finishes_rows<Reducer, T, A>) {
    reduce.finish(totals, results, count, rank_count);
  } else {
    fill(results, count, [=, &reduce](std::size_t i) {
      return detail::finish(reduce, totals[i], rank_count,
                            element_place{place.index + i, place.rank});
    });
  }
}

/// True if the reducer has a last step, which is done at the root.
template <class Reducer, class T>
inline constexpr bool has_last_step =
    finishes<Reducer, accumulator_t<Reducer, T>> ||
    finishes_rows<Reducer, T, accumulator_t<Reducer, T>> || !combines_elements<Reducer, T>;

/// True if the last step is needed. Only some reducers know at run time.
template <class T, class Reducer>
[[nodiscard]] bool needs_last_step([[maybe_unused]] Reducer const& reduce) {
  if constexpr (combines_elements<Reducer, T> && requires { reduce.needs_finish(); }) {
    return reduce.needs_finish();
  } else {
    return has_last_step<Reducer, T>;
  }
}

}}}  // namespace blink::BLINK_ABI::detail
