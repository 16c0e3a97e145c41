// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// A port of a relay with the same capacity both ways.
struct relay_port {
  int vertex = 0;
  int group = 0;  ///< the box that it belongs to
  std::int64_t capacity = 0;
};

/// A part of a relay with equal ports, in groups of equal size: each port is paired with all ports
/// of the other groups.
struct port_star {
  std::vector<std::vector<int>> groups;  ///< vertices
  std::int64_t capacity = 0;             ///< of each port, both ways

  /// Partners of a port.
  [[nodiscard]] std::size_t ways() const { return (groups.size() - 1) * groups.front().size(); }
  /// Partner number k of a port; each k pairs every port with one other.
  [[nodiscard]] int partner(std::size_t group, std::size_t place, std::size_t k) const {
    auto const size = groups.front().size();
    return groups[(group + 1 + k / size) % groups.size()][(place + k) % size];
  }
};

/// Ports of different capacities as layers of equal ones. What one port has beyond all others is
/// left over.
[[nodiscard]] inline std::vector<port_star> layers(std::vector<relay_port> ports) {
  std::vector<port_star> result;
  std::int64_t below = 0;
  while (ports.size() > 1) {
    port_star star;
    std::int64_t least = ports.front().capacity;
    for (auto const& p : ports) least = std::min(least, p.capacity);
    for (auto const& p : ports) star.groups.push_back({p.vertex});
    star.capacity = least - below;
    if (star.capacity > 0) result.push_back(std::move(star));
    below = least;
    std::erase_if(ports, [&](relay_port const& p) { return p.capacity == least; });
  }
  return result;
}

/// Ways to take a relay apart into stars, those that make the lowest and fewest trees first: ports
/// with the like ports of other groups; with all ports of other groups; with all others.
[[nodiscard]] inline std::vector<std::vector<port_star>> star_forms(
    std::vector<relay_port> const& ports) {
  std::vector<std::vector<port_star>> result;
  std::map<int, std::vector<relay_port>> groups;
  std::size_t places = 0;
  bool equal = true;
  for (auto const& p : ports) {
    auto& members = groups[p.group];
    members.push_back(p);
    places = std::max(places, members.size());
    equal = equal && p.capacity == ports.front().capacity;
  }
  if (groups.size() > 1) {
    std::vector<port_star> alike;
    for (std::size_t place = 0; place < places; ++place) {
      std::vector<relay_port> there;
      for (auto const& [name, members] : groups) {
        if (place < members.size()) there.push_back(members[place]);
      }
      for (auto& star : layers(std::move(there))) alike.push_back(std::move(star));
    }
    if (!alike.empty()) result.push_back(std::move(alike));
    port_star across;
    across.capacity = ports.front().capacity;
    for (auto const& [name, members] : groups) {
      equal = equal && members.size() == places;
      across.groups.emplace_back();
      for (auto const& p : members) across.groups.back().push_back(p.vertex);
    }
    if (equal && places > 1) result.push_back({std::move(across)});
  }
  result.push_back(layers(ports));
  return result;
}

}  // namespace blink::inline BLINK_ABI::detail
