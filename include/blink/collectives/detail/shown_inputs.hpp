// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/detail/move_chunk_host.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace blink::inline BLINK_ABI::detail {

/// A session whose ranks say what is in small inputs when they enter a call, so that nothing else
/// needs to be sent.
///
/// Semantics beyond the syntax: `shows_inputs()` is asked after `enter` and gives the same answer on
/// all ranks. Then, when `meet` has returned `ok` and until `leave`, `shown_input(peer)` is what
/// `peer` contributes to this rank's output.
template <class S>
concept showing_session = session<S> && requires(S const& me, int peer) {
  { me.shows_inputs() } -> std::same_as<bool>;
  { me.shown_input(peer) } -> std::same_as<void const*>;
};

/// Computes this rank's output from what all ranks have shown, in one step.
///
/// count: elements of the whole buffer, or of one block where the collective has blocks
/// root:  of the schedule, for collectives that have one
/// Order: of the ranks, which gives the bits that a star gives.
template <showing_session Me, class T, class Reducer>
void use_shown_inputs(Me const& me, collective kind, int root, T const* input, T* output,
                      std::size_t count, Reducer const& reduce) {
  int const own = me.rank();
  std::size_t const own_begin = has_input_blocks(kind) ? count * static_cast<std::size_t>(own) : 0;
  // What a rank contributes to this rank's output.
  auto const shown = [&](int rank) {
    return rank == own ? input + own_begin : static_cast<T const*>(me.shown_input(rank));
  };
  auto const copy = [](T* to, T const* from, std::size_t n) {
    if (to != from && n > 0) {
      std::memcpy(static_cast<void*>(to), static_cast<void const*>(from), n * sizeof(T));
    }
  };
  if (kind == collective::barrier) return;
  if (is_to_root(kind) && own != root) return;
  if (!has_reduce_phase(kind)) {
    if (!has_output_blocks(kind)) return copy(output, shown(root), count);  // from the root
    for (int rank = 0; rank < me.rank_count(); ++rank) {
      copy(output + static_cast<std::size_t>(rank) * count, shown(rank), count);
    }
    return;
  }
  using A = accumulator_t<Reducer, T>;
  constexpr std::size_t most = block_elements<T, A>;
  auto const source = [&](std::uint32_t k) {
    return chunk_source{shown(static_cast<int>(k)), source_kind::elements,
                        static_cast<std::int32_t>(k), false, 0};
  };
  auto const ranks = static_cast<std::uint32_t>(me.rank_count());
  for (std::size_t first = 0; first < count; first += most) {
    std::size_t const n = most < count - first ? most : count - first;
    block_storage<A, most> storage;
    A* const total = storage.elements();
    combine_sources<T>(source, ranks, first, n, own_begin + first, total, reduce);
    fill(output + first, n, [&](std::size_t i) {
      if constexpr (finishes<Reducer, A> || !combines_elements<Reducer, T>) {
        return finish(reduce, static_cast<A const&>(total[i]), me.rank_count(),
                      element_place{own_begin + first + i, own});
      } else {
        return total[i];
      }
    });
  }
}

}  // namespace blink::inline BLINK_ABI::detail
