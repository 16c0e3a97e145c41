// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/detail/rows.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/detail/chunk_address.hpp>
#include <blink/running/walk/detail/combine_sources.hpp>
#include <blink/running/walk/detail/early_arrivals.hpp>
#include <blink/running/walk/detail/stream_copy.hpp>
#include <blink/running/walk/detail/streamed_sum.hpp>
#include <blink/running/walk/detail/task_operands.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/zero_copy.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Bytes that are combined at a time for outputs past the caches that are no `streamed_sum`. Blocks
/// are small, so that memory is read for the next block while the stores of this one are in flight.
inline constexpr std::size_t streamed_block_bytes = 512;

/// Blocks that one call of a reducer over arrays combines. With two sources and two outputs they
/// fit into a first-level cache.
inline constexpr std::size_t array_blocks = 4;

/// True if this rank's output is written past the caches. It is not if peers read it soon.
template <class T>
[[nodiscard]] bool streams_output(tree_task const& here, call_buffers<T> const& buffers) {
  bool const streams = buffers.writes == store_mode::streams && !buffers.keeps_own;
  if (!streams || here.out_count == 0) return streams;
  auto const way = here.out[0].way;
  return way != transfer_mode::pull_output && way != transfer_mode::from_output;
}

/// True if the message of a chunk is written past the caches.
template <class T>
[[nodiscard]] bool streams_message(endpoint const& out, call_buffers<T> const& buffers) {
  return (buffers.writes == store_mode::streams && out.way == transfer_mode::push) ||
         (buffers.writes == store_mode::slots && out.way == transfer_mode::slots);
}

/// Calls `use(place, streams)` for each destination of the present chunk, this rank's output first.
/// `streams` is true if it is written past the caches.
template <class T, transport Transport, class Use>
void for_each_place(Transport const transport, tree_task const& here,
                    call_buffers<T> const& buffers, Use const& use) {
  if (writes_output(here)) {
    use(buffers.output + here.output_begin + chunk_offset(here), streams_output(here, buffers));
  }
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    auto const& out = here.out[k];
    if (!writes(out)) continue;
    use(static_cast<T*>(leaving<T>(transport, here, out)), streams_message(out, buffers));
  }
}

/// streams: true to copy past the caches
template <transport Transport>
void copy_bytes(std::byte* to, std::byte const* from, std::size_t bytes, bool streams) {
  if (streams) {
    stream_copy(to, from, bytes);
  } else if constexpr (passes_by_slots<Transport>) {
    copy_by_slots(to, from, bytes);
  } else {
    std::memcpy(to, from, bytes);
  }
}

/// Writes elements of a chunk to all their destinations.
template <class T, transport Transport>
void scatter_piece(Transport const transport, tree_task const& here, call_buffers<T> const& buffers,
                   std::size_t first, std::size_t count, T const* result) {
  for_each_place(transport, here, buffers, [&](T* place, bool streams) {
    T* const to = place + first;
    if (to == result) return;  // it was made there
    copy_bytes<Transport>(reinterpret_cast<std::byte*>(to),
                          reinterpret_cast<std::byte const*>(result), count * sizeof(T), streams);
  });
}

/// The address where the sum of a chunk is made: in this rank's output or, without one, at its only
/// peer; else null.
///
/// A source may also lie there. Then it has to be read before it is overwritten, which holds only
/// for two sources that `replaces_source`.
template <class T, class Reducer, transport Transport>
[[nodiscard]] T* place_for_sum(Transport const transport, tree_task const& here,
                               call_buffers<T> const& buffers, std::uint32_t sources) {
  bool const may_be_source = sources == 2 && replaces_source<Reducer, T>;
  if (!writes_output(here)) {
    bool const has_one = here.out_count == 1 && writes(here.out[0]);
    if (!has_one || !may_be_source || streams_message(here.out[0], buffers)) return nullptr;
    return static_cast<T*>(leaving<T>(transport, here, here.out[0]));
  }
  if (streams_output(here, buffers)) return nullptr;
  T* const to = buffers.output + here.output_begin + chunk_offset(here);
  bool is_source = here.reads_input && input_of_chunk(transport, here, buffers).data == to;
  if constexpr (zero_copy_transport<Transport>) {
    for (std::uint32_t k = 0; k < here.in_count; ++k) {
      is_source = is_source || arriving<T>(transport, here, here.in[k]) == to;
    }
  }
  return is_source && !may_be_source ? nullptr : to;
}

/// The output of a peer that gets a chunk's sum of two numbers in the same pass as this rank's own;
/// else null.
template <class T, transport Transport>
[[nodiscard]] T* twin_of_sum(Transport const transport, tree_task const& here,
                             call_buffers<T> const& buffers) {
  bool const has_both =
      writes_output(here) && here.out_count == 1 && here.out[0].way == transfer_mode::push;
  if (buffers.writes != store_mode::pairs || !has_both) return nullptr;
  return static_cast<T*>(leaving<T>(transport, here, here.out[0]));
}

/// A chunk's sum that goes past the caches to the outputs of peers, and to this rank's own unless
/// it is read soon.
template <class T, transport Transport, class Source>
[[nodiscard]] streamed_sum<T> streamed_sum_of(Transport const transport, tree_task const& here,
                                              call_buffers<T> const& buffers, Source const& source,
                                              std::uint32_t sources) {
  streamed_sum<T> result;
  bool const is_cached = here.count * sizeof(T) < streamed_sum<T>::uncached_bytes;
  for (std::uint32_t k = 0; k < sources; ++k) {
    auto const from = source(k);
    result.add_source(from.data, from.is_arrival && is_cached);
  }
  for_each_place(transport, here, buffers,
                 [&](T* place, bool streams) { result.add_place(place, streams); });
  return result;
}

/// Elements by which the first destination past the caches begins after the start of its cache
/// line; 0 if there is no such destination.
template <class T, transport Transport>
[[nodiscard]] std::size_t begun_line(Transport const transport, tree_task const& here,
                                     call_buffers<T> const& buffers) {
  T const* first = nullptr;
  for_each_place(transport, here, buffers, [&](T const* place, bool streams) {
    if (streams && first == nullptr) first = place;
  });
  return reinterpret_cast<std::uintptr_t>(first) % streamed_line / sizeof(T);
}

/// Adds the arrivals `here.early.next` to the sums of a chunk with missing arrivals.
template <thread_group Group, transport Transport, class T, reducer_for<T> Reducer>
void combine_early_on_host(Group const group, Transport const transport, tree_task const& here,
                           call_buffers<T> const& buffers, Reducer const& reduce) {
  using A = accumulator_t<Reducer, T>;
  std::size_t const most = whole_items(block_elements<T, A>, reduce);
  std::size_t const count = chunk_count(here, here.done);
  auto const source = [&](std::uint32_t k) {
    return early_source(transport, here, buffers, here.early.next, k);
  };
  std::uint32_t const sources = early_source_count(here, here.early.next);
  for (std::size_t first = group.thread_rank() * most; first < count;
       first += group.size() * most) {
    std::size_t const n = most < count - first ? most : count - first;
    block_storage<A, row_elements<T, A, Reducer>> storage;
    combine_sources<T>(source, sources, first, n, chunk_index(here) + first, storage.elements(),
                       reduce);
    std::memcpy(here.early.sums + first * sizeof(A), storage.bytes, n * sizeof(A));
  }
}

/// Moves the task's next chunk: combines this rank's input and arrivals in the order of the ranks,
/// and writes to output and peers. The threads of the group share the blocks of the chunk.
template <thread_group Group, transport Transport, class T, reducer_for<T> Reducer>
void move_chunk_on_host(Group const group, Transport const transport, tree_task const& here,
                        call_buffers<T> const& buffers, Reducer const& reduce) {
  using A = accumulator_t<Reducer, T>;
  using W = sent_t<Reducer, T>;
  std::size_t const count = chunk_count(here, here.done);
  bool const has_sums = combines_on_arrival<Reducer> && here.early.combined != 0;
  std::uint32_t const sources = has_sums ? early_source_count(here, late_arrivals(here))
                                         : here.in_count + (here.reads_input ? 1 : 0);
  auto const source = [&](std::uint32_t k) {
    return has_sums ? early_source(transport, here, buffers, late_arrivals(here), k)
                    : source_of_chunk(transport, here, buffers, k);
  };
  auto const ranks_of = [&](std::uint32_t k) { return ranks_of_operand(here, k); };
  bool const is_last = here.is_root && here.is_reduce && needs_last_step<T>(reduce);
  bool const hands_partial = !combines_elements<Reducer, T> && sends_partial(here);
  bool const copies = sources == 1 && !is_last && !hands_partial;
  std::size_t const most = whole_items(block_elements<T, A>, reduce);
  [[maybe_unused]] int const rank = transport.rank();
  [[maybe_unused]] int const ranks = transport.rank_count();
  A* place = nullptr;
  T* twin = nullptr;
  if constexpr (combines_elements<Reducer, T>) {
    if (!copies && !is_last) place = place_for_sum<T, Reducer>(transport, here, buffers, sources);
    if (place != nullptr && sources == 2 && !combines_arrays<Reducer, T>) {
      twin = twin_of_sum(transport, here, buffers);
    }
  }
  bool const streams = buffers.writes == store_mode::streams;
  constexpr bool may_streamed_sum =
      combines_elements<Reducer, T> && !combines_arrays<Reducer, T> && streamed_sum<T>::suits;
  bool streams_sum = false;
  [[maybe_unused]] streamed_sum<T> past_caches;
  if constexpr (may_streamed_sum) {
    if (streams && !copies && !is_last && !here.follows_tree) {
      past_caches = streamed_sum_of(transport, here, buffers, source, sources);
      streams_sum = past_caches.fits();
    }
  }
  // One copy, maybe two, or one sum: no need to stay in the cache.
  std::uint32_t const places = out_places(here);
  bool const has_one_place = places == (writes_output(here) ? 0U : 1U);
  bool const is_one_pass = copies ? places <= 1
                                  : streams_sum || (place != nullptr && sources == 2 &&
                                                    (has_one_place || twin != nullptr));
  std::size_t const streamed = whole_items(
      (block_elements<T, A> * streamed_block_bytes + block_bytes - 1) / block_bytes, reduce);
  bool const is_whole = is_one_pass && group.size() == 1;
  // Sums that are made at their place need no memory, so that one call makes more of them.
  bool const is_at_place = combines_arrays<Reducer, T> && place != nullptr && !here.follows_tree;
  std::size_t const in_caches = is_at_place ? most * array_blocks : most;
  std::size_t const block = is_whole ? count : streams ? streamed : in_caches;
  // Blocks end where cache lines do, because a line that is written in two parts goes through the
  // caches.
  std::size_t const in_line =
      is_whole || !streams ? 0 : begun_line(transport, here, buffers) % block;
  std::size_t const begun = in_line % unit_of(reduce) == 0 ? in_line : 0;
  for (std::size_t at = group.thread_rank() * block; at < begun + count;
       at += group.size() * block) {
    std::size_t const first = at < begun ? 0 : at - begun;
    std::size_t const end = at + block < begun + count ? at + block - begun : count;
    std::size_t const n = end - first;
    if (copies) {
      scatter_piece(transport, here, buffers, first, n,
                    static_cast<T const*>(source(0).data) + first);
      continue;
    }
    if constexpr (may_streamed_sum) {
      if (streams_sum) {
        past_caches.make(first, n, reduce);
        continue;
      }
    }
    if constexpr (combines_elements<Reducer, T> && !combines_arrays<Reducer, T>) {
      if (twin != nullptr) {
        auto const* const a = static_cast<T const*>(source(0).data) + first;
        auto const* const b = static_cast<T const*>(source(1).data) + first;
        fill(
            place + first, n, [=, &reduce](std::size_t i) { return reduce(a[i], b[i]); },
            twin + first);
        continue;
      }
    }
    std::uint64_t const index = chunk_index(here) + first;
    block_storage<A, row_elements<T, A, Reducer>> storage;
    A* const total = place == nullptr ? storage.elements() : place + first;
    if (here.follows_tree) {
      tree_combination<T, decltype(source), decltype(ranks_of), Reducer>(source, ranks_of, reduce)
          .make(sources, first, n, index, total);
    } else {
      combine_sources<T>(source, sources, first, n, index, total, reduce);
    }
    A const* const partial = total;
    if constexpr (!combines_elements<Reducer, T>) {
      if (hands_partial) {
        W* const to = static_cast<W*>(leaving<T>(transport, here, here.out[0])) + first;
        fill(to, n, [=, &reduce](std::size_t i) {
          return detail::send(reduce, partial[i], element_place{index + i, rank});
        });
        continue;
      }
    }
    if constexpr (has_last_step<Reducer, T>) {
      if (is_last) {
        block_storage<T, row_elements<T, A, Reducer>> finished;
        T* const result = finished.elements();
        finish_rows(partial, result, n, ranks, element_place{index, rank}, reduce);
        scatter_piece(transport, here, buffers, first, n, static_cast<T const*>(result));
        continue;
      }
    }
    if constexpr (std::is_same_v<A, T>) {
      scatter_piece(transport, here, buffers, first, n, partial);
    }
  }
  if (streams || buffers.writes == store_mode::slots) finish_streaming();
}

}}}  // namespace blink::BLINK_ABI::detail
