// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/walk/detail/chunk_address.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/kernels/step_tasks.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The common state of the steps of one call: its buffers, and the source and destination of each
/// chunk.
///
/// Schedule: a schedule with `prepared()` and slots by connection and chunk: `inbox` for arriving
///           chunks, `outbox` for leaving ones
template <class Schedule>
struct copy_call {
  Schedule const* along = nullptr;
  std::vector<detail::plain_buffers> buffers;  ///< by rank, from `first_rank` on
  int first_rank = 0;
  /// by connection; empty if the receiver is none of these ranks
  std::vector<placed_task> receivers;
  element_sizes sizes;
  std::size_t element_bytes = 1;

  /// Sets the tasks for a call.
  ///
  /// Pre:    `tasks` are all those of the ranks of `buffers`.
  /// Throws: precondition_error if the reducer does not suit the schedule.
  template <chunking Chunks, class T, class Reducer>
  void set(std::vector<placed_task> const& tasks, collective kind, detail::call_size const& size) {
    auto const& prepared = along->prepared();
    auto const& source = prepared.source();
    sizes = sizes_of<Reducer, T>();
    element_bytes = sizeof(T);
    detail::expect_runs(prepared, sizes, detail::operands_on_device<Reducer>, source.rank_count,
                        "device_options");
    receivers.assign(prepared.tables().connection_count(), {});
    for (auto const& at : tasks) {
      auto& here = *at.here;
      auto const block = size.blocks == nullptr
                             ? prepared.equal_block(here, kind, size.count)
                             : size.blocks[block_number(source, source.trees[here.tree], kind)];
      prepared.set_call(here, kind, block, sizes, order_of<Reducer>, &cut_by<Chunks>,
                        size.chunk_bytes);
      for (std::uint32_t k = 0; k < here.in_count; ++k) receivers[here.in[k].connection] = at;
    }
  }

  /// The buffers of a rank.
  [[nodiscard]] detail::plain_buffers const& buffers_of(int rank) const {
    return buffers[static_cast<std::size_t>(rank - first_rank)];
  }
  /// The address of a chunk of a task in the rank's input.
  [[nodiscard]] void const* input(tree_task const& here, int rank, std::uint64_t chunk) const {
    auto const* const base = static_cast<std::byte const*>(buffers_of(rank).input);
    return base + (here.input_begin + chunk * here.stride) * element_bytes;
  }
  /// The address of a chunk of a task in the rank's output.
  [[nodiscard]] void* output(tree_task const& here, int rank, std::uint64_t chunk) const {
    auto* const base = static_cast<std::byte*>(buffers_of(rank).output);
    return base + (here.output_begin + chunk * here.stride) * element_bytes;
  }
  /// True if a task computes nothing: it has one source, and its elements do not change.
  [[nodiscard]] static bool is_copy(tree_task const& here) {
    return here.in_count + (here.reads_input ? 1 : 0) == 1 && !(here.is_root && here.is_reduce) &&
           !detail::sends_partial(here);
  }
  /// True if a chunk can go directly to its final place at the receiver of a connection, because it
  /// has no other use.
  [[nodiscard]] bool is_delivered(std::uint32_t connection) const {
    auto const& to = *receivers[connection].here;
    return is_copy(to) && to.writes_output;
  }
  /// Returns the address of a chunk at the receiver of a connection.
  [[nodiscard]] void* destination(std::uint32_t connection, std::uint64_t chunk) const {
    auto const& to = receivers[connection];
    return is_delivered(connection) ? output(*to.here, to.rank, chunk)
                                    : along->inbox(connection, chunk);
  }
  /// Returns the address from which a task sends its chunk.
  [[nodiscard]] void const* leaves_from(placed_task const& at, std::uint64_t chunk) const {
    auto const& here = *at.here;
    if (is_copy(here)) {
      return here.in_count == 0 ? input(here, at.rank, chunk)
                                : destination(here.in[0].connection, chunk);
    }
    return here.writes_output ? output(here, at.rank, chunk)
                              : along->outbox(here.out[0].connection, chunk);
  }
  /// Bytes of a chunk of a task on a connection; partial results may be larger than elements.
  [[nodiscard]] std::size_t bytes(tree_task const& here, endpoint const& end,
                                  std::uint64_t chunk) const {
    return static_cast<std::size_t>(chunk_count(here, chunk)) *
           (end.is_partial ? sizes.connection : sizes.value);
  }
  /// Returns the step that combines a chunk at the address that `leaves_from` returns.
  ///
  /// Pre: the task is not a copy.
  [[nodiscard]] copy_step combining(placed_task const& at, std::uint64_t chunk) const {
    auto const& here = *at.here;
    copy_step step;
    step.here = here;
    step.here.done = chunk;
    step.here.in = nullptr;
    step.here.out = nullptr;
    step.here.blocked_on = nullptr;
    step.input = buffers_of(at.rank).input;
    step.output = buffers_of(at.rank).output;
    step.rank = at.rank;
    step.rank_count = along->prepared().source().rank_count;
    for (std::uint32_t k = 0; k < here.in_count; ++k) {
      step.in[k] = here.in[k];
      step.in[k].connection = k;
      step.in[k].at = destination(here.in[k].connection, chunk);
    }
    if (here.writes_output) {  // the chunk is sent from the output
      step.here.out_count = 0;
    } else {
      step.out = here.out[0];
      step.out.at = along->outbox(here.out[0].connection, chunk);
    }
    return step;
  }
};

}}  // namespace blink::BLINK_ABI
