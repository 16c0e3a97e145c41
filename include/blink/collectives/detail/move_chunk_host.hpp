// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/chunk_address.hpp>
#include <blink/collectives/detail/stream_copy.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/thread_group.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <new>

namespace blink::inline BLINK_ABI::detail {

/// Bytes that are combined at a time: together with its sources it fits into a first-level cache.
inline constexpr std::size_t block_bytes = 4096;

template <class T>
inline constexpr std::size_t block_elements = std::max<std::size_t>(1, block_bytes / sizeof(T));

/// result[i] = reduce(a[i], b[i]). A count that is known makes compilers vectorise it at -O2.
template <class T, class Reducer>
void combine(T* result, T const* a, T const* b, std::size_t count, Reducer const& reduce) {
  auto const each = [&](std::size_t n) {
    for (std::size_t i = 0; i < n; ++i) {
      ::new (static_cast<void*>(result + i)) T(static_cast<T>(reduce(a[i], b[i])));
    }
  };
  if (count == block_elements<T>) {
    each(block_elements<T>);
  } else {
    each(count);
  }
}

/// Writes a piece of the result of a chunk everywhere where it belongs.
template <class T, transport Link>
void scatter_piece(Link const link, lane const& here, call_buffers<T> const& buffers,
                   std::size_t first, std::size_t count, T const* result) {
  auto const* const from = reinterpret_cast<std::byte const*>(result);
  std::size_t const bytes = count * sizeof(T);
  std::size_t const before = static_cast<std::size_t>(here.done) * here.chunk + first;
  if (writes_output(here)) {
    T* const to = buffers.output + here.output_begin + before;
    // Children that read it from there should find it in the cache.
    bool const is_read = here.out_count > 0 && here.out[0].way == passage::pull_output;
    if (to != result) {
      copy_bytes(reinterpret_cast<std::byte*>(to), from, bytes, buffers.streams && !is_read);
    }
  }
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    if (!writes(here.out[k])) continue;
    T* const to = leaving<T>(link, here, here.out[k]) + first;
    bool const streams = buffers.streams && here.out[k].way == passage::push;
    copy_bytes(reinterpret_cast<std::byte*>(to), from, bytes, streams);
  }
}

/// The lane's next chunk: own input and arrivals, combined in that order, to output and peers.
/// The threads of the group share the blocks of the chunk.
template <thread_group Group, transport Link, class T, reducer_for<T> Reducer>
void move_chunk_on_host(Group const group, Link const link, lane const& here,
                        call_buffers<T> const& buffers, Reducer const& reduce) {
  std::size_t const count = chunk_count(here, here.done);
  std::uint32_t const sources = here.in_count + (here.reads_input ? 1 : 0);
  auto const source = [&](std::uint32_t k) { return chunk_source(link, here, buffers, k); };
  bool const finishes = has_finish<Reducer, T> && here.is_root && here.is_reduce;
  std::size_t const block = sources == 1 && !finishes && here.out_count <= 1 && group.size() == 1
                                ? count  // one copy, maybe two: no need to stay in the cache
                                : block_elements<T>;
  for (std::size_t first = group.thread_rank() * block; first < count;
       first += group.size() * block) {
    std::size_t const n = std::min(block, count - first);
    if (sources == 1 && !finishes) {
      scatter_piece(link, here, buffers, first, n, source(0) + first);
      continue;
    }
    alignas(T) alignas(64) std::byte storage[block_elements<T> * sizeof(T)];
    T* const total = reinterpret_cast<T*>(storage);
    if (sources == 1) {
      std::memcpy(storage, source(0) + first, n * sizeof(T));
    } else {
      combine(total, source(0) + first, source(1) + first, n, reduce);
    }
    for (std::uint32_t k = 2; k < sources; ++k) {
      combine(total, static_cast<T const*>(total), source(k) + first, n, reduce);
    }
    if constexpr (has_finish<Reducer, T>) {
      if (finishes) {
        for (std::size_t i = 0; i < n; ++i) {
          ::new (static_cast<void*>(total + i))
              T(static_cast<T>(reduce.finish(total[i], link.rank_count())));
        }
      }
    }
    scatter_piece(link, here, buffers, first, n, static_cast<T const*>(total));
  }
  if (buffers.streams) finish_streaming();
}

}  // namespace blink::inline BLINK_ABI::detail
