// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/detail/chunk_address.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

// A *row* is the part of a chunk that one thread handles at once: `flight` tiles of `elements`
// each. It can load, store, send and receive them:
//
//     load<E>(tiles, from)                   from a buffer
//     store<E>(to, tiles)                    to a buffer
//     receive<E>(tiles, from, message)       from a connection
//     send<E>(to, tiles, message)            to a connection
//     each(use)                              use(tile, index in it, element of the chunk)
//
// `receive_waits`: `receive` waits for the data, also in a barrier, whose messages have none.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The way of a task's next chunk, as each thread of a device's group holds it in registers. Only
/// the addresses of connections are read again for each row.
template <class T>
struct chunk_way {
  endpoint const* in = nullptr;
  endpoint const* out = nullptr;
  T const* input = nullptr;
  T* output = nullptr;      ///< null: nothing is written there
  std::uint64_t index = 0;  ///< `chunk_index`
  std::uint64_t chunk = 0;  ///< number of the chunk
  std::uint32_t sources = 0;
  std::uint32_t out_count = 0;  ///< 0: nothing is written to peers
  std::uint32_t input_position = 0;
  std::int32_t rank = 0;
  std::int32_t rank_count = 0;
  bool reads_input = false;    ///< `input` is a source; it may be null in a barrier
  bool ends_here = false;      ///< at the root of a reduction
  bool sends_partial = false;  ///< a partial result, not elements

  /// The sources in the order of the ranks.
  [[nodiscard]] BLINK_HOST_DEVICE chunk_source source(std::uint32_t k) const {
    return either(reads_input && k == input_position, input, rank,
                  in + (reads_input && k > input_position ? k - 1 : k), chunk);
  }

 private:
  /// Takes values. Of two members, clang would choose an address to load from, and keep the whole
  /// way in local memory for that.
  [[nodiscard]] BLINK_HOST_DEVICE static chunk_source either(bool is_own, void const* input,
                                                             std::int32_t rank, endpoint const* end,
                                                             std::uint64_t chunk) {
    if (is_own) return {input, source_kind::elements, rank, false, 0};
    return {end->at, end->is_partial ? source_kind::partials : source_kind::elements, end->peer,
            true, end->first + chunk};
  }
};

/// Returns the way of the task's next chunk.
///
/// Data that is only passed on and lies in this rank's output already stays there, where peers may
/// be reading it.
///
/// Pre: `place_chunk`
BLINK_EITHER_SIDE
template <class T, transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE chunk_way<T> way_of_chunk(Transport const transport,
                                                          tree_task const& here,
                                                          call_buffers<T> const& buffers) {
  chunk_way<T> way;
  way.in = here.in;
  way.out = here.out;
  if (here.reads_input) way.input = buffers.input + here.input_begin + chunk_offset(here);
  if (writes_output(here)) way.output = buffers.output + here.output_begin + chunk_offset(here);
  way.reads_input = here.reads_input;
  way.index = chunk_index(here);
  way.chunk = here.done;
  way.sources = here.in_count + (here.reads_input ? 1 : 0);
  BLINK_ROLLED
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    if (writes(here.out[k])) way.out_count = here.out_count;
  }
  way.input_position = here.input_position;
  way.rank = transport.rank();
  way.rank_count = transport.rank_count();
  way.ends_here = here.is_root && here.is_reduce;
  way.sends_partial = sends_partial(here);
  bool const stays = !way.ends_here && way.sources == 1 && way.source(0).data == way.output;
  if (stays) way.output = nullptr;
  return way;
}

/// Writes elements to all destinations.
template <class T, class Row>
BLINK_HOST_DEVICE void scatter_row(chunk_way<T> const& way, Row& row,
                                   tile<T, Row::elements> const (&result)[Row::flight]) {
  if (way.output != nullptr) row.template store<T>(way.output, result);
  BLINK_ROLLED
  for (std::uint32_t k = 0; k < way.out_count; ++k) {
    auto const& end = way.out[k];
    if (writes(end)) row.template send<T>(end.at, result, end.first + way.chunk);
  }
}

template <class E, class Row>
BLINK_HOST_DEVICE void take_source(chunk_source const& source, Row& row,
                                   tile<E, Row::elements> (&values)[Row::flight]) {
  if (source.is_arrival) {
    row.template receive<E>(values, source.data, source.message);
  } else {
    row.template load<E>(values, source.data);
  }
}

/// Combines one source into the totals, which begin with the first source.
template <bool IsFirst, class T, class Row, class A, class Reducer>
BLINK_HOST_DEVICE void add_source(chunk_source const& source, Row& row, std::uint64_t index,
                                  tile<A, Row::elements> (&total)[Row::flight],
                                  Reducer const& reduce) {
  if constexpr (IsFirst && combines_elements<Reducer, T> && std::is_same_v<A, T>) {
    take_source(source, row, total);  // as a whole: small elements are not taken apart
    return;
  }
  auto const add = [&](std::size_t u, std::size_t i, A const& value) {
    A& own = total[u].values[i];
    if constexpr (IsFirst) {
      set(own, value);
    } else {
      A const before = own;  // a copy: the result takes its place
      set(own, reduce(before, value));
    }
  };
  if constexpr (!combines_elements<Reducer, T>) {
    if (source.kind == source_kind::partials) {
      tile<sent_t<Reducer, T>, Row::elements> sent[Row::flight];
      take_source(source, row, sent);
      row.each([&](std::size_t u, std::size_t i, std::size_t) {
        add(u, i, static_cast<A>(detail::receive<T>(reduce, sent[u].values[i])));
      });
      return;
    }
  }
  tile<T, Row::elements> values[Row::flight];
  take_source(source, row, values);
  row.each([&](std::size_t u, std::size_t i, std::size_t element) {
    element_place const place{index + element, source.rank};
    add(u, i, static_cast<A>(detail::lift(reduce, values[u].values[i], place)));
  });
}

/// Moves a row of a chunk: combines this rank's input and arrivals in that order, and writes to
/// output and peers.
///
/// An array of the sources' addresses, indexed at run time, would live in a device's local memory.
/// The first source is not a turn of the loop, so that its data and that of the second are under
/// way together.
///
/// Pre: there is a source.
BLINK_EITHER_SIDE
template <class T, class Row, class Reducer>
BLINK_HOST_DEVICE void move_row(chunk_way<T> const& way, Row& row, Reducer const& reduce) {
  using A = accumulator_t<Reducer, T>;
  if constexpr (!combines_elements<Reducer, T>) {
    if (way.sources == 1 && !way.ends_here && !way.sends_partial) {
      tile<T, Row::elements> values[Row::flight];
      take_source(way.source(0), row, values);
      scatter_row(way, row, values);
      return;
    }
  }
  tile<A, Row::elements> total[Row::flight];
  add_source<true, T>(way.source(0), row, way.index, total, reduce);
  if constexpr (Row::receive_waits || !std::is_same_v<Reducer, no_reducer>) {
    BLINK_ROLLED
    for (std::uint32_t k = 1; k < way.sources; ++k) {
      add_source<false, T>(way.source(k), row, way.index, total, reduce);
    }
  }
  [[maybe_unused]] auto const place = [&](std::size_t element) {
    return element_place{way.index + element, way.rank};
  };
  if constexpr (!combines_elements<Reducer, T>) {
    if (way.sends_partial) {
      using W = sent_t<Reducer, T>;
      tile<W, Row::elements> sent[Row::flight];
      row.each([&](std::size_t u, std::size_t i, std::size_t element) {
        set(sent[u].values[i], detail::send(reduce, total[u].values[i], place(element)));
      });
      auto const& end = way.out[0];
      row.template send<W>(end.at, sent, end.first + way.chunk);
      return;
    }
  }
  if constexpr (combines_elements<Reducer, T> && !has_finish<Reducer, T>) {
    scatter_row(way, row, total);
  } else {
    tile<T, Row::elements> result[Row::flight];
    row.each([&](std::size_t u, std::size_t i, std::size_t element) {
      A const& own = total[u].values[i];
      if constexpr (combines_elements<Reducer, T>) {
        if (!way.ends_here) {
          set(result[u].values[i], own);
          return;
        }
      }
      set(result[u].values[i], detail::finish(reduce, own, way.rank_count, place(element)));
    });
    scatter_row(way, row, result);
  }
}

}}}  // namespace blink::BLINK_ABI::detail
