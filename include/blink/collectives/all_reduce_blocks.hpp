// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/all_gather.hpp>
#include <blink/collectives/all_reduce.hpp>
#include <blink/collectives/all_to_all.hpp>
#include <blink/collectives/detail/memory_range.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/detail/block_tree.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/call/element_buffer.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/operand_order.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <string>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The combination of a reducer, on its accumulators.
template <class Reducer>
struct combine_only {
  static constexpr order_promise order = order_promise::ranks;

  template <class Accumulator>
  constexpr Accumulator operator()(Accumulator const& a, Accumulator const& b) const {
    return static_cast<Accumulator>(reduce(a, b));
  }
  template <class Accumulator>
    requires combines_rows<Reducer, Accumulator>
  void combine(Accumulator const* a, Accumulator const* b, Accumulator* result,
               std::size_t count) const {
    reduce.combine(a, b, result, count);
  }

  Reducer reduce;
};

}  // namespace detail

/// Reduces `blocks` buffers that are spread over the ranks, to the same bits on 1, 2, 3 or any
/// number of ranks that divides `blocks`.
///
/// The blocks are combined along a binary tree that depends on their number alone. So 24 blocks
/// give equal bits on 1, 2, 3, 4, 6, 8, 12 and 24 ranks. The bits of an element do not depend on
/// the count.
///
/// trees:  chooses the schedules of an all-reduce, an all-to-all and an all-gather by size
/// input:  this rank's blocks one after the other (blocks / ranks * count); rank r holds the blocks
///         from r * blocks / ranks on
/// output: the result (count); must not overlap `input`
/// blocks: in all; a multiple of the number of ranks
/// Moves:  the totals of the tree's largest nodes on each rank as an all-to-all, then the result as
///         an all-gather. If each rank has one such node, an all-reduce whose schedule combines
///         along the tree of ranks. Of 24 blocks, 2, 4, 8 and 24 ranks have one each, 12 up to two,
///         6 up to three, 3 up to four.
/// Needs:  memory for as many buffers as a rank has nodes, and one more.
/// Order:  fixed, as above. `finish` gets `blocks` as the number of contributions.
/// Throws: precondition_error if `blocks` is not a multiple of the number of ranks, or for buffers
///         that are null, not aligned for their elements or overlap; others as `all_reduce`,
///         `all_to_all` and `all_gather`.
template <communicator Comm, schedule_chooser Source, class T, class Reducer>
  requires reducer_for<Reducer, T>
void all_reduce_blocks(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count,
                       std::size_t blocks, Reducer const& reduce) {
  using accumulator = accumulator_t<Reducer, T>;
  static_assert(std::is_trivially_copyable_v<accumulator>,
                "blink: all_reduce_blocks sends accumulators, expected a trivially copyable type");
  static_assert(!has_unit<Reducer>, "blink: all_reduce_blocks takes no reducer of longer items");
  expects(comm.group().size() == 1,
          "all_reduce_blocks: the communicator's group has several threads, expected one");
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  auto const me = static_cast<std::size_t>(comm.rank());
  detail::expect_blocks(blocks, ranks);
  if (count > 0 && (input == nullptr || output == nullptr)) {
    throw precondition_error("all_reduce_blocks on rank " + std::to_string(me) + ": the " +
                             (input == nullptr ? "input" : "output") +
                             " is null, expected elements");
  }
  if (count > 0) {
    detail::expect_aligned(collective::all_reduce, comm.rank(), "input", input, alignof(T));
    detail::expect_aligned(collective::all_reduce, comm.rank(), "output", output, alignof(T));
  }
  auto const own = blocks / ranks;
  auto const segment = (count + ranks - 1) / ranks;  // of the result, of each rank
  auto const [nodes, most] = detail::nodes_by_rank(ranks, blocks);
  if (segment > std::numeric_limits<std::size_t>::max() / 8 / blocks / sizeof(accumulator)) {
    throw precondition_error("all_reduce_blocks: count " + std::to_string(count) +
                             " overflows an address, expected less");
  }
  if (detail::overlap_where_written(
          {{input, own * count * sizeof(T), false}, {output, count * sizeof(T), true}})) {
    throw precondition_error("all_reduce_blocks on rank " + std::to_string(me) +
                             ": the output overlaps the input, expected separate buffers");
  }
  detail::block_combiner<accumulator, Reducer> const combiner(reduce);
  constexpr bool is_plain = std::is_same_v<T, accumulator> && !detail::lifts<Reducer, T>;
  constexpr bool is_final = std::is_same_v<T, accumulator> && !detail::finishes<Reducer, T>;
  auto const of_input = [&](detail::block_node const& node, std::size_t at, std::size_t length,
                            accumulator* to) -> accumulator const* {
    if (node.size() > 1) return nullptr;
    auto const* const from = input + (node.begin - me * own) * count + at;
    if constexpr (is_plain) {
      return from;
    } else {
      for (std::size_t i = 0; i < length; ++i) {
        to[i] = detail::lift(reduce, from[i], element_place{at + i, static_cast<int>(me)});
      }
      return to;
    }
  };
  auto const finish = [&](accumulator const* totals, std::size_t at, std::size_t length, T* to) {
    for (std::size_t i = 0; i < length; ++i) {
      to[i] = static_cast<T>(detail::finish(reduce, totals[i], static_cast<int>(blocks),
                                            element_place{at + i, static_cast<int>(me)}));
    }
  };
  // If each rank has one node, the tree of blocks above these nodes is the tree of the ranks.
  using combination = detail::combine_only<Reducer>;
  auto const direct =
      most > 1 ? chosen_schedule{}
               : detail::choose_schedule(comm, trees, collective::all_reduce,
                                         count * sizeof(accumulator),
                                         {.needed = detail::operands_needed<combination>});
  if (most == 1 && (ranks == 1 || direct.prepared->operands() == operand_order::tree_of_ranks)) {
    accumulator* totals = nullptr;
    if constexpr (is_final) {
      totals = output;
    } else {
      totals = reinterpret_cast<accumulator*>(
          direct.prepared->packed_at(comm.rank()).at_least(count * sizeof(accumulator)));
    }
    combiner.write(nodes[me].front(), 0, count, totals, of_input);
    if (ranks > 1) {
      all_reduce(comm, *direct.prepared, totals, totals, count, combination{reduce});
    }
    if constexpr (!is_final) finish(totals, 0, count, output);
    return;
  }
  // The totals for a peer: its segment of each node, one after the other.
  auto const message = most * segment;
  auto const message_bytes = ranks * message * sizeof(accumulator);
  auto const chosen = trees.choose(collective::all_to_all, message_bytes);
  auto const totals_bytes = detail::whole_lines(2 * message_bytes);
  auto* const memory = chosen.prepared->packed_at(comm.rank())
                           .at_least(totals_bytes + (ranks + 1) * segment * sizeof(T));
  auto* const sent = reinterpret_cast<accumulator*>(memory);
  auto* const received = reinterpret_cast<accumulator*>(memory + message_bytes);
  auto* const mine = reinterpret_cast<T*>(memory + totals_bytes);
  auto const length_of = [&](std::size_t rank) {
    return std::min(count, (rank + 1) * segment) - std::min(count, rank * segment);
  };
  for (std::size_t peer = 0; peer < ranks; ++peer) {
    for (std::size_t k = 0; k < nodes[me].size(); ++k) {
      combiner.write(nodes[me][k], peer * segment, length_of(peer),
                     sent + peer * message + k * segment, of_input);
    }
  }
  all_to_all(comm, trees, sent, received, message);
  auto const of_ranks = [&](detail::block_node const& node, std::size_t at, std::size_t /*length*/,
                            accumulator* /*buffer*/) -> accumulator const* {
    auto const from = node.begin / own;
    if ((node.end - 1) / own != from) return nullptr;
    auto const k = std::ranges::find(nodes[from], node) - nodes[from].begin();
    return received + from * message + static_cast<std::size_t>(k) * segment + at;
  };
  if constexpr (is_final) {
    combiner.write({0, blocks}, 0, length_of(me), mine, of_ranks);
  } else {
    auto* const totals = sent;  // no longer needed
    combiner.write({0, blocks}, 0, length_of(me), totals, of_ranks);
    finish(totals, me * segment, length_of(me), mine);
  }
  bool const fits = segment * ranks == count;  // else the last segments are shorter
  T* const all = fits ? output : mine + segment;
  all_gather(comm, trees, mine, all, segment);
  if (!fits) std::copy_n(all, count, output);
}

/// The same along the schedules that the communicator's tuning selects.
///
/// Throws: as above; input_error if the file that BLINK_TUNING names cannot be read or does not fit
///         this communicator.
template <communicator Comm, class T, detail::maybe_reducer Reducer = sum>
void all_reduce_blocks(Comm& comm, T const* input, T* output, std::size_t count, std::size_t blocks,
                       Reducer const& reduce = {}) {
  all_reduce_blocks(comm, detail::tuned_source<Comm>{comm}, input, output, count, blocks, reduce);
}

/// The same on containers: the input has blocks / ranks times as many elements as the output.
///
/// Throws: as above; precondition_error with both sizes if the sizes do not match.
template <communicator Comm, element_buffer In, element_buffer Out,
          detail::maybe_reducer Reducer = sum>
void all_reduce_blocks(Comm& comm, In&& input, Out&& output, std::size_t blocks,
                       Reducer const& reduce = {}) {
  detail::expect_elements_alike<In, Out>();
  auto const in = detail::elements_of(input);
  auto const out = detail::elements_of(output);
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  detail::expect_blocks(blocks, ranks);
  detail::expect_sizes("all_reduce_blocks", in.size, out.size, blocks / ranks, true);
  all_reduce_blocks(comm, in.data, out.data, out.size, blocks, reduce);
}

}}  // namespace blink::BLINK_ABI
