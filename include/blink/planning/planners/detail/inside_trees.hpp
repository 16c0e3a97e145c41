// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/detail/narrow_ranks.hpp>
#include <blink/planning/planners/plan_shares.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

// The trees inside servers that follow what crosses between servers.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Parts of the buffer as whole shares, in the order of the machine's ranks.
[[nodiscard]] inline std::vector<std::int64_t> shares_of(topology const& machine,
                                                         std::vector<int> const& ids,
                                                         std::vector<rational> const& parts) {
  std::int64_t denominator = 1;
  for (auto const& part : parts) {
    denominator = common_multiple(denominator, part.denominator());
  }
  std::vector<std::int64_t> result;
  for (int const at : machine.rank_positions()) {
    auto const k =
        std::ranges::find(ids, machine.nodes[static_cast<std::size_t>(at)].id) - ids.begin();
    result.push_back((parts[static_cast<std::size_t>(k)] * denominator).numerator());
  }
  return result;
}

/// The trees by which each rank of a server spreads (and sums, if `both_ways`) data inside, as
/// pieces of its data, by rank.
///
/// inside: the server, or a part of it
/// ids:    of its ranks
/// parts:  of the buffer, by rank; empty: equal parts
[[nodiscard]] inline std::vector<server_pieces> pieces_inside(topology const& inside,
                                                              std::vector<int> const& ids,
                                                              std::vector<rational> const& parts,
                                                              bool both_ways) {
  std::vector<server_pieces> result;
  if (ids.size() == 1) return {pieces_without_edges({{ids.front(), 1}})};
  auto const planned = [&](collective kind) {
    if (parts.empty()) return plan_inside(inside, {kind});
    return plan_forward(inside, {kind}, [&](topology const& forward, plan_request const& request) {
      return plan_shares(forward, request, shares_of(forward, ids, parts));
    });
  };
  auto const spread = planned(collective::all_gather);
  auto const gathered = both_ways ? planned(collective::reduce_scatter) : plan{};
  for (int const id : ids) {
    auto pieces = pieces_of(spread, {{id, 1}});
    result.push_back(both_ways ? overlay(pieces_of(gathered, {{id, 1}}), pieces)
                               : std::move(pieces));
  }
  return result;
}

/// The trees by which each rank of a server sums and spreads data inside, as pieces of its data.
/// Narrow ranks are leaves. Ranks outside are in no tree and have no piece.
[[nodiscard]] inline std::vector<server_pieces> pieces_around_leaves(
    topology const& machine, server const& where, std::vector<int> const& ids,
    std::vector<bool> const& is_narrow, std::vector<bool> const& is_outside) {
  constexpr std::int64_t of_others = 100;  // times what a narrow rank sums and spreads
  std::vector<int> members;
  std::vector<rational> parts;
  for (std::size_t k = 0; k < ids.size(); ++k) {
    if (is_outside[k]) continue;
    members.push_back(ids[k]);
    parts.emplace_back(is_narrow[k] ? 1 : of_others);
  }
  auto const part = subset(inside_of(machine, where), members);
  auto const switches = used_switches(part);
  bool const is_star = switches.size() == 1 && std::ranges::all_of(part.links, [&](link const& l) {
                         return l.tail == switches.front() || l.head == switches.front();
                       });
  std::vector<server_pieces> pieces;  // by member
  if (!is_star) pieces = pieces_inside(part, members, parts, true);
  for (std::size_t m = 0; is_star && m < members.size(); ++m) {
    int const id = members[m];
    int const center = part.nodes[static_cast<std::size_t>(switches.front())].id;
    server_piece piece{1, id, {}, {}};
    for (int const other : members) {
      if (other == id) continue;
      piece.reduce.push_back({other, id, {other, center, id}});
      piece.broadcast.push_back({id, other, {id, center, other}});
    }
    pieces.push_back({std::move(piece)});
  }
  std::vector<server_pieces> result(ids.size());
  for (std::size_t k = 0, m = 0; k < ids.size(); ++k) {
    if (!is_outside[k]) result[k] = std::move(pieces[m++]);
  }
  return result;
}

/// The trees by which the ranks of a server spread (and sum) a part of the buffer.
struct inside_trees {
  rational until;                               ///< the end of the part
  std::vector<server_pieces> pieces;            ///< by rank
  std::vector<rational> total = {}, done = {};  ///< by rank, of the buffer
};

/// The trees of a server for the whole buffer. Narrow ranks of the server leave its trees where
/// they exchange data with hosts.
[[nodiscard]] inline std::vector<inside_trees> trees_inside(
    topology const& machine, server const& where, std::vector<int> const& ids, std::size_t number,
    std::vector<narrow_rank> const& narrow, rational const& total) {
  std::set<rational> ends{total};
  std::vector<bool> is_narrow(ids.size(), false);
  for (auto const& n : narrow) {
    if (n.server != number) continue;
    is_narrow[n.rank] = true;
    if (n.outside > rational(0)) ends.insert(n.outside);
  }
  std::vector<inside_trees> result;
  for (auto const& end : ends) {
    std::vector<bool> is_outside(ids.size(), false);
    for (auto const& n : narrow) {
      if (n.server == number && n.outside >= end) is_outside[n.rank] = true;
    }
    result.push_back({end, pieces_around_leaves(machine, where, ids, is_narrow, is_outside)});
  }
  return result;
}

/// Goes through the data of each rank that is spread inside its server, in the order of the trees.
class inside_progress {
 public:
  /// trees: by server
  explicit inside_progress(std::vector<std::vector<inside_trees>> trees)
      : trees_(std::move(trees)) {
    for (auto& of_server : trees_) {
      for (auto& each : of_server) {
        each.total.assign(each.pieces.size(), {});
        each.done.assign(each.pieces.size(), {});
      }
    }
  }

  /// Tells that a rank will have `amount` of the buffer to spread, from `at` on.
  void expect(std::size_t server, std::size_t rank, rational const& at, rational const& amount) {
    each_part(server, at, amount, [&](inside_trees& trees, rational const&, rational const& part) {
      trees.total[rank] += part;
    });
  }

  /// True if all data that is expected has trees.
  [[nodiscard]] bool is_possible() const {
    for (auto const& of_server : trees_) {
      for (auto const& each : of_server) {
        for (std::size_t k = 0; k < each.total.size(); ++k) {
          if (each.total[k] > rational(0) && each.pieces[k].empty()) return false;
        }
      }
    }
    return true;
  }

  /// Calls `use(end, piece)` for the next `amount` of a rank's data, by piece, with its end counted
  /// from the beginning of the amount.
  template <class Use>
  void advance(std::size_t server, std::size_t rank, rational const& at, rational const& amount,
               Use use) {
    each_part(server, at, amount,
              [&](inside_trees& trees, rational const& before, rational const& part) {
                rational start;
                for (auto const& piece : trees.pieces[rank]) {
                  auto const until = piece.end * trees.total[rank] - trees.done[rank];
                  if (until <= start) continue;
                  start = std::min(until, part);
                  use(before + start, piece);
                  if (start == part) break;
                }
                trees.done[rank] += part;
              });
  }

 private:
  /// Calls `visit(trees, before, part)` for the parts of data that have different trees; `before`
  /// counts what comes before the part.
  template <class Visit>
  void each_part(std::size_t server, rational const& at, rational const& amount, Visit visit) {
    rational before;
    for (auto& trees : trees_[server]) {
      if (before == amount) return;
      if (trees.until <= at + before) continue;
      auto const part = std::min(trees.until - at, amount) - before;
      visit(trees, before, part);
      before += part;
    }
  }

  std::vector<std::vector<inside_trees>> trees_;
};

}}}  // namespace blink::BLINK_ABI::detail
