// SPDX-License-Identifier: Apache-2.0
// Planners that list the edges of their trees by rank and do not look at the links: binomial trees,
// butterflies, double trees, stars.
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A tree before its edges are routed; see `routed_forest::add`.
struct pattern_tree {
  int root = 0;  ///< node id
  tree_hops hops;
  int group = 0;
};
using pattern_trees = std::vector<pattern_tree>;

/// The trees of a pattern. `ranks`: node ids of the machine's ranks, at least two.
using tree_pattern = pattern_trees (*)(topology const& machine, plan_request const& request,
                                       std::vector<int> const& ranks);

/// Plans a collective over the trees of a pattern. An edge between ranks without a link takes a
/// route of fewest links.
///
/// Time:   O(N L) for each tree, with N ranks and L links.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error if some ranks are not connected; what the pattern throws.
template <tree_pattern Pattern>
[[nodiscard]] plan plan_pattern(topology const& machine, plan_request const& request) {
  routed_forest forest(machine, request);
  if (forest.ranks().size() > 1) {
    for (auto const& t : Pattern(machine, request, forest.ranks())) {
      forest.add(t.root, t.hops, 1, t.group);
    }
  }
  return std::move(forest).finish();
}

/// The trees of one or two hops.
///
/// broadcast, reduce: N-1 trees of two hops (root, one other rank, all other ranks); each byte
///                    leaves the root once, and with a star N-1 times
/// other collectives: N stars, one for each rank's share
///
/// The pattern is made for a switch (DGX-2), where it is optimal. On other machines a hop is a
/// route.
///
/// Source: Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020,
///         section 3.5 (the stars).
[[nodiscard]] inline pattern_trees one_hop_trees(topology const& /*machine*/,
                                                 plan_request const& request,
                                                 std::vector<int> const& ranks) {
  bool const one_root = has_one_root(request.collective);
  int const root = request.root.value_or(ranks.front());
  // Ranks that must root equal shares make one group; more than a few groups cost time.
  constexpr std::size_t most_groups = 32;
  bool const together = has_equal_roots(request.collective) || ranks.size() > most_groups;
  pattern_trees result;
  for (int const center : ranks) {
    if (one_root && center == root) continue;
    int const group = together ? 0 : static_cast<int>(result.size());
    auto& t = result.emplace_back(pattern_tree{one_root ? root : center, {}, group});
    if (one_root) t.hops.emplace_back(root, center);
    for (int const other : ranks) {
      if (other != center && !(one_root && other == root)) t.hops.emplace_back(center, other);
    }
  }
  return result;
}

/// Binomial trees in rank order, the baseline for small messages. With ranks counted from the root,
/// the parent of a rank is its number without the lowest set bit. Half of the edges join
/// neighbours.
///
/// all_gather, reduce_scatter: one tree for each rank's share. Together they move blocks as PAT
///                             does: one partner in each of ceil(log2 N) rounds, and the fewest
///                             blocks to the farthest one.
/// other collectives:          one tree
///
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
///         operations in MPICH", IJHPCA 19, 2005; S. Jeaugey, "PAT: a new algorithm for all-gather
///         and reduce-scatter operations at scale", arXiv 2506.20252, 2025.
/// Post:   height ceil(log2 N).
[[nodiscard]] inline pattern_trees binomial_trees(topology const& /*machine*/,
                                                  plan_request const& request,
                                                  std::vector<int> const& ranks) {
  auto const n = ranks.size();
  int const root = request.root.value_or(ranks.front());
  pattern_trees result;
  for (std::size_t first = 0; first < n; ++first) {
    if (!has_equal_roots(request.collective) && ranks[first] != root) continue;
    auto& t = result.emplace_back(pattern_tree{ranks[first], {}});
    for (std::size_t i = 1; i < n; ++i) {  // a parent has a lower number than its children
      t.hops.emplace_back(ranks[(first + (i & (i - 1))) % n], ranks[(first + i) % n]);
    }
  }
  return result;
}

/// The rank with which `rank` exchanges data in a round. `rank` is one of `count`, a power of two;
/// `reach` counts from log2(count) (far) down to 1 (neighbours). An involution.
using butterfly_partner = std::size_t (*)(std::size_t rank, int reach, std::size_t count);

/// The rank whose number differs in one bit: 2^(reach - 1) away.
[[nodiscard]] inline std::size_t bit_partner(std::size_t rank, int reach, std::size_t /*count*/) {
  return rank ^ (std::size_t{1} << static_cast<unsigned>(reach - 1));
}

/// The rank (1 - (-2)^reach) / 3 away round the circle, for even ranks one way and for odd ranks
/// the other. This is a third nearer than one bit away.
///
/// Source: D. De Sensi et al., "Bine trees: enhancing collective operations by optimizing
///         communication locality", SC 2025.
[[nodiscard]] inline std::size_t bine_partner(std::size_t rank, int reach, std::size_t count) {
  std::int64_t power = 1;
  for (int i = 0; i < reach; ++i) power *= -2;
  auto const step = (1 - power) / 3;
  auto const n = static_cast<std::int64_t>(count);
  auto const there = static_cast<std::int64_t>(rank) + (rank % 2 == 0 ? step : -step);
  return static_cast<std::size_t>((there % n + n) % n);
}

/// The edges over which a butterfly spreads the data of one rank, by round: log2(N) rounds, and one
/// more for leaves.
///
/// far_first: the rounds go from the farthest to the nearest partner. Then one edge is long and
///            half of them are short; otherwise one edge is short and half of them are long.
/// If N is no power of two: N - 2^k ranks hang as leaves below a neighbour.
[[nodiscard]] inline std::vector<tree_hops> butterfly_rounds(std::vector<int> const& ranks,
                                                             std::size_t root,
                                                             butterfly_partner partner,
                                                             bool far_first) {
  auto const n = ranks.size();
  auto const core = std::bit_floor(n);
  auto const folded = n - core;  // pairs of neighbours that act as one
  auto const rank_at = [&](std::size_t c) {
    if (c >= folded) return c + folded;
    return root == 2 * c + 1 ? root : 2 * c;
  };
  std::vector<std::size_t> reached{root < 2 * folded ? root / 2 : root - folded};
  std::vector<tree_hops> result;
  int const rounds = std::countr_zero(core);
  for (int round = 0; round < rounds; ++round) {
    auto& hops = result.emplace_back();
    int const reach = far_first ? rounds - round : round + 1;
    for (std::size_t i = reached.size(); i-- > 0;) {
      auto const to = partner(reached[i], reach, core);
      hops.emplace_back(ranks[rank_at(reached[i])], ranks[rank_at(to)]);
      reached.push_back(to);
    }
  }
  if (folded > 0) result.emplace_back();
  for (std::size_t c = 0; c < folded; ++c) {
    auto const above = rank_at(c);
    result.back().emplace_back(ranks[above], ranks[above ^ 1U]);
  }
  return result;
}

/// Butterflies: one tree for broadcast and reduce, one for each rank's share otherwise. An
/// all-reduce reduces each share over its tree and spreads it over the same tree.
///
/// With `bit_partner`, nearest first down: recursive doubling, recursive halving, and one after the
/// other for all-reduce. With `bit_partner`, farthest first down: vector halving with distance
/// doubling and back (Rabenseifner); most data goes to near partners. With `bine_partner`: Bine
/// trees, which cross a third less distance.
///
/// Source: R. Thakur, R. Rabenseifner, W. Gropp, "Optimization of collective communication
///         operations in MPICH", IJHPCA 19, 2005; R. Rabenseifner, "Optimization of collective
///         reduction operations", ICCS 2004.
/// Post:   height log2 N, one more if N is no power of two.
template <butterfly_partner Partner, bool FarFirst>
[[nodiscard]] pattern_trees butterfly_trees(topology const& /*machine*/,
                                            plan_request const& request,
                                            std::vector<int> const& ranks) {
  int const root = request.root.value_or(ranks.front());
  pattern_trees result;
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (has_one_root(request.collective) && ranks[i] != root) continue;
    auto& t = result.emplace_back(pattern_tree{ranks[i], {}});
    for (auto const& round : butterfly_rounds(ranks, i, Partner, FarFirst)) {
      t.hops.insert(t.hops.end(), round.begin(), round.end());
    }
  }
  return result;
}

/// Parents in the in-order binary tree over 1 … count (0 at its root): i hangs below the number
/// that shares all but its lowest set bit and has the next bit set, if there is one so large.
[[nodiscard]] inline std::vector<std::size_t> in_order_parents(std::size_t count) {
  std::vector<std::size_t> parent(count + 1, 0);
  for (std::size_t i = 1; i <= count; ++i) {
    std::size_t const bit = i & (~i + 1);
    std::size_t const above = (i ^ bit) | (bit << 1U);
    parent[i] = above <= count ? above : i ^ bit;
  }
  return parent;
}

/// The name of a vertex in the second tree, in which inner vertices and leaves change places. Names
/// are reversed for an even count and shifted by one for an odd count.
[[nodiscard]] inline std::size_t second_name(std::size_t i, std::size_t count) {
  return count % 2 == 0 ? count + 1 - i : i % count + 1;
}

/// One of two complementary binary trees over these ranks, in their order.
[[nodiscard]] inline pattern_tree in_order_tree(std::vector<int> const& ids, bool second) {
  auto const count = ids.size();
  auto const parent = in_order_parents(count);
  auto const member = [&](std::size_t i) { return ids[(second ? second_name(i, count) : i) - 1]; };
  pattern_tree result;
  // Parents before children: the larger its lowest set bit, the higher a number is in the tree.
  for (std::size_t bit = std::bit_floor(count); bit > 0; bit /= 2) {
    for (std::size_t i = bit; i <= count; i += 2 * bit) {
      if (parent[i] == 0) {
        result.root = member(i);
      } else {
        result.hops.emplace_back(member(parent[i]), member(i));
      }
    }
  }
  return result;
}

/// Two complementary binary trees in rank order, with half of the data each: logarithmic latency at
/// full rate on a switch.
///
/// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
///         scan", Parallel Computing 35, 2009.
[[nodiscard]] inline pattern_trees double_trees(topology const& /*machine*/,
                                                plan_request const& request,
                                                std::vector<int> const& ranks) {
  if (has_both_phases(request.collective)) {
    return {in_order_tree(ranks, false), in_order_tree(ranks, true)};
  }
  // The trees span all ranks but the root, which feeds both.
  int const root = request.root.value_or(ranks.front());
  auto others = ranks;
  others.erase(std::find(others.begin(), others.end(), root));
  pattern_trees result{in_order_tree(others, false), in_order_tree(others, true)};
  for (auto& t : result) {
    t.hops.emplace(t.hops.begin(), root, t.root);
    t.root = root;
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
