// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// Cuts links of a machine, pair of nodes by pair of nodes, until certain ranks have no route over
/// switches alone.
class route_cut {
 public:
  using pair = std::pair<int, int>;  // positions of two nodes, the smaller first

  explicit route_cut(topology const& machine) : machine_(machine), next_(machine.nodes.size()) {
    for (auto const& each : machine.links) {
      next_[static_cast<std::size_t>(each.tail)].insert(each.head);
      next_[static_cast<std::size_t>(each.head)].insert(each.tail);
    }
  }

  /// The pairs of nodes on a route from `a` to `b` with the fewest switches, in any direction of
  /// links. Empty if there is no route.
  [[nodiscard]] std::vector<pair> route(int a, int b) const {
    std::vector<int> from(next_.size(), -1);
    std::vector<int> open{a};
    from[static_cast<std::size_t>(a)] = a;
    for (std::size_t k = 0; k < open.size(); ++k) {
      int const here = open[k];
      if (here == b) break;
      if (here != a && !is_switch(here)) continue;
      for (int const to : next_[static_cast<std::size_t>(here)]) {
        if (from[static_cast<std::size_t>(to)] >= 0 || cut_.contains(std::minmax(here, to))) {
          continue;
        }
        from[static_cast<std::size_t>(to)] = here;
        open.push_back(to);
      }
    }
    std::vector<pair> result;
    if (from[static_cast<std::size_t>(b)] < 0) return result;
    for (int here = b; here != a; here = from[static_cast<std::size_t>(here)]) {
      result.push_back(std::minmax(here, from[static_cast<std::size_t>(here)]));
    }
    return result;
  }
  /// Cuts routes until no pair of `lost` has one. Each cut is at the place where the fewest other
  /// pairs of `ranks` lose their route. Among such places it takes the one with the most pairs of
  /// `lost`.
  void separate(std::set<pair> const& lost, std::vector<int> const& ranks) {
    for (auto const& [a, b] : lost) {
      for (auto now = route(a, b); !now.empty(); now = route(a, b)) cut_best(now, lost, ranks);
    }
    // Cuts that later cuts have made unnecessary are undone.
    auto const all = cut_;
    for (auto const& each : all) {
      cut_.erase(each);
      bool const is_needed = std::any_of(lost.begin(), lost.end(), [&](pair const& one) {
        return !route(one.first, one.second).empty();
      });
      if (is_needed) cut_.insert(each);
    }
  }
  [[nodiscard]] bool has_cut(struct link const& each) const {
    return cut_.contains(std::minmax(each.tail, each.head));
  }

 private:
  [[nodiscard]] bool is_switch(int node) const {
    return machine_.nodes[static_cast<std::size_t>(node)].kind == node_kind::switch_node;
  }
  void cut_best(std::vector<pair> const& places, std::set<pair> const& lost,
                std::vector<int> const& ranks) {
    struct loss {
      int of_others = 0;
      int of_lost = 0;
    };
    std::map<pair, loss> by_place;
    for (auto const& place : places) by_place[place];
    for (std::size_t j = 0; j < ranks.size(); ++j) {
      for (std::size_t k = j + 1; k < ranks.size(); ++k) {
        pair const one = std::minmax(ranks[j], ranks[k]);
        for (auto const& place : route(one.first, one.second)) {
          auto const found = by_place.find(place);
          if (found == by_place.end()) continue;
          ++(lost.contains(one) ? found->second.of_lost : found->second.of_others);
        }
      }
    }
    auto const best =
        std::min_element(by_place.begin(), by_place.end(), [](auto const& a, auto const& b) {
          return std::pair(a.second.of_others, -a.second.of_lost) <
                 std::pair(b.second.of_others, -b.second.of_lost);
        });
    cut_.insert(best->first);
  }

  topology const& machine_;
  std::vector<std::set<int>> next_;
  std::set<pair> cut_;
};

}  // namespace detail

/// The machine in which certain pairs of ranks are joined neither directly nor over switches alone.
/// No plan of it makes these ranks write to each other.
///
/// Links are cut in both directions, where the fewest other ranks lose their routes. If the pairs
/// are ranks of different sockets, that is the link between the sockets. If one GPU is in all
/// pairs, it is the link of this GPU. Every cut is needed, but other cuts might be fewer. The least
/// number of cuts is a multicut, which is NP-hard even on trees.
///
/// apart:  pairs of ranks, numbered from 0, in any order
/// Source: N. Garg, V. V. Vazirani and M. Yannakakis, 1997, for the hardness of multicuts on trees.
/// Time:   O(cuts * ranks^2 * (nodes + links)).
/// Pre:    `validate(machine)` does not throw; the ranks of a pair differ.
/// Post:   all ranks are kept. They may be disconnected, see `require_connected`.
/// Throws: precondition_error for a rank that the machine does not have, or a rank paired with
///         itself.
[[nodiscard]] inline topology without_routes(topology const& machine,
                                             std::vector<std::pair<int, int>> const& apart) {
  auto const ranks = machine.rank_positions();
  std::set<detail::route_cut::pair> lost;
  for (auto const& [a, b] : apart) {
    for (int const rank : {a, b}) {
      if (rank >= 0 && static_cast<std::size_t>(rank) < ranks.size()) continue;
      throw precondition_error("without_routes: rank " + std::to_string(rank) + ", expected 0 to " +
                               std::to_string(ranks.size() - 1));
    }
    if (a == b) {
      throw precondition_error("without_routes: rank " + std::to_string(a) +
                               " is paired with itself, expected two ranks");
    }
    lost.insert(
        std::minmax(ranks[static_cast<std::size_t>(a)], ranks[static_cast<std::size_t>(b)]));
  }
  detail::route_cut cut(machine);
  cut.separate(lost, ranks);
  std::vector<bool> keep;
  for (auto const& each : machine.links) keep.push_back(!cut.has_cut(each));
  return detail::without_idle_switches(
      detail::kept_part(machine, std::vector<bool>(machine.nodes.size(), true), keep));
}

}}  // namespace blink::BLINK_ABI
