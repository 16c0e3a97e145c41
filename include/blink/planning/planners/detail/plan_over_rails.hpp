// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/link_loads.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/detail/inside_trees.hpp>
#include <blink/planning/planners/detail/narrow_ranks.hpp>
#include <blink/planning/planners/detail/rail_shares.hpp>
#include <blink/planning/planners/detail/server_ports.hpp>
#include <blink/planning/planners/detail/short_numbers.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The data that crosses between ranks of servers in the trees of a collective.
struct rail_division {
  std::vector<std::vector<rational>> parts;  ///< as of `server_ports`
  narrow_hosts hosts;
  std::vector<rail_tree> trees;
  rational total;     ///< of the shares of the trees: 1, or near it if they are rounded
  double excess = 0;  ///< as of `rail_shares`
};

/// Divides the data of a collective at a rate; see `plan_over_rails`. Nothing if a narrow rank has
/// no host, or if there are to be leaves and no rank is narrow.
[[nodiscard]] inline std::optional<rail_division> divide_over_rails(
    topology const& machine, collective kind, std::vector<server> const& servers,
    server_ports ports, rational const& rate, std::size_t root_server, narrow_rank_rule rule,
    std::size_t stride) {
  bool const rounds = rounds_parts(rule);
  std::vector<narrow_rank> narrow;
  if (rule != narrow_rank_rule::none) {
    auto found = narrow_ranks(machine, servers, ports, rate, rule);
    if (!found) return std::nullopt;
    narrow = *std::move(found);
  } else if (has_equal_roots(kind)) {
    rational const own(1, std::ssize(servers) * std::ssize(ports.ids.front()));
    for (std::size_t s = 0; s < servers.size(); ++s) {
      ports.parts[s] = parts_inside(machine, servers[s], ports.ids[s], ports.width[s], own, rate);
    }
  }
  narrow_hosts hosts(std::move(narrow), ports, rate, rounds);
  if (!hosts.suffice()) return std::nullopt;
  rail_shares shares(ports, rate, trees_of_servers(ports, kind, rate, root_server, rounds, stride),
                     has_both_phases(kind));
  shares.balance();
  for (std::size_t s = 0; s < servers.size(); ++s) {
    for (std::size_t k = 0; k < ports.ids[s].size(); ++k) {
      auto const rest = std::min(shares.left(s, k, false), shares.left(s, k, true));
      if (rest > rational(0)) hosts.add_room(s, k, rest);
    }
  }
  rational total;
  for (auto const& t : shares.trees()) total += t.share;
  hosts.set_total(total);
  auto const excess = shares.excess();
  auto const is_narrow = [&](rail_tree const& t) {
    return std::ranges::any_of(hosts.narrow(), [&](narrow_rank const& n) {
      return n.server == t.center && n.rank == t.rank;
    });
  };
  // Not std::stable_partition: with libstdc++ 12 it is deprecated to clang++.
  std::vector<rail_tree> trees;
  std::ranges::remove_copy_if(shares.trees(), std::back_inserter(trees), is_narrow);
  std::ranges::copy_if(shares.trees(), std::back_inserter(trees), is_narrow);
  return rail_division{std::move(ports.parts), std::move(hosts), std::move(trees), total, excess};
}

/// A broadcast, all-gather or all-reduce among servers of equally many ranks, at most at `rate`.
/// Nothing for other machines. The links of the servers to the outside may differ.
///
/// all_gather: a tree at each rank, with a star of servers
/// all_reduce: the same, with shares that follow the links of the rank
/// broadcast:  two complementary binary trees of servers for each position of ranks
///
/// Inside a server, data is spread over the trees of an optimal all-gather there.
///
/// rule: of an all-reduce; leaves are partly leaves of ranks in other servers. Exact leaves give a
///       plan at `rate` or none.
/// stride: of a broadcast: which servers are neighbours in its trees, see `binary_tree_of_servers`
/// Time: O(trees * servers * ranks of a server); as many trees as ranks or twice as many as
///       positions, and those that are divided.
[[nodiscard]] inline std::optional<plan> plan_over_rails(topology const& machine,
                                                         plan_request const& request,
                                                         std::vector<server> const& servers,
                                                         rational rate, narrow_rank_rule rule,
                                                         std::size_t stride = 1) {
  auto const count = servers.size();
  auto const ports = ports_of(machine, servers);
  if (!ports || count < 3 || rate <= rational(0)) return std::nullopt;
  bool const both_ways = has_both_phases(request.collective);
  bool const has_root = has_one_root(request.collective);
  std::size_t root_server = 0;
  for (std::size_t s = 0; has_root && s < count; ++s) {
    if (std::ranges::count(servers[s].ids, *request.root) != 0) root_server = s;
  }
  auto const& ids = ports->ids;
  auto const divide = [&] {
    return divide_over_rails(machine, request.collective, servers, *ports, rate, root_server, rule,
                             stride);
  };
  bool const rounds = rounds_parts(rule);
  if (rounds) rate = rate_up_to(rate.to_double());
  auto division = divide();
  constexpr int most_attempts = 8;
  constexpr double least_excess = 1e-4;
  for (int attempt = 1; (rounds || both_ways) && attempt < most_attempts; ++attempt) {
    if (!division || division->excess < least_excess) break;
    if (rule == narrow_rank_rule::rounded_leaves) {  // links among servers are scarce
      rule = narrow_rank_rule::rounded_roots;
    } else {
      rate = rate_up_to(rate.to_double() * (1 - std::min(division->excess, 0.5)));
    }
    division = divide();
  }
  if (!division || division->trees.empty()) return std::nullopt;
  auto& [parts, hosts, trees, total, excess] = *division;
  std::vector<std::vector<inside_trees>> inside;
  for (std::size_t s = 0; s < count; ++s) {
    if (rule != narrow_rank_rule::none) {
      inside.push_back(trees_inside(machine, servers[s], ids[s], s, hosts.narrow(), total));
    } else {
      inside.push_back(
          {{total, pieces_inside(inside_of(machine, servers[s]), ids[s],
                                 both_ways ? std::vector<rational>{} : parts[s], both_ways)}});
    }
  }
  inside_progress progress(std::move(inside));
  rational before;  // the part of the buffer of all trees so far
  for (auto const& t : trees) {
    if (!has_root) progress.expect(t.center, t.rank, before, t.share);
    for (std::size_t s = 0; s < count; ++s) {
      auto at = before;
      for (auto const& part : t.crossings[s]) {
        progress.expect(s, part.leaf, at, part.amount);
        at += part.amount;
      }
    }
    before += t.share;
  }
  if (!progress.is_possible()) return std::nullopt;
  server_pieces from_root;  // what the root sends inside its server, by part of the buffer
  if (has_root) {
    from_root = inside_pieces(machine, servers[root_server], request.collective, *request.root,
                              {{*request.root, 1}});
  }
  struct segment {
    rational end;  ///< of the share of the tree
    crossing_part const* part;
    server_piece const* piece;
  };
  routed_forest forest(machine, request);
  auto& route = forest.route();
  before = 0;
  for (auto const& t : trees) {
    std::vector<std::vector<segment>> segments(count);
    std::set<rational> ends;
    auto const add = [&](std::size_t s, rational const& end, crossing_part const* part,
                         server_piece const& piece) {
      segments[s].push_back({end, part, &piece});
      ends.insert(end);
    };
    if (has_root) {
      for (auto const& piece : from_root) {
        if (piece.end <= before) continue;
        add(t.center, std::min(piece.end - before, t.share), nullptr, piece);
        if (piece.end >= before + t.share) break;
      }
    } else {
      progress.advance(t.center, t.rank, before, t.share,
                       [&](rational const& end, server_piece const& piece) {
                         add(t.center, end, nullptr, piece);
                       });
    }
    for (std::size_t s = 0; s < count; ++s) {
      rational start;
      for (auto const& part : t.crossings[s]) {
        progress.advance(s, part.leaf, before + start, part.amount,
                         [&](rational const& end, server_piece const& piece) {
                           add(s, start + end, &part, piece);
                         });
        start += part.amount;
      }
    }
    rational start;
    for (auto next = ends.begin(); next != ends.end();) {
      auto end = *next;
      auto last = before + end;
      auto const guests = hosts.take(before + start, last);
      end = last - before;
      if (end == *next) ++next;
      std::vector<std::pair<int, int>> leaves;  // narrow ranks and their hosts
      for (auto const& [guest, host] : guests) {
        leaves.emplace_back(ids[guest->server][guest->rank], ids[host.server][host.rank]);
      }
      tree piece{has_root ? *request.root : ids[t.center][t.rank], end - start, {}, {}};
      for (bool const down : {false, true}) {
        if (!down && !both_ways) continue;
        auto& edges = down ? piece.broadcast : piece.reduce;
        auto const here = [&](std::size_t s) -> segment const& {
          return *std::ranges::find_if(segments[s],
                                       [&](segment const& each) { return each.end > start; });
        };
        auto const add_inside = [&](std::size_t s) {
          append(edges, down ? here(s).piece->broadcast : here(s).piece->reduce);
        };
        for (auto const& [leaf, host] : leaves) {
          if (!down) edges.push_back(route(leaf, host));
        }
        if (down) add_inside(t.center);
        for (auto const s : t.order) {
          if (s == t.center) continue;
          auto const& part = *here(s).part;
          int const leaf = ids[s][part.leaf], hub = ids[t.above[s]][part.hub];
          if (!down) add_inside(s);
          edges.push_back(down ? route(hub, leaf) : route(leaf, hub));
          if (down) add_inside(s);
        }
        if (!down) add_inside(t.center);
        for (auto const& [leaf, host] : leaves) {
          if (down) edges.push_back(route(host, leaf));
        }
      }
      forest.add(std::move(piece));
      start = end;
    }
    before += t.share;
  }
  auto result = std::move(forest).finish();
  if (rule == narrow_rank_rule::leaves) {
    if (result.rate != rate) return std::nullopt;
    (void)link_loads(result.trees);  // throws where a check of the plan would
  }
  if (rounds && result.rate > rational(0)) {
    auto const factor = rate_up_to(result.rate.to_double()) / result.rate;
    for (auto& t : result.trees) t.weight *= factor;
    result.rate *= factor;
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
