// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/detail/chunk_address.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <cstddef>
#include <cstdint>

// A *row* is the part of a chunk that one thread handles at once: `flight` tiles of `elements`
// each. It can load, store, send and receive them:
//
//     load<E>(tiles, from)                   from a buffer
//     store<E>(to, tiles)                    to a buffer
//     receive<E>(tiles, from, message)       from a connection
//     send<E>(to, tiles, message)            to a connection
//     each(use)                              use(tile, index in it, element of the chunk)

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Writes elements to all destinations of the task's next chunk.
///
/// stays: true if it is already in this rank's output, where peers may be reading it
template <class T, transport Transport, class Row>
BLINK_HOST_DEVICE void scatter_row(Transport const transport, tree_task const& here,
                                   call_buffers<T> const& buffers, Row& row,
                                   tile<T, Row::elements> const (&result)[Row::flight],
                                   bool stays) {
  if (writes_output(here) && !stays) {
    row.template store<T>(buffers.output + here.output_begin + chunk_offset(here), result);
  }
  BLINK_ROLLED
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    auto const& end = here.out[k];
    if (writes(end)) {
      row.template send<T>(leaving<T>(transport, here, end), result, end.first + here.done);
    }
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
template <class T, class Row, class A, class Reducer>
BLINK_HOST_DEVICE void add_source(chunk_source const& source, bool is_first, Row& row,
                                  std::uint64_t index, tile<A, Row::elements> (&total)[Row::flight],
                                  Reducer const& reduce) {
  auto const add = [&](std::size_t u, std::size_t i, A const& value) {
    A& own = total[u].values[i];
    if (is_first) {
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

/// True if the task's next chunk only passes on data that is already in this rank's output, where
/// peers may be reading it.
template <class T, transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE bool chunk_stays(Transport const transport, tree_task const& here,
                                                 call_buffers<T> const& buffers) {
  bool const ends_here = here.is_root && here.is_reduce;
  return writes_output(here) && !ends_here && here.in_count + (here.reads_input ? 1 : 0) == 1 &&
         source_of_chunk<T>(transport, here, buffers, 0).data ==
             buffers.output + here.output_begin + chunk_offset(here);
}

/// Moves a row of the task's next chunk: combines this rank's input and arrivals in that order, and
/// writes to output and peers.
///
/// stays: `chunk_stays`
///
/// Addresses are computed again for each source. An array of them, indexed at run time, would live
/// in a device's local memory.
///
/// Pre: the task has a source: it reads its input, or something arrives.
BLINK_EITHER_SIDE
template <transport Transport, class T, class Row, class Reducer>
BLINK_HOST_DEVICE void move_row(Transport const transport, tree_task const& here,
                                call_buffers<T> const& buffers, Row& row, Reducer const& reduce,
                                bool stays) {
  using A = accumulator_t<Reducer, T>;
  std::uint32_t const sources = here.in_count + (here.reads_input ? 1 : 0);
  BLINK_HOST_ASSUME(sources > 0);
  bool const ends_here = here.is_root && here.is_reduce;
  if constexpr (!combines_elements<Reducer, T>) {
    if (sources == 1 && !ends_here && !sends_partial(here)) {
      tile<T, Row::elements> values[Row::flight];
      take_source(source_of_chunk<T>(transport, here, buffers, 0), row, values);
      scatter_row(transport, here, buffers, row, values, stays);
      return;
    }
  }
  std::uint64_t const index = chunk_index(here);
  tile<A, Row::elements> total[Row::flight];
  BLINK_ROLLED
  for (std::uint32_t k = 0; k < sources; ++k) {
    add_source<T>(source_of_chunk<T>(transport, here, buffers, k), k == 0, row, index, total,
                  reduce);
  }
  // Outside of the lambdas, where nvcc would warn about it for links of hosts.
  [[maybe_unused]] int const rank = transport.rank();
  [[maybe_unused]] auto const place = [&](std::size_t element) {
    return element_place{index + element, rank};
  };
  if constexpr (!combines_elements<Reducer, T>) {
    if (sends_partial(here)) {
      using W = sent_t<Reducer, T>;
      tile<W, Row::elements> sent[Row::flight];
      row.each([&](std::size_t u, std::size_t i, std::size_t element) {
        set(sent[u].values[i], detail::send(reduce, total[u].values[i], place(element)));
      });
      auto const& end = here.out[0];
      row.template send<W>(leaving<T>(transport, here, end), sent, end.first + here.done);
      return;
    }
  }
  if constexpr (combines_elements<Reducer, T> && !has_finish<Reducer, T>) {
    scatter_row(transport, here, buffers, row, total, stays);
  } else {
    int const rank_count = transport.rank_count();
    tile<T, Row::elements> result[Row::flight];
    row.each([&](std::size_t u, std::size_t i, std::size_t element) {
      A const& own = total[u].values[i];
      if constexpr (combines_elements<Reducer, T>) {
        if (!ends_here) {
          set(result[u].values[i], own);
          return;
        }
      }
      set(result[u].values[i], detail::finish(reduce, own, rank_count, place(element)));
    });
    scatter_row(transport, here, buffers, row, result, stays);
  }
}

}}}  // namespace blink::BLINK_ABI::detail
