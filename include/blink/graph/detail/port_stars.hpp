// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A port of a switch with equal capacity in both directions.
struct switch_port {
  int vertex = 0;
  int group = 0;  ///< the server that it belongs to
  std::int64_t capacity = 0;
};

/// A part of a switch with equal ports, in groups of equal size. Each port is paired with all ports
/// of the other groups. In the sparse form, it is paired with the ports of some groups only; all
/// others are two steps away.
struct port_star {
  std::vector<std::vector<int>> groups;  ///< vertices
  std::int64_t capacity = 0;             ///< of each port, in each direction
  bool sparse = false;

  /// The number of partners of a port.
  [[nodiscard]] std::size_t ways() const {
    auto const steps = sparse ? base() - 1 + (groups.size() - 1) / base() : groups.size() - 1;
    return steps * groups.front().size();
  }
  /// Partner number k of a port. Each k pairs every port with exactly one other.
  [[nodiscard]] int partner(std::size_t group, std::size_t place, std::size_t k) const {
    auto const size = groups.front().size();
    auto step = k / size + 1;
    if (sparse && step >= base()) step = (step - base() + 1) * base();
    return groups[(group + step) % groups.size()][(place + k) % size];
  }

 private:
  /// The base of the sparse steps: the square root of the number of groups, rounded up. The steps
  /// are the numbers that have one digit or end in zero in this base.
  [[nodiscard]] std::size_t base() const {
    std::size_t result = 1;
    while (result * result < groups.size()) ++result;
    return result;
  }
};

/// Splits ports of different capacities into layers of equal ports. The capacity of one port beyond
/// that of all others is left over.
[[nodiscard]] inline std::vector<port_star> layers(std::vector<switch_port> ports) {
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
    std::erase_if(ports, [&](switch_port const& p) { return p.capacity == least; });
  }
  return result;
}

/// Returns the same stars, made sparse if they have many groups. Returns none if no star has many.
[[nodiscard]] inline std::vector<port_star> thinned(std::vector<port_star> stars) {
  constexpr std::size_t many = 8;
  bool changed = false;
  for (auto& star : stars) {
    star.sparse = star.groups.size() > many;
    changed = changed || star.sparse;
  }
  return changed ? std::move(stars) : std::vector<port_star>{};
}

/// Decompositions of a switch into stars, those with the lowest and fewest trees first. There are
/// three forms. The first pairs each port with the ports at the same place in other groups. The
/// second pairs it with all ports of other groups; the third, with all other ports.
///
/// one_root: for trees from one root, which are few; then the first form is a sparse one
[[nodiscard]] inline std::vector<std::vector<port_star>> star_forms(
    std::vector<switch_port> const& ports, bool one_root) {
  std::vector<std::vector<port_star>> result;
  std::map<int, std::vector<switch_port>> groups;
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
      std::vector<switch_port> there;
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
  if (one_root) {
    auto sparse = thinned(result.front());
    if (!sparse.empty()) result.insert(result.begin(), std::move(sparse));
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
