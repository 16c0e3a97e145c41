// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/detail/block_tree.hpp>
#include <blink/reducers/detail/rows.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/walk/detail/combine_sources.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A communicator whose ranks send small inputs when they enter a call, so that nothing else is
/// sent.
///
/// Semantics beyond the syntax: `is_eager()` is asked after `enter` and gives the same answer on
/// all ranks. If it is true, `eager_input(peer)` is the contribution of `peer` to this rank's
/// output, from the time when `match` has returned `ok` until `exit_call`.
template <class S>
concept eager_communicator = communicator<S> && requires(S const& comm, int peer) {
  { comm.is_eager() } -> std::same_as<bool>;
  { comm.eager_input(peer) } -> std::same_as<void const*>;
};

/// Returns the contribution of a rank to this rank's output.
///
/// own_bytes: bytes of one segment if inputs have a segment for each rank, else 0
template <eager_communicator Comm>
[[nodiscard]] void const* eager_contribution(Comm const& comm, int rank, void const* input,
                                             std::size_t own_bytes) {
  if (rank != comm.rank()) return comm.eager_input(rank);
  return static_cast<std::byte const*>(input) + own_bytes * static_cast<std::size_t>(rank);
}

/// Copies the eager payloads of all ranks to this rank's output, in collectives that do not
/// combine. Does nothing in collectives that combine.
///
/// count: elements of the whole buffer, or of one segment if the collective has segments
/// root:  of the schedule, for collectives that have one
template <eager_communicator Comm>
void copy_eager_inputs(Comm const& comm, collective kind, int root, void const* input, void* output,
                       std::size_t count, std::size_t element_bytes) {
  if (has_reduce_phase(kind)) return;
  if (is_to_root(kind) && comm.rank() != root) return;
  std::size_t const bytes = count * element_bytes;
  std::size_t const own_block = has_input_blocks(kind) ? bytes : 0;
  bool const is_from_one = !has_output_blocks(kind);
  for (int rank = is_from_one ? root : 0; rank < (is_from_one ? root + 1 : comm.rank_count());
       ++rank) {
    std::size_t const begin = is_from_one ? 0 : bytes * static_cast<std::size_t>(rank);
    auto* const to = static_cast<std::byte*>(output) + begin;
    auto const* const from = eager_contribution(comm, rank, input, own_block);
    if (to != from && bytes > 0) std::memcpy(to, from, bytes);
  }
}

/// Computes this rank's output from the eager payloads of all ranks, in one step, in collectives
/// that combine.
///
/// count: elements of the whole buffer, or of one segment if the collective has segments
/// root:  of the schedule, for collectives that have one
/// order: with `ranks` along the tree of ranks, else by rising rank, which gives the same bits as a
///        star
template <eager_communicator Comm, class T, class Reducer>
void combine_eager_inputs(Comm const& comm, collective kind, int root, T const* input, T* output,
                          std::size_t count, order_promise order, Reducer const& reduce) {
  int const own = comm.rank();
  if (is_to_root(kind) && own != root) return;
  std::size_t const own_block = has_input_blocks(kind) ? count : 0;
  std::size_t const own_begin = own_block * static_cast<std::size_t>(own);
  using A = accumulator_t<Reducer, T>;
  std::size_t const most = whole_items(block_elements<T, A>, reduce);
  auto const source = [&](std::uint32_t k) {
    int const rank = static_cast<int>(k);
    return chunk_source{eager_contribution(comm, rank, input, own_block * sizeof(T)),
                        source_kind::elements, rank, false, 0};
  };
  auto const ranks = static_cast<std::uint32_t>(comm.rank_count());
  auto const ranks_of = [](std::uint32_t k) { return block_node{k, k + std::size_t{1}}; };
  bool const is_last = needs_last_step<T>(reduce);
  if constexpr (replaces_source<Reducer, T>) {
    if (ranks == 2 && !is_last) {  // directly into the output, even if it is also the input
      combine_sources<T>(source, ranks, 0, count, own_begin, output, reduce);
      return;
    }
  }
  for (std::size_t first = 0; first < count; first += most) {
    std::size_t const n = most < count - first ? most : count - first;
    block_storage<A, row_elements<T, A, Reducer>> storage;
    A* const total = storage.elements();
    if (order == order_promise::ranks && ranks > 2) {
      tree_combination<T, decltype(source), decltype(ranks_of), Reducer>(source, ranks_of, reduce)
          .make(ranks, first, n, own_begin + first, total);
    } else {
      combine_sources<T>(source, ranks, first, n, own_begin + first, total, reduce);
    }
    if constexpr (has_last_step<Reducer, T>) {
      if (is_last) {
        finish_rows(static_cast<A const*>(total), output + first, n, comm.rank_count(),
                    element_place{own_begin + first, own}, reduce);
        continue;
      }
    }
    if constexpr (std::is_same_v<A, T>) std::memcpy(output + first, total, n * sizeof(T));
  }
}

}}}  // namespace blink::BLINK_ABI::detail
