// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection_layout.hpp>
#include <blink/running/connections/tree_parts.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/block.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/pipeline.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A call whose chunks are simulated as the runtime cuts them.
struct simulated_call {
  std::size_t count = 0;                      ///< elements of the whole buffer
  std::size_t element_bytes = 4;              ///< size of an element, in buffers and on connections
  bool is_one_shot = false;                   ///< an all-reduce along the trees of a reduce-scatter
  std::vector<std::size_t> chunk_bytes = {};  ///< by tree, as the schedule has them; empty: 0, open
  connection_layout layout = {};              ///< of the communicator (`connection_layout_of`)
  pipeline_costs costs = {};                 ///< of the communicator, for chunk sizes that are open
  order_promise order = order_promise::run;  ///< of the reducer
  chunk_cutter cut = &cut_by<scheduled_chunks>;
};

namespace detail {

/// The block of the buffer that a tree carries a part of, in elements.
[[nodiscard]] inline std::size_t block_count(schedule const& source, std::size_t tree,
                                             collective kind, std::vector<block> const& blocks,
                                             std::size_t count) {
  if (source.is_one_shot || !has_blocks(kind)) return count;
  auto const at = block_position_of(source.trees[tree], kind);
  return blocks[has_input_blocks(kind) ? at.input : at.output].count;
}

/// The chunks of each tree of a plan, as the runtime cuts them.
/// Throws: as `simulate_call`.
[[nodiscard]] inline std::vector<chunk_cut> cuts_of_call(topology const& machine, plan const& plan,
                                                         simulated_call const& call,
                                                         double bytes_per_unit) {
  auto schedule = make_schedule(machine, plan, bytes_per_unit);
  auto kind = plan.collective;
  if (call.is_one_shot) {
    if (kind != collective::reduce_scatter) {
      throw precondition_error(text_of({"simulate_call: one shot along a plan for ", to_text(kind),
                                        ", expected reduce_scatter"}));
    }
    schedule.is_one_shot = true;
    kind = collective::all_reduce;
  }
  if (!call.chunk_bytes.empty()) {
    if (call.chunk_bytes.size() != plan.trees.size()) {
      throw precondition_error(text_of({"simulate_call: ", call.chunk_bytes.size(),
                                        " chunk sizes, expected none or one for each of ",
                                        plan.trees.size(), " trees"}));
    }
    for (std::size_t i = 0; i < plan.trees.size(); ++i) {
      schedule.trees[i].chunk_bytes = call.chunk_bytes[i];
    }
  }
  validate(schedule);
  validate_for(schedule, kind);
  auto shares = schedule.shares;
  if (shares.empty()) shares.assign(plan.ranks.size(), 1);
  auto const blocks = proportional_blocks(call.count, shares);
  tree_parts const parts(schedule, {kind}, call.layout, call.costs);
  element_sizes const sizes{call.element_bytes, call.element_bytes, false};
  std::vector<chunk_cut> result;
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {  // later ones have no edges or no elements
    tree_task task;
    task.tree = static_cast<std::uint32_t>(i);
    parts.set(task, kind, {0, 0, block_count(schedule, i, kind, blocks, call.count)}, sizes,
              call.order, call.cut, 0, 1);
    auto const chunks = static_cast<std::size_t>(task.chunks);
    auto const bytes = [&](std::size_t elements) {
      return static_cast<double>(elements) * static_cast<double>(call.element_bytes);
    };
    std::size_t const last = chunks == 0 ? 0 : task.count - (chunks - 1) * task.chunk;
    result.push_back({chunks, bytes(task.chunk), bytes(last)});
  }
  return result;
}

}  // namespace detail

/// The largest chunk of a call, in bytes, as `simulate_call` cuts it.
///
/// bytes_per_unit: rate of one unit of capacity; 0: from its name
/// Pre, Throws: as `simulate_call`.
[[nodiscard]] inline double largest_chunk_bytes(topology const& machine, plan const& plan,
                                                simulated_call const& call,
                                                double bytes_per_unit = 0) {
  double result = 0;
  if (plan.trees.empty()) return result;
  double const unit = bytes_per_unit > 0 ? bytes_per_unit : bytes_per_second(machine.unit);
  for (auto const& cut : detail::cuts_of_call(machine, plan, call, unit)) {
    if (cut.chunks > 0) result = std::max(result, cut.bytes(0));
  }
  return result;
}

/// Runs a plan on a machine as `simulate` does, with the chunks and the window of the runtime.
///
/// Parts have whole elements and begin at cache lines. Chunks fit into slots, and the last one may
/// be shorter.
///
/// Buffers of blocks are cut in proportion to the plan's shares, else equally.
///
/// options: its window is that of the layout
/// Time:    that of `make_schedule` and `simulate`.
/// Pre:     the plan passes `check_plan` and is no barrier; its switches neither copy nor reduce;
///          elements have at least one byte and the buffer fewer than 2^63; a chunk size of each
///          tree, or none. One shot: the plan is one for reduce-scatter.
/// Throws:  as `make_schedule` and `simulate`.
[[nodiscard]] inline simulation_result simulate_call(topology const& machine, plan const& plan,
                                                     simulated_call const& call,
                                                     simulation_options options = {}) {
  expects(plan.collective != collective::barrier,
          "simulate_call: a barrier moves no data, expected another collective");
  expects(call.element_bytes >= 1, "simulate_call: elements of 0 bytes, expected at least 1");
  expects(call.cut != nullptr, "simulate_call: no function that cuts, expected `cut_by`");
  if (call.count > (std::size_t{1} << 63) / call.element_bytes) {
    throw precondition_error(
        detail::text_of({"simulate_call: ", call.count, " elements of ", call.element_bytes,
                         " bytes, expected less than 2^63 bytes"}));
  }
  options.window = call.layout.window;
  double const unit =
      options.bytes_per_unit > 0 ? options.bytes_per_unit : bytes_per_second(machine.unit);
  if (plan.trees.empty()) return detail::simulate_cuts(machine, plan, {}, options);
  return detail::simulate_cuts(machine, plan, detail::cuts_of_call(machine, plan, call, unit),
                               options);
}

}}  // namespace blink::BLINK_ABI
