// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/interop/detail/mscclpp_blocks.hpp>
#include <blink/interop/detail/mscclpp_jobs.hpp>
#include <blink/interop/detail/program_writer.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/planning/cost/detail/chunk_shares.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Parameters of an execution plan.
struct mscclpp_options {
  bool in_place = true;   ///< true: for calls in place; all_to_all is always out of place
  int instances = 1;      ///< copies, each with thread blocks and a slice of the buffer of its own
  int most_chunks = 512;  ///< into which one instance cuts the buffer; weights are rounded to them
  int unit_bytes = 1 << 18;  ///< that a thread block passes on at a time; a multiple of 16
  mscclpp_limits limits = {};
};

/// An execution plan, its rate, and the largest numbers of blocks and operations.
struct mscclpp_result {
  mscclpp_program program;
  rational rate;        ///< bytes of the whole buffer in time one over the links, with whole chunks
  double loss = 0;      ///< share of the plan's rate that rounding costs, 0 if it is exact
  int most_blocks = 0;  ///< of a rank
  int most_operations = 0;  ///< of a block
};

/// Converts a plan into an execution plan of MSCCL++.
///
/// Each rank has a thread block for each tree and direction. The block waits for a unit of the
/// tree's chunks and reduces it where the tree reduces. Then it puts the unit to the next ranks and
/// signals. Partial sums go to scratch memory of their own, so no rank waits for credit. Leaves
/// only wait, and the leaves of several trees share a block. If there are more blocks than fit,
/// trees with equally many chunks take turns in one block. Ranks in one server reach each other's
/// memory; ranks of different servers use ports.
///
/// machine: where the plan's links are
/// Pre:    the plan passes `check_plan`; instances and chunks are positive, units are multiples of
///         16 bytes.
/// Throws: precondition_error for other instances, chunks or units; planning_error with the
///         numbers, for a plan beyond the limits, for gather and scatter (the format needs chunks
///         in every buffer), and for all that `make_step_program` refuses.
[[nodiscard]] inline mscclpp_result make_mscclpp_program(topology const& machine, plan const& plan,
                                                         mscclpp_options const& options = {}) {
  expects(options.instances > 0 && options.most_chunks > 0,
          "make_mscclpp_program: expected instances and chunks above 0");
  expects(options.unit_bytes > 0 && options.unit_bytes % 16 == 0,
          "make_mscclpp_program: expected units of a multiple of 16 bytes");
  detail::require_writable(machine, plan);
  if (has_blocks(plan.collective) && has_root(plan.collective)) {
    throw planning_error("MSCCL++ has no " + std::string(to_text(plan.collective)) +
                         ": every rank's input and output must have chunks");
  }
  int const ranks = static_cast<int>(plan.ranks.size());
  detail::chunk_rounding const rounding(machine, plan);
  bool const cut_by_ranks = has_blocks(plan.collective);
  auto const shares = rounding(std::max(1, options.most_chunks / (cut_by_ranks ? ranks : 1)));
  auto const part = shares.of_part * options.instances;
  if (part * ranks > std::numeric_limits<int>::max()) {
    throw planning_error(std::to_string(options.instances) + " instances are too many");
  }
  mscclpp_result result;
  result.rate = shares.rate;
  if (shares.rate < plan.rate) result.loss = 1 - ratio(shares.rate, plan.rate);
  auto& program = result.program;
  program.name = "blink " + std::string(to_text(plan.collective)) + " " + plan.planner;
  program.collective = plan.collective;
  program.in_place = options.in_place && !sends_and_receives(plan.collective);
  program.unit_bytes = options.unit_bytes;
  program.ranks.resize(static_cast<std::size_t>(ranks));

  std::vector<int> servers;
  for (int const id : plan.ranks) {
    servers.push_back(machine.nodes[static_cast<std::size_t>(machine.position_of(id))].server);
  }
  auto const over_network = [&](int a, int b) {
    auto const server = servers[static_cast<std::size_t>(a)];
    return server < 0 || server != servers[static_cast<std::size_t>(b)];
  };
  detail::program_layout const layout(plan, static_cast<int>(part));
  detail::mscclpp_jobs jobs(program, over_network,
                            static_cast<std::size_t>(options.limits.channels));
  for (int instance = 0; instance < options.instances; ++instance) {
    for (auto const& each : rounding.parts()) {
      int chunk = instance * static_cast<int>(shares.of_part);
      for (auto const t : each.trees) {
        auto const count = static_cast<int>(shares.count[t]);
        if (count > 0) jobs.add(layout.place(each, plan.trees[t], chunk, count));
        chunk += count;
      }
    }
  }
  std::optional<int> root;
  if (has_root(plan.collective)) root = layout.rank_of(plan.trees.front().root);
  for (int r = 0; r < ranks; ++r) {
    auto& rank = program.ranks[static_cast<std::size_t>(r)];
    auto const chunks = static_cast<int>(cut_by_ranks ? part * ranks : part);
    auto const sizes = chunks_of(plan.collective, chunks, ranks, false);
    rank.input_chunks = sizes.input;
    rank.output_chunks = sizes.output;
    auto const stays = layout.stays(r, root);
    std::optional<mscclpp_operation> copy;
    if (stays && !program.in_place) {
      copy = mscclpp_operation{mscclpp_kind::copy};
      copy->sources = {{-1, step_buffer::input, stays->first}};
      copy->destinations = {{-1, step_buffer::output, stays->second}};
      copy->count = static_cast<int>(part);
    }
    detail::write_mscclpp_blocks(rank, jobs.by_rank()[static_cast<std::size_t>(r)], copy,
                                 "rank " + std::to_string(r), options.limits);
    result.most_blocks = std::max(result.most_blocks, static_cast<int>(rank.blocks.size()));
    for (auto const& block : rank.blocks) {
      result.most_operations = std::max(result.most_operations, operation_count(block));
    }
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
