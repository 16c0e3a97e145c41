// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/detail/store_mode_tuner.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/connections/slot_rotation.hpp>
#include <blink/running/connections/tree_parts.hpp>
#include <blink/running/walk/detail/task_operands.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/operand_order.hpp>
#include <blink/schedule/pipeline.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The traffic of one direction of one tree edge since the schedule was prepared.
struct edge_report {
  int tree = 0;
  bool is_reduce = false;  ///< towards the root
  int from = 0;
  int to = 0;
  std::uint64_t bytes = 0;
  /// messages; counted from 0 again if the schedule's memory was given back
  std::uint64_t chunks = 0;
  double sender_seconds = 0;    ///< time in which it blocked the sender
  double receiver_seconds = 0;  ///< time in which it blocked the receiver
};

/// Returns a hash that is the same in every process for equal schedules, layouts and costs.
/// Different ones collide only by chance.
template <class = when_used>
[[nodiscard]] std::uint64_t hash(schedule const& source, connection_layout const& layout,
                                 pipeline_costs const& costs) {
  detail::hash all;
  all.add(static_cast<std::uint64_t>(source.rank_count));
  all.add(std::uint64_t{source.is_one_shot});
  for (auto const& tree : source.trees) {
    for (std::uint64_t const number :
         {static_cast<std::uint64_t>(tree.root), tree.weight, std::uint64_t{tree.chunk_bytes}}) {
      all.add(number);
    }
    auto const add = [&](auto const& values) {
      all.add(std::uint64_t{values.size()});
      for (auto const& present : values.entries()) {
        all.add(static_cast<std::uint64_t>(present.rank));
        all.add(present.value);
      }
    };
    add(tree.reduce_parent);
    add(tree.broadcast_parent);
    all.add(tree.receivers);
    add(tree.reduce_route);
    add(tree.broadcast_route);
  }
  for (double const rate : source.link_bytes_per_second) all.add(rate);
  for (auto const share : source.shares) all.add(share);
  for (std::uint64_t const number :
       {std::uint64_t{layout.window}, std::uint64_t{layout.slot_bytes},
        std::uint64_t{layout.reaches}, std::uint64_t{layout.is_shaped},
        std::uint64_t{layout.has_packets}, std::uint64_t{layout.shares_memory}}) {
    all.add(number);
  }
  for (double const cost : {costs.chunk_seconds, costs.bytes_per_second, costs.latency_seconds}) {
    all.add(cost);
  }
  return all.value();
}

/// A schedule with everything allocated that its calls need. A communicator makes it, and its ranks
/// share it.
class prepared_schedule {
 public:
  /// memory: where calls allocate what they need besides the caller's buffers
  /// Throws: precondition_error if `schedule` is not valid (`validate`).
  template <class = when_used>
  prepared_schedule(schedule source, connection_layout const& layout, pipeline_costs const& costs,
                    memory_source const& memory = {})
      : plan_((validate(source), std::move(source))),
        tables_(plan_, layout),
        costs_(costs),
        hash_(blink::hash(plan_, layout, costs)),
        operands_(operands_of(plan_)),
        treeless_(ranks_without_trees(plan_)),
        refusals_(refusals_of(plan_)),
        parts_(plan_, carries(), tables_.layout(), costs),
        memory_(memory) {
    for (int rank = 0; rank < plan_.rank_count; ++rank) {
      copies_.emplace_back(memory_);
      packed_.emplace_back(memory_);
      sums_.emplace_back(memory_source{});
      writing_.emplace_back();
      set_for_.emplace_back();
    }
  }

  [[nodiscard]] schedule const& source() const { return plan_; }
  [[nodiscard]] connection_tables const& tables() const { return tables_; }

  /// Equal on ranks whose connections match and whose chunks agree.
  [[nodiscard]] std::uint64_t hash() const { return hash_; }

  /// The strongest order in which it can combine.
  [[nodiscard]] operand_order operands() const { return operands_; }

  /// Throws: precondition_error if the schedule does not carry this collective.
  void expect_carries(collective kind) const {
    auto const& refusal = refusals_[static_cast<std::size_t>(kind)];
    if (!refusal.empty()) throw precondition_error(refusal);
  }

  /// All collectives that it carries.
  template <class = when_used>
  [[nodiscard]] std::vector<collective> carries() const {
    std::vector<collective> result;
    for (std::size_t kind = 0; kind < refusals_.size(); ++kind) {
      if (refusals_[kind].empty()) result.push_back(static_cast<collective>(kind));
    }
    return result;
  }

  /// Throws: precondition_error if a segment has elements although its rank has the share 0 and
  ///         roots no tree.
  ///
  /// count_of: elements of the segment of a rank
  template <class CountOf>
  void expect_carries_blocks(collective kind, CountOf const& count_of) const {
    if (!blink::has_equal_roots(plan_, kind)) return;
    for (auto const rank : treeless_) {
      if (count_of(rank) == 0) continue;
      throw precondition_error(
          detail::text_of({to_text(kind), ": the block of rank ", rank,
                           " has elements, expected none: its share is 0, and it roots no tree"}));
    }
  }

  /// The segment of a task's tree, in elements, if all segments have `count` elements.
  [[nodiscard]] block_range equal_block(tree_task const& here, collective kind,
                                        std::size_t count) const {
    auto const at = block_position_of(plan_.trees[here.tree], kind);
    return {at.input * count, at.output * count, count};
  }

  /// Memory for a copy of the input, if a rank's output is in its input's place.
  [[nodiscard]] detail::scratch& copy_of(int rank) {
    return copies_[static_cast<std::size_t>(rank)];
  }

  /// The source of memory for a call that its peers reach.
  [[nodiscard]] memory_source const& call_memory() const { return memory_; }

  /// Memory for small buffers that a rank packs together, or for blocks that are not zero.
  [[nodiscard]] detail::scratch& packed_at(int rank) {
    return packed_[static_cast<std::size_t>(rank)];
  }

  /// Memory for sums that a rank makes before all inputs have arrived.
  [[nodiscard]] detail::scratch& sums_of(int rank) { return sums_[static_cast<std::size_t>(rank)]; }

  /// The store mode tuner of a rank, for large results.
  [[nodiscard]] detail::store_mode_tuner& writing_of(int rank) {
    return writing_[static_cast<std::size_t>(rank)];
  }

  /// The id of the call for which all tasks of a rank are set (`set_call`), so that a repeated call
  /// finds them so; 0: of none. It belongs to the communicator.
  [[nodiscard]] std::uint64_t& set_for(int rank) {
    return set_for_[static_cast<std::size_t>(rank)].call;
  }

  /// Sets the fields of `here` that depend on the call: its elements, chunks and transfer modes.
  /// All ranks of a tree compute the same values.
  ///
  /// block: the segment of which the tree carries a part
  /// sizes: of elements, and of partial results on connections (`sizes_of`)
  /// order: with `shape` the chunks are the tree's shares of the periods
  /// cut:   the chunking policy (`cut_by`)
  /// chunk_bytes: in place of the schedule's; 0: the schedule's
  /// unit:  elements that stay in one chunk; counts are multiples of it
  /// Time:  O(connections of the task).
  template <class = when_used>
  void set_call(tree_task& here, collective kind, block_range const& block,
                element_sizes const& sizes, order_promise order, chunk_cutter cut,
                std::size_t chunk_bytes = 0, std::size_t unit = 1) const {
    parts_.set(here, kind, block, sizes, order, cut, chunk_bytes, unit);
    here.follows_tree = order == order_promise::ranks && !detail::combines_in_a_row(here);
    if (!moves_data(kind)) here.chunks = 1;  // a message without elements
    choose_transfer_modes(lone_thread{}, here, tables_.layout().reaches, has_reduce_phase(kind),
                          sizes);
    if (tables_.layout().shares_memory) {
      take_slots_in_turn(here, tables_.layout().slot_bytes, sizes);
    }
  }

  /// Uses other memory that the ranks share, all 0 at first, as if no call had been made. Pointers
  /// to tasks and connections stay valid. Pre: no call of any rank uses the present memory.
  void share(void* memory) { tables_.share(plan_, memory); }

  /// Traffic of each edge so far. Tables for one rank have only that rank's edges, with the times
  /// of one side. Pre: no call is running.
  template <class = when_used>
  [[nodiscard]] std::vector<edge_report> edges() const {
    std::vector<edge_report> result;
    for (auto const& place : tables_.places()) {
      auto& edge = result.emplace_back();
      edge.tree = static_cast<int>(place.tree);
      edge.is_reduce = place.is_reduce;
      edge.from = place.from;
      edge.to = place.to;
    }
    for (int rank = 0; rank < plan_.rank_count; ++rank) {
      auto const [ends, count] = tables_.ends(rank);
      for (std::size_t k = 0; k < count; ++k) {
        auto const& end = ends[k];
        auto& edge = result[end.connection];
        edge.bytes = end.bytes;  // both ends count the same
        edge.chunks = end.first;
        (end.sends ? edge.sender_seconds : edge.receiver_seconds) =
            static_cast<double>(end.waited) * 1e-9;
      }
    }
    return result;
  }

  /// Bytes that each physical link carried so far. Tables for one rank count only what that rank
  /// sent. Pre: no call is running.
  template <class = when_used>
  [[nodiscard]] std::vector<std::uint64_t> link_bytes() const {
    std::vector<std::uint64_t> result(plan_.link_bytes_per_second.size(), 0);
    for (int rank = 0; rank < plan_.rank_count; ++rank) {
      auto const [ends, count] = tables_.ends(rank);
      for (std::size_t k = 0; k < count; ++k) {
        if (!ends[k].sends) continue;
        auto const& connection = tables_.connections()[ends[k].connection];
        for (std::uint32_t hop = 0; hop < connection.route_length; ++hop) {
          result[static_cast<std::size_t>(connection.route[hop].link)] += ends[k].bytes;
        }
      }
    }
    return result;
  }

  /// Time from the end of sending to the arrival, for shaped transports.
  [[nodiscard]] std::uint64_t latency_nanoseconds() const {
    return static_cast<std::uint64_t>(costs_.latency_seconds * 1e9);
  }

 private:
  using texts = std::array<std::string, collective_names.size()>;

  template <class = when_used>
  [[nodiscard]] static texts refusals_of(schedule const& source) {
    texts result;
    for (std::size_t kind = 0; kind < result.size(); ++kind) {
      try {
        validate_for(source, static_cast<collective>(kind));
      } catch (precondition_error const& refusal) {
        result[kind] = refusal.what();
      }
    }
    return result;
  }

  schedule plan_;
  connection_tables tables_;
  pipeline_costs costs_;
  std::uint64_t hash_;
  operand_order operands_;
  std::vector<std::size_t> treeless_;
  texts refusals_;  // by collective
  tree_parts parts_;
  memory_source memory_;
  std::vector<detail::scratch> copies_;  // by rank
  std::vector<detail::scratch> packed_;
  std::vector<detail::scratch> sums_;
  std::vector<detail::store_mode_tuner> writing_;
  struct alignas(128) call_of_rank {
    std::uint64_t call = 0;
  };
  std::vector<call_of_rank> set_for_;
};

}}  // namespace blink::BLINK_ABI
