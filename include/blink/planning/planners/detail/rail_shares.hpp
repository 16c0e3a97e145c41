// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/planners/detail/rail_parts.hpp>
#include <blink/planning/planners/detail/server_ports.hpp>
#include <blink/planning/planners/detail/short_numbers.hpp>
#include <blink/planning/planners/rank_patterns.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

// Trees among servers whose links to the outside differ: which rank of a server sends and receives
// what.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Data that crosses between a server and the one above it in a tree.
struct crossing_part {
  std::size_t hub = 0;   ///< position of the rank in the server above
  std::size_t leaf = 0;  ///< position of the rank in the server below
  rational amount;       ///< of the buffer
};

/// A part of a tree that crosses to a server on another rail than that of the tree.
struct rail_detour {
  std::size_t server = 0;
  int rail = 0;
  rational amount;  ///< of the buffer
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
  std::vector<rail_detour> detours = {};  ///< at most one for a server
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
///
/// stride: from one server to the next in the order of the trees; coprime to their number
[[nodiscard]] inline rail_tree binary_tree_of_servers(std::size_t center, std::size_t rank,
                                                      rational const& share, std::size_t servers,
                                                      bool second, std::size_t stride) {
  rail_tree result{center, rank, share};
  result.above.assign(servers, center);
  std::vector<int> others;
  for (std::size_t i = 0; i + 1 < servers; ++i) {
    auto const place = i * stride % (servers - 1);
    others.push_back(static_cast<int>(place < center ? place : place + 1));
  }
  auto const tree = in_order_tree(others, second);
  result.order = {center, static_cast<std::size_t>(tree.root)};
  for (auto const& [from, to] : tree.hops) {
    result.above[static_cast<std::size_t>(to)] = static_cast<std::size_t>(from);
    result.order.push_back(static_cast<std::size_t>(to));
  }
  return result;
}

/// Divides the data that crosses between servers over their ranks.
///
/// At first all data of a tree, but for detours, crosses between the ranks at its position. Where
/// that is more than a rank's links carry, parts of it cross between other ranks of the same two
/// servers, on one rail.
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
      for (auto const& one : t.detours) {
        auto& straight = t.crossings[one.server].front();
        straight.amount -= one.amount;
        received_[one.server][t.rank] -= one.amount;
        sent_[t.center][t.rank] -= one.amount;
        if (straight.amount == rational(0)) t.crossings[one.server].clear();
      }
    }
    for (auto& t : trees_) {
      for (auto const& one : t.detours) {
        auto const hub = freest(t.center, one.rail, true),
                   leaf = freest(one.server, one.rail, false);
        add(t, one.server, {hub, leaf, one.amount});
      }
    }
  }

  /// Relieves the ranks that are short of most first: what they move also relieves the others.
  void balance() {
    std::vector<std::tuple<rational, std::size_t, std::size_t>> order;  // left, server, rank
    for (std::size_t s = 0; s < room_.size(); ++s) {
      for (std::size_t rank = 0; rank < room_[s].size(); ++rank) {
        auto const rest = std::min(left(s, rank, false), left(s, rank, true));
        if (rest < rational(0)) order.emplace_back(rest, s, rank);
      }
    }
    std::ranges::sort(order);
    relieve_between_cut_off();
    for (auto const& [rest, s, rank] : order) {
      relieve(s, rank, false);
      relieve(s, rank, true);
    }
  }

  [[nodiscard]] std::vector<rail_tree> const& trees() const { return trees_; }

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

  /// The data that the ranks' links do not carry, as a share of what they carry.
  [[nodiscard]] double excess() const {
    double over = 0, all = 0;
    for (std::size_t s = 0; s < room_.size(); ++s) {
      for (std::size_t rank = 0; rank < room_[s].size(); ++rank) {
        all += room_[s][rank].to_double();
        double const least =
            std::min(left(s, rank, false).to_double(), left(s, rank, true).to_double());
        over += std::max(-least, 0.0);
      }
    }
    return all > 0 ? over / all : 0;
  }

 private:
  /// The position of the rank on a rail of a server whose links could carry most.
  [[nodiscard]] std::size_t freest(std::size_t server, int rail, bool as_hub) const {
    std::optional<std::size_t> best;
    for (std::size_t k = 0; k < room_[server].size(); ++k) {
      if (ports_.rail[server][k] != rail) continue;
      if (!best || left(server, k, as_hub) > left(server, *best, as_hub)) best = k;
    }
    return best.value_or(0);
  }

  void add(rail_tree& t, std::size_t server, crossing_part const& part) {
    t.crossings[server].push_back(part);
    received_[server][part.leaf] += part.amount;
    sent_[t.above[server]][part.hub] += part.amount;
  }

  // Between two servers with ranks that are cut off, data has the fewest ways, so it moves first.
  void relieve_between_cut_off() {
    auto const is_cut_off = [&](std::size_t s, std::size_t k) {
      return room_[s][k] == rational(0);
    };
    std::vector<std::vector<std::size_t>> cut_off(room_.size());
    for (std::size_t s = 0; s < room_.size(); ++s) {
      for (std::size_t k = 0; k < room_[s].size(); ++k) {
        if (is_cut_off(s, k)) cut_off[s].push_back(k);
      }
    }
    for (auto& t : trees_) {
      for (std::size_t s = 0; s < room_.size(); ++s) {
        bool const is_star = s != t.center && t.above[s] == t.center;
        if (!is_star || cut_off[s].empty() || cut_off[t.center].empty()) continue;
        for (auto const k : cut_off[s]) move(t, s, k, false);
        for (auto const k : cut_off[t.center]) move(t, s, k, true);
      }
    }
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
      auto const at_end = freest(server, rail, as_hub);
      if (auto const free = left(server, at_end, as_hub); at_end != rank && free > most) {
        most = free;
        (as_hub ? moved.hub : moved.leaf) = at_end;
      }
      bool const one_end_moves = most > rational(0);
      for (std::size_t i = 0; !one_end_moves && i < room_[leaf].size(); ++i) {
        // Not the same rail first for all, or the last servers find the last rail full.
        auto const to_rail = ports_.rail[leaf][(leaf + above + i) % room_[leaf].size()];
        if (std::ranges::count(ports_.rail[above], to_rail) == 0) continue;
        auto const hub = freest(above, to_rail, true), to = freest(leaf, to_rail, false);
        auto const free = std::min(left(leaf, to, false), left(above, hub, true));
        if ((as_hub ? hub : to) == rank || free <= most) continue;
        most = free;
        moved.hub = hub;
        moved.leaf = to;
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

/// The rest of the widths when `all` is divided over them as equally as their limits allow.
[[nodiscard]] inline std::vector<double> left_of_widths(std::vector<double> widths,
                                                        std::vector<double> const& limits,
                                                        double all) {
  std::vector<std::size_t> order(widths.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::ranges::sort(order, {}, [&](std::size_t i) { return std::min(widths[i], limits[i]); });
  auto others = static_cast<double>(order.size());
  for (auto const i : order) {
    auto const taken = std::max(std::min({all / others, widths[i], limits[i]}), 0.0);
    widths[i] -= taken;
    all -= taken;
    --others;
  }
  return widths;
}

/// The trees of an all-reduce at a rate.
///
/// rounds: to shares of which long sums stay short. The ranks of a rail are then centers by what
///         leaves do not need of their links, else by their links.
[[nodiscard]] inline std::vector<rail_tree> all_reduce_trees(server_ports const& ports,
                                                             rational const& rate, bool rounds) {
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
  auto const parts = parts_of_rails(width, rate);
  auto const& centers = parts.centers;
  std::vector<int> name(number.size());  // of a rail
  for (auto const& [rail, at] : number) name[at] = rail;
  std::vector<rail_tree> result;
  auto const add = [&](std::size_t s, std::size_t k, rational const& share) {
    if (share <= rational(0)) return;
    auto& made = result.emplace_back(star_of_servers(s, k, share, width.size()));
    auto const rail = number.at(ports.rail[s][k]);
    for (auto const& [at, one] : parts.narrow) {
      if (at.second != rail || at.first == s || one.over[s] == name.size()) continue;
      auto const amount = one.detour >= 1 ? share : nearest_part(share.to_double() * one.detour);
      if (amount > rational(0)) made.detours.push_back({at.first, name[one.over[s]], amount});
    }
  };
  for (std::size_t s = 0; s < width.size(); ++s) {
    if (!rounds) {
      for (std::size_t k = 0; k < ports.rail[s].size(); ++k) {
        auto const rail = number.at(ports.rail[s][k]);
        if (centers[s][rail] <= rational(0) || ports.width[s][k] == rational(0)) continue;
        add(s, k, centers[s][rail] * (ports.width[s][k] / width[s][rail]));
      }
      continue;
    }
    for (auto const& [its_name, rail] : number) {
      std::vector<std::size_t> ranks;
      std::vector<double> widths, limits;
      auto const share = centers[s][rail].to_double();
      auto const more = static_cast<double>(width.size()) - 2;
      for (std::size_t k = 0; k < ports.rail[s].size(); ++k) {
        if (ports.rail[s][k] != its_name) continue;
        ranks.push_back(k);
        widths.push_back(ratio(ports.width[s][k], rate));
        auto const most = ports.parts[s].empty() ? 1 : ports.parts[s][k].to_double();
        limits.push_back(most - widths.back() / (more + 1));  // without its own
      }
      auto const leaves = ratio(width[s][rail], rate) - more * share;
      auto const left = left_of_widths(widths, limits, leaves);
      auto const all = std::accumulate(left.begin(), left.end(), 0.0);
      for (std::size_t i = 0; i < ranks.size() && all > 0; ++i) {
        add(s, ranks[i], nearest_part(share * left[i] / all));
      }
    }
  }
  return result;
}

/// The trees of a collective, before any data crosses between other ranks than those at its
/// position.
///
/// root_server: of a broadcast
/// rounds:      as of `all_reduce_trees`
/// stride:      of a broadcast, as of `binary_tree_of_servers`
[[nodiscard]] inline std::vector<rail_tree> trees_of_servers(server_ports const& ports,
                                                             collective kind, rational const& rate,
                                                             std::size_t root_server, bool rounds,
                                                             std::size_t stride) {
  if (has_both_phases(kind)) return all_reduce_trees(ports, rate, rounds);
  auto const servers = ports.ids.size(), positions = ports.ids.front().size();
  std::vector<rail_tree> result;
  if (has_one_root(kind)) {
    rational const share(1, static_cast<std::int64_t>(2 * positions));
    for (std::size_t k = 0; k < positions; ++k) {
      for (bool const second : {false, true}) {
        result.push_back(binary_tree_of_servers(root_server, k, share, servers, second, stride));
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
