// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <map>
#include <numbers>
#include <numeric>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

struct point {
  double x = 0;
  double y = 0;
};

/// The arc of the circle along which the ranks of one server are placed.
struct server_arc {
  int server = 0;
  double from = 0;  ///< radians, clockwise from the right
  double to = 0;
};

/// The place of each node, in pixels around the centre (0, 0).
struct picture_layout {
  double radius = 0;
  std::vector<point> at;  ///< by position in the machine
  std::vector<server_arc> servers;
};

[[nodiscard]] inline point on_circle(double radius, double angle) {
  return {radius * std::cos(angle), radius * std::sin(angle)};
}

/// Places the ranks on a circle, clockwise from the top. Ranks of one server are neighbours.
inline void place_ranks(topology const& machine, picture_layout& layout) {
  std::map<int, std::size_t> seen;
  std::vector<std::vector<int>> groups;
  for (int const rank : machine.rank_positions()) {
    int const server = machine.nodes[static_cast<std::size_t>(rank)].server;
    auto const [group, is_new] = seen.try_emplace(server, groups.size());
    if (is_new) groups.emplace_back();
    groups[group->second].push_back(rank);
  }
  auto const rank_count = static_cast<double>(machine.rank_positions().size());
  constexpr double least_radius = 300;
  constexpr double between_ranks = 70;
  constexpr double turn = 2 * std::numbers::pi;
  double const gap = groups.size() > 1 ? 0.8 : 0;  // in ranks, after each server
  double const places = rank_count + gap * static_cast<double>(groups.size());
  constexpr double for_a_switch = 11;
  double const switch_count = static_cast<double>(machine.nodes.size()) - rank_count;
  layout.radius = std::max(least_radius + for_a_switch * std::max(0.0, switch_count - 4),
                           places * between_ranks / turn);
  double place = 0;
  for (auto const& group : groups) {
    auto const angle = [&](double s) { return turn * (s / places - 0.25); };
    double const from = angle(place - 0.4);
    for (int const rank : group) {
      layout.at[static_cast<std::size_t>(rank)] = on_circle(layout.radius, angle(place++));
    }
    layout.servers.push_back(
        {machine.nodes[static_cast<std::size_t>(group.front())].server, from, angle(place - 0.6)});
    place += gap;
  }
}

/// Moves neighbours on a circle apart until `apart` radians lie between them, if there is room.
inline void spread(std::vector<double>& angles, double apart) {
  constexpr double turn = 2 * std::numbers::pi;
  auto const n = angles.size();
  if (n < 2) return;
  apart = std::min(apart, turn / static_cast<double>(n));
  std::vector<std::size_t> order(n);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return std::pair(angles[a], a) < std::pair(angles[b], b);
  });
  constexpr int rounds = 200;
  for (int round = 0; round < rounds; ++round) {
    for (std::size_t i = 0; i < n; ++i) {
      auto& here = angles[order[i]];
      auto& next = angles[order[(i + 1) % n]];
      double const distance = next - here + (i + 1 == n ? turn : 0);
      double const missing = std::max(0.0, apart - distance) / 2;
      here -= missing;
      next += missing;
    }
  }
}

/// Places the switches inside the circle. A switch with more hops to the nearest rank is nearer to
/// the centre, in the direction of the nodes that it serves.
inline void place_switches(topology const& machine, picture_layout& layout) {
  auto const n = machine.nodes.size();
  std::vector<int> layer(n, -1);
  for (int const rank : machine.rank_positions()) layer[static_cast<std::size_t>(rank)] = 0;
  int last = 0;
  for (bool grows = true; grows;) {
    grows = false;
    for (auto const& link : machine.links) {
      for (auto const& [from, to] : {std::pair(link.tail, link.head), {link.head, link.tail}}) {
        auto& far = layer[static_cast<std::size_t>(to)];
        if (layer[static_cast<std::size_t>(from)] != last || far >= 0) continue;
        far = last + 1;
        grows = true;
      }
    }
    if (grows) ++last;
  }
  for (auto& l : layer) l = l < 0 ? last + 1 : l;  // no route to a rank
  last = *std::max_element(layer.begin(), layer.end());
  auto const between_servers = std::count_if(
      machine.nodes.begin(), machine.nodes.end(),
      [](node const& each) { return each.kind == node_kind::switch_node && each.server < 0; });
  for (int l = 1; l <= last; ++l) {
    std::vector<std::size_t> here;
    for (std::size_t i = 0; i < n; ++i) {
      bool const is_the_network = between_servers == 1 && machine.nodes[i].server < 0;
      if (layer[i] == l && !is_the_network) here.push_back(i);  // the network is in the centre
    }
    if (here.empty() || (l == last && here.size() == 1 && between_servers != 1))
      continue;  // a lone innermost switch stays in the centre
    std::vector<double> angles;
    for (std::size_t const i : here) {
      point sum;
      for (auto const& link : machine.links) {
        auto const tail = static_cast<std::size_t>(link.tail);
        auto const head = static_cast<std::size_t>(link.head);
        std::size_t const other = tail == i ? head : tail;
        if ((tail != i && head != i) || layer[other] >= l) continue;
        sum.x += layout.at[other].x;
        sum.y += layout.at[other].y;
      }
      bool const has_direction = std::hypot(sum.x, sum.y) > 1;
      angles.push_back(has_direction ? std::atan2(sum.y, sum.x)
                                     : 2 * std::numbers::pi * static_cast<double>(angles.size()) /
                                           static_cast<double>(here.size()));
    }
    double const share = last == 1 ? 0.45 : 0.68 - 0.5 * (l - 1) / (last - 1);
    double const radius = layout.radius * share;
    constexpr double between_switches = 95;
    spread(angles, between_switches / radius);
    for (std::size_t i = 0; i < here.size(); ++i) {
      layout.at[here[i]] = on_circle(radius, angles[i]);
    }
  }
}

/// The place of every node of the machine.
///
/// Time: O(V^2 + layers * E).
[[nodiscard]] inline picture_layout lay_out(topology const& machine) {
  picture_layout layout;
  layout.at.resize(machine.nodes.size());
  place_ranks(machine, layout);
  place_switches(machine, layout);
  return layout;
}

}}}  // namespace blink::BLINK_ABI::detail
