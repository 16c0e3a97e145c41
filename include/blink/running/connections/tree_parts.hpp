// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/walk/tree_share.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/pipeline.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A segment of a buffer: its begin in the sender's input and in the receiver's output, in
/// elements.
struct block_range {
  std::size_t input_begin = 0;
  std::size_t output_begin = 0;
  std::size_t count = 0;
};

/// The part of a buffer that each tree of a schedule carries, and its chunks. They follow from its
/// share among the trees of the same segment, and from the pipeline of its edges.
class tree_parts {
 public:
  /// carries: the collectives that the schedule carries (`validate_for`)
  /// Time:    O(T V h) for T trees of V ranks and height h, and each collective.
  template <class = when_used>
  tree_parts(schedule const& source, std::vector<collective> const& carries,
             connection_layout const& layout, pipeline_costs const& costs)
      : trees_(source.trees.size()),
        is_one_shot_(source.is_one_shot),
        room_{layout.slot_bytes, layout.has_packets},
        chunk_seconds_(costs.chunk_seconds + costs.latency_seconds) {
    bool flows = true;
    for (auto const& tree : source.trees) flows = flows && tree.receivers.size() == 1;
    if (!is_one_shot_) measure_shares(source, collective::broadcast, &tree_numbers::of_buffer);
    measure_shares(source, collective::all_gather, &tree_numbers::of_root);
    if (flows) measure_shares(source, collective::all_to_all, &tree_numbers::of_flow);
    for (std::size_t tree = 0; tree < trees_.size(); ++tree) {
      trees_[tree].chunk_bytes = source.trees[tree].chunk_bytes;
    }
    for (auto const kind : carries) measure_pipelines(source, kind, layout, costs);
  }

  /// Sets the elements and chunks of a task in a call; see `prepared_schedule::set_call`.
  template <class = when_used>
  void set(tree_task& here, collective kind, block_range const& block, element_sizes const& sizes,
           order_promise order, chunk_cutter cut, std::size_t chunk_bytes, std::size_t unit) const {
    auto const& share = share_of(trees_[here.tree], kind);
    // Items of several elements are dealt out as if they were elements.
    std::size_t const items = block.count / unit;
    auto const of_item = item_sizes(sizes, unit);
    std::size_t const begin = order == order_promise::shape
                                  ? take_periods(here, share, room_, items, of_item)
                                  : set_chunks(here, share, kind, items, of_item, cut, chunk_bytes);
    here.input_begin = block.input_begin + begin * unit;
    here.output_begin = block.output_begin + begin * unit;
    here.chunks = (here.count + here.chunk - 1) / here.chunk;
    here.count *= unit;
    here.chunk *= unit;
    here.stride *= unit;
  }

  /// The share of a tree among those that carry parts of the same segment.
  [[nodiscard]] tree_share const& share_of(std::size_t tree, collective kind) const {
    return share_of(trees_[tree], kind);
  }
  /// The chunk size of the schedule, or else the one that finishes the tree's pipeline first.
  ///
  /// Pre: the schedule carries the collective.
  [[nodiscard]] std::size_t scheduled_bytes(std::size_t tree, collective kind,
                                            std::size_t part_bytes) const {
    if (trees_[tree].chunk_bytes != 0) return trees_[tree].chunk_bytes;
    auto const& pipeline = pipelines_[static_cast<std::size_t>(kind)][tree];
    return pipeline_chunk_bytes(part_bytes, pipeline.steps, chunk_seconds_,
                                pipeline.bytes_per_second);
  }

 private:
  struct tree_pipeline {
    int steps = 1;
    double bytes_per_second = 0;
  };
  struct tree_numbers {
    tree_share of_buffer;         // among all trees
    tree_share of_root;           // among the trees with the same root
    tree_share of_flow;           // among the trees with the same root and receiver
    std::size_t chunk_bytes = 0;  // as the schedule fixes it
  };

  [[nodiscard]] tree_share const& share_of(tree_numbers const& tree, collective kind) const {
    if (is_point_to_point(kind)) return tree.of_flow;
    return is_one_shot_ || has_equal_roots(kind) ? tree.of_root : tree.of_buffer;
  }

  /// Sets one part of the buffer in chunks. Returns its begin.
  template <class = when_used>
  std::size_t set_chunks(tree_task& here, tree_share const& share, collective kind,
                         std::size_t count, element_sizes const& sizes, chunk_cutter cut,
                         std::size_t chunk_bytes) const {
    std::size_t const begin = take_part(here, share, count, sizes);
    // Chunk sizes are those on the connections that carry the larger of both sizes.
    std::size_t const element_bytes = sizes.largest();
    std::size_t const scheduled =
        chunk_bytes != 0 ? chunk_bytes
                         : scheduled_bytes(here.tree, kind, here.count * element_bytes);
    cut_part(here, room_, sizes, cut({here.count, element_bytes, scheduled}));
    return begin;
  }

  // Computes the shares of all trees in their segments, for one numbering of segments.
  template <class = when_used>
  void measure_shares(schedule const& source, collective kind, tree_share tree_numbers::* share) {
    struct block_weights {
      std::uint64_t total = 0;
      std::uint64_t heaviest = 1;
    };
    std::vector<block_weights> weights(block_numbers(source, kind));
    for (std::size_t index = 0; index < trees_.size(); ++index) {
      auto const& tree = source.trees[index];
      auto& of_block = weights[block_number(source, tree, kind)];
      trees_[index].*share = {of_block.total, tree.weight, 0, 0};
      of_block.total += tree.weight;
      if (tree.weight > of_block.heaviest) of_block.heaviest = tree.weight;
    }
    for (std::size_t index = 0; index < trees_.size(); ++index) {
      auto const& of_block = weights[block_number(source, source.trees[index], kind)];
      auto& own = trees_[index].*share;
      own.total = of_block.total == 0 ? 1 : of_block.total;  // 0 is refused for such calls
      own.heaviest = of_block.heaviest;
    }
  }

  // Computes the pipelines of the trees in a collective that the schedule carries.
  template <class = when_used>
  void measure_pipelines(schedule const& source, collective kind, connection_layout const& layout,
                         pipeline_costs const& costs) {
    double const rate =
        predicted_bytes_per_second(source, kind) / (has_blocks(kind) ? source.rank_count : 1);
    auto const size = planned_sizes(source, kind);
    auto& pipelines = pipelines_[static_cast<std::size_t>(kind)];
    pipelines.resize(trees_.size());
    for (std::size_t index = 0; index < trees_.size(); ++index) {
      auto const& tree = source.trees[index];
      auto& pipeline = pipelines[index];
      int steps = 0;
      if (has_reduce_phase(kind)) steps += tree_height(tree.reduce_parent);
      bool const spreads = has_broadcast_phase(source, tree, kind);
      if (spreads) steps += tree_height(tree.broadcast_parent);
      // If peers reach each other, the root combines and spreads in one step.
      if (layout.reaches && has_reduce_phase(kind) && spreads) --steps;
      // Two cores copy at a time, into slots and out of them. Shaped links take longer than the
      // copies.
      if (layout.shares_memory && !layout.reaches && !layout.is_shaped) ++steps;
      pipeline.steps = steps < 1 ? 1 : steps;
      auto const& share = share_of(trees_[index], kind);
      double const planned = rate * size[block_number(source, tree, kind)];
      pipeline.bytes_per_second = planned == 0 ? costs.bytes_per_second
                                               : planned * static_cast<double>(share.weight) /
                                                     static_cast<double>(share.total);
    }
  }

  std::vector<tree_numbers> trees_;
  /// By collective that the schedule carries, and by tree. Others have none.
  std::array<std::vector<tree_pipeline>, collective_names.size()> pipelines_{};
  bool is_one_shot_;
  slot_room room_;
  double chunk_seconds_;  // of each chunk in each step, besides its bytes
};

}}  // namespace blink::BLINK_ABI
