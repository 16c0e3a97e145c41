// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <support/small_machines.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

// Plans that no planner makes, for the writers of programs and the simulation.

namespace blink::test {

inline constexpr collective tree_collectives[] = {collective::all_reduce, collective::all_gather,
                                                  collective::reduce_scatter, collective::broadcast,
                                                  collective::reduce};

/// A plan on its machine.
struct planned_machine {
  topology machine;
  blink::plan plan;
};

/// The edges of a tree over all ranks that grows from its root, in the order of the ranks.
///
/// up:   towards the root
/// pick: (size) -> the place, in the tree so far, of the rank that the next one joins
template <class Pick>
std::vector<tree_edge> make_grown_tree(int ranks, int root, bool up, Pick const& pick) {
  std::vector<int> in_tree{root};
  std::vector<tree_edge> result;
  for (int r = 0; r < ranks; ++r) {
    if (r == root) continue;
    int const other = in_tree[static_cast<std::size_t>(pick(in_tree.size()))];
    result.push_back(up ? tree_edge{r, other, {r, other}} : tree_edge{other, r, {other, r}});
    in_tree.push_back(r);
  }
  return result;
}

/// Any trees at all over up to seven ranks, with weights that have nothing to do with each other.
/// The seeds take the collectives in turn.
inline planned_machine make_random_forest(unsigned seed) {
  std::mt19937 random(seed);
  auto const below = [&](int n) { return static_cast<int>(random() % static_cast<unsigned>(n)); };
  int const ranks = 2 + below(6);
  std::vector<std::vector<std::int64_t>> matrix(
      static_cast<std::size_t>(ranks), std::vector<std::int64_t>(static_cast<std::size_t>(ranks)));
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t j = 0; j < matrix.size(); ++j) matrix[i][j] = i == j ? 0 : 1 + below(9);
  }
  plan p;
  p.collective = tree_collectives[seed % 5];
  p.planner = "random";
  p.unit = "GB/s";
  for (int r = 0; r < ranks; ++r) p.ranks.push_back(r);
  bool const equal = has_equal_roots(p.collective);
  int const one_root = below(ranks);
  auto const edges = [&](int root, bool up) {
    return make_grown_tree(ranks, root, up,
                           [&](std::size_t size) { return below(static_cast<int>(size)); });
  };
  for (int i = 0; i < (equal ? ranks : 1 + below(6)); ++i) {
    tree t{equal                                    ? i
           : p.collective == collective::all_reduce ? below(ranks)
                                                    : one_root,
           equal ? rational(1) : rational(1 + below(7), 1 + below(7)),
           {},
           {}};
    if (has_reduce_phase(p.collective)) t.reduce = edges(t.root, true);
    if (has_broadcast_phase(p.collective)) t.broadcast = edges(t.root, false);
    p.rate += t.weight;
    p.trees.push_back(t);
  }
  return {direct_machine(matrix), p};
}

/// Flows of a gather, scatter or all_to_all: for each pair a direct path, and one by another rank.
inline plan make_flows(collective kind, int ranks, int root) {
  plan p;
  p.collective = kind;
  p.planner = "by hand";
  p.unit = "GB/s";
  for (int r = 0; r < ranks; ++r) p.ranks.push_back(r);
  for (int from = 0; from < ranks; ++from) {
    for (int to = 0; to < ranks; ++to) {
      bool const wanted = kind == collective::all_to_all ||
                          (kind == collective::gather ? to == root : from == root);
      if (from == to || !wanted) continue;
      tree t{from, rational(1), {}, {}, {from, to}};
      // Around by every other rank, a third of it.
      int const by = (std::max(from, to) + 1) % ranks;
      if (by != from && by != to) {
        t.weight = rational(1, 3);
        t.broadcast = {{from, by, {from, by}}, {by, to, {by, to}}};
        p.trees.push_back(t);
        t.weight = rational(2, 3);
      }
      t.broadcast = {{from, to, {from, to}}};
      p.trees.push_back(t);
    }
  }
  p.rate = rational(ranks);
  return p;
}

/// A machine with a link from each rank to each other one.
inline topology make_full_machine(std::size_t ranks) {
  std::vector<std::vector<std::int64_t>> matrix(ranks, std::vector<std::int64_t>(ranks, 10));
  for (std::size_t i = 0; i < ranks; ++i) matrix[i][i] = 0;
  return direct_machine(matrix);
}

/// A plan of one random tree at rank 0, and a machine of exactly its links, with random capacities
/// and latencies. No two tree edges share a link.
inline planned_machine make_random_tree_plan(unsigned seed, int ranks, bool reduces, bool spreads) {
  std::mt19937 random(seed);
  planned_machine result;
  result.machine.name = "random tree";
  auto const kind = !spreads  ? collective::reduce
                    : reduces ? collective::all_reduce
                              : collective::broadcast;
  result.plan = {kind, "by hand", "GB/s", "", {}, 1, 0, {}, {}};
  tree t{0, 1, {}, {}};
  for (int rank = 0; rank < ranks; ++rank) {
    result.machine.nodes.push_back({rank, node_kind::rank, {}, 0});
    result.plan.ranks.push_back(rank);
    if (rank == 0) continue;
    int const parent = static_cast<int>(random() % static_cast<unsigned>(rank));
    double const latency = 1e-6 * static_cast<double>(random() % 4);
    for (auto const& [from, to] : {std::pair(rank, parent), std::pair(parent, rank)}) {
      auto const capacity = 1 + static_cast<std::int64_t>(random() % 20);
      result.machine.links.push_back({from, to, capacity, latency, link_kind::nvlink});
    }
    if (reduces) t.reduce.push_back({rank, parent, {rank, parent}});
    if (spreads) t.broadcast.push_back({parent, rank, {parent, rank}});
  }
  result.plan.trees.push_back(std::move(t));
  return result;
}

}  // namespace blink::test
