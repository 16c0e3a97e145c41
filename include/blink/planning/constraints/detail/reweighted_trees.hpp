// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/lp/detail/listed_columns.hpp>
#include <blink/packing/lp/simplex.hpp>
#include <blink/planning/constraints/restricted_machine.hpp>
#include <blink/planning/plan/detail/link_loads.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <variant>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

using link_capacities = std::map<std::pair<int, int>, std::int64_t>;  // by node ids, in steps

/// The bound that an old plan's certificate proves on a changed machine with the same ranks, in
/// steps; nothing if it does not hold there.
///
/// Cuts and partitions give a bound for any links. Prices hold if no link was added: without some
/// links, trees cost no less.
[[nodiscard]] inline std::optional<rational> old_bound(link_capacities const& capacity,
                                                       plan const& old, bool links_came) {
  rational crossing;
  if (auto const* cut = std::get_if<cut_certificate>(&old.proof)) {
    std::set<int> const inside(cut->nodes.begin(), cut->nodes.end());
    for (auto const& [ends, c] : capacity) {
      if (inside.contains(ends.first) && !inside.contains(ends.second)) crossing += c;
    }
    return crossing;
  }
  if (auto const* partition = std::get_if<partition_certificate>(&old.proof)) {
    std::map<int, std::size_t> part;
    for (std::size_t i = 0; i < partition->parts.size(); ++i) {
      for (int const id : partition->parts[i]) part[id] = i;
    }
    for (auto const& [ends, c] : capacity) {
      if (!part.contains(ends.first) || !part.contains(ends.second)) return std::nullopt;
      if (part.at(ends.first) != part.at(ends.second)) crossing += c;
    }
    return crossing / 2 / (static_cast<std::int64_t>(partition->parts.size()) - 1);
  }
  if (auto const* prices = std::get_if<price_certificate>(&old.proof); prices && !links_came) {
    for (auto const& p : prices->prices) {
      auto const found = capacity.find({p.from, p.to});
      if (found != capacity.end()) crossing += p.price * found->second;
    }
    return crossing;
  }
  return std::nullopt;
}

/// The tree with one edge of each phase replaced, so that `far` hangs below `above`. Nothing if
/// `above` is below `far`, or a phase has no edge to replace or no link for it.
[[nodiscard]] inline std::optional<tree> hung_elsewhere(tree t, int far, int above,
                                                        link_capacities const& capacity) {
  for (bool const towards_root : {true, false}) {
    auto& phase = towards_root ? t.reduce : t.broadcast;
    if (phase.empty()) continue;
    tree_edge* edge = nullptr;
    for (auto& e : phase) {
      if ((towards_root ? e.from : e.to) == far) edge = &e;
    }
    int const from = towards_root ? far : above;
    int const to = towards_root ? above : far;
    if (edge == nullptr || !capacity.contains({from, to})) return std::nullopt;
    *edge = {from, to, {from, to}};
    std::size_t steps = 0;
    for (int at = above; at != t.root && steps <= phase.size(); ++steps) {
      auto const up = std::ranges::find_if(
          phase, [&](tree_edge const& e) { return (towards_root ? e.from : e.to) == at; });
      if (up == phase.end() || at == far) return std::nullopt;
      at = towards_root ? up->to : up->from;
    }
    if (steps > phase.size()) return std::nullopt;
  }
  return t;
}

/// A plan of the old trees with new weights that reaches the bound of the old certificate; nothing
/// if there is none, or if finding it takes longer than a fresh plan would. Where a link has too
/// little room, trees with one part hung elsewhere are also used.
[[nodiscard]] inline std::optional<plan> reweighted_plan(topology const& machine, plan const& old) {
  if (has_equal_roots(old.collective)) return std::nullopt;  // equal shares need more than weights
  auto result = empty_plan(machine, {old.collective});
  std::set<int> const ranks(result.ranks.begin(), result.ranks.end());
  if (ranks != std::set<int>(old.ranks.begin(), old.ranks.end())) return std::nullopt;
  auto const capacity = capacities_by_ids(machine);
  link_capacities row;
  std::vector<std::int64_t> room;
  for (auto const& [ends, c] : capacity) {
    row.emplace(ends, static_cast<std::int64_t>(room.size()));
    room.push_back(c);
  }
  // Pivots price all columns, and there are a few for each link. Beyond this work, a fresh plan
  // takes less time.
  constexpr double most_work = 1e8;
  double edges = 0;
  for (auto const& t : old.trees) {
    edges += static_cast<double>(t.reduce.size() + t.broadcast.size());
  }
  if (edges * static_cast<double>(room.size()) > most_work) return std::nullopt;
  auto const load = link_loads(old.trees);  // in units
  // A link without load may be a new one. Only then are the old prices in doubt.
  bool const links_came =
      std::ranges::any_of(capacity, [&](auto const& link) { return !load.contains(link.first); });
  auto const bound = old_bound(capacity, old, links_came);
  if (!bound) return std::nullopt;

  std::set<std::pair<int, int>> scarce;
  for (auto const& [ends, amount] : load) {
    auto const found = capacity.find(ends);
    if (found == capacity.end() || machine.in_units(found->second) < amount) scarce.insert(ends);
  }
  auto pool = old.trees;
  for (auto const& t : old.trees) {
    std::set<int> to_move;
    for (auto const& e : t.reduce) {
      if (e.path.size() == 2 && scarce.contains({e.from, e.to})) to_move.insert(e.from);
    }
    for (auto const& e : t.broadcast) {
      if (e.path.size() == 2 && scarce.contains({e.from, e.to})) to_move.insert(e.to);
    }
    for (int const far : to_move) {
      for (int const above : ranks) {
        if (above == far) continue;
        if (auto other = hung_elsewhere(t, far, above, capacity)) pool.push_back(std::move(*other));
      }
    }
  }
  std::vector<packing_column> columns;
  std::map<packing_column, std::size_t> known;
  for (std::size_t i = 0; i < pool.size(); ++i) {
    packing_column column;
    bool there = true;
    for (auto const* phase : {&pool[i].reduce, &pool[i].broadcast}) {
      for (auto const& e : *phase) {
        for (std::size_t k = 0; there && k + 1 < e.path.size(); ++k) {
          auto const found = row.find({e.path[k], e.path[k + 1]});
          there = found != row.end();
          if (there) column.push_back(static_cast<int>(found->second));
        }
      }
    }
    if (!there || column.empty()) continue;
    std::sort(column.begin(), column.end());
    if (known.emplace(column, i).second) columns.push_back(std::move(column));
  }
  if (columns.empty()) return std::nullopt;
  double entries = 0;
  for (auto const& column : columns) entries += static_cast<double>(column.size());
  if (entries * static_cast<double>(room.size()) > most_work) return std::nullopt;
  auto const packed = simplex(room, listed_columns{columns});
  if (packed.stopped_because != simplex_stop::optimal || packed.rate != *bound) {
    return std::nullopt;
  }
  for (auto const& column : packed.columns) {
    auto t = pool[known.at(column.rows)];
    t.weight = machine.in_units(column.weight);
    result.rate += t.weight;
    result.trees.push_back(std::move(t));
  }
  result.bound = machine.in_units(*bound);
  result.proof = old.proof;
  if (auto* cut = std::get_if<cut_certificate>(&result.proof)) {
    std::erase_if(cut->nodes, [&](int id) { return machine.position_of(id) < 0; });
  }
  if (auto* prices = std::get_if<price_certificate>(&result.proof)) {
    std::erase_if(prices->prices,
                  [&](link_price const& p) { return !capacity.contains({p.from, p.to}); });
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
