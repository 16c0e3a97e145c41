// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/check/detail/check_flows.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The part of check_plan that checks certificates. Each bound is computed again from its
// definition.

namespace blink { inline namespace BLINK_ABI { namespace detail {

inline rational bound_of_cut(plan_view const& view, plan const& plan, cut_certificate const& cut) {
  if (is_point_to_point(plan.collective)) return bound_of_flow_cut(view, plan, cut);
  std::set<int> const side(cut.nodes.begin(), cut.nodes.end());
  std::int64_t inside = 0;
  for (int const rank : view.ranks) inside += side.contains(rank) ? 1 : 0;
  auto const all = static_cast<std::int64_t>(view.ranks.size());
  rational share_inside, share_of_all;  // of the buffer, in proportion
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    rational const share = plan.shares.empty() ? 1 : plan.shares[i];
    share_of_all += share;
    if (side.contains(plan.ranks[i])) share_inside += share;
  }
  rational capacity;
  for (auto const& [ends, c] : view.capacity) {
    if (side.contains(ends.first) && !side.contains(ends.second)) capacity += c;
  }
  auto const require = [](bool holds, char const* what) {
    if (!holds) throw plan_fault(std::string("certificate: the cut ") + what);
  };
  int const root = plan.trees.empty() ? plan.ranks.front() : plan.trees.front().root;
  switch (plan.collective) {
    case collective::broadcast:
      require(side.contains(root), "must hold the root");
      require(inside < all, "must miss a rank");
      return capacity;
    case collective::reduce:
      require(!side.contains(root), "must miss the root");
      require(inside > 0, "must hold a rank");
      return capacity;
    case collective::all_gather:
      require(inside < all && share_inside > rational(0), "must hold a rank and miss a rank");
      return capacity * share_of_all / share_inside;
    case collective::reduce_scatter:
      require(inside > 0 && share_inside < share_of_all, "must hold a rank and miss a rank");
      return capacity * share_of_all / (share_of_all - share_inside);
    default:
      break;  // all_reduce: all data must cross in both directions
  }
  require(inside > 0 && inside < all, "must hold a rank and miss a rank");
  return capacity;
}

inline rational bound_of_partition(plan_view const& view, plan const& plan,
                                   partition_certificate const& partition) {
  if (!has_both_phases(plan.collective)) {
    throw plan_fault("certificate: a partition proves all_reduce only");
  }
  if (view.nodes.size() != view.ranks.size()) {
    for (auto const& [ends, c] : view.capacity) {
      if (!view.ranks.contains(ends.first) || !view.ranks.contains(ends.second)) {
        throw plan_fault("certificate: a partition proves direct links only, not switches");
      }
    }
  }
  std::map<int, std::size_t> part;
  for (std::size_t i = 0; i < partition.parts.size(); ++i) {
    if (partition.parts[i].empty()) throw plan_fault("certificate: an empty part");
    for (int const rank : partition.parts[i]) {
      if (!view.ranks.contains(rank) || !part.emplace(rank, i).second) {
        throw plan_fault("certificate: rank " + std::to_string(rank) +
                         " of the partition is unknown or named twice");
      }
    }
  }
  if (part.size() != view.ranks.size() || partition.parts.size() < 2) {
    throw plan_fault("certificate: the partition must cover all ranks with two parts or more");
  }
  // Both directions of a pair count: in-trees and out-trees together use (parts - 1) links into the
  // parts and as many out of them, so half of the directed capacity bounds the rate.
  rational crossing;
  for (auto const& [ends, c] : view.capacity) {
    if (part.at(ends.first) != part.at(ends.second)) crossing += c;
  }
  return crossing / 2 / static_cast<std::int64_t>(partition.parts.size() - 1);
}

/// The cost of a cheapest spanning out-tree from `root` in a complete graph.
///
/// cost: by (from, to); nothing where there is no edge
/// Source: J. Edmonds, "Optimum branchings", 1967: cycles are contracted, on plain matrices.
inline std::optional<rational> cheapest_out_tree(
    std::vector<std::vector<std::optional<rational>>> cost, std::size_t root) {
  rational total;
  for (;;) {
    auto const n = cost.size();
    std::vector<std::size_t> parent(n, root);
    for (std::size_t v = 0; v < n; ++v) {
      if (v == root) continue;
      std::optional<rational> best;
      for (std::size_t u = 0; u < n; ++u) {
        if (u != v && cost[u][v] && (!best || *cost[u][v] < *best)) {
          best = cost[u][v];
          parent[v] = u;
        }
      }
      if (!best) return std::nullopt;
      total += *best;
      for (std::size_t u = 0; u < n; ++u) {
        if (u != v && cost[u][v]) *cost[u][v] -= *best;
      }
    }
    // A cycle of chosen edges becomes one vertex; without a cycle, the chosen edges are the tree.
    std::vector<std::size_t> cycle;
    std::vector<int> seen(n, -1);
    seen[root] = static_cast<int>(n);
    for (std::size_t start = 0; start < n && cycle.empty(); ++start) {
      std::size_t v = start;
      while (seen[v] == -1) {
        seen[v] = static_cast<int>(start);
        v = parent[v];
      }
      if (v == root || seen[v] != static_cast<int>(start)) continue;
      for (std::size_t u = v; cycle.empty() || u != v; u = parent[u]) cycle.push_back(u);
    }
    if (cycle.empty()) return total;
    std::vector<std::size_t> name(n, n);
    for (std::size_t const v : cycle) name[v] = 0;
    std::size_t next = 1;
    for (std::size_t v = 0; v < n; ++v) {
      if (name[v] == n) name[v] = next++;
    }
    std::vector<std::vector<std::optional<rational>>> smaller(
        next, std::vector<std::optional<rational>>(next));
    for (std::size_t u = 0; u < n; ++u) {
      for (std::size_t v = 0; v < n; ++v) {
        if (u == v || name[u] == name[v] || !cost[u][v]) continue;
        auto& entry = smaller[name[u]][name[v]];
        if (!entry || *cost[u][v] < *entry) entry = cost[u][v];
      }
    }
    root = name[root];
    cost = std::move(smaller);
  }
}

/// The cost of a cheapest out-tree from each rank, by position in `ranks`.
///
/// The tree spans all ranks and any of the `optional` nodes, over routes. With `inward` it is an
/// in-tree.
inline std::vector<std::optional<rational>> cheapest_spanning_trees(
    std::vector<std::vector<std::optional<rational>>> const& route,
    std::vector<std::size_t> const& ranks, std::vector<std::size_t> const& optional, bool inward) {
  std::vector<std::optional<rational>> best(ranks.size());
  for (std::size_t chosen = 0; chosen < std::size_t{1} << optional.size(); ++chosen) {
    auto spanned = ranks;
    for (std::size_t i = 0; i < optional.size(); ++i) {
      if ((chosen >> i & 1U) != 0) spanned.push_back(optional[i]);
    }
    auto const m = spanned.size();
    std::vector<std::vector<std::optional<rational>>> cost(m,
                                                           std::vector<std::optional<rational>>(m));
    for (std::size_t i = 0; i < m; ++i) {
      for (std::size_t j = 0; j < m; ++j) {
        cost[i][j] = inward ? route[spanned[j]][spanned[i]] : route[spanned[i]][spanned[j]];
      }
    }
    for (std::size_t root = 0; root < ranks.size(); ++root) {
      auto const found = cheapest_out_tree(cost, root);
      if (found && (!best[root] || *found < *best[root])) best[root] = found;
    }
  }
  return best;
}

inline rational bound_of_prices(plan_view const& view, plan const& plan,
                                price_certificate const& certificate) {
  bool const flows = is_point_to_point(plan.collective);
  if (!has_both_phases(plan.collective) && !flows) {
    throw plan_fault("certificate: prices prove all_reduce and flows only");
  }
  std::map<std::pair<int, int>, rational> price;
  rational bound;
  for (auto const& p : certificate.prices) {
    auto const capacity = view.capacity.find({p.from, p.to});
    if (p.price < rational(0) || capacity == view.capacity.end() ||
        !price.emplace(std::pair(p.from, p.to), p.price).second) {
      throw plan_fault("certificate: the price of " + std::to_string(p.from) + " -> " +
                       std::to_string(p.to) + " is negative, given twice, or of no usable link");
    }
    bound += p.price * capacity->second;
  }
  if (flows) {
    for (auto const& [ends, c] : view.capacity) price.try_emplace(ends);
    return bound_of_flow_prices(view, plan, price);
  }
  // Cheapest routes between all nodes (Floyd 1962).
  std::vector<int> const nodes(view.nodes.begin(), view.nodes.end());
  auto const n = nodes.size();
  std::vector<std::vector<std::optional<rational>>> route(n,
                                                          std::vector<std::optional<rational>>(n));
  for (std::size_t u = 0; u < n; ++u) {
    for (std::size_t v = 0; v < n; ++v) {
      if (!view.capacity.contains({nodes[u], nodes[v]})) continue;
      auto const p = price.find({nodes[u], nodes[v]});
      route[u][v] = p == price.end() ? rational(0) : p->second;
    }
  }
  for (std::size_t k = 0; k < n; ++k) {
    for (std::size_t u = 0; u < n; ++u) {
      for (std::size_t v = 0; v < n; ++v) {
        if (!route[u][k] || !route[k][v]) continue;
        auto const through = *route[u][k] + *route[k][v];
        if (!route[u][v] || through < *route[u][v]) route[u][v] = through;
      }
    }
  }
  // Trees span the ranks. They may also span switches that reduce (in-trees) or copy (out-trees).
  constexpr std::size_t most_switches = 10;
  if (std::max(view.copying.size(), view.reducing.size()) > most_switches) {
    throw plan_fault("certificate: prices with more than " + std::to_string(most_switches) +
                     " switches that copy or reduce cannot be checked");
  }
  std::vector<std::size_t> ranks, copying, reducing;
  for (std::size_t u = 0; u < n; ++u) {
    if (view.ranks.contains(nodes[u])) ranks.push_back(u);
    if (view.copying.contains(nodes[u])) copying.push_back(u);
    if (view.reducing.contains(nodes[u])) reducing.push_back(u);
  }
  auto const spread = cheapest_spanning_trees(route, ranks, copying, false);
  auto const gather = cheapest_spanning_trees(route, ranks, reducing, true);
  for (std::size_t root = 0; root < ranks.size(); ++root) {
    if (spread[root] && gather[root] && *spread[root] + *gather[root] < rational(1)) {
      throw plan_fault("certificate: trees with root " + std::to_string(nodes[ranks[root]]) +
                       " cost " + (*spread[root] + *gather[root]).to_text() +
                       ", expected at least 1");
    }
  }
  return bound;
}

/// The bound that the certificate proves, or nothing without a certificate.
/// Throws: plan_fault if the certificate is not valid for this machine and collective.
inline std::optional<rational> bound_of(plan_view const& view, plan const& plan) {
  if (!moves_data(plan.collective) && !std::holds_alternative<no_certificate>(plan.proof)) {
    throw plan_fault("certificate: a barrier has no rate to prove");
  }
  struct visitor {
    plan_view const& view;
    blink::plan const& plan;
    std::optional<rational> operator()(no_certificate) const { return std::nullopt; }
    std::optional<rational> operator()(cut_certificate const& c) const {
      return bound_of_cut(view, plan, c);
    }
    std::optional<rational> operator()(partition_certificate const& c) const {
      return bound_of_partition(view, plan, c);
    }
    std::optional<rational> operator()(price_certificate const& c) const {
      return bound_of_prices(view, plan, c);
    }
  };
  return std::visit(visitor{view, plan}, plan.proof);
}

}}}  // namespace blink::BLINK_ABI::detail
