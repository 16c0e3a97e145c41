// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/detail/supplied_graph.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/planning/planners/plan_switch.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// The work of one server on a part of the buffer. The ranks' sum goes to the leader, or copies
/// come from the leader. In the server of a broadcast's root, copies come from the root.
struct server_piece {
  rational end;  ///< as a fraction of the buffer; the piece begins where the one before ends
  int server_leader = 0;  ///< node id: the rank that exchanges data with other servers
  std::vector<tree_edge> reduce;
  std::vector<tree_edge> broadcast;
};
using server_pieces = std::vector<server_piece>;

/// The piece that contains the part just after `start`.
[[nodiscard]] inline server_piece const& piece_behind(server_pieces const& pieces,
                                                      rational const& start) {
  return *std::find_if(pieces.begin(), pieces.end(),
                       [&](server_piece const& p) { return p.end > start; });
}

/// Overlays two lists of pieces. The result has the ends of both, the leaders and reduce edges of
/// the first, and the broadcast edges of the second.
[[nodiscard]] inline server_pieces overlay(server_pieces const& first,
                                           server_pieces const& second) {
  std::set<rational> ends;
  for (auto const* pieces : {&first, &second}) {
    for (auto const& p : *pieces) ends.insert(p.end);
  }
  server_pieces result;
  rational start;
  for (auto const& end : ends) {
    auto const& a = piece_behind(first, start);
    result.push_back({end, a.server_leader, a.reduce, piece_behind(second, start).broadcast});
    start = end;
  }
  return result;
}

/// A rank of a server, and the part of the buffer of which it is the leader.
struct leader_share {
  int id = 0;
  rational share;
};

/// The trees of a plan as pieces of a buffer, in the order of their roots as given. The trees of a
/// root share its part in proportion to their weights.
[[nodiscard]] inline server_pieces pieces_of(plan p, std::vector<leader_share> const& leaders) {
  server_pieces result;
  rational end;
  for (auto const& [root, share] : leaders) {
    rational all;
    for (auto const& t : p.trees) {
      if (t.root == root) all += t.weight;
    }
    for (auto& t : p.trees) {
      if (t.root != root) continue;
      end += share * (t.weight / all);
      result.push_back({end, root, std::move(t.reduce), std::move(t.broadcast)});
    }
  }
  return result;
}

/// A piece for each leader, without edges.
[[nodiscard]] inline server_pieces pieces_without_edges(std::vector<leader_share> const& leaders) {
  server_pieces result;
  rational end;
  for (auto const& [id, share] : leaders) result.push_back({end += share, id, {}, {}});
  return result;
}

/// True if the node is inside the server.
[[nodiscard]] inline bool is_inside(topology const& machine, server const& where, int at) {
  auto const& n = machine.nodes[static_cast<std::size_t>(at)];
  return where.server >= 0 ? n.server == where.server : n.id == where.ids.front();
}

/// The leaders of a server with equal shares, or in proportion to the narrower direction of each
/// rank's own links to the outside. Shares are equal where switches of the server have such links.
[[nodiscard]] inline std::vector<leader_share> leaders_of(topology const& machine,
                                                          server const& where, bool by_rails,
                                                          bool by_width) {
  std::vector<leader_share> result;
  auto const equal = rational(1, static_cast<std::int64_t>(where.ids.size()));
  for (int const id : by_rails ? by_rail(machine, where.ids) : where.ids) {
    result.push_back({id, equal});
  }
  if (!by_width) return result;
  std::map<int, std::int64_t> out, in;  // capacity by rank
  for (auto const& l : machine.links) {
    bool const leaves = is_inside(machine, where, l.tail);
    if (leaves == is_inside(machine, where, l.head)) continue;
    auto const& gate = machine.nodes[static_cast<std::size_t>(leaves ? l.tail : l.head)];
    if (gate.kind == node_kind::switch_node) return result;
    (leaves ? out : in)[gate.id] += l.capacity;
  }
  std::int64_t all = 0;
  for (int const id : where.ids) all += std::min(out[id], in[id]);
  if (all == 0) return result;
  for (auto& [id, share] : result) share = rational(std::min(out[id], in[id]), all);
  return result;
}

/// Plans a collective optimally inside a server.
[[nodiscard]] inline plan plan_inside(topology const& part, plan_request const& request) {
  return plan_forward(part, request, [](topology const& forward, plan_request const& wanted) {
    auto star = plan_star(forward, wanted);
    return star ? std::move(*star) : plan_direct(forward, wanted);
  });
}

/// The trees by which a server spreads (and sums, for all-reduce) what its leaders receive. With
/// `root`, the trees spread the data of a broadcast's root. They are packed optimally for the
/// inside of the server.
/// Throws: planning_error that names the server, if its ranks are not connected inside.
[[nodiscard]] inline server_pieces inside_pieces(topology const& machine, server const& where,
                                                 collective kind, std::optional<int> root,
                                                 std::vector<leader_share> const& leaders) {
  if (where.ids.size() == 1) return pieces_without_edges(leaders);
  auto const part = inside_of(machine, where);
  auto const packed = [&](collective local) { return plan_inside(part, {local, root}); };
  try {
    if (root)
      return overlay(pieces_without_edges(leaders),
                     pieces_of(packed(collective::broadcast), {{*root, 1}}));
    auto spread = pieces_of(packed(collective::all_gather), leaders);
    if (!has_both_phases(kind)) return spread;
    return overlay(pieces_of(packed(collective::reduce_scatter), leaders), spread);
  } catch (planning_error const& reason) {
    throw planning_error("three_phase: inside server " + std::to_string(where.server) + ": " +
                         reason.what());
  }
}

inline void append(std::vector<tree_edge>& edges, std::vector<tree_edge> const& more) {
  edges.insert(edges.end(), more.begin(), more.end());
}

/// The capacity of the links that leave each server, in units.
[[nodiscard]] inline std::vector<rational> capacities_out(topology const& machine,
                                                          std::vector<server> const& servers) {
  std::vector<rational> result;
  for (auto const& s : servers) {
    rational sum;
    for (auto const& l : machine.links) {
      if (is_inside(machine, s, l.tail) && !is_inside(machine, s, l.head)) {
        sum += machine.in_units(l.capacity);
      }
    }
    result.push_back(sum);
  }
  return result;
}

/// The share of an all-reduce of which each server is the center, such that all servers end
/// together. With M servers, the center of a share w moves 1 + (M - 2) w of the buffer each way.
/// The narrowest servers may be center of nothing.
[[nodiscard]] inline std::vector<rational> center_shares(std::vector<rational> const& capacities) {
  auto const count = static_cast<std::int64_t>(capacities.size());
  std::vector<rational> result(capacities.size(), rational(1, count));
  if (count == 2) return result;
  auto widest = capacities;
  std::sort(widest.begin(), widest.end(), [](auto const& a, auto const& b) { return b < a; });
  rational sum;
  rational time;  // at the first number of centers that one more does not improve
  for (std::int64_t centers = 1; centers <= count; ++centers) {
    sum += widest[static_cast<std::size_t>(centers - 1)];
    time = rational(count - 2 + centers) / sum;
    if (centers == count || time * widest[static_cast<std::size_t>(centers)] <= rational(1)) break;
  }
  for (std::size_t s = 0; s < capacities.size(); ++s) {
    auto const rest = time * capacities[s] - rational(1);
    result[s] = rest > rational(0) ? rest / (count - 2) : rational(0);
  }
  return result;
}

/// Options for joining the phases.
struct phase_choice {
  bool orders_by_rail = false;   ///< else the leaders of a server are in the order of their ids
  bool shares_by_width = false;  ///< all_reduce: else every server is center of an equal share
  /// all_reduce and broadcast: the leaders' parts follow their links; else they are equal
  bool leaders_by_width = false;
};

/// The plan with one choice. Pre: neither a reduce nor a reduce_scatter.
[[nodiscard]] inline plan glued_phases(topology const& machine, plan_request const& request,
                                       phase_choice const& choice) {
  routed_forest forest(machine, request);
  auto const total = static_cast<std::int64_t>(forest.ranks().size());
  if (total == 1) return std::move(forest).finish();
  auto const servers = several_servers(machine, request.planner);
  auto const count = servers.size();
  auto const one = static_cast<std::int64_t>(count);
  bool const is_broadcast = has_one_root(request.collective);
  bool const both_ways = has_both_phases(request.collective);
  int const root = request.root.value_or(forest.ranks().front());

  std::vector<server_pieces> pieces;
  std::set<rational> ends;
  std::size_t root_server = 0;
  for (auto const& s : servers) {
    bool const at_root = is_broadcast && std::find(s.ids.begin(), s.ids.end(), root) != s.ids.end();
    if (at_root) root_server = pieces.size();
    pieces.push_back(
        inside_pieces(machine, s, request.collective, at_root ? std::optional(root) : std::nullopt,
                      leaders_of(machine, s, choice.orders_by_rail, choice.leaders_by_width)));
    for (auto const& p : pieces.back()) ends.insert(p.end);
  }

  auto const shares = choice.shares_by_width ? center_shares(capacities_out(machine, servers))
                                             : std::vector<rational>(count, rational(1, one));
  auto& route = forest.route();
  rational start;
  for (auto const& end : ends) {
    std::vector<server_piece const*> here;
    for (auto const& p : pieces) here.push_back(&piece_behind(p, start));
    auto const length = end - start;
    start = end;
    for (std::size_t center = 0; center < count; ++center) {
      // A broadcast goes from the root's server to a center in another server first.
      if (is_broadcast && center == root_server) continue;
      if (both_ways && shares[center] == rational(0)) continue;
      int const hub = here[center]->server_leader;
      tree t{is_broadcast ? root : hub, length * shares[center], {}, {}};
      if (is_broadcast) {
        t.weight = length / (one - 1);
        append(t.broadcast, here[root_server]->broadcast);
        t.broadcast.push_back(route(here[root_server]->server_leader, hub));
      } else if (!both_ways) {
        t.weight = length * static_cast<std::int64_t>(servers[center].ids.size()) / total;
      }
      for (std::size_t s = 0; s < count; ++s) {
        append(t.reduce, here[s]->reduce);
        bool const reached = s == center || (is_broadcast && s == root_server);
        if (!reached && both_ways) t.reduce.push_back(route(here[s]->server_leader, hub));
        if (!reached) t.broadcast.push_back(route(hub, here[s]->server_leader));
        if (!(is_broadcast && s == root_server)) append(t.broadcast, here[s]->broadcast);
      }
      forest.add(std::move(t));
    }
  }
  return std::move(forest).finish();
}

}  // namespace detail

/// Plans a collective over several servers in three phases: inside each server over trees that are
/// optimal there, among the servers in one hop, and inside again.
///
/// The buffer is cut into pieces. In each server, every rank is the leader of an equal part of
/// them. For all_reduce and broadcast the parts may also follow the ranks' own links that leave the
/// server. So servers with different numbers of ranks have the same pieces, and all NICs are busy.
/// Leaders are matched in the order of their ids or of their rails, whichever is faster. The trees
/// of a piece are the local ones, joined by a star among the leaders:
///
/// all_reduce:                 every server is the center of a share of each piece, equal ones or
///                             such that all end together.
/// all_gather, reduce_scatter: every server is the center for what its ranks root.
/// broadcast, reduce:          from the root's server to another and from there to the rest, in
///                             turn.
///
/// Source: Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020,
///         section 3.5.
/// Time:   a few times that of `plan_direct` for each server, and O(pieces * servers * N) edges.
/// Pre:    neither a reduce nor a reduce_scatter, which `make_plan` plans on the reversed machine.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: precondition_error for a reduce or reduce_scatter; planning_error on a single server,
///         and if a server's ranks are not connected inside or servers not with each other.
[[nodiscard]] inline plan plan_three_phase(topology const& machine, plan_request const& request) {
  detail::expect_forward(request);
  auto best = detail::glued_phases(machine, request, {});
  if (best.trees.empty()) return best;
  auto const servers = detail::servers_of(machine);
  auto const differ = [](auto const& shares) {
    return std::ranges::any_of(shares, [&](rational const& w) { return w != shares.front(); });
  };
  bool const has_narrow = has_both_phases(request.collective) &&
                          differ(detail::center_shares(detail::capacities_out(machine, servers)));
  bool const has_rails = std::ranges::any_of(
      servers, [&](detail::server const& s) { return detail::by_rail(machine, s.ids) != s.ids; });
  bool const has_uneven_leaders =
      !has_equal_roots(request.collective) &&
      std::ranges::any_of(servers, [&](detail::server const& s) {
        std::vector<rational> shares;
        for (auto const& each : detail::leaders_of(machine, s, false, true)) {
          shares.push_back(each.share);
        }
        return differ(shares);
      });
  std::vector<detail::phase_choice> choices{{}};
  auto const also = [&](bool is_worth_it, bool detail::phase_choice::* choice) {
    auto more = is_worth_it ? choices : std::vector<detail::phase_choice>{};
    for (auto& each : more) each.*choice = true;
    choices.insert(choices.end(), more.begin(), more.end());
  };
  also(has_narrow, &detail::phase_choice::shares_by_width);
  also(has_rails, &detail::phase_choice::orders_by_rail);
  also(has_uneven_leaders, &detail::phase_choice::leaders_by_width);
  for (std::size_t i = 1; i < choices.size(); ++i) {  // `best` is the first
    auto candidate = detail::glued_phases(machine, request, choices[i]);
    if (candidate.rate > best.rate) best = std::move(candidate);
  }
  return best;
}

}}  // namespace blink::BLINK_ABI
