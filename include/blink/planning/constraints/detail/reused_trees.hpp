// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The out-trees of an old plan that still fit on a changed machine, and the room and demand that
/// they leave.
class reused_trees {
 public:
  /// demand: by root (node id), the total weight that its trees need, in units
  reused_trees(topology const& machine, std::map<int, rational> demand)
      : machine_(&machine), demand_(std::move(demand)) {
    for (auto const& l : machine.links) {
      auto const ends = std::pair(machine.nodes[static_cast<std::size_t>(l.tail)].id,
                                  machine.nodes[static_cast<std::size_t>(l.head)].id);
      room_[ends] += machine.in_units(l.capacity);
    }
    for (int const at : machine.rank_positions()) {
      ranks_.insert(machine.nodes[static_cast<std::size_t>(at)].id);
    }
  }

  /// Takes over the trees that fit. Trees that need no change come first. Then come the others,
  /// with each subtree that lost its edge hung below another rank.
  void take(std::vector<tree> const& old) {
    std::vector<tree const*> broken;
    for (auto const& t : old) {
      if (!ranks_.contains(t.root)) continue;
      if (spans(t)) {
        take_weight(t, t.weight);
      } else {
        broken.push_back(&t);
      }
    }
    for (auto const* t : broken) {
      if (auto const mended = mend(*t)) take_weight(*mended, t->weight);
    }
  }

  [[nodiscard]] std::vector<tree> const& trees() const { return trees_; }
  [[nodiscard]] std::map<int, rational> const& demand() const { return demand_; }

  /// Routes between ranks in the room that is left, in steps small enough for room and demand. They
  /// are routes of the old trees that the kept trees free, direct links, and routes over one
  /// switch.
  [[nodiscard]] rank_graph routes(std::vector<tree> const& old) const {
    std::map<std::vector<int>, rational> freed;
    for (auto const& t : old) {
      for (auto const& e : t.broadcast) {
        if (ranks_.contains(e.from) && ranks_.contains(e.to) && passes(e))
          freed[e.path] += t.weight;
      }
    }
    for (auto const& t : trees_) {
      for (auto const& e : t.broadcast) freed[e.path] -= t.weight;
    }
    auto room = room_;
    std::map<std::vector<int>, rational> found;
    auto const add = [&](std::vector<int> const& path, rational amount) {
      for (std::size_t i = 0; i + 1 < path.size(); ++i) {
        amount = std::min(amount, room.at({path[i], path[i + 1]}));
      }
      if (amount <= rational(0)) return;
      for (std::size_t i = 0; i + 1 < path.size(); ++i) room.at({path[i], path[i + 1]}) -= amount;
      found[path] += amount;
    };
    for (auto const& [path, amount] : freed) add(path, amount);
    for (auto const& [in, width] : room_) {
      if (!ranks_.contains(in.first)) continue;
      if (ranks_.contains(in.second)) {
        add({in.first, in.second}, width);
        continue;
      }
      for (auto out = room_.lower_bound({in.second, INT_MIN});
           out != room_.end() && out->first.first == in.second; ++out) {
        int const to = out->first.second;
        if (ranks_.contains(to) && to != in.first) add({in.first, in.second, to}, width);
      }
    }
    std::int64_t steps = machine_->steps_per_unit;
    auto const refine = [&](rational const& r) { steps = common_multiple(steps, r.denominator()); };
    for (auto const& [path, amount] : found) refine(amount);
    for (auto const& [root, demand] : demand_) refine(demand);
    rank_graph result;
    result.ids.assign(ranks_.begin(), ranks_.end());
    result.step = rational(1, steps);
    result.graph.vertex_count = static_cast<int>(result.ids.size());
    for (auto const& [path, amount] : found) {
      result.graph.arcs.push_back({result.vertex_of(path.front()), result.vertex_of(path.back())});
      result.capacity.push_back((amount * steps).numerator());
      result.paths.push_back(path);
    }
    return result;
  }

  /// Gives up trees that leave the set `inside` more often than necessary, until the links out of
  /// it have room for its demand. Returns false if giving up all of them is not enough.
  ///
  /// leaving: the free capacity out of the set, in units
  bool relieve(std::set<int> const& inside, rational leaving) {
    rational wanted;
    for (auto const& [root, demand] : demand_) {
      if (inside.contains(root)) wanted += demand;
    }
    std::vector<std::pair<std::int64_t, std::size_t>> order;  // crossings beyond need, tree
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      std::int64_t crossings = inside.contains(trees_[i].root) ? -1 : 0;
      for (auto const& e : trees_[i].broadcast) {
        if (inside.contains(e.from) && !inside.contains(e.to)) ++crossings;
      }
      if (crossings > 0) order.emplace_back(-crossings, i);
    }
    std::sort(order.begin(), order.end());
    std::vector<bool> given_up(trees_.size(), false);
    for (auto const& [waste, i] : order) {
      if (leaving >= wanted) break;
      leaving += trees_[i].weight * -waste;
      given_up[i] = true;
    }
    if (leaving < wanted) return false;
    std::vector<tree> rest;
    for (std::size_t i = 0; i < trees_.size(); ++i) {
      if (given_up[i]) {
        load(trees_[i], -trees_[i].weight);
      } else {
        rest.push_back(std::move(trees_[i]));
      }
    }
    trees_ = std::move(rest);
    return true;
  }

 private:
  /// True if the tree spans all ranks over links that exist.
  bool spans(tree const& t) const {
    std::set<int> reached{t.root};
    for (auto const& e : t.broadcast) {
      if (!ranks_.contains(e.from) || !ranks_.contains(e.to) || !passes(e)) return false;
      reached.insert(e.to);
    }
    return reached.size() == ranks_.size();
  }
  bool passes(tree_edge const& e) const {
    for (std::size_t i = 0; i + 1 < e.path.size(); ++i) {
      if (!room_.contains({e.path[i], e.path[i + 1]})) return false;
    }
    return true;
  }

  void take_weight(tree t, rational weight) {
    std::map<std::pair<int, int>, std::int64_t> uses;
    for (auto const& e : t.broadcast) {
      for (std::size_t i = 0; i + 1 < e.path.size(); ++i) ++uses[{e.path[i], e.path[i + 1]}];
    }
    weight = std::min(weight, demand_[t.root]);
    for (auto const& [ends, count] : uses) weight = std::min(weight, room_.at(ends) / count);
    if (weight <= rational(0)) return;
    t.weight = weight;
    load(t, weight);
    trees_.push_back(std::move(t));
  }
  void load(tree const& t, rational const& weight) {
    for (auto const& e : t.broadcast) {
      for (std::size_t i = 0; i + 1 < e.path.size(); ++i) {
        room_.at({e.path[i], e.path[i + 1]}) -= weight;
      }
    }
    demand_[t.root] -= weight;
  }

  /// The tree with its remaining edges. Each part that is cut off joins by a direct link from the
  /// root's part, the link with the most room first. Nothing if some part has no such link.
  std::optional<tree> mend(tree const& t) const {
    std::map<int, tree_edge> into;  // by rank
    for (auto const& e : t.broadcast) {
      if (ranks_.contains(e.from) && ranks_.contains(e.to) && passes(e)) into[e.to] = e;
    }
    auto const top_of = [&](int rank) {
      while (into.contains(rank)) rank = into.at(rank).from;
      return rank;
    };
    for (std::size_t parts = 1; parts != 0;) {
      parts = 0;
      tree_edge best;
      rational most;
      for (int const rank : ranks_) {
        if (rank == t.root || into.contains(rank)) continue;  // not the top of a part
        ++parts;
        for (int const other : ranks_) {
          auto const link = room_.find({other, rank});
          if (link == room_.end() || link->second <= most || top_of(other) != t.root) continue;
          most = link->second;
          best = {other, rank, {other, rank}};
        }
      }
      if (parts == 0) break;
      if (most == rational(0)) return std::nullopt;
      into[best.to] = best;
    }
    tree result{t.root, t.weight, {}, {}};
    std::vector<int> open{t.root};
    for (std::size_t next = 0; next < open.size(); ++next) {  // nearest to the root first
      for (auto const& [rank, edge] : into) {
        if (edge.from != open[next]) continue;
        result.broadcast.push_back(edge);
        open.push_back(rank);
      }
    }
    return result;
  }

  topology const* machine_;
  std::map<int, rational> demand_;                // left, by root
  std::map<std::pair<int, int>, rational> room_;  // left, by (from, to) node ids
  std::set<int> ranks_;
  std::vector<tree> trees_;
};

}}}  // namespace blink::BLINK_ABI::detail
