// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/detail/chunk_address.hpp>
#include <blink/running/walk/detail/move_row.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The unit that one thread loads and stores at once.
struct pack {
  static constexpr std::size_t bytes = 16;
  std::uint32_t words[4];
};

[[nodiscard]] BLINK_HOST_DEVICE inline bool is_pack_aligned(void const* address) {
  return reinterpret_cast<std::uintptr_t>(address) % pack::bytes == 0;
}

#if BLINK_DEVICE_PASS
// Explicitly global, because pointers out of tables would be generic otherwise. Never the read-only
// path (ld.global.nc), which may return data that a peer has overwritten during this kernel.
__device__ inline pack load_pack(void const* from) {
  pack p;
  asm volatile("ld.global.v4.u32 {%0, %1, %2, %3}, [%4];"
               : "=r"(p.words[0]), "=r"(p.words[1]), "=r"(p.words[2]), "=r"(p.words[3])
               : "l"(__cvta_generic_to_global(from))
               : "memory");
  return p;
}
__device__ inline void store_pack(void* to, pack const& p) {
  asm volatile("st.global.v4.u32 [%0], {%1, %2, %3, %4};" ::"l"(__cvta_generic_to_global(to)),
               "r"(p.words[0]), "r"(p.words[1]), "r"(p.words[2]), "r"(p.words[3])
               : "memory");
}
#else
// An address that a device would not accept also ends emulated kernels.
inline pack load_pack(void const* from) {
  if (!is_pack_aligned(from)) std::abort();
  pack p;
  std::memcpy(&p, from, pack::bytes);
  return p;
}
inline void store_pack(void* to, pack const& p) {
  if (!is_pack_aligned(to)) std::abort();
  std::memcpy(to, &p, pack::bytes);
}
#endif

/// Bytes of elements or accumulators that one thread holds in registers for one tile.
inline constexpr std::size_t most_tile_bytes = 128;

/// Returns the number of elements of a tile.
///
/// Elements of `value` bytes make whole packs, and so do their partial results of `partial` bytes.
/// Their accumulators fit into registers. 0: no number does.
[[nodiscard]] BLINK_HOST_DEVICE constexpr std::size_t elements_of_tile(std::size_t value,
                                                                       std::size_t partial,
                                                                       std::size_t accumulator) {
  std::size_t const n = pack::bytes / (value < partial ? value : partial);
  bool const fits = n > 0 && n * value % pack::bytes == 0 && n * partial % pack::bytes == 0 &&
                    n * accumulator <= most_tile_bytes && n * value <= most_tile_bytes;
  return fits ? n : 0;
}

/// The tiles `at`, `at + stride`, … of a chunk, below `end`, as whole packs or element by element.
///
/// A row of several tiles is whole. A test for each tile would keep the loads of the next source
/// behind the values of this one.
template <std::size_t N, std::size_t Flight, bool Packed>
struct tile_row {
  static constexpr std::size_t elements = N;     ///< of each tile
  static constexpr std::size_t flight = Flight;  ///< hides the latency of memory, costs registers
  static constexpr bool receive_waits = false;

  std::size_t first;  ///< element of the chunk where tile 0 begins
  std::size_t at;
  std::size_t stride;
  std::size_t end;

  /// True if there is a whole row.
  [[nodiscard]] BLINK_HOST_DEVICE bool has_row() const { return at + (Flight - 1) * stride < end; }
  [[nodiscard]] BLINK_HOST_DEVICE std::size_t element(std::size_t u) const {
    return first + (at + u * stride) * N;
  }

  template <class E>
  BLINK_HOST_DEVICE void load(tile<E, N> (&to)[Flight], void const* from) const {
    BLINK_UNROLL
    for (std::size_t u = 0; u < Flight; ++u) {
      auto const* const begin = static_cast<E const*>(from) + element(u);
      if constexpr (Packed) {
        BLINK_UNROLL
        for (std::size_t p = 0; p < tile<E, N>::bytes; p += pack::bytes) {
          pack const words = load_pack(reinterpret_cast<std::byte const*>(begin) + p);
          std::memcpy(reinterpret_cast<std::byte*>(to[u].values) + p, &words, pack::bytes);
        }
      } else {
        BLINK_UNROLL
        for (std::size_t i = 0; i < N; ++i) set(to[u].values[i], begin[i]);
      }
    }
  }
  template <class E>
  BLINK_HOST_DEVICE void store(void* to, tile<E, N> const (&from)[Flight]) const {
    BLINK_UNROLL
    for (std::size_t u = 0; u < Flight; ++u) {
      auto* const begin = static_cast<E*>(to) + element(u);
      if constexpr (Packed) {
        BLINK_UNROLL
        for (std::size_t p = 0; p < tile<E, N>::bytes; p += pack::bytes) {
          pack words;
          std::memcpy(&words, reinterpret_cast<std::byte const*>(from[u].values) + p, pack::bytes);
          store_pack(reinterpret_cast<std::byte*>(begin) + p, words);
        }
      } else {
        BLINK_UNROLL
        for (std::size_t i = 0; i < N; ++i) set(begin[i], from[u].values[i]);
      }
    }
  }
  // Whole chunks are announced, so a connection is memory like any other.
  template <class E>
  BLINK_HOST_DEVICE void receive(tile<E, N> (&to)[Flight], void const* from, std::uint64_t) const {
    load(to, from);
  }
  template <class E>
  BLINK_HOST_DEVICE void send(void* to, tile<E, N> const (&from)[Flight], std::uint64_t) const {
    store<E>(to, from);
  }
  template <class Use>
  BLINK_HOST_DEVICE void each(Use const& use) const {
    BLINK_UNROLL
    for (std::size_t u = 0; u < Flight; ++u) {
      BLINK_UNROLL
      for (std::size_t i = 0; i < N; ++i) use(u, i, element(u) + i);
    }
  }
};

/// True if all addresses of a chunk are aligned for packs.
template <class T>
[[nodiscard]] BLINK_HOST_DEVICE bool has_pack_addresses(chunk_way<T> const& way) {
  bool aligned = is_pack_aligned(way.output);
  BLINK_ROLLED
  for (std::uint32_t k = 0; k < way.sources; ++k) {
    aligned = aligned && is_pack_aligned(way.source(k).data);
  }
  BLINK_ROLLED
  for (std::uint32_t k = 0; k < way.out_count; ++k) {
    if (writes(way.out[k])) aligned = aligned && is_pack_aligned(way.out[k].at);
  }
  return aligned;
}

/// Moves the rows of one of `threads` threads. Afterwards the row is where the next one would be.
///
/// A function and not a lambda, which clang does not always expand, so that `way` would lie in
/// local memory.
template <class T, class Row, class Reducer>
BLINK_HOST_DEVICE void move_rows(chunk_way<T> const& way, Row& row, std::uint32_t threads,
                                 Reducer const& reduce) {
  BLINK_ROLLED
  for (; row.has_row(); row.at += std::size_t{threads} * row.flight) move_row(way, row, reduce);
}

/// Bytes of accumulators that one thread holds in registers for all tiles of a row.
///
/// Reducers whose accumulators are not elements need registers of their own, and so do those that
/// take apart an element of several words.
template <class T, class Reducer>
inline constexpr std::size_t most_row_bytes = !combines_elements<Reducer, T> ? 32
                                              : std::is_class_v<T> &&
                                                      sizeof(T) > sizeof(std::uint32_t)
                                                  ? 64
                                                  : BLINK_ROW_BYTES;

/// Moves the task's next chunk with all threads of the group: 16 bytes at a time if types and
/// addresses allow it, else, and at the end, element by element.
///
/// Pre: `place_chunk`
BLINK_EITHER_SIDE
template <thread_group Group, transport Transport, class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE void move_chunk_on_device(Group const group, Transport const transport,
                                            tree_task const& here, call_buffers<T> const& buffers,
                                            Reducer const& reduce) {
  using A = accumulator_t<Reducer, T>;
  std::size_t const count = chunk_count(here, here.done);
  auto const way = way_of_chunk<T>(transport, here, buffers);
  if (way.output == nullptr && way.out_count == 0) return;  // a peer has written it there
  // Outside of the lambda, where nvcc would warn about it for groups of hosts.
  std::uint32_t const thread = group.thread_rank(), threads = group.size();
  std::size_t done = 0;
  constexpr std::size_t n = elements_of_tile(sizeof(T), sizeof(sent_t<Reducer, T>), sizeof(A));
  if constexpr (n > 0) {
    constexpr std::size_t budget = most_row_bytes<T, Reducer>;
    constexpr std::size_t flight = n * sizeof(A) < budget ? budget / (n * sizeof(A)) : 1;
    if (has_pack_addresses(way)) {
      std::size_t first = thread;
      if constexpr (flight > 1) {
        tile_row<n, flight, true> rows{0, thread, threads, count / n};
        move_rows(way, rows, threads, reduce);
        first = rows.at;
      }
      tile_row<n, 1, true> rest{0, first, threads, count / n};
      move_rows(way, rest, threads, reduce);
      done = count / n * n;
    }
  }
  tile_row<1, 1, false> elements{done, thread, threads, count - done};
  move_rows(way, elements, threads, reduce);
}

}}}  // namespace blink::BLINK_ABI::detail
