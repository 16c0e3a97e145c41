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
__device__ pack finish_pack(pack const& total, int rank_count, element_place const& place,
                            Reducer const& reduce) {
  constexpr std::size_t n = pack::bytes / sizeof(T);
  T values[n];
  memcpy(values, &total, pack::bytes);
  BLINK_UNROLL
  for (std::size_t i = 0; i < n; ++i) {
    values[i] = static_cast<T>(
        detail::finish(reduce, values[i], rank_count, element_place{place.index + i, place.rank}));
  }
  pack result;
  memcpy(&result, values, pack::bytes);
  return result;
}

__device__ inline bool is_pack_aligned(void const* address) {
  return reinterpret_cast<std::uintptr_t>(address) % pack::bytes == 0;
}

/// What element `i` of a chunk's source adds to the total.
template <class T, class Reducer>
__device__ auto read_element(chunk_source const& source, std::size_t i, std::uint64_t index,
                             Reducer const& reduce) {
  if constexpr (!combines_elements<Reducer, T>) {
    if (source.is_partial) {
      return static_cast<accumulator_t<Reducer, T>>(
          detail::receive<T>(reduce, static_cast<wire_t<Reducer, T> const*>(source.data)[i]));
    }
  }
  return detail::lift(reduce, static_cast<T const*>(source.data)[i],
                      element_place{index + i, source.rank});
}

/// Elements from `first` on of the lane's next chunk, one by one.
template <thread_group Group, transport Link, class T, class Reducer>
__device__ void move_elements(Group const group, Link const link, lane const& here,
                              call_buffers<T> const& buffers, Reducer const& reduce,
                              std::size_t first) {
  using A = accumulator_t<Reducer, T>;
  using W = wire_t<Reducer, T>;
  std::size_t const count = chunk_count(here, here.done);
  std::uint32_t const sources = here.in_count + (here.reads_input ? 1 : 0);
  std::uint64_t const index = chunk_index(here);
  bool const converts = !combines_elements<Reducer, T> && here.is_reduce;
  auto const scatter = [&](std::size_t i, T const& result) {
    if (writes_output(here)) {
      (buffers.output + here.output_begin + chunk_offset(here))[i] = result;
    }
    for (std::uint32_t k = 0; k < here.out_count; ++k) {
      if (writes(here.out[k])) static_cast<T*>(leaving<T>(link, here, here.out[k]))[i] = result;
    }
  };
  for (std::size_t i = first + group.thread_rank(); i < count; i += group.size()) {
    auto const source = source_of_chunk<T>(link, here, buffers, 0);
    if (sources == 1 && !(converts && (here.is_root || sends_partial(here))) &&
        !(here.is_root && here.is_reduce)) {
      scatter(i, static_cast<T const*>(source.data)[i]);
      continue;
    }
    A total = read_element<T>(source, i, index, reduce);
    for (std::uint32_t k = 1; k < sources; ++k) {
      auto const next = source_of_chunk<T>(link, here, buffers, k);
      total =
          static_cast<A>(reduce(total, static_cast<A>(read_element<T>(next, i, index, reduce))));
    }
    element_place const place{index + i, link.rank()};
    if constexpr (!combines_elements<Reducer, T>) {
      if (sends_partial(here)) {
        static_cast<W*>(leaving<T>(link, here, here.out[0]))[i] =
            static_cast<W>(detail::send(reduce, total, place));
        continue;
      }
    }
    if (here.is_root && here.is_reduce) {
      scatter(i, static_cast<T>(detail::finish(reduce, total, link.rank_count(), place)));
    } else if constexpr (combines_elements<Reducer, T>) {
      scatter(i, total);
    }
  }
}

/// As many elements of the lane's next chunk as go by 16 bytes at a time: all packs of it if all
/// addresses allow it, else none. Returns how many.
///
/// Addresses are computed anew for each source instead of being kept in an array: an array that is
/// indexed at run time would live in local memory.
template <thread_group Group, transport Link, class T, class Reducer>
__device__ std::size_t move_packs(Group const group, Link const link, lane const& here,
                                  call_buffers<T> const& buffers, Reducer const& reduce) {
  std::size_t const count = chunk_count(here, here.done);
  std::uint32_t const sources = here.in_count + (here.reads_input ? 1 : 0);
  T* const output =
      writes_output(here) ? buffers.output + here.output_begin + chunk_offset(here) : nullptr;
  auto const elements_of = [&](std::uint32_t k) {
    return static_cast<T const*>(source_of_chunk<T>(link, here, buffers, k).data);
  };
  bool aligned = output == nullptr || is_pack_aligned(output);
  for (std::uint32_t k = 0; k < sources; ++k) {
    aligned = aligned && is_pack_aligned(elements_of(k));
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
    T const* const first = elements_of(0);
    BLINK_UNROLL
    for (int u = 0; u < packs_in_flight; ++u) {
      std::size_t const at = base + static_cast<std::size_t>(u) * stride;
      if (at < packs) total[u] = load_pack(first + at * per_pack);
    }
    for (std::uint32_t k = 1; k < sources; ++k) {
      T const* const other = elements_of(k);
      BLINK_UNROLL
      for (int u = 0; u < packs_in_flight; ++u) {
        std::size_t const at = base + static_cast<std::size_t>(u) * stride;
        if (at < packs) {
          total[u] = combine_packs<T>(total[u], load_pack(other + at * per_pack), reduce);
        }
      }
    }
    if constexpr (has_finish<Reducer, T>) {
      if (here.is_root && here.is_reduce) {
        std::uint64_t const index = chunk_index(here);
        BLINK_UNROLL
        for (int u = 0; u < packs_in_flight; ++u) {
          std::size_t const at = base + static_cast<std::size_t>(u) * stride;
          total[u] = finish_pack<T>(total[u], link.rank_count(),
                                    element_place{index + at * per_pack, link.rank()}, reduce);
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
      T* const to = static_cast<T*>(leaving<T>(link, here, here.out[k]));
      BLINK_UNROLL
      for (int u = 0; u < packs_in_flight; ++u) {
        std::size_t const at = base + static_cast<std::size_t>(u) * stride;
        if (at < packs) store_pack(to + at * per_pack, total[u]);
      }
    }
  }
  return packs * per_pack;
}

/// The lane's next chunk, by all threads of the group: 16 bytes at a time where types and all
/// addresses allow it, element by element otherwise and at the end.
template <thread_group Group, transport Link, class T, reducer_for<T> Reducer>
__device__ void move_chunk_on_device(Group const group, Link const link, lane const& here,
                                     call_buffers<T> const& buffers, Reducer const& reduce) {
  std::size_t done = 0;
  if constexpr (pack::bytes % sizeof(T) == 0 && combines_elements<Reducer, T>) {
    done = move_packs(group, link, here, buffers, reduce);
  }
  move_elements(group, link, here, buffers, reduce, done);
}

}  // namespace blink::inline BLINK_ABI::detail
