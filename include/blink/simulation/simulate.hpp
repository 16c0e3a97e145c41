// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/simulation/detail/simulated_edges.hpp>
#include <blink/simulation/detail/simulated_run.hpp>
#include <blink/simulation/simulation_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The number of chunks times tree edges of a run, as `simulate` cuts the buffer.
[[nodiscard]] inline double count_messages(plan const& plan, double bytes,
                                           std::vector<double> const& chunk_bytes) {
  double result = 0;
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    auto const& t = plan.trees[i];
    double const part = bytes * ratio(t.weight, plan.rate);
    result += std::max(1.0, std::ceil(part / chunk_bytes[i])) *
              static_cast<double>(t.reduce.size() + t.broadcast.size());
  }
  return result;
}

namespace detail {

/// Throws: input_error for more messages than the options allow.
inline void expect_few_messages(double messages, simulation_options const& options) {
  if (messages <= static_cast<double>(options.most_messages)) return;
  throw input_error("simulate: more than " + std::to_string(options.most_messages) +
                    " messages, expected fewer bytes or larger chunks");
}

/// Runs a plan whose trees are cut into these chunks.
/// Throws: as `simulate`.
[[nodiscard]] inline simulation_result simulate_cuts(topology const& machine, plan const& plan,
                                                     std::vector<chunk_cut> cuts,
                                                     simulation_options const& options) {
  validate(options);
  double messages = 0;
  for (std::size_t i = 0; i < cuts.size(); ++i) {
    auto const& t = plan.trees[i];
    messages += static_cast<double>(cuts[i].chunks) *
                static_cast<double>(t.reduce.size() + t.broadcast.size());
  }
  expect_few_messages(messages, options);
  auto source = make_simulated_plan(machine, plan, std::move(cuts), options);
  return options.sharing == link_sharing::fifo ? simulated_run<fifo_links>(source, options).run()
                                               : simulated_run<fair_links>(source, options).run();
}

}  // namespace detail

/// Runs a plan on a machine without moving data.
///
/// - A rank spends `step_seconds` on each chunk of each tree edge, one chunk of an edge after the
///   other. Then it hands the chunk to all links of the route at once.
/// - `link_sharing::fifo`: a link carries a chunk for bytes / rate, after the chunks that it got
///   before. `link_sharing::fair`: the chunk flows over all its links at one rate, which is
///   max-min fair among all chunks in flight.
/// - A chunk arrives when the last link has carried it and the latencies of the route have passed.
/// - A rank combines what arrives on edges towards the root, for bytes / `reduce_bytes_per_second`.
/// - A rank takes the next chunk of an edge once all chunks that it is made of have arrived and
///   been combined. At most `window` chunks of an edge may be at its receiver, or on the way there,
///   and not yet passed on.
///
/// The simulation shares no formula with `cost_model.hpp`, whose tests compare it with this. Equal
/// arguments give equal results.
///
/// bytes:       size of the whole buffer, split over the trees in proportion to their weights
/// chunk_bytes: the largest chunk of each tree, in bytes; the chunks of a tree have equal sizes
/// Time:   fifo: O(M (path length + log edges)) for M messages. fair: as well O(F h log L) for each
///         time at which chunks begin or end, for the F chunks that share links with them.
/// Space:  O(edges * window), or O(M) with events or without a window.
/// Pre:    the plan passes `check_plan` and is no barrier; 0 <= bytes < 2^63; chunk sizes are
///         positive, one for each tree.
/// Throws: precondition_error if a precondition on numbers does not hold; input_error for more than
///         `most_messages` messages, or a unit without a known rate; input_error for an option that
///         is out of range, or names a rank or a link that takes no part; planning_error if a tree
///         runs where the machine has no link; link_failure for a chunk that cannot arrive.
[[nodiscard]] inline simulation_result simulate(topology const& machine, plan const& plan,
                                                double bytes,
                                                std::vector<double> const& chunk_bytes,
                                                simulation_options const& options = {}) {
  if (!(bytes >= 0 && bytes < 0x1p63)) {
    throw precondition_error(
        detail::text_of({"simulate: ", bytes, " bytes, expected 0 or more and less than 2^63"}));
  }
  expects(plan.collective != collective::barrier,
          "simulate: a barrier moves no data, expected another collective");
  if (chunk_bytes.size() != plan.trees.size()) {
    throw precondition_error(
        detail::text_of({"simulate: ", chunk_bytes.size(),
                         " chunk sizes, expected one for each of ", plan.trees.size(), " trees"}));
  }
  for (double const chunk : chunk_bytes) {
    if (chunk > 0) continue;
    throw precondition_error(detail::text_of(
        {"simulate: a chunk size of ", chunk, " bytes, expected a positive number"}));
  }
  // Before chunks are counted in whole numbers, which may be too many for them.
  detail::expect_few_messages(count_messages(plan, bytes, chunk_bytes), options);
  std::vector<detail::chunk_cut> cuts;
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    double const part = bytes * ratio(plan.trees[i].weight, plan.rate);
    double const chunks = std::max(1.0, std::ceil(part / chunk_bytes[i] - 1e-9));
    cuts.push_back({static_cast<std::size_t>(chunks), part / chunks, part / chunks});
  }
  return detail::simulate_cuts(machine, plan, std::move(cuts), options);
}

/// Runs a plan with one chunk size for all trees, in bytes.
[[nodiscard]] inline simulation_result simulate(topology const& machine, plan const& plan,
                                                double bytes, double chunk_bytes,
                                                simulation_options const& options = {}) {
  return simulate(machine, plan, bytes, std::vector<double>(plan.trees.size(), chunk_bytes),
                  options);
}

}}  // namespace blink::BLINK_ABI
