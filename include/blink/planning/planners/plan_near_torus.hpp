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
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// A torus of equal links, some of which are narrower or lost.
struct damaged_torus {
  topology whole;                              ///< with all links as wide as most are
  std::vector<std::pair<int, int>> damaged{};  ///< positions of nodes
};

/// Nothing for other machines, whole ones among them.
[[nodiscard]] inline std::optional<damaged_torus> to_damaged_torus(topology const& machine) {
  constexpr std::size_t most_damaged = 16;  // links, one way
  auto const extents = torus_extents(machine, most_damaged);
  if (!extents) return std::nullopt;
  std::map<std::pair<int, int>, std::int64_t> capacity;
  for (auto const& l : machine.links) capacity[{l.tail, l.head}] += l.capacity;
  std::map<std::int64_t, std::size_t> count;
  for (auto const& [ends, c] : capacity) ++count[c];
  auto const usual =
      std::ranges::max_element(count, {}, [](auto const& c) { return c.second; })->first;
  damaged_torus result{machine};
  result.whole.links.clear();
  auto const ranks = machine.rank_positions();
  bool is_wider = false;
  for_each_neighbours(*extents, [&](std::size_t a, std::size_t b) {
    for (auto const& ends : {std::pair(ranks[a], ranks[b]), std::pair(ranks[b], ranks[a])}) {
      result.whole.links.push_back({ends.first, ends.second, usual});
      auto const found = capacity.find(ends);
      is_wider = is_wider || (found != capacity.end() && found->second > usual);
      if (found == capacity.end() || found->second < usual) result.damaged.push_back(ends);
    }
  });
  if (is_wider || result.damaged.empty() || result.damaged.size() > most_damaged) {
    return std::nullopt;
  }
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
/// Where a link is lost, the ranks at its ends limit the rate, and all other links have room.
///
/// Source: trees over cheapest edges: J. Edmonds, "Optimum branchings", 1967.
/// Time:   the whole torus by its symmetry, and a cheapest arborescence for each tree over a
///         damaged link.
/// Pre:    an all-gather.
/// Post:   rate = bound, proven by a cut. Nothing for other machines, or if some tree finds no way.
[[nodiscard]] inline std::optional<plan> plan_near_torus(topology const& machine,
                                                         plan_request const& request) {
  detail::expect_kind(request, collective::all_gather, "plan_near_torus");
  auto const torus = detail::to_damaged_torus(machine);
  if (!torus) return std::nullopt;
  auto const everyone = machine.rank_positions();
  auto const best_of = [&](topology const& on) {
    return all_gather_rate(on, detail::capacities_of(on), everyone);
  };
  auto const optimum = best_of(machine);
  if (optimum.rate_per_root == rational(0)) return std::nullopt;
  auto const before = best_of(torus->whole);
  auto const trees = plan_symmetric_all_gather(torus->whole, before);
  if (!trees) return std::nullopt;

  plan result = detail::empty_plan(machine, request);
  auto const ranks = static_cast<std::int64_t>(everyone.size());
  result.rate = result.bound = machine.in_units(optimum.rate_per_root * ranks);
  result.proof = detail::cut_at(machine, optimum.cut);
  auto const less = optimum.rate_per_root / before.rate_per_root;
  std::int64_t units = machine.steps_per_unit;  // of a unit of the machine
  for (auto const& t : *trees) {
    auto const denominator = (t.weight * less).denominator();
    units = (rational(units) * (denominator / std::gcd(units, denominator))).numerator();
  }
  std::map<std::pair<int, int>, std::int64_t> capacity;  // by (from, to) node ids, in units
  auto const id = [&](int at) { return machine.nodes[static_cast<std::size_t>(at)].id; };
  for (auto const& l : machine.links) {
    capacity[{id(l.tail), id(l.head)}] += (machine.in_units(l.capacity) * units).numerator();
  }
  std::map<std::pair<int, int>, int> number;  // of an edge, by (from, to) node ids
  arc_list graph{static_cast<int>(ranks), {}};
  std::vector<std::int64_t> room;
  std::map<int, int> vertex_of;  // by node id
  for (int const rank : result.ranks) vertex_of.emplace(rank, static_cast<int>(vertex_of.size()));
  for (auto const& [ends, c] : capacity) {
    number.emplace(ends, static_cast<int>(room.size()));
    graph.arcs.push_back({vertex_of.at(ends.first), vertex_of.at(ends.second)});
    room.push_back(c);
  }
  std::vector<bool> is_damaged(room.size());
  for (auto const& [from, to] : torus->damaged) {
    if (auto const e = number.find(std::pair(id(from), id(to))); e != number.end()) {
      is_damaged[static_cast<std::size_t>(e->second)] = true;
    }
  }
  detail::tree_mending mending(graph, room);
  std::vector<detail::tree_mending::mended_tree> kept, broken;
  for (auto const& t : *trees) {
    detail::tree_mending::mended_tree old{
        vertex_of.at(t.root), (t.weight * less * units).numerator(), {}};
    bool is_whole = true;
    for (auto const& e : t.broadcast) {
      auto const found = number.find(std::pair(e.from, e.to));
      is_whole =
          is_whole && found != number.end() && !is_damaged[static_cast<std::size_t>(found->second)];
      if (found != number.end()) old.edges.push_back(found->second);
    }
    if (is_whole) mending.take(old.edges, old.weight);
    (is_whole ? kept : broken).push_back(std::move(old));
  }
  for (auto const& t : broken) {
    if (!mending.mend(t.root, t.edges, t.weight, kept)) return std::nullopt;
  }
  for (auto const& t : kept) {
    tree built{result.ranks[static_cast<std::size_t>(t.root)], rational(t.weight, units), {}, {}};
    for (int const e : t.edges) {
      auto const& a = graph.arcs[static_cast<std::size_t>(e)];
      int const from = result.ranks[static_cast<std::size_t>(a.tail)];
      int const to = result.ranks[static_cast<std::size_t>(a.head)];
      built.broadcast.push_back({from, to, {from, to}});
    }
    result.trees.push_back(std::move(built));
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
