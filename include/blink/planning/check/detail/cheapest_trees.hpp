// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A cost as an integer of 128 bits.
__extension__ typedef __int128 wide_cost;

/// Costs of edges between all pairs of vertices, by (to, from); negative where there is none.
struct wide_cost_matrix {
  explicit wide_cost_matrix(std::size_t vertices)
      : count(vertices), entries(vertices * vertices, wide_cost{-1}) {}

  [[nodiscard]] wide_cost& at(std::size_t from, std::size_t to) {
    return entries[to * count + from];
  }

  std::size_t count;
  std::vector<wide_cost> entries;
};

/// The costs of a cheapest spanning out-tree from each vertex; nothing where there is none.
///
/// One contraction serves all roots. Every vertex takes its cheapest edge, and a cycle of these
/// edges becomes one vertex. That ends with one vertex, or with vertices that no edge enters. The
/// price of a vertex or cycle is the cost of its cheapest edge, minus the prices of what this edge
/// enters inside. A tree from a root costs the prices of all that does not contain the root.
///
/// Time:   O(n^2) for n vertices.
/// Source: J. Edmonds, "Optimum branchings", 1967; one contraction for all roots: Gabow, Galil,
///         Spencer and Tarjan, 1986.
[[nodiscard]] inline std::vector<std::optional<wide_cost>> cheapest_out_trees(
    wide_cost_matrix cost) {
  auto const n = cost.count;
  std::vector<std::optional<wide_cost>> result(n);
  if (n == 0) return result;
  constexpr std::size_t none = ~std::size_t{0};
  // Blossoms: vertices first, then cycles in the order of their contraction.
  std::vector<wide_cost> price(n, 0);
  std::vector<std::size_t> inside(n, none);  // the cycle that contains it
  std::vector<std::size_t> row(n);           // its row of the matrix
  std::vector<bool> is_settled(n);           // its cheapest edge is known
  std::vector<std::size_t> blossom(n);       // by row: the outermost blossom; none: no longer used
  for (std::size_t v = 0; v < n; ++v) row[v] = blossom[v] = v;

  std::size_t sources = 0;  // blossoms that no edge enters
  std::size_t source = none;
  std::vector<std::size_t> path;    // blossoms; an edge leads from each to the one before it
  std::vector<bool> is_on_path(n);  // by row
  std::size_t next_start = 0;
  for (;;) {
    if (path.empty()) {
      while (next_start < n && (blossom[next_start] == none || is_settled[blossom[next_start]])) {
        ++next_start;
      }
      if (next_start == n) break;
      path.push_back(blossom[next_start]);
      is_on_path[next_start] = true;
    }
    std::size_t const here = path.back();
    std::size_t const to = row[here];
    wide_cost best = -1;
    std::size_t from = none;
    for (std::size_t u = 0; u < n; ++u) {
      wide_cost const c = cost.at(u, to);
      if (u == to || blossom[u] == none || c < 0 || (from != none && c >= best)) continue;
      best = c;
      from = u;
    }
    is_settled[here] = true;
    if (from == none) {
      ++sources;
      source = here;
    } else {
      price[here] = best;
    }
    if (from == none || (is_settled[blossom[from]] && !is_on_path[from])) {
      for (std::size_t const each : path) is_on_path[row[each]] = false;
      path.clear();
      continue;
    }
    if (!is_on_path[from]) {
      path.push_back(blossom[from]);
      is_on_path[from] = true;
      continue;
    }
    // The end of the path, from `from` on, is a cycle. It takes the row of `from`.
    std::size_t first = path.size();
    while (row[path[--first]] != from) {
    }
    std::size_t const cycle = price.size();
    for (std::size_t u = 0; u < n; ++u) {
      if (blossom[u] == none) continue;
      wide_cost entering = -1;
      wide_cost leaving = -1;
      for (std::size_t i = first; i < path.size(); ++i) {
        wide_cost const in = cost.at(u, row[path[i]]);
        wide_cost const out = cost.at(row[path[i]], u);
        if (in >= 0 && (entering < 0 || in - price[path[i]] < entering)) {
          entering = in - price[path[i]];
        }
        if (out >= 0 && (leaving < 0 || out < leaving)) leaving = out;
      }
      cost.at(u, from) = entering;
      cost.at(from, u) = leaving;
    }
    for (std::size_t i = first; i < path.size(); ++i) {
      inside[path[i]] = cycle;
      is_on_path[row[path[i]]] = false;
      blossom[row[path[i]]] = none;
    }
    path.resize(first);
    path.push_back(cycle);
    blossom[from] = cycle;
    is_on_path[from] = true;
    price.push_back(0);
    inside.push_back(none);
    row.push_back(from);
    is_settled.push_back(false);
  }
  if (sources != 1) return result;
  wide_cost all = 0;
  for (wide_cost const each : price) all += each;
  std::vector<wide_cost> around(price.size());  // the prices of all that contains it, and its own
  for (std::size_t k = price.size(); k-- > 0;) {
    around[k] = price[k] + (inside[k] == none ? wide_cost{0} : around[inside[k]]);
  }
  for (std::size_t v = 0; v < n; ++v) {
    std::size_t outermost = v;
    while (inside[outermost] != none) outermost = inside[outermost];
    if (outermost == source) result[v] = all - around[v];
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
