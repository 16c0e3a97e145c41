// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/arborescence_search.hpp>
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_symmetric.hpp>
#include <blink/planning/planners/torus_patterns.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The whole torus of a machine of which links are narrower or lost: all links are as wide as most
/// are. Nothing for other machines, whole ones among them.
[[nodiscard]] inline std::optional<topology> whole_torus(topology const& machine) {
  constexpr std::size_t most_damaged = 16;  // links, one way
  auto const extents = torus_extents(machine, most_damaged);
  if (!extents) return std::nullopt;
  auto const nodes = to_node_graph(machine);
  std::map<std::int64_t, std::size_t> count;  // of links, by capacity
  for (auto const c : nodes.capacity) ++count[c];
  auto const usual =
      std::ranges::max_element(count, {}, [](auto const& c) { return c.second; })->first;
  auto result = machine;
  result.links.clear();
  auto const ranks = machine.rank_positions();
  for_each_neighbour_pair(*extents, [&](std::size_t a, std::size_t b) {
    result.links.push_back({ranks[a], ranks[b], usual});
    result.links.push_back({ranks[b], ranks[a], usual});
  });
  auto const damaged = result.links.size() - count[usual];
  if (count.rbegin()->first > usual || damaged == 0 || damaged > most_damaged) return std::nullopt;
  return result;
}

/// Packs out-trees one by one into what is left of the links, in whole units.
class tree_mending {
 public:
  tree_mending(arc_list graph, std::vector<std::int64_t> room)
      : graph_(std::move(graph)), room_(std::move(room)), cost_(room_.size()) {}

  struct mended_tree {
    int root = 0;
    std::int64_t weight = 0;
    std::vector<int> edges;  ///< positions in the graph
  };

  /// Takes the room of a tree. Pre: it has so much.
  void take(std::vector<int> const& edges, std::int64_t weight) {
    for (int const e : edges) room_[static_cast<std::size_t>(e)] -= weight;
  }

  /// Adds trees with the root and the weight, as like the old one as there is room. Returns false
  /// if there is none.
  bool mend(int root, std::vector<int> const& old, std::int64_t weight,
            std::vector<mended_tree>& result) {
    constexpr double full = 1e6, other = 1, kept = 0.01;
    arborescence_search<double> search(graph_, root);
    while (weight > 0) {
      std::fill(cost_.begin(), cost_.end(), other);
      for (int const e : old) cost_[static_cast<std::size_t>(e)] = kept;
      for (std::size_t e = 0; e < cost_.size(); ++e) {
        if (room_[e] == 0) cost_[e] = full;
      }
      auto const found = search.solve(cost_);
      std::int64_t most = weight;
      for (int const e : found) most = std::min(most, room_[static_cast<std::size_t>(e)]);
      if (most == 0) return false;
      result.push_back({root, most, {found.begin(), found.end()}});
      take(result.back().edges, most);
      weight -= most;
    }
    return true;
  }

 private:
  arc_list graph_;
  std::vector<std::int64_t> room_;  // by edge, in units
  std::vector<double> cost_;
};

}  // namespace detail

/// Plans all-gather on a torus of equal links of which a few are narrower or lost: the trees of the
/// whole torus, less heavy, of which those over such links take other ways.
///
/// A lost link limits the ranks at its ends. All other links have room.
///
/// Source: trees over cheapest edges: J. Edmonds, "Optimum branchings", 1967.
/// Time:   the whole torus by its symmetry, and a cheapest arborescence for each tree over a
///         damaged link.
/// Pre:    an all-gather.
/// Post:   rate = bound, proven by a cut. Nothing for other machines, or if some tree finds no way.
[[nodiscard]] inline std::optional<plan> plan_near_torus(topology const& machine,
                                                         plan_request const& request) {
  detail::expect_kind(request, collective::all_gather, "plan_near_torus");
  auto const whole = detail::whole_torus(machine);
  if (!whole) return std::nullopt;
  auto const everyone = machine.rank_positions();
  auto const best_of = [&](topology const& on) {
    return all_gather_rate(on, detail::capacities_of(on), everyone);
  };
  auto const optimum = best_of(machine);
  if (optimum.rate_per_root == rational(0)) return std::nullopt;
  auto const before = best_of(*whole);
  auto const trees = plan_symmetric_all_gather(*whole, before);
  if (!trees) return std::nullopt;

  // Weights and capacities in whole units.
  auto const ranks = detail::to_rank_graph(machine);
  auto const less = optimum.rate_per_root / before.rate_per_root;
  std::int64_t units = ranks.step.denominator();  // of a unit of the machine
  for (auto const& t : *trees) {
    units = detail::common_multiple(units, (t.weight * less).denominator());
  }
  std::vector<std::int64_t> room;
  for (auto const c : ranks.capacity) room.push_back((ranks.step * c * units).numerator());
  auto const widest = *std::ranges::max_element(room);  // of the links that are not damaged
  std::map<std::pair<int, int>, int> edge_between;      // of those, by (from, to) node ids
  for (std::size_t e = 0; e < room.size(); ++e) {
    auto const edge = ranks.edge(e);
    if (room[e] == widest) edge_between.emplace(std::pair(edge.from, edge.to), static_cast<int>(e));
  }
  detail::tree_mending mending(ranks.graph, std::move(room));
  std::vector<detail::tree_mending::mended_tree> kept, broken;
  for (auto const& t : *trees) {
    detail::tree_mending::mended_tree old{
        ranks.vertex_of(t.root), (t.weight * less * units).numerator(), {}};
    for (auto const& e : t.broadcast) {
      auto const found = edge_between.find(std::pair(e.from, e.to));
      if (found != edge_between.end()) old.edges.push_back(found->second);
    }
    bool const is_whole = old.edges.size() == t.broadcast.size();
    if (is_whole) mending.take(old.edges, old.weight);
    (is_whole ? kept : broken).push_back(std::move(old));
  }
  for (auto const& t : broken) {
    if (!mending.mend(t.root, t.edges, t.weight, kept)) return std::nullopt;
  }
  plan result = detail::empty_plan(machine, request);
  result.rate = result.bound =
      machine.in_units(optimum.rate_per_root * static_cast<std::int64_t>(everyone.size()));
  result.proof = detail::cut_at(machine, optimum.cut);
  for (auto const& t : kept) {
    tree built{ranks.ids[static_cast<std::size_t>(t.root)], rational(t.weight, units), {}, {}};
    for (int const e : t.edges) built.broadcast.push_back(ranks.edge(static_cast<std::size_t>(e)));
    result.trees.push_back(std::move(built));
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
