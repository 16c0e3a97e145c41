// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/schedule/tuning_table.hpp>
#include <blink/topology/topology.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The schedule of recorded calls, recognised by the bytes between ranks, and its plan on a machine.

namespace blink::tools {

/// Bytes that ranks send in a call, by sender and receiver.
using pair_bytes = std::map<std::pair<int, int>, double>;

/// By tree of a schedule, the bytes that it carries for each byte of the whole buffer. Blocks have
/// equal sizes.
[[nodiscard]] inline std::vector<rational> parts_of_trees(schedule const& source, collective kind) {
  std::map<std::size_t, std::int64_t> weight;  // by block
  for (auto const& tree : source.trees) {
    weight[block_number(source, tree, kind)] += static_cast<std::int64_t>(tree.weight);
  }
  auto const blocks = static_cast<std::int64_t>(weight.size());
  // The whole buffer is one rank's, but all ranks have one.
  bool const is_each_ranks = source.is_one_shot || kind == collective::all_to_all;
  bool const is_each_flows = kind == collective::send_to_next || kind == collective::permute;
  std::int64_t const buffers = is_each_flows ? blocks : is_each_ranks ? source.rank_count : 1;
  std::vector<rational> result;
  for (auto const& tree : source.trees) {
    auto const all = weight.at(block_number(source, tree, kind));
    result.push_back(rational(static_cast<std::int64_t>(tree.weight), all) *
                     rational(buffers, blocks));
  }
  return result;
}

/// The bytes that ranks send along a schedule, for a whole buffer of `bytes`.
[[nodiscard]] inline pair_bytes traffic_of(schedule const& source, collective kind, double bytes) {
  pair_bytes result;
  auto const parts = parts_of_trees(source, kind);
  for (std::size_t i = 0; i < source.trees.size(); ++i) {
    auto const& tree = source.trees[i];
    double const amount = bytes * parts[i].to_double();
    if (has_reduce_phase(kind)) {
      for (auto const& edge : tree.reduce_parent.entries()) {
        result[{edge.rank, edge.value}] += amount;
      }
    }
    if (has_broadcast_phase(source, tree, kind)) {
      for (auto const& edge : tree.broadcast_parent.entries()) {
        result[{edge.value, edge.rank}] += amount;
      }
    }
  }
  return result;
}

/// The sum of differences between two tables of bytes, as a share of all bytes of `recorded`.
[[nodiscard]] inline double difference(pair_bytes const& recorded, pair_bytes const& other) {
  double all = 0, apart = 0;
  for (auto const& [ends, bytes] : recorded) {
    auto const found = other.find(ends);
    all += bytes;
    apart += std::abs(bytes - (found == other.end() ? 0 : found->second));
  }
  for (auto const& [ends, bytes] : other) {
    if (recorded.count(ends) == 0) apart += bytes;
  }
  return all > 0 ? apart / all : 1;
}

/// The position of the algorithm whose traffic is the recorded one; that of the first of equal
/// ones, or the number of algorithms if there is none.
///
/// Shares of a buffer are rounded to elements, so a twentieth may differ.
[[nodiscard]] inline std::size_t find_in_use(std::vector<algorithm> const& known, collective kind,
                                             double bytes, pair_bytes const& recorded) {
  constexpr double most = 0.05;
  std::size_t result = known.size();
  double least = most;
  for (std::size_t k = 0; k < known.size(); ++k) {
    double const apart = difference(recorded, traffic_of(known[k].source, kind, bytes));
    if (apart >= least) continue;
    least = apart;
    result = k;
  }
  return result;
}

/// The trees of a schedule as a plan on a machine, over routes of fewest links.
///
/// A one-shot schedule becomes the reduce-scatter of `plan_candidate::is_one_shot`.
///
/// Pre:    as many ranks as the machine; the collective moves data.
/// Throws: planning_error if some ranks are not connected; overflow_error if a weight leaves 64
///         bits.
[[nodiscard]] inline plan_candidate plan_along(algorithm const& chosen, collective kind,
                                               topology const& machine,
                                               cost_parameters const& parameters) {
  auto const& source = chosen.source;
  plan_request request{source.is_one_shot ? collective::reduce_scatter : kind};
  request.planner = source.is_one_shot ? "star" : chosen.name;  // see `name_of`
  detail::routed_forest forest(machine, request);
  auto const ids = forest.ranks();
  auto const id = [&](int rank) { return ids[static_cast<std::size_t>(rank)]; };
  auto const parts = parts_of_trees(source, kind);
  std::set<std::size_t> flows;  // that move something
  for (std::size_t i = 0; i < source.trees.size(); ++i) {
    auto const& from = source.trees[i];
    tree t{id(from.root), parts[i], {}, {}};
    if (has_reduce_phase(kind)) {
      for (auto const& edge : from.reduce_parent.entries()) {
        t.reduce.push_back(forest.route()(id(edge.rank), id(edge.value)));
      }
    }
    if (has_broadcast_phase(source, from, kind)) {
      for (auto const& edge : from.broadcast_parent.entries()) {
        t.broadcast.push_back(forest.route()(id(edge.value), id(edge.rank)));
      }
    }
    bool const stays = t.reduce.empty() && t.broadcast.empty();  // a rank's own block
    if (stays) continue;
    if (is_point_to_point(kind)) t.members = {id(from.root), id(flow_end(from))};
    flows.insert(block_number(source, from, kind));
    forest.add(std::move(t));
  }
  auto made = std::move(forest).finish();
  if (is_point_to_point(kind) && !flows.empty()) {  // `plan::rate` counts blocks that stay
    bool const has_parts = kind != collective::send_to_next && kind != collective::permute;
    auto const counted = has_parts ? static_cast<std::int64_t>(ids.size()) : 1;
    made.rate *= rational(counted, static_cast<std::int64_t>(flows.size()));
  }
  auto cost = cost_of(machine, made, parameters);
  return {std::move(made), std::move(cost), source.is_one_shot};
}

}  // namespace blink::tools
