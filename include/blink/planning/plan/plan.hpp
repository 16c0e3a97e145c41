// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/node_path.hpp>

#include <algorithm>
#include <climits>
#include <cstdint>
#include <string>
#include <utility>
#include <variant>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One edge of a tree: data goes from rank `from` to rank `to` over the links between `path`'s
/// nodes.
///
/// A switch that copies or reduces may also be an end. It is then a node of the tree that
/// contributes nothing.
struct tree_edge {
  int from = 0;    ///< node id
  int to = 0;      ///< node id
  node_path path;  ///< node ids from `from` to `to`, both included, at least two
  friend bool operator==(tree_edge const&, tree_edge const&) = default;
};

/// A root, a weight, and up to two phases: edges towards the root and edges away from it.
///
/// A tree spans all ranks of the plan, or serves only the ranks in `members`. Other ranks may be on
/// the way. Such a rank is an end of two tree edges or more; it forwards data and keeps nothing.
/// Switches are inside paths. Trees of gather, scatter, all-to-all and permutations are paths, from
/// the root, which sends, to the one other member.
struct tree {
  int root = 0;                      ///< node id
  rational weight;                   ///< rate, in the plan's unit
  std::vector<tree_edge> reduce;     ///< towards the root; empty if the collective does not reduce
  std::vector<tree_edge> broadcast;  ///< away from the root; empty if it does not spread
  std::vector<int> members = {};     ///< node ids, the root among them; empty: all ranks
  friend bool operator==(tree const&, tree const&) = default;
};

/// A set of nodes, by node id, that data must leave. The capacity of the links out of the set
/// limits the rate.
///
/// broadcast:      holds the root, misses a rank; rate <= capacity.
/// reduce:         holds a rank, misses the root; rate <= capacity.
/// all_gather:     misses a rank; rate <= N * capacity / (ranks in it), N ranks in all.
/// reduce_scatter: holds a rank; rate <= N * capacity / (ranks outside it).
/// point-to-point: separates a sender inside from its receiver outside; rate <= f * capacity /
///                 (such pairs), f being N for gather, scatter and all-to-all, 1 for permutations.
///
/// With unequal shares, ranks count with their shares in all_gather and reduce_scatter.
struct cut_certificate {
  std::vector<int> nodes;
};

/// A partition of the ranks, by node id, that bounds an all_reduce on direct full-duplex links.
///
/// rate <= capacity (of one direction) between different parts / (number of parts - 1).
/// Source: Tutte 1961, Nash-Williams 1961.
struct partition_certificate {
  std::vector<std::vector<int>> parts;
};

/// The price of one link, by node ids. Parallel links share it.
struct link_price {
  int from = 0;
  int to = 0;
  rational price;
};

/// Prices of links, which bound the rate by LP duality. Links that are not named cost 0.
///
/// all_reduce:     every pair of an in-tree and an out-tree with the same root costs at least 1;
///                 trees may include switches that reduce or copy. Then rate <= sum of price *
///                 capacity.
/// broadcast, reduce: every out-tree from the root, or in-tree to it, costs at least 1.
/// all_gather, reduce_scatter: the cheapest trees of all roots cost at least 1 in the mean, by
///                 their shares.
/// point-to-point: the cheapest routes of all pairs of a sender and its receiver cost at least 1
///                 together. Then rate <= f * sum of price * capacity, f as for cuts.
struct price_certificate {
  std::vector<link_price> prices;
};

/// No certificate: `bound` is not proven (baselines), or is not finite (a single rank).
struct no_certificate {};

/// The proof of a plan's bound.
using certificate =
    std::variant<no_certificate, cut_certificate, partition_certificate, price_certificate>;

/// Weighted trees for a collective on a machine, with their rate, a bound of the rate and its
/// certificate.
///
/// All node numbers are ids of the machine. The buffer is split over the trees in proportion to
/// their weights. A single rank has no trees and the rate 0.
///
/// The rate is, with x the weight of all trees of one pair of a sender and its receiver:
/// gather, scatter:       N x, the root's whole buffer, including its own share, which stays
/// all_to_all:            N x, a rank's whole buffer, including its own block, which stays
/// send_to_next, permute: x, a rank's buffer
/// barrier:               0; its one tree has the weight 0, it carries signals only
/// all others:            the sum of the weights
struct plan {
  blink::collective collective = collective::broadcast;
  std::string planner;     ///< its name in the table `planners`
  std::string unit;        ///< of rate, bound and weights
  std::string links;       ///< the one kind of link that the plan uses; empty: all kinds
  std::vector<int> ranks;  ///< node ids; this order numbers the ranks that run
  rational rate;           ///< bytes of the whole buffer in time one, see above
  rational bound;          ///< no plan is faster; proven by `proof`
  certificate proof;
  std::vector<tree> trees;
  std::vector<int> forwarding_ranks = {};  ///< node ids of the machine's ranks that only forward
  std::vector<std::pair<int, int>> forbidden_links = {};  ///< (from, to) node ids; not used
  /// By position in `ranks`: the rank's part of the gathered (or scattered) buffer, in proportion.
  /// Empty: equal parts.
  std::vector<std::int64_t> shares = {};
  /// permute: node id by position in `ranks`, each at most once; a rank that names itself sends
  /// nothing
  std::vector<int> destinations = {};
};

/// The number of edges on the longest path from a leaf to the root (`towards_root`) or back.
/// Time: O(V log V) for a tree of V ranks.
[[nodiscard]] inline int height(std::vector<tree_edge> const& edges, int root, bool towards_root) {
  std::vector<std::pair<int, int>> below;  // (upper end, lower end)
  below.reserve(edges.size());
  for (auto const& edge : edges) {
    below.emplace_back(towards_root ? edge.to : edge.from, towards_root ? edge.from : edge.to);
  }
  std::sort(below.begin(), below.end());
  std::vector<int> layer{root};
  int result = -1;
  while (!layer.empty()) {
    std::vector<int> next;
    for (int const at : layer) {
      for (auto edge = std::lower_bound(below.begin(), below.end(), std::pair(at, INT_MIN));
           edge != below.end() && edge->first == at; ++edge) {
        next.push_back(edge->second);
      }
    }
    layer = std::move(next);
    if (++result > static_cast<int>(edges.size())) return result;  // a cycle: not a tree
  }
  return result;
}

/// The larger height of the two phases.
[[nodiscard]] inline int height(tree const& t) {
  return std::max(height(t.reduce, t.root, true), height(t.broadcast, t.root, false));
}

}}  // namespace blink::BLINK_ABI
