// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/detail/rail_shares.hpp>
#include <blink/planning/planners/plan_shares.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <set>
#include <utility>
#include <vector>

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
/// pieces of its data.
///
/// parts: of the buffer, by rank; empty: equal parts, as always if `both_ways`
[[nodiscard]] inline std::vector<server_pieces> pieces_inside(topology const& machine,
                                                              server const& where,
                                                              std::vector<int> const& ids,
                                                              std::vector<rational> const& parts,
                                                              bool both_ways) {
  std::vector<server_pieces> result;
  if (ids.size() == 1) return {pieces_without_edges({{ids.front(), 1}})};
  auto const part = inside_of(machine, where);
  auto const with_parts = [&](topology const& forward, plan_request const& request) {
    return plan_shares(forward, request, shares_of(forward, ids, parts));
  };
  auto const spread = parts.empty() ? plan_inside(part, {collective::all_gather})
                                    : plan_forward(part, {collective::all_gather}, with_parts);
  auto const gathered = both_ways ? plan_inside(part, {collective::reduce_scatter}) : plan{};
  for (int const id : ids) {
    auto pieces = pieces_of(spread, {{id, 1}});
    result.push_back(both_ways ? overlay(pieces_of(gathered, {{id, 1}}), pieces)
                               : std::move(pieces));
  }
  return result;
}

/// Goes through the data of each rank that is spread inside its server, in the order of the trees.
class inside_progress {
 public:
  /// total: by server and rank: all the data, of the buffer
  inside_progress(std::vector<std::vector<server_pieces>> pieces,
                  std::vector<std::vector<rational>> total)
      : pieces_(std::move(pieces)), total_(std::move(total)) {
    for (auto const& of_server : total_) done_.emplace_back(of_server.size());
  }

  /// Calls `use(end, piece)` for the next `amount` of a rank's data, by piece, with its end counted
  /// from the beginning of the amount.
  template <class Use>
  void advance(std::size_t server, std::size_t rank, rational const& amount, Use use) {
    auto const& total = total_[server][rank];
    auto& done = done_[server][rank];
    rational start;
    for (auto const& piece : pieces_[server][rank]) {
      auto const until = piece.end * total - done;  // counted from here
      if (until <= start) continue;
      start = std::min(until, amount);
      use(start, piece);
      if (start == amount) break;
    }
    done += amount;
  }

 private:
  std::vector<std::vector<server_pieces>> pieces_;  // by server and rank
  std::vector<std::vector<rational>> total_, done_;
};

/// A broadcast, all-gather or all-reduce among servers of equally many ranks, at most at `rate`.
/// Nothing for other machines. The links of the servers to the outside may differ.
///
/// all_gather: a tree at each rank, with a star of servers
/// all_reduce: the same, with shares that follow the links of the rank
/// broadcast:  two complementary binary trees of servers for each position of ranks
///
/// Inside a server, data is spread over the trees of an optimal all-gather there.
///
/// Time: O(trees * servers * ranks of a server); as many trees as ranks or twice as many as
///       positions, and those that are divided.
[[nodiscard]] inline std::optional<plan> plan_over_rails(topology const& machine,
                                                         plan_request const& request,
                                                         std::vector<server> const& servers,
                                                         rational const& rate) {
  auto const count = servers.size();
  auto ports = ports_of(machine, servers);
  if (!ports || count < 3 || rate <= rational(0)) return std::nullopt;
  bool const both_ways = has_both_phases(request.collective);
  bool const has_root = has_one_root(request.collective);
  std::size_t root_server = 0;
  for (std::size_t s = 0; has_root && s < count; ++s) {
    if (std::ranges::count(servers[s].ids, *request.root) != 0) root_server = s;
  }
  auto const& ids = ports->ids;
  rational const own(1, std::ssize(servers) * std::ssize(ids.front()));
  for (std::size_t s = 0; !both_ways && !has_root && s < count; ++s) {
    ports->parts[s] = parts_inside(machine, servers[s], ids[s], ports->width[s], own, rate);
  }
  auto wanted = trees_of_servers(*ports, request.collective, rate, root_server);
  if (wanted.empty()) return std::nullopt;
  auto const trees = rail_shares(*ports, rate, std::move(wanted), both_ways).balanced();
  std::vector<std::vector<server_pieces>> inside;
  std::vector<std::vector<rational>> total(count, std::vector<rational>(ids.front().size()));
  for (std::size_t s = 0; s < count; ++s) {
    inside.push_back(pieces_inside(machine, servers[s], ids[s], ports->parts[s], both_ways));
  }
  for (auto const& t : trees) {
    if (!has_root) total[t.center][t.rank] += t.share;
    for (std::size_t s = 0; s < count; ++s) {
      for (auto const& part : t.crossings[s]) total[s][part.leaf] += part.amount;
    }
  }
  inside_progress progress(std::move(inside), std::move(total));
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
  rational before;  // the part of the buffer of all trees so far
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
      progress.advance(t.center, t.rank, t.share,
                       [&](rational const& end, server_piece const& piece) {
                         add(t.center, end, nullptr, piece);
                       });
    }
    for (std::size_t s = 0; s < count; ++s) {
      rational start;
      for (auto const& part : t.crossings[s]) {
        progress.advance(s, part.leaf, part.amount,
                         [&](rational const& end, server_piece const& piece) {
                           add(s, start + end, &part, piece);
                         });
        start += part.amount;
      }
    }
    rational start;
    for (auto const& end : ends) {
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
      }
      forest.add(std::move(piece));
      start = end;
    }
    before += t.share;
  }
  return std::move(forest).finish();
}

}}}  // namespace blink::BLINK_ABI::detail
