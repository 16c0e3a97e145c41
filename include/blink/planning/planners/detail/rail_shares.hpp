// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_three_phase.hpp>
#include <blink/planning/planners/rank_patterns.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

// Trees among servers whose links to the outside differ: which rank of a server sends and receives
// what.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The capacity by which each rank of a server reaches the outside, the narrower direction, in
/// units. The links of a switch at the edge of the server count for the nearest ranks alike.
[[nodiscard]] inline std::vector<rational> widths_of(topology const& machine, server const& where,
                                                     std::vector<int> const& ids) {
  auto const nodes = machine.nodes.size();
  std::vector<std::vector<int>> near(nodes);                   // neighbours inside, either way
  std::map<int, std::pair<std::int64_t, std::int64_t>> gates;  // out and in, by position
  for (auto const& l : machine.links) {
    bool const leaves = is_inside(machine, where, l.tail);
    bool const enters = is_inside(machine, where, l.head);
    if (leaves && enters) {
      near[static_cast<std::size_t>(l.tail)].push_back(l.head);
      near[static_cast<std::size_t>(l.head)].push_back(l.tail);
    } else if (leaves) {
      gates[l.tail].first += l.capacity;
    } else if (enters) {
      gates[l.head].second += l.capacity;
    }
  }
  std::map<int, std::size_t> place;
  for (std::size_t i = 0; i < ids.size(); ++i) place[machine.position_of(ids[i])] = i;
  std::vector<rational> out(ids.size()), in(ids.size());
  for (auto const& [gate, capacity] : gates) {
    std::vector<std::size_t> nearest;
    std::set<int> seen{gate};
    for (std::vector<int> ring{gate}; nearest.empty() && !ring.empty();) {
      std::vector<int> next;
      for (int const at : ring) {
        if (auto const rank = place.find(at); rank != place.end()) nearest.push_back(rank->second);
        for (int const other : near[static_cast<std::size_t>(at)]) {
          if (seen.insert(other).second) next.push_back(other);
        }
      }
      ring = std::move(next);
    }
    auto const parts = static_cast<std::int64_t>(nearest.size());
    for (auto const i : nearest) {
      out[i] += machine.in_units(capacity.first) / parts;
      in[i] += machine.in_units(capacity.second) / parts;
    }
  }
  std::vector<rational> result;
  for (std::size_t i = 0; i < ids.size(); ++i) result.push_back(std::min(out[i], in[i]));
  return result;
}

/// Data that crosses between a server and the one above it in a tree.
struct crossing_part {
  std::size_t hub = 0;   ///< position of the rank in the server above
  std::size_t leaf = 0;  ///< position of the rank in the server below
  rational amount;       ///< of the buffer
};

/// A tree before it is built.
struct rail_tree {
  std::size_t center = 0;  ///< the server of the root
  std::size_t rank = 0;    ///< position of the rank in all servers between which data crosses
  rational share;          ///< of the buffer
  std::vector<std::size_t> order = {};  ///< servers, the center first, each after the one above it
  std::vector<std::size_t> above = {};  ///< by server
  /// By server: how the share crosses from the server above. Nothing for the center.
  std::vector<std::vector<crossing_part>> crossings = {};
};

/// A star of servers around the center.
[[nodiscard]] inline rail_tree star_of_servers(std::size_t center, std::size_t rank,
                                               rational const& share, std::size_t servers) {
  rail_tree result{center, rank, share};
  result.above.assign(servers, center);
  result.order = {center};
  for (std::size_t s = 0; s < servers; ++s) {
    if (s != center) result.order.push_back(s);
  }
  return result;
}

/// One of two complementary binary trees of servers below the center.
[[nodiscard]] inline rail_tree binary_tree_of_servers(std::size_t center, std::size_t rank,
                                                      rational const& share, std::size_t servers,
                                                      bool second) {
  rail_tree result{center, rank, share};
  result.above.assign(servers, center);
  std::vector<int> others;
  for (std::size_t s = 0; s < servers; ++s) {
    if (s != center) others.push_back(static_cast<int>(s));
  }
  auto const tree = in_order_tree(others, second);
  result.order = {center, static_cast<std::size_t>(tree.root)};
  for (auto const& [from, to] : tree.hops) {
    result.above[static_cast<std::size_t>(to)] = static_cast<std::size_t>(from);
    result.order.push_back(static_cast<std::size_t>(to));
  }
  return result;
}

/// The ranks of the servers, by position: their links to the outside.
struct server_ports {
  std::vector<std::vector<int>> ids;         ///< by server and position
  std::vector<std::vector<rational>> width;  ///< in units
  std::vector<std::vector<int>> rail;        ///< see `rail_of`
};

/// Divides the data that crosses between servers over their ranks.
///
/// At first all data of a tree crosses between the ranks at its position. Where that is more than a
/// rank's links carry, parts of it cross between other ranks of the same two servers, on one rail.
class rail_shares {
 public:
  /// rate:      at which the whole buffer moves
  /// both_ways: the data of a tree crosses in both directions
  rail_shares(server_ports const& ports, rational const& rate, std::vector<rail_tree> trees,
              bool both_ways)
      : ports_(ports), trees_(std::move(trees)), both_ways_(both_ways), room_(ports.width) {
    auto const servers = room_.size();
    for (auto& of_server : room_) {
      for (auto& r : of_server) r /= rate;
    }
    for (auto* load : {&received_, &sent_}) {
      load->assign(servers, std::vector<rational>(room_.front().size()));
    }
    for (auto& t : trees_) {
      t.crossings.assign(servers, {});
      for (std::size_t s = 0; s < servers; ++s) {
        if (s != t.center) add(t, s, {t.rank, t.rank, t.share});
      }
    }
  }

  [[nodiscard]] std::vector<rail_tree> balanced() && {
    constexpr int rounds = 4;  // what one rank gives up may make room for another
    for (int round = 0; round < rounds; ++round) {
      for (std::size_t s = 0; s < room_.size(); ++s) {
        for (std::size_t rank = 0; rank < room_[s].size(); ++rank) {
          relieve(s, rank, false);
          relieve(s, rank, true);
        }
      }
    }
    return std::move(trees_);
  }

 private:
  /// The part of the buffer that the links of a rank could carry more, as a leaf or as a hub.
  [[nodiscard]] rational left(std::size_t server, std::size_t rank, bool as_hub) const {
    auto const& room = room_[server][rank];
    if (both_ways_) return room - received_[server][rank] - sent_[server][rank];
    return room - (as_hub ? sent_ : received_)[server][rank];
  }

  void add(rail_tree& t, std::size_t server, crossing_part const& part) {
    t.crossings[server].push_back(part);
    received_[server][part.leaf] += part.amount;
    sent_[t.above[server]][part.hub] += part.amount;
  }

  void relieve(std::size_t server, std::size_t rank, bool as_hub) {
    auto const count = trees_.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (left(server, rank, as_hub) >= rational(0)) return;
      auto& t = trees_[(i + server * 13) % count];  // so that not the same trees are divided
      if (!as_hub && t.center != server) move(t, server, rank, false);
      for (std::size_t s = 0; as_hub && s < room_.size(); ++s) {
        if (s != t.center && t.above[s] == server) move(t, s, rank, true);
      }
    }
  }

  /// Moves as much of what a tree sends to a leaf from a rank to others as helps the rank.
  void move(rail_tree& t, std::size_t leaf, std::size_t rank, bool as_hub) {
    auto const above = t.above[leaf];
    auto const server = as_hub ? above : leaf;
    for (std::size_t p = 0; p < t.crossings[leaf].size(); ++p) {
      auto const over = -left(server, rank, as_hub);
      if (over <= rational(0)) break;
      auto const part = t.crossings[leaf][p];
      if ((as_hub ? part.hub : part.leaf) != rank || part.amount == rational(0)) continue;
      auto moved = part;
      rational most;
      // One end moves to another rank on the rail of the other end. If there is no room, both move.
      auto const rail = as_hub ? ports_.rail[leaf][part.leaf] : ports_.rail[above][part.hub];
      for (bool const both : {false, true}) {
        if (most > rational(0)) break;
        for (std::size_t k = 0; k < room_[leaf].size(); ++k) {
          if (k == rank || (both ? ports_.rail[above][k] != ports_.rail[leaf][k]
                                 : ports_.rail[server][k] != rail)) {
            continue;
          }
          auto const at_leaf = left(leaf, k, false), at_hub = left(above, k, true);
          auto const free = both ? std::min(at_leaf, at_hub) : as_hub ? at_hub : at_leaf;
          if (free <= most) continue;
          most = free;
          moved = {both || as_hub ? k : part.hub, both || !as_hub ? k : part.leaf, {}};
        }
      }
      if (most == rational(0)) continue;
      moved.amount = std::min({over, part.amount, most});
      t.crossings[leaf][p].amount -= moved.amount;
      received_[leaf][part.leaf] -= moved.amount;
      sent_[above][part.hub] -= moved.amount;
      add(t, leaf, moved);
      --p;  // what is left may move to another rank
    }
    std::erase_if(t.crossings[leaf],
                  [](crossing_part const& part) { return part.amount == rational(0); });
  }

  server_ports const& ports_;
  std::vector<rail_tree> trees_;
  bool both_ways_;
  std::vector<std::vector<rational>> room_;             // by server and rank: of the buffer
  std::vector<std::vector<rational>> received_, sent_;  // by server and rank
};

/// The share of an all-reduce of which each server is the center on each rail, at a rate. With M
/// servers, a leaf moves the part of a rail once each way and a center M - 2 times more.
///
/// width: by server and rail
/// Post:  exact if the links of every server carry the rails' parts; otherwise shares are rounded.
[[nodiscard]] inline std::vector<std::vector<rational>> rail_centers(
    std::vector<std::vector<rational>> const& width, rational const& rate) {
  auto const servers = width.size(), rails = width.front().size();
  auto const more = static_cast<std::int64_t>(servers) - 2;
  std::vector<std::vector<rational>> result(servers, std::vector<rational>(rails));
  rational all;
  std::vector<rational> of_rail(rails);
  for (auto const& of_server : width) {
    for (std::size_t r = 0; r < rails; ++r) {
      of_rail[r] += of_server[r];
      all += of_server[r];
    }
  }
  bool is_exact = rate == all / (2 * (more + 1));
  for (std::size_t s = 0; s < servers; ++s) {
    for (std::size_t r = 0; r < rails; ++r) {
      result[s][r] = (width[s][r] / rate - of_rail[r] / all) / more;
      is_exact = is_exact && result[s][r] >= rational(0);
    }
  }
  if (is_exact) return result;
  // What a rail is too narrow for in a server moves to the other rails there, which are center of
  // less. The parts of the rails follow from what each has left, and the other way round.
  std::vector<double> part(rails);
  std::vector<std::vector<double>> spare(servers, std::vector<double>(rails));
  for (std::size_t r = 0; r < rails; ++r) part[r] = (of_rail[r] / all).to_double();
  constexpr int rounds = 100;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> leaves(rails, 0);
    for (std::size_t s = 0; s < servers; ++s) {
      double lost = 0, room = 0;
      for (std::size_t r = 0; r < rails; ++r) {
        spare[s][r] = (width[s][r] / rate).to_double() - part[r];
        lost += std::max(-spare[s][r], 0.0);
        room += std::max(spare[s][r], 0.0);
      }
      for (std::size_t r = 0; r < rails; ++r) {
        double const moved = room > 0 ? std::min(lost / room, 1.0) * std::max(spare[s][r], 0.0) : 0;
        leaves[r] += part[r] + std::min(spare[s][r], 0.0) + moved;
        spare[s][r] = std::max(spare[s][r], 0.0) - moved;
      }
    }
    double sum = 0;
    for (std::size_t r = 0; r < rails; ++r) {
      part[r] = std::max((of_rail[r] / rate).to_double() - leaves[r], 0.0);
      sum += part[r];
    }
    for (double& each : part) each /= sum > 0 ? sum : 1;
  }
  constexpr std::int64_t steps = std::int64_t{1} << 20;
  for (std::size_t r = 0; r < rails; ++r) {
    double sum = 0;
    for (std::size_t s = 0; s < servers; ++s) sum += spare[s][r];
    for (std::size_t s = 0; s < servers; ++s) {
      double const share = sum > 0 ? part[r] * spare[s][r] / sum : 0;
      result[s][r] = rational(std::llround(share * static_cast<double>(steps)), steps);
    }
  }
  return result;
}

/// The trees of an all-reduce at a rate.
[[nodiscard]] inline std::vector<rail_tree> all_reduce_trees(server_ports const& ports,
                                                             rational const& rate) {
  std::map<int, std::size_t> number;  // of a rail
  for (auto const& of_server : ports.rail) {
    for (int const rail : of_server) number.emplace(rail, number.size());
  }
  std::vector<std::vector<rational>> width(ports.rail.size(), std::vector<rational>(number.size()));
  for (std::size_t s = 0; s < width.size(); ++s) {
    for (std::size_t k = 0; k < ports.rail[s].size(); ++k) {
      width[s][number.at(ports.rail[s][k])] += ports.width[s][k];
    }
  }
  auto const centers = rail_centers(width, rate);
  std::vector<rail_tree> result;
  for (std::size_t s = 0; s < width.size(); ++s) {
    for (std::size_t k = 0; k < ports.rail[s].size(); ++k) {
      auto const rail = number.at(ports.rail[s][k]);
      if (centers[s][rail] <= rational(0) || ports.width[s][k] == rational(0)) continue;
      result.push_back(star_of_servers(
          s, k, centers[s][rail] * (ports.width[s][k] / width[s][rail]), width.size()));
    }
  }
  return result;
}

/// The trees by which each rank of a server spreads (and sums, if `both_ways`) data inside, as
/// pieces of its data.
[[nodiscard]] inline std::vector<server_pieces> pieces_inside(topology const& machine,
                                                              server const& where,
                                                              std::vector<int> const& ids,
                                                              bool both_ways) {
  std::vector<server_pieces> result;
  if (ids.size() == 1) return {pieces_without_edges({{ids.front(), 1}})};
  auto const part = inside_of(machine, where);
  auto const spread = plan_inside(part, {collective::all_gather});
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
  auto const positions = servers.front().ids.size();
  if (count < 3 || rate <= rational(0)) return std::nullopt;
  bool const both_ways = has_both_phases(request.collective);
  bool const has_root = has_one_root(request.collective);
  server_ports ports;
  std::size_t root_server = 0;
  for (auto const& s : servers) {
    if (s.ids.size() != positions) return std::nullopt;
    if (has_root && std::ranges::count(s.ids, *request.root) != 0) root_server = ports.ids.size();
    ports.ids.push_back(by_rail(machine, s.ids));
    ports.width.push_back(widths_of(machine, s, ports.ids.back()));
    auto& rail = ports.rail.emplace_back();
    for (int const id : ports.ids.back()) rail.push_back(rail_of(machine, id));
  }
  auto const& ids = ports.ids;
  std::vector<rail_tree> wanted;
  if (both_ways) {
    wanted = all_reduce_trees(ports, rate);
  } else if (has_root) {
    rational const share(1, static_cast<std::int64_t>(2 * positions));
    for (std::size_t k = 0; k < positions; ++k) {
      for (bool const second : {false, true}) {
        wanted.push_back(binary_tree_of_servers(root_server, k, share, count, second));
      }
    }
  } else {
    rational const share(1, static_cast<std::int64_t>(count * positions));
    for (std::size_t s = 0; s < count; ++s) {
      for (std::size_t k = 0; k < positions; ++k) {
        wanted.push_back(star_of_servers(s, k, share, count));
      }
    }
  }
  if (wanted.empty()) return std::nullopt;
  auto const trees = rail_shares(ports, rate, std::move(wanted), both_ways).balanced();
  std::vector<std::vector<server_pieces>> inside;
  std::vector<std::vector<rational>> total(count, std::vector<rational>(positions));
  for (std::size_t s = 0; s < count; ++s) {
    inside.push_back(pieces_inside(machine, servers[s], ids[s], both_ways));
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
