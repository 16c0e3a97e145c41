// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/chunk_address.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/thread_group.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>

#include <cstddef>
#include <cstdint>

namespace blink::inline BLINK_ABI::detail {

/// What one thread loads and stores at once.
struct pack {
  static constexpr std::size_t bytes = 16;
  std::uint32_t words[4];
};

/// Packs that one thread has in flight: hides the latency of memory, costs registers.
inline constexpr int packs_in_flight = 4;

// Explicitly global: pointers out of tables would otherwise be generic. Never the read-only path
// (ld.global.nc), which may return what a peer has overwritten during this kernel.
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

template <class T, class Reducer>
__device__ pack combine_packs(pack const& a, pack const& b, Reducer const& reduce) {
  constexpr std::size_t n = pack::bytes / sizeof(T);
  T left[n];
  T right[n];
  memcpy(left, &a, pack::bytes);
  memcpy(right, &b, pack::bytes);
  BLINK_UNROLL
  for (std::size_t i = 0; i < n; ++i) left[i] = static_cast<T>(reduce(left[i], right[i]));
  pack result;
  memcpy(&result, left, pack::bytes);
  return result;
}

template <class T, class Reducer>
__device__ pack finish_pack(pack const& total, int rank_count, Reducer const& reduce) {
  constexpr std::size_t n = pack::bytes / sizeof(T);
  T values[n];
  memcpy(values, &total, pack::bytes);
  BLINK_UNROLL
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<T>(reduce.finish(values[i], rank_count));
  }
  pack result;
  memcpy(&result, values, pack::bytes);
  return result;
}

template <class T>
__device__ bool is_pack_aligned(T const* address) {
  return reinterpret_cast<std::uintptr_t>(address) % pack::bytes == 0;
}

/// The lane's next chunk, by all threads of the group: 16 bytes at a time where all addresses
/// allow it, element by element otherwise and at the end.
///
/// Addresses are computed anew for each source instead of being kept in an array: an array that is
/// indexed at run time would live in local memory.
template <thread_group Group, transport Link, class T, reducer_for<T> Reducer>
__device__ void move_chunk_on_device(Group const group, Link const link, lane const& here,
                                     call_buffers<T> const& buffers, Reducer const& reduce) {
  std::size_t const count = chunk_count(here, here.done);
  std::uint32_t const sources = here.in_count + (here.reads_input ? 1 : 0);
  std::size_t const before = static_cast<std::size_t>(here.done) * here.chunk;
  T* const output = writes_output(here) ? buffers.output + here.output_begin + before : nullptr;
  bool finishes = false;
  if constexpr (has_finish<Reducer, T>) finishes = here.is_root && here.is_reduce;

  std::size_t done = 0;
  if constexpr (pack::bytes % sizeof(T) == 0) {
    bool aligned = output == nullptr || is_pack_aligned(output);
    for (std::uint32_t k = 0; k < sources; ++k) {
      aligned = aligned && is_pack_aligned(chunk_source<T>(link, here, buffers, k));
    }
    for (std::uint32_t k = 0; k < here.out_count; ++k) {
      if (writes(here.out[k])) {
        aligned = aligned && is_pack_aligned(leaving<T>(link, here, here.out[k]));
      }
    }
    constexpr std::size_t per_pack = pack::bytes / sizeof(T);
    std::size_t const packs = aligned ? count / per_pack : 0;
    std::size_t const stride = group.size();
    for (std::size_t base = group.thread_rank(); base < packs; base += stride * packs_in_flight) {
      pack total[packs_in_flight];
      T const* const first = chunk_source<T>(link, here, buffers, 0);
      BLINK_UNROLL
      for (int u = 0; u < packs_in_flight; ++u) {
        std::size_t const at = base + static_cast<std::size_t>(u) * stride;
        if (at < packs) total[u] = load_pack(first + at * per_pack);
      }
      for (std::uint32_t k = 1; k < sources; ++k) {
        T const* const other = chunk_source<T>(link, here, buffers, k);
        BLINK_UNROLL
        for (int u = 0; u < packs_in_flight; ++u) {
          std::size_t const at = base + static_cast<std::size_t>(u) * stride;
          if (at < packs) {
            total[u] = combine_packs<T>(total[u], load_pack(other + at * per_pack), reduce);
          }
        }
      }
      if constexpr (has_finish<Reducer, T>) {
        if (finishes) {
          BLINK_UNROLL
          for (int u = 0; u < packs_in_flight; ++u) {
            total[u] = finish_pack<T>(total[u], link.rank_count(), reduce);
          }
        }
      }
      if (output != nullptr) {
        BLINK_UNROLL
        for (int u = 0; u < packs_in_flight; ++u) {
          std::size_t const at = base + static_cast<std::size_t>(u) * stride;
          if (at < packs) store_pack(output + at * per_pack, total[u]);
        }
      }
      for (std::uint32_t k = 0; k < here.out_count; ++k) {
        if (!writes(here.out[k])) continue;
        T* const to = leaving<T>(link, here, here.out[k]);
        BLINK_UNROLL
        for (int u = 0; u < packs_in_flight; ++u) {
          std::size_t const at = base + static_cast<std::size_t>(u) * stride;
          if (at < packs) store_pack(to + at * per_pack, total[u]);
        }
      }
    }
    done = packs * per_pack;
  }
  for (std::size_t i = done + group.thread_rank(); i < count; i += group.size()) {
    T total = chunk_source<T>(link, here, buffers, 0)[i];
    for (std::uint32_t k = 1; k < sources; ++k) {
      total = static_cast<T>(reduce(total, chunk_source<T>(link, here, buffers, k)[i]));
    }
    if constexpr (has_finish<Reducer, T>) {
      if (finishes) total = static_cast<T>(reduce.finish(total, link.rank_count()));
    }
    if (output != nullptr) output[i] = total;
    for (std::uint32_t k = 0; k < here.out_count; ++k) {
      if (writes(here.out[k])) leaving<T>(link, here, here.out[k])[i] = total;
    }
  }
}

}  // namespace blink::inline BLINK_ABI::detail
