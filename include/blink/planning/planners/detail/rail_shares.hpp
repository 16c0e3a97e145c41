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

/// By node: the rank of the server that the node alone is joined to inside the server, such as the
/// rank of a NIC; ranks have themselves. -1 for all other nodes. Ranks and nodes by position.
[[nodiscard]] inline std::vector<int> owners_inside(topology const& machine, server const& where) {
  constexpr int none = -1, several = -2;
  std::vector<int> result(machine.nodes.size(), none);
  auto const ranks = machine.rank_positions();
  auto const is_rank = [&](int at) { return std::ranges::binary_search(ranks, at); };
  for (auto const& l : machine.links) {
    if (!is_inside(machine, where, l.tail) || !is_inside(machine, where, l.head)) continue;
    for (auto const& [node, other] : {std::pair(l.tail, l.head), std::pair(l.head, l.tail)}) {
      auto& owner = result[static_cast<std::size_t>(node)];
      owner = owner == none || owner == other ? other : several;
    }
  }
  for (std::size_t at = 0; at < result.size(); ++at) {
    auto& owner = result[at];
    if (owner == several || (owner >= 0 && !is_rank(owner))) owner = none;
  }
  for (int const at : ranks) {
    if (is_inside(machine, where, at)) result[static_cast<std::size_t>(at)] = at;
  }
  return result;
}

/// The capacity by which each rank of a server reaches the outside, the narrower direction, in
/// units. The links of a switch at the edge of the server count for the nearest ranks alike. A NIC
/// of one rank is no wider than its links to the rank.
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
  auto const owner = owners_inside(machine, where);
  std::map<int, std::pair<std::int64_t, std::int64_t>> of_owner;  // from it and to it, by position
  for (auto const& l : machine.links) {
    if (owner[static_cast<std::size_t>(l.head)] == l.tail) of_owner[l.head].first += l.capacity;
    if (owner[static_cast<std::size_t>(l.tail)] == l.head) of_owner[l.tail].second += l.capacity;
  }
  for (auto& [gate, capacity] : gates) {
    auto const found = of_owner.find(gate);
    if (found == of_owner.end()) continue;
    capacity.first = std::min(capacity.first, found->second.first);
    capacity.second = std::min(capacity.second, found->second.second);
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
  /// By server: the parts of the buffer that the ranks spread inside, those of roots included.
  /// Empty where equal parts reach all ranks.
  std::vector<std::vector<rational>> parts;
};

/// The ports of servers of equally many ranks; nothing if their numbers differ.
[[nodiscard]] inline std::optional<server_ports> ports_of(topology const& machine,
                                                          std::vector<server> const& servers) {
  server_ports result;
  for (auto const& s : servers) {
    if (s.ids.size() != servers.front().ids.size()) return std::nullopt;
    result.ids.push_back(by_rail(machine, s.ids));
    result.width.push_back(widths_of(machine, s, result.ids.back()));
    auto& rail = result.rail.emplace_back();
    for (int const id : result.ids.back()) rail.push_back(rail_of(machine, id));
    result.parts.emplace_back();
  }
  return result;
}

/// The parts of the buffer that the ranks of a server spread inside, in an all-gather at a rate.
/// What the links inside cannot bring to a rank has to enter there. Empty if equal parts will do,
/// or no parts.
///
/// width: by rank, to the outside
/// own:   the part of the buffer that is a rank's own data
[[nodiscard]] inline std::vector<rational> parts_inside(topology const& machine,
                                                        server const& where,
                                                        std::vector<int> const& ids,
                                                        std::vector<rational> const& width,
                                                        rational const& own, rational const& rate) {
  auto const owner = owners_inside(machine, where);
  std::map<int, rational> into;  // by position
  for (auto const& l : machine.links) {
    if (!is_inside(machine, where, l.tail) || !is_inside(machine, where, l.head)) continue;
    if (owner[static_cast<std::size_t>(l.tail)] == l.head) continue;  // from its NIC
    into[l.head] += machine.in_units(l.capacity);
  }
  auto const count = ids.size();
  std::vector<rational> result(count);
  std::vector<bool> is_fixed(count, false);
  rational rest = 1;
  auto others = static_cast<std::int64_t>(count);
  auto const fix = [&](std::size_t k, rational const& part) {
    result[k] = part;
    is_fixed[k] = true;
    rest -= part;
    --others;
  };
  for (std::size_t k = 0; k < count; ++k) {
    auto const least = rational(1) - into[machine.position_of(ids[k])] / rate;
    if (least > rational(1, static_cast<std::int64_t>(count))) fix(k, least);
  }
  if (others == static_cast<std::int64_t>(count)) return {};
  // The others have equal parts, but no more than their links bring.
  for (bool changed = true; changed && others > 0;) {
    changed = false;
    auto const level = rest / others;
    for (std::size_t k = 0; k < count; ++k) {
      auto const most = width[k] / rate + own;
      if (is_fixed[k] || most >= level) continue;
      fix(k, most);
      changed = true;
    }
  }
  if (others == 0 || rest < rational(0)) return {};
  for (std::size_t k = 0; k < count; ++k) {
    if (!is_fixed[k]) result[k] = rest / others;
  }
  return result;
}

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
    for (auto* load : {&received_, &sent_, &own_}) {
      load->assign(servers, std::vector<rational>(room_.front().size()));
    }
    for (auto& t : trees_) {
      t.crossings.assign(servers, {});
      own_[t.center][t.rank] += t.share;
      for (std::size_t s = 0; s < servers; ++s) {
        if (s != t.center) add(t, s, {t.rank, t.rank, t.share});
      }
    }
  }

  [[nodiscard]] std::vector<rail_tree> balanced() && {
    for (std::size_t s = 0; s < room_.size(); ++s) {
      for (std::size_t rank = 0; rank < room_[s].size(); ++rank) {
        relieve(s, rank, false);
        relieve(s, rank, true);
      }
    }
    return std::move(trees_);
  }

 private:
  /// The part of the buffer that the links of a rank could carry more, as a leaf or as a hub.
  [[nodiscard]] rational left(std::size_t server, std::size_t rank, bool as_hub) const {
    auto const& received = received_[server][rank];
    auto const& sent = sent_[server][rank];
    auto const room = room_[server][rank] - (both_ways_ ? received + sent
                                             : as_hub   ? sent
                                                        : received);
    if (as_hub || ports_.parts[server].empty()) return room;
    return std::min(room, ports_.parts[server][rank] - own_[server][rank] - received);
  }

  void add(rail_tree& t, std::size_t server, crossing_part const& part) {
    t.crossings[server].push_back(part);
    received_[server][part.leaf] += part.amount;
    sent_[t.above[server]][part.hub] += part.amount;
  }

  void relieve(std::size_t server, std::size_t rank, bool as_hub) {
    for (auto& t : trees_) {
      if (left(server, rank, as_hub) >= rational(0)) return;
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
  std::vector<std::vector<rational>> own_;              // the same: shares of roots
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
  for (std::size_t r = 0; r < rails; ++r) part[r] = ratio(of_rail[r], all);
  constexpr int rounds = 100;
  for (int round = 0; round < rounds; ++round) {
    std::vector<double> leaves(rails, 0);
    for (std::size_t s = 0; s < servers; ++s) {
      double lost = 0, room = 0;
      for (std::size_t r = 0; r < rails; ++r) {
        spare[s][r] = ratio(width[s][r], rate) - part[r];
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
      part[r] = std::max(ratio(of_rail[r], rate) - leaves[r], 0.0);
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

/// The trees of a collective, before any data crosses between other ranks than those at its
/// position.
///
/// root_server: of a broadcast
[[nodiscard]] inline std::vector<rail_tree> trees_of_servers(server_ports const& ports,
                                                             collective kind, rational const& rate,
                                                             std::size_t root_server) {
  if (has_both_phases(kind)) return all_reduce_trees(ports, rate);
  auto const servers = ports.ids.size(), positions = ports.ids.front().size();
  std::vector<rail_tree> result;
  if (has_one_root(kind)) {
    rational const share(1, static_cast<std::int64_t>(2 * positions));
    for (std::size_t k = 0; k < positions; ++k) {
      for (bool const second : {false, true}) {
        result.push_back(binary_tree_of_servers(root_server, k, share, servers, second));
      }
    }
    return result;
  }
  rational const share(1, static_cast<std::int64_t>(servers * positions));
  for (std::size_t s = 0; s < servers; ++s) {
    for (std::size_t k = 0; k < positions; ++k) {
      result.push_back(star_of_servers(s, k, share, servers));
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
