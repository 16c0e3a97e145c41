// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/splitting_off.hpp>
#include <blink/packing/joint/detail/joint_optimum.hpp>
#include <blink/packing/joint/detail/joint_problem.hpp>
#include <blink/packing/trees/arborescence_packing.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

// From loads to trees, and from trees to pairs of trees.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A pair of trees with one root, packed `multiplicity` times.
template <class Tree>
struct tree_pair {
  int root = 0;
  std::int64_t multiplicity = 0;
  Tree in, out;
};

/// A tree, packed `multiplicity` times.
template <class Tree>
struct multiple_tree {
  int root = 0;
  std::int64_t multiplicity = 0;
  Tree tree;
};

/// Pairs trees of the same root, those of large multiplicity first.
///
/// Pre: for each root, in-trees and out-trees have the same total multiplicity.
template <class Tree>
[[nodiscard]] std::vector<tree_pair<Tree>> paired_trees(std::vector<multiple_tree<Tree>> in,
                                                        std::vector<multiple_tree<Tree>> out) {
  auto const order = [](multiple_tree<Tree> const& a, multiple_tree<Tree> const& b) {
    return a.root != b.root ? a.root < b.root : a.multiplicity > b.multiplicity;
  };
  std::sort(in.begin(), in.end(), order);
  std::sort(out.begin(), out.end(), order);
  std::vector<tree_pair<Tree>> result;
  for (std::size_t i = 0, o = 0; i < in.size() && o < out.size();) {
    auto const count = std::min(in[i].multiplicity, out[o].multiplicity);
    result.push_back({in[i].root, count, in[i].tree, out[o].tree});
    in[i].multiplicity -= count;
    out[o].multiplicity -= count;
    if (in[i].multiplicity == 0) ++i;
    if (out[o].multiplicity == 0) ++o;
  }
  return result;
}

using path_list = std::vector<std::vector<int>>;  // paths of vertices

/// The edges of a tree, root first, without superfluous switches. A switch with no edge below it is
/// removed. A switch with one edge below it becomes an inner vertex of a path.
[[nodiscard]] inline path_list without_idle_switches(path_list edges,
                                                     std::vector<bool> const& is_switch) {
  for (bool changed = true; changed;) {
    changed = false;
    for (std::size_t e = 0; e < edges.size() && !changed; ++e) {
      int const switch_node = edges[e].back();
      if (!is_switch[static_cast<std::size_t>(switch_node)]) continue;
      auto const is_below = [&](std::vector<int> const& path) {
        return path.front() == switch_node;
      };
      auto const below = std::ranges::count_if(edges, is_below);
      if (below > 1) continue;
      changed = true;
      if (below == 1) {
        auto const next = std::ranges::find_if(edges, is_below);
        edges[e].insert(edges[e].end(), next->begin() + 1, next->end());
        edges.erase(next);
      } else {
        edges.erase(edges.begin() + static_cast<std::ptrdiff_t>(e));
      }
    }
  }
  return edges;
}

/// The same tree, root first, rooted at the rank that gives the lowest height.
[[nodiscard]] inline std::pair<int, path_list> rooted_lowest(path_list edges,
                                                             std::vector<bool> const& is_switch) {
  std::vector<std::vector<std::size_t>> at(is_switch.size());  // edges at each vertex
  for (std::size_t e = 0; e < edges.size(); ++e) {
    at[static_cast<std::size_t>(edges[e].front())].push_back(e);
    at[static_cast<std::size_t>(edges[e].back())].push_back(e);
  }
  // Visits vertices nearest first. Returns the height, and (vertex, edge that leads there) in
  // order.
  auto const walk = [&](int root) {
    std::vector<int> depth(is_switch.size(), -1);
    std::vector<std::pair<int, std::size_t>> order{{root, edges.size()}};
    depth[static_cast<std::size_t>(root)] = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      int const v = order[i].first;
      for (auto const e : at[static_cast<std::size_t>(v)]) {
        int const other = edges[e].front() == v ? edges[e].back() : edges[e].front();
        if (depth[static_cast<std::size_t>(other)] >= 0) continue;
        depth[static_cast<std::size_t>(other)] = depth[static_cast<std::size_t>(v)] + 1;
        order.emplace_back(other, e);
      }
    }
    return std::pair(depth[static_cast<std::size_t>(order.back().first)], std::move(order));
  };
  int best = -1;
  decltype(walk(0)) lowest;
  for (std::size_t v = 0; v < is_switch.size(); ++v) {
    if (is_switch[v] || at[v].empty()) continue;
    auto found = walk(static_cast<int>(v));
    if (best >= 0 && found.first >= lowest.first) continue;
    best = static_cast<int>(v);
    lowest = std::move(found);
  }
  path_list result;
  for (std::size_t i = 1; i < lowest.second.size(); ++i) {
    auto path = edges[lowest.second[i].second];
    if (path.back() != lowest.second[i].first) std::ranges::reverse(path);
    result.push_back(std::move(path));
  }
  return {best, std::move(result)};
}

/// The same tree towards its root, leaves first.
[[nodiscard]] inline path_list reversed(path_list edges) {
  std::ranges::reverse(edges);
  for (auto& path : edges) std::ranges::reverse(path);
  return edges;
}

/// Trees that fill the loads of a layer, as edges over routes, root first. In-trees are given as
/// out-trees of the reversed graph. Multiplicities are in 1/`scale` of the loads.
struct layer_trees {
  std::vector<multiple_tree<path_list>> trees;
  std::int64_t scale = 1;

  layer_trees(joint_problem const& problem, layer_loads const& loads, std::vector<int> const& group,
              double max_growth_work) {
    auto graph = problem.graph;
    if (loads.layer.inward) {
      for (auto& a : graph.arcs) std::swap(a.tail, a.head);
    }
    auto is_switch = problem.is_switch;
    for (int const spanned : loads.layer.switches) {
      is_switch[static_cast<std::size_t>(spanned)] = false;
    }
    std::vector<root_supply> supplies;
    for (auto const& d : loads.demands) supplies.push_back({d.root, d.multiplicity});
    auto const split = split_off_switches(graph, loads.load, is_switch, supplies, group);
    scale = split.scale;
    std::vector<int> number(is_switch.size(), -1), name;  // by vertex of the trees
    for (std::size_t v = 0; v < is_switch.size(); ++v) {
      if (is_switch[v]) continue;
      number[v] = static_cast<int>(name.size());
      name.push_back(static_cast<int>(v));
    }
    arc_list joined{static_cast<int>(name.size()), {}};
    std::vector<std::int64_t> capacity;
    for (auto const& r : split.routes) {
      joined.arcs.push_back(
          {number[static_cast<std::size_t>(r.tail)], number[static_cast<std::size_t>(r.head)]});
      capacity.push_back(r.capacity);
    }
    std::vector<root_demand> wanted;
    for (auto const& d : loads.demands) {
      wanted.push_back({number[static_cast<std::size_t>(d.root)], d.multiplicity * scale});
    }
    arborescence_packing_options options;  // larger values take longer than they are worth
    options.tries = 2;
    options.more_tries = 2;
    options.work_for_height = 300'000;
    options.work_for_number = 100'000;
    options.max_work = max_growth_work;
    for (auto const& packed : pack_arborescences(joined, capacity, wanted, options)) {
      path_list paths;
      for (int const e : packed.edges) {
        paths.push_back(split.routes[static_cast<std::size_t>(e)].path);
      }
      trees.push_back({name[static_cast<std::size_t>(packed.root)], packed.multiplicity,
                       without_idle_switches(std::move(paths), problem.is_switch)});
    }
  }
};

}}}  // namespace blink::BLINK_ABI::detail
