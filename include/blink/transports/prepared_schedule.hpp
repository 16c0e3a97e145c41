// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/chunking.hpp>
#include <blink/collectives/default_schedules.hpp>
#include <blink/collectives/detail/fingerprint.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/order.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/collectives/schedule_blocks.hpp>
#include <blink/collectives/set_passages.hpp>
#include <blink/collectives/split.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/memory_source.hpp>
#include <blink/transports/scratch.hpp>
#include <blink/transports/wire_tables.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

namespace detail {

/// The square root of a size, rounded down, at most 2^32 (`<cmath>` is a fifth of the time that
/// these headers take to compile).
[[nodiscard]] inline std::size_t square_root(double square) {
  constexpr double most = 0x1p62;
  auto const target = static_cast<std::uint64_t>(std::clamp(square, 0.0, most));
  std::uint64_t root = 0;
  for (std::uint64_t bit = std::uint64_t{1} << (std::bit_width(target) / 2); bit > 0; bit /= 2) {
    if ((root + bit) * (root + bit) <= target) root += bit;
  }
  return static_cast<std::size_t>(root);
}

}  // namespace detail

/// The chunk of a pipeline of `steps` steps that is done soonest: (ceil(S/c) + steps - 1)(a + c/b)
/// is least at c = sqrt(a b S / (steps - 1)), for a part of S bytes, a seconds for each chunk and b
/// bytes for each second. One step: the whole part.
[[nodiscard]] inline std::size_t pipeline_chunk_bytes(std::size_t part_bytes, int steps,
                                                      double chunk_seconds,
                                                      double bytes_per_second) {
  if (steps <= 1) return part_bytes;
  double const square = chunk_seconds * bytes_per_second * static_cast<double>(part_bytes) /
                        static_cast<double>(steps - 1);
  return std::min(part_bytes, detail::square_root(square));
}

/// A block of a buffer: where it begins in the input of who sends it and in the output of who gets
/// it, in elements.
struct block_range {
  std::size_t input_begin = 0;
  std::size_t output_begin = 0;
  std::size_t count = 0;
};

/// What carried how much: one direction of one tree edge, since the schedule was prepared.
struct edge_report {
  int tree = 0;
  bool is_reduce = false;  ///< towards the root
  int from = 0;
  int to = 0;
  std::uint64_t bytes = 0;
  std::uint64_t chunks = 0;     ///< messages
  double sender_seconds = 0;    ///< how long the sender could not go on because of it
  double receiver_seconds = 0;  ///< how long the receiver could not go on because of it
};

/// What chunks cost; for choosing their size, and for shaped links.
struct pipeline_costs {
  double chunk_seconds = 1e-6;  ///< of each chunk in each step, beside its bytes
  double bytes_per_second =
      1e10;                    ///< over one edge; links with rates in the schedule count instead
  double latency_seconds = 0;  ///< shaped links: from the end of sending to the arrival
};

/// The same in every process for equal schedules, layouts and costs, and for no others.
[[nodiscard]] inline std::uint64_t fingerprint(schedule const& plan, wire_layout const& layout,
                                               pipeline_costs const& costs) {
  detail::fingerprint all;
  all.add(static_cast<std::uint64_t>(plan.rank_count));
  all.add(std::uint64_t{plan.is_one_shot});
  for (auto const& tree : plan.trees) {
    for (std::uint64_t const number :
         {static_cast<std::uint64_t>(tree.root), tree.weight, std::uint64_t{tree.chunk_bytes}}) {
      all.add(number);
    }
    all.add(tree.reduce_parent);
    all.add(tree.broadcast_parent);
    all.add(tree.receivers);
    all.add(tree.reduce_route);
    all.add(tree.broadcast_route);
  }
  for (double const rate : plan.link_bytes_per_second) all.add(rate);
  for (std::uint64_t const number :
       {std::uint64_t{layout.window}, std::uint64_t{layout.slot_bytes},
        std::uint64_t{layout.reaches}, std::uint64_t{layout.is_shaped}}) {
    all.add(number);
  }
  for (double const cost : {costs.chunk_seconds, costs.bytes_per_second, costs.latency_seconds}) {
    all.add(cost);
  }
  return all.value();
}

/// A schedule with everything allocated that its calls need. Made by a world, shared by its ranks.
class prepared_schedule {
 public:
  /// memory: where calls take what they need beside the caller's buffers
  /// Throws: precondition_error if `plan` is not a schedule (`validate`).
  prepared_schedule(schedule plan, wire_layout const& layout, pipeline_costs const& costs,
                    memory_source const& memory = {})
      : plan_((validate(plan), std::move(plan))),
        tables_(plan_, layout),
        costs_(costs),
        fingerprint_(blink::fingerprint(plan_, layout, costs)),
        in_order_(reduces_in_order(plan_)),
        trees_(plan_.trees.size()),
        memory_(memory) {
    for (int rank = 0; rank < plan_.rank_count; ++rank) {
      copies_.emplace_back(memory_);
      packed_.emplace_back(memory_);
      sums_.emplace_back(memory_source{});
    }
    for (std::size_t kind = 0; kind < refusals_.size(); ++kind) {
      try {
        validate_for(plan_, static_cast<collective>(kind));
      } catch (precondition_error const& refusal) {
        refusals_[kind] = refusal.what();
      }
    }
    measure_trees();
  }

  [[nodiscard]] schedule const& source() const { return plan_; }
  [[nodiscard]] wire_tables const& tables() const { return tables_; }

  /// Equal on ranks whose wires fit together and whose chunks agree.
  [[nodiscard]] std::uint64_t fingerprint() const { return fingerprint_; }

  /// Do reducers that are not commutative get their operands in the order of the ranks?
  [[nodiscard]] bool keeps_order() const { return in_order_; }

  /// Throws: precondition_error if the schedule does not carry this collective.
  void expect_carries(collective kind) const {
    auto const& refusal = refusals_[static_cast<std::size_t>(kind)];
    if (!refusal.empty()) throw precondition_error(refusal);
  }

  /// Where the block that a lane's tree carries a part of begins, in elements, if all are of `count`.
  [[nodiscard]] block_range equal_block(lane const& here, collective kind,
                                        std::size_t count) const {
    auto const at = block_position_of(plan_.trees[here.tree], kind);
    return {at.input * count, at.output * count, count};
  }

  /// For what a rank sends, where its output is in its input's place.
  [[nodiscard]] detail::scratch& copy_of(int rank) {
    return copies_[static_cast<std::size_t>(rank)];
  }

  /// Where a call finds memory that its peers reach.
  [[nodiscard]] memory_source const& call_memory() const { return memory_; }

  /// For small buffers that a rank packs together, or for the blocks that are not zero.
  [[nodiscard]] detail::scratch& packed_at(int rank) {
    return packed_[static_cast<std::size_t>(rank)];
  }

  /// For what a rank combines before all has arrived.
  [[nodiscard]] detail::scratch& sums_of(int rank) { return sums_[static_cast<std::size_t>(rank)]; }

  /// Sets the fields of `here` that depend on the call: which elements, in which chunks, and how
  /// they pass. All ranks of a tree compute the same for it.
  ///
  /// block: of which the tree carries a part
  /// sizes: of elements, and of partial results on wires (`sizes_of`)
  /// order: with `shape` the chunks are the tree's shares of the periods
  /// chunk_bytes: instead of what the schedule says; 0: that
  /// Time:  O(wires of the lane).
  template <chunking Chunks>
  void set_call(lane& here, collective kind, block_range const& block, element_sizes const& sizes,
                order_promise order, std::size_t chunk_bytes = 0) const {
    auto const& share = share_of(trees_[here.tree], kind);
    std::size_t const begin =
        order == order_promise::shape
            ? set_periods(here, share, block.count, sizes)
            : set_chunks<Chunks>(here, share, kind, block.count, sizes, chunk_bytes);
    here.input_begin = block.input_begin + begin;
    here.output_begin = block.output_begin + begin;
    here.chunks = (here.count + here.chunk - 1) / here.chunk;
    if (kind == collective::barrier) here.chunks = 1;  // a message without elements
    set_passages(here, tables_.layout().reaches,
                 has_reduce_phase(kind) && has_broadcast_phase(kind), sizes);
  }

  /// What each edge carried so far; with tables for one rank only that rank's edges, each with one
  /// side's time. Pre: no call is running.
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
        auto& edge = result[end.wire];
        edge.bytes = end.bytes;  // both ends count the same
        edge.chunks = end.first;
        (end.sends ? edge.sender_seconds : edge.receiver_seconds) =
            static_cast<double>(end.waited) * 1e-9;
      }
    }
    return result;
  }

  /// Bytes that each physical link carried so far; with tables for one rank only what that rank
  /// sent. Pre: no call is running.
  [[nodiscard]] std::vector<std::uint64_t> link_bytes() const {
    std::vector<std::uint64_t> result(plan_.link_bytes_per_second.size(), 0);
    for (int rank = 0; rank < plan_.rank_count; ++rank) {
      auto const [ends, count] = tables_.ends(rank);
      for (std::size_t k = 0; k < count; ++k) {
        if (!ends[k].sends) continue;
        auto const& wire = tables_.wires()[ends[k].wire];
        for (std::uint32_t hop = 0; hop < wire.route_length; ++hop) {
          result[static_cast<std::size_t>(wire.route[hop])] += ends[k].bytes;
        }
      }
    }
    return result;
  }

  [[nodiscard]] std::uint64_t latency_nanoseconds() const {
    return static_cast<std::uint64_t>(costs_.latency_seconds * 1e9);
  }
  /// By physical link: when it is free again. For shaped transports.
  [[nodiscard]] std::atomic<std::uint64_t>& link_free_at(int link) {
    return tables_.link_free_at(link);
  }

 private:
  struct tree_share {
    std::uint64_t before = 0;  // sum of the weights of the trees listed before
    std::uint64_t weight = 0;
    std::uint64_t total = 0;
    std::uint64_t heaviest = 0;  // largest weight among them, at least 1
  };
  struct tree_pipeline {
    int steps = 1;
    double bytes_per_second = 0;
  };
  struct measured_tree {
    tree_share of_buffer;  // among all trees
    tree_share of_root;    // among the trees with the same root
    tree_share of_flow;    // among the trees with the same root and receiver
    std::array<tree_pipeline, collective_names.size()> pipelines;
  };

  [[nodiscard]] tree_share const& share_of(measured_tree const& tree, collective kind) const {
    if (is_flow(kind)) return tree.of_flow;
    return has_equal_roots(plan_, kind) ? tree.of_root : tree.of_buffer;
  }

  /// One part of the buffer in chunks. Returns where it begins.
  template <chunking Chunks>
  std::size_t set_chunks(lane& here, tree_share const& share, collective kind, std::size_t count,
                         element_sizes const& sizes, std::size_t chunk_bytes) const {
    std::size_t const begin = part_begin(count, sizes.value, share.before, share.total);
    here.count = part_begin(count, sizes.value, share.before + share.weight, share.total) - begin;
    // Chunks are as large as they are on the wires that carry the larger of both.
    std::size_t const element_bytes = sizes.largest();
    std::size_t scheduled = chunk_bytes != 0 ? chunk_bytes : plan_.trees[here.tree].chunk_bytes;
    if (scheduled == 0) {
      auto const& pipeline = trees_[here.tree].pipelines[static_cast<std::size_t>(kind)];
      scheduled = pipeline_chunk_bytes(here.count * element_bytes, pipeline.steps,
                                       costs_.chunk_seconds + costs_.latency_seconds,
                                       pipeline.bytes_per_second);
    }
    std::size_t const asked = Chunks::elements({here.count, element_bytes, scheduled});
    std::size_t const most = tables_.layout().slot_bytes / element_bytes;
    here.chunk = std::max<std::size_t>(1, std::min(asked, most));
    here.stride = here.chunk;
    return begin;
  }

  /// A share of each period as a chunk. Returns where the first begins.
  static constexpr std::size_t period_share_bytes = 1 << 15;  ///< of the heaviest tree
  std::size_t set_periods(lane& here, tree_share const& share, std::size_t count,
                          element_sizes const& sizes) const {
    std::size_t const bytes = std::min(tables_.layout().slot_bytes, period_share_bytes);
    auto const period = period_of(std::max<std::size_t>(1, bytes / sizes.largest()), sizes.value,
                                  share.heaviest, share.total);
    auto const part = part_of_periods(count, period, share.before, share.weight, share.total);
    here.count = part.count;
    here.chunk = std::max<std::size_t>(1, part.share);
    here.stride = period.elements;
    return part.begin;
  }

  // The shares of all trees in the blocks that they carry parts of, for one way to number blocks.
  void measure_shares(collective kind, tree_share measured_tree::* share) {
    struct block_weights {
      std::uint64_t total = 0;
      std::uint64_t heaviest = 1;
    };
    std::vector<block_weights> weights(block_numbers(plan_, kind));
    for (std::size_t index = 0; index < trees_.size(); ++index) {
      auto const& tree = plan_.trees[index];
      auto& of_block = weights[block_number(plan_, tree, kind)];
      trees_[index].*share = {of_block.total, tree.weight, 0, 0};
      of_block.total += tree.weight;
      of_block.heaviest = std::max(of_block.heaviest, tree.weight);
    }
    for (std::size_t index = 0; index < trees_.size(); ++index) {
      auto const& of_block = weights[block_number(plan_, plan_.trees[index], kind)];
      auto& own = trees_[index].*share;
      own.total = std::max<std::uint64_t>(1, of_block.total);  // 0 is refused for such calls
      own.heaviest = of_block.heaviest;
    }
  }

  void measure_trees() {
    bool const flows = std::all_of(plan_.trees.begin(), plan_.trees.end(),
                                   [](schedule_tree const& t) { return t.receivers.size() == 1; });
    if (!plan_.is_one_shot) measure_shares(collective::broadcast, &measured_tree::of_buffer);
    measure_shares(collective::all_gather, &measured_tree::of_root);
    if (flows) measure_shares(collective::all_to_all, &measured_tree::of_flow);
    std::array<double, collective_names.size()> rates{};  // of one block, by collective
    for (std::size_t k = 0; k < collective_names.size(); ++k) {
      auto const kind = static_cast<collective>(k);
      if (!refusals_[k].empty()) continue;
      bool const is_cut = has_input_blocks(kind) || has_output_blocks(kind);
      rates[k] = predicted_bytes_per_second(plan_, kind) / (is_cut ? plan_.rank_count : 1);
    }
    for (std::size_t index = 0; index < trees_.size(); ++index) {
      auto& measured = trees_[index];
      auto const& tree = plan_.trees[index];
      for (std::size_t k = 0; k < collective_names.size(); ++k) {
        auto const kind = static_cast<collective>(k);
        if (!refusals_[k].empty()) continue;
        auto& pipeline = measured.pipelines[k];
        int steps = 0;
        if (has_reduce_phase(kind)) steps += tree_height(tree.reduce_parent);
        bool const spreads = has_broadcast_phase(plan_, kind);
        if (spreads) steps += tree_height(tree.broadcast_parent);
        // With reach the root combines and spreads in one step.
        if (tables_.layout().reaches && kind == collective::all_reduce && spreads) --steps;
        pipeline.steps = std::max(1, steps);
        auto const& share = share_of(measured, kind);
        pipeline.bytes_per_second = rates[k] == 0 ? costs_.bytes_per_second
                                                  : rates[k] * static_cast<double>(share.weight) /
                                                        static_cast<double>(share.total);
      }
    }
  }

  schedule plan_;
  wire_tables tables_;
  pipeline_costs costs_;
  std::uint64_t fingerprint_;
  bool in_order_;
  std::vector<measured_tree> trees_;
  memory_source memory_;
  std::vector<detail::scratch> copies_;  // by rank
  std::vector<detail::scratch> packed_;
  std::vector<detail::scratch> sums_;
  std::array<std::string, collective_names.size()> refusals_;
};

}  // namespace blink::inline BLINK_ABI
