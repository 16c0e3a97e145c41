// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/check/detail/cheapest_trees.hpp>
#include <blink/planning/check/detail/check_flows.hpp>
#include <blink/planning/check/detail/view_index.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <optional>
#include <queue>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The part of check_plan for prices: the cheapest trees and routes, in whole numbers.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The prices of all links, as multiples of one amount.
struct whole_prices {
  std::vector<wide_cost> of_link;  ///< by link number, at most `most`
  wide_cost one = 1;               ///< the price 1
  wide_cost most = 1;              ///< of a tree that proves the bound, whatever the others cost
};

/// Reads the prices of a certificate. A price above `most` becomes `most`, in multiples of 1, so
/// that sums of costs fit into 128 bits.
/// Throws: plan_fault if a price is negative, of no usable link, or given twice, or if the common
///         denominator needs more than 64 bits.
[[nodiscard]] inline whole_prices read_prices(view_index const& index,
                                              price_certificate const& certificate,
                                              std::int64_t most) {
  whole_prices result;
  for (auto const& p : certificate.prices) {
    auto const d = static_cast<wide_cost>(p.price.denominator());
    wide_cost a = result.one;
    for (wide_cost b = d; b != 0; a = std::exchange(b, a % b)) {
    }
    result.one = result.one / a * d;
    if (result.one >> 64 != 0) {
      throw plan_fault("certificate: the common denominator of the prices needs more than 64 bits");
    }
  }
  result.most = result.one * most;
  result.of_link.assign(index.links().size(), 0);
  std::vector<bool> is_given(index.links().size());
  for (auto const& p : certificate.prices) {
    int const link = index.link(index.node(p.from), index.node(p.to));
    if (p.price < rational(0) || link < 0 || is_given[static_cast<std::size_t>(link)]) {
      throw plan_fault("certificate: the price of " + std::to_string(p.from) + " -> " +
                       std::to_string(p.to) + " is negative, given twice, or of no usable link");
    }
    is_given[static_cast<std::size_t>(link)] = true;
    result.of_link[static_cast<std::size_t>(link)] =
        p.price >= rational(most) ? result.most
                                  : result.one / p.price.denominator() * p.price.numerator();
  }
  return result;
}

/// Nodes between which data moves at no cost, as one vertex. So a machine of many nodes is small
/// where only few links have a price.
struct free_parts {
  std::vector<std::size_t> of_node;
  std::size_t count = 0;
};

/// Finds the strongly connected parts of the links of price 0.
/// Source: S. R. Kosaraju, 1978; M. Sharir, 1981: two searches, without recursion.
[[nodiscard]] inline free_parts find_free_parts(view_index const& index,
                                                whole_prices const& prices) {
  auto const n = index.node_count();
  std::vector<std::vector<std::size_t>> out(n), in(n);
  for (std::size_t e = 0; e < index.links().size(); ++e) {
    if (prices.of_link[e] != 0) continue;
    auto const& l = index.links()[e];
    out[static_cast<std::size_t>(l.from)].push_back(static_cast<std::size_t>(l.to));
    in[static_cast<std::size_t>(l.to)].push_back(static_cast<std::size_t>(l.from));
  }
  std::vector<std::size_t> finished;  // in the order in which the first search leaves them
  std::vector<bool> is_seen(n);
  std::vector<std::pair<std::size_t, std::size_t>> stack;  // node, and its next neighbour
  for (std::size_t start = 0; start < n; ++start) {
    if (is_seen[start]) continue;
    is_seen[start] = true;
    stack.emplace_back(start, 0);
    while (!stack.empty()) {
      auto& [at, next] = stack.back();
      if (next == out[at].size()) {
        finished.push_back(at);
        stack.pop_back();
        continue;
      }
      std::size_t const to = out[at][next++];
      if (is_seen[to]) continue;
      is_seen[to] = true;
      stack.emplace_back(to, 0);
    }
  }
  free_parts result{std::vector<std::size_t>(n, n), 0};
  std::vector<std::size_t> open;
  for (std::size_t k = n; k-- > 0;) {
    if (result.of_node[finished[k]] != n) continue;
    result.of_node[finished[k]] = result.count;
    open.push_back(finished[k]);
    while (!open.empty()) {
      std::size_t const at = open.back();
      open.pop_back();
      for (std::size_t const from : in[at]) {
        if (result.of_node[from] != n) continue;
        result.of_node[from] = result.count;
        open.push_back(from);
      }
    }
    ++result.count;
  }
  return result;
}

/// Cheapest routes between the free parts of a machine.
class part_routes {
 public:
  part_routes(view_index const& index, whole_prices const& prices)
      : parts_(find_free_parts(index, prices)), out_(parts_.count) {
    for (std::size_t e = 0; e < index.links().size(); ++e) {
      auto const& l = index.links()[e];
      std::size_t const from = part_of(l.from);
      std::size_t const to = part_of(l.to);
      if (from != to) out_[from].push_back({to, prices.of_link[e]});
    }
  }

  [[nodiscard]] std::size_t part_count() const { return parts_.count; }
  [[nodiscard]] std::size_t part_of(int node) const {
    return parts_.of_node[static_cast<std::size_t>(node)];
  }

  /// The costs from one part to all parts; -1 where there is no route.
  /// Source: E. W. Dijkstra, 1959.
  [[nodiscard]] std::vector<wide_cost> from(std::size_t start) const {
    using entry = std::pair<wide_cost, std::size_t>;
    std::vector<wide_cost> result(parts_.count, wide_cost{-1});
    std::priority_queue<entry, std::vector<entry>, std::greater<>> open;
    result[start] = 0;
    open.emplace(0, start);
    while (!open.empty()) {
      auto const [cost, at] = open.top();
      open.pop();
      if (cost != result[at]) continue;
      for (auto const& l : out_[at]) {
        wide_cost const there = cost + l.price;
        if (result[l.to] >= 0 && result[l.to] <= there) continue;
        result[l.to] = there;
        open.emplace(there, l.to);
      }
    }
    return result;
  }

 private:
  struct priced_link {
    std::size_t to = 0;
    wide_cost price = 0;
  };

  free_parts parts_;
  std::vector<std::vector<priced_link>> out_;
};

/// Costs as fractions of `one`, in lowest terms where they fit into 64 bits.
[[nodiscard]] inline std::string cost_text(wide_cost cost, wide_cost one) {
  wide_cost a = cost;
  for (wide_cost b = one; b != 0; a = std::exchange(b, a % b)) {
  }
  if (a == 0) a = 1;
  if (one / a > INT64_MAX || cost / a > INT64_MAX) {
    return std::to_string(static_cast<double>(cost) / static_cast<double>(one));
  }
  return rational(static_cast<std::int64_t>(cost / a), static_cast<std::int64_t>(one / a))
      .to_text();
}

/// The cost of a cheapest out-tree from each of the first parts of a list, by its position there.
///
/// The tree spans the first `required` parts of the list and any of the others. With `inward` it is
/// an in-tree. `route[i][j]` is the cost from part i of the list to part j; -1 where there is none.
[[nodiscard]] inline std::vector<std::optional<wide_cost>> cheapest_spanning_trees(
    std::vector<std::vector<wide_cost>> const& route, std::size_t required,
    std::vector<std::size_t> const& optional, wide_cost most, bool inward) {
  std::vector<std::optional<wide_cost>> best(required);
  for (std::size_t chosen = 0; chosen < std::size_t{1} << optional.size(); ++chosen) {
    std::vector<std::size_t> spanned(required);
    std::iota(spanned.begin(), spanned.end(), std::size_t{0});
    for (std::size_t i = 0; i < optional.size(); ++i) {
      if ((chosen >> i & 1U) != 0) spanned.push_back(optional[i]);
    }
    wide_cost_matrix cost(spanned.size());
    for (std::size_t i = 0; i < spanned.size(); ++i) {
      for (std::size_t j = 0; j < spanned.size(); ++j) {
        wide_cost const c = inward ? route[spanned[j]][spanned[i]] : route[spanned[i]][spanned[j]];
        cost.at(i, j) = std::min(c, most);  // so that sums fit into 128 bits
      }
    }
    auto const found = cheapest_out_trees(std::move(cost));
    for (std::size_t root = 0; root < required; ++root) {
      if (found[root] && (!best[root] || *found[root] < *best[root])) best[root] = found[root];
    }
  }
  return best;
}

/// The cost of what moves a unit of a plan's rate, at least.
struct unit_cost {
  wide_cost cost = 0;  ///< stops growing where it is large enough
  wide_cost one = 1;   ///< the cost 1
  std::string what;    ///< in words: the trees or routes that cost so much
};

/// The cost of the cheapest trees of a plan of spanning trees:
///
/// broadcast, reduce:          an out-tree from the root, or an in-tree to it
/// all_reduce:                 a pair of an in-tree and an out-tree with the same root
/// all_gather, reduce_scatter: the mean over all roots, by their shares
///
/// Time: O(P * L log P + P^2 * 2^S) for P parts that hold ranks, L links, and S switches that copy
///       or reduce in parts of their own.
[[nodiscard]] inline unit_cost cost_of_trees(plan_view const& view, view_index const& index,
                                             plan const& plan, whole_prices const& prices) {
  part_routes const routes(index, prices);
  // The parts with ranks, and then those with a switch that trees may span.
  std::vector<std::size_t> listed;
  std::vector<int> root_of;  // a rank of each part with ranks
  std::vector<std::size_t> place(routes.part_count(), routes.part_count());
  auto const list = [&](std::size_t part) {
    if (place[part] != routes.part_count()) return false;
    place[part] = listed.size();
    listed.push_back(part);
    return true;
  };
  for (int const id : view.ranks) {
    if (list(routes.part_of(index.node(id)))) root_of.push_back(id);
  }
  auto const required = listed.size();
  auto const places_of = [&](std::set<int> const& switches) {
    std::set<std::size_t> result;
    for (int const id : switches) {
      auto const part = routes.part_of(index.node(id));
      list(part);
      if (place[part] >= required) result.insert(place[part]);
    }
    return std::vector<std::size_t>(result.begin(), result.end());
  };
  bool const spreads = has_broadcast_phase(plan.collective);
  bool const reduces = has_reduce_phase(plan.collective);
  auto const copying = places_of(spreads ? view.copying : std::set<int>{});
  auto const reducing = places_of(reduces ? view.reducing : std::set<int>{});
  constexpr std::size_t most_switches = 10;
  if (std::max(copying.size(), reducing.size()) > most_switches) {
    throw plan_fault("certificate: prices with more than " + std::to_string(most_switches) +
                     " switches that copy or reduce cannot be checked");
  }
  std::vector<std::vector<wide_cost>> route;
  for (std::size_t const part : listed) {
    auto const costs = routes.from(part);
    auto& row = route.emplace_back();
    for (std::size_t const other : listed) row.push_back(costs[other]);
  }
  // By place: the cost of a cheapest tree or pair of trees. Where there is none, no plan has one,
  // so any cost holds.
  std::vector<wide_cost> cost(required, 0);
  for (bool const inward : {false, true}) {
    if (!(inward ? reduces : spreads)) continue;
    auto const found =
        cheapest_spanning_trees(route, required, inward ? reducing : copying, prices.most, inward);
    for (std::size_t i = 0; i < required; ++i) cost[i] += found[i].value_or(prices.most);
  }
  if (has_equal_roots(plan.collective)) {
    unit_cost result{0, prices.most, "the trees of all roots, in the mean,"};
    for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
      wide_cost const share = plan.shares.empty() ? 1 : plan.shares[i];
      wide_cost const of_root = cost[place[routes.part_of(index.node(plan.ranks[i]))]];
      if (share == 0) continue;
      // The sum stops growing once it is large enough.
      bool const is_enough = of_root >= prices.most || result.cost + share * of_root >= prices.most;
      result.cost = is_enough ? prices.most : result.cost + share * of_root;
      if (is_enough) break;
    }
    return result;
  }
  std::optional<std::size_t> cheapest;
  for (std::size_t i = 0; i < required; ++i) {
    bool const is_root = !has_one_root(plan.collective) ||
                         routes.part_of(index.node(root_of_certificate(plan))) == listed[i];
    if (is_root && (!cheapest || cost[i] < cost[*cheapest])) cheapest = i;
  }
  if (!cheapest) throw plan_fault("certificate: the root is no rank of the plan");
  return {std::min(cost[*cheapest], prices.one), prices.one,
          "trees with root " + std::to_string(root_of[*cheapest])};
}

/// The cost of the cheapest routes of all pairs of a sender and its receiver, together. It may be
/// up to `most`.
/// Time: O(S * L log N) for S senders, L links and N nodes.
[[nodiscard]] inline unit_cost cost_of_routes(plan const& plan, view_index const& index,
                                              whole_prices const& prices) {
  part_routes const routes(index, prices);
  unit_cost result{0, prices.one, "the cheapest routes of all pairs"};
  std::optional<int> from;
  std::vector<wide_cost> costs;
  for (auto const& pair : wanted_pairs(plan)) {
    if (from != pair.first) costs = routes.from(routes.part_of(index.node(pair.first)));
    from = pair.first;
    wide_cost const there = costs[routes.part_of(index.node(pair.second))];
    if (there < 0) {
      throw plan_fault("certificate: no route leads from rank " + std::to_string(pair.first) +
                       " to rank " + std::to_string(pair.second));
    }
    result.cost = std::min(result.cost + std::min(there, prices.most), prices.most);
  }
  return result;
}

/// The cost of a unit of the rate of a plan of trees, or of the amount of each pair of others.
/// Throws: plan_fault for prices that are not valid.
[[nodiscard]] inline unit_cost cost_of_unit(plan_view const& view, view_index const& index,
                                            plan const& plan,
                                            price_certificate const& certificate) {
  // With several roots, a tree of one root may prove the bound of all.
  std::int64_t most = is_point_to_point(plan.collective) ? blocks_of(plan) : 1;
  if (has_equal_roots(plan.collective)) {
    constexpr std::int64_t most_shares = std::int64_t{1} << 40;
    rational shares;
    for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
      shares += plan.shares.empty() ? 1 : plan.shares[i];
    }
    if (shares > rational(most_shares)) {
      throw plan_fault("certificate: prices beside shares with a sum of more than 40 bits");
    }
    most = shares.numerator();
  }
  auto const prices = read_prices(index, certificate, most);
  return is_point_to_point(plan.collective) ? cost_of_routes(plan, index, prices)
                                            : cost_of_trees(view, index, plan, prices);
}

/// The sum of price * capacity.
/// Pre: the links of the prices are those of the view.
[[nodiscard]] inline rational value_of_prices(view_index const& index,
                                              price_certificate const& certificate) {
  rational result;
  for (auto const& p : certificate.prices) {
    int const link = index.link(index.node(p.from), index.node(p.to));
    result += p.price * index.links()[static_cast<std::size_t>(link)].capacity;
  }
  return result;
}

/// The bound that prices prove.
/// Throws: plan_fault if they prove none.
[[nodiscard]] inline rational bound_of_prices(plan_view const& view, view_index const& index,
                                              plan const& plan,
                                              price_certificate const& certificate) {
  auto const unit = cost_of_unit(view, index, plan, certificate);
  if (unit.cost < unit.one) {
    throw plan_fault("certificate: " + unit.what + " cost " + cost_text(unit.cost, unit.one) +
                     ", expected at least 1");
  }
  auto const value = value_of_prices(index, certificate);
  return is_point_to_point(plan.collective) ? value * blocks_of(plan) : value;
}

}}}  // namespace blink::BLINK_ABI::detail
