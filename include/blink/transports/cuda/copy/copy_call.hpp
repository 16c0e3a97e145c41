// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/detail/call_description.hpp>
#include <blink/running/walk/detail/chunk_address.hpp>
#include <blink/running/walk/lane.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/kernels/step_lanes.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// What the steps of one call share: its buffers, and where each chunk is taken from and put.
///
/// Plan: a schedule in its prepared form, with `prepared()` and slots by wire and chunk: `inbox` of what arrives,
///       `outbox` of what leaves
template <class Plan>
struct copy_call {
  Plan const* plan = nullptr;
  std::vector<detail::plain_buffers> buffers;  ///< by rank, from `first_rank` on
  int first_rank = 0;
  std::vector<placed_lane> receivers;  ///< by wire; none where these ranks do not receive
  element_sizes sizes;
  std::size_t element_bytes = 1;

  /// Sets the lanes for a call. Pre: `lanes` are all those of the ranks of `buffers`.
  ///
  /// Throws: precondition_error if the reducer does not suit the schedule.
  template <chunking Chunks, class T, class Reducer>
  void set(std::vector<placed_lane> const& lanes, collective kind, detail::call_size const& size) {
    auto const& prepared = plan->prepared();
    auto const& source = prepared.source();
    sizes = sizes_of<Reducer, T>();
    element_bytes = sizeof(T);
    detail::expect_runs(prepared, sizes, is_commutative<Reducer>, source.rank_count,
                        "device_world_options");
    receivers.assign(prepared.tables().wire_count(), {});
    for (auto const& at : lanes) {
      auto& here = *at.here;
      auto const block = size.blocks == nullptr
                             ? prepared.equal_block(here, kind, size.count)
                             : size.blocks[block_number(source, source.trees[here.tree], kind)];
      prepared.set_call(here, kind, block, sizes, order_of<Reducer>, &cut_by<Chunks>,
                        size.chunk_bytes);
      for (std::uint32_t k = 0; k < here.in_count; ++k) receivers[here.in[k].wire] = at;
    }
  }

  [[nodiscard]] detail::plain_buffers const& buffers_of(int rank) const {
    return buffers[static_cast<std::size_t>(rank - first_rank)];
  }
  [[nodiscard]] void const* input(lane const& here, int rank, std::uint64_t chunk) const {
    auto const* const base = static_cast<std::byte const*>(buffers_of(rank).input);
    return base + (here.input_begin + chunk * here.stride) * element_bytes;
  }
  [[nodiscard]] void* output(lane const& here, int rank, std::uint64_t chunk) const {
    auto* const base = static_cast<std::byte*>(buffers_of(rank).output);
    return base + (here.output_begin + chunk * here.stride) * element_bytes;
  }
  /// Nothing to compute: one source, and elements stay what they are.
  [[nodiscard]] static bool is_copy(lane const& here) {
    return here.in_count + (here.reads_input ? 1 : 0) == 1 && !(here.is_root && here.is_reduce) &&
           !detail::sends_partial(here);
  }
  /// Is a chunk put at its last place at the receiver of a wire, as that is all it is for?
  [[nodiscard]] bool is_delivered(std::uint32_t wire) const {
    auto const& to = *receivers[wire].here;
    return is_copy(to) && to.writes_output;
  }
  /// Where a chunk is put at the receiver of a wire.
  [[nodiscard]] void* destination(std::uint32_t wire, std::uint64_t chunk) const {
    auto const& to = receivers[wire];
    return is_delivered(wire) ? output(*to.here, to.rank, chunk) : plan->inbox(wire, chunk);
  }
  /// Where a lane takes the chunk that it hands on.
  [[nodiscard]] void const* leaves_from(placed_lane const& at, std::uint64_t chunk) const {
    auto const& here = *at.here;
    if (is_copy(here)) {
      return here.in_count == 0 ? input(here, at.rank, chunk) : destination(here.in[0].wire, chunk);
    }
    return here.writes_output ? output(here, at.rank, chunk)
                              : plan->outbox(here.out[0].wire, chunk);
  }
  [[nodiscard]] std::size_t bytes(lane const& here, wire_end const& end,
                                  std::uint64_t chunk) const {
    return static_cast<std::size_t>(chunk_count(here, chunk)) *
           (end.is_partial ? sizes.wire : sizes.value);
  }
  /// The combining of a chunk, to where `leaves_from` finds it. Pre: the lane is no copy.
  [[nodiscard]] copy_step combining(placed_lane const& at, std::uint64_t chunk) const {
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
    step.rank_count = plan->prepared().source().rank_count;
    for (std::uint32_t k = 0; k < here.in_count; ++k) {
      step.in[k] = here.in[k];
      step.in[k].wire = k;
      step.arrived[k] = static_cast<std::byte const*>(destination(here.in[k].wire, chunk));
    }
    if (here.writes_output) {  // it is taken from there
      step.here.out_count = 0;
    } else {
      step.out = here.out[0];
      step.leaves = plan->outbox(here.out[0].wire, chunk);
    }
    return step;
  }
};

}}  // namespace blink::BLINK_ABI
