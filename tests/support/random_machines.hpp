// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/topology/topology.hpp>

#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace blink::test {

/// A random machine whose ranks all reach each other. It has a ring of routes and `routes` more
/// one-way routes, each over at most three switches. Capacities add up, so that no switch has more
/// capacity out than in. Links differ by direction, and switches are linked in any way. Equal
/// arguments give equal machines.
inline topology make_random_machine(unsigned seed, unsigned ranks, unsigned switches,
                                    unsigned routes, unsigned largest = 6) {
  std::mt19937 random(seed);
  topology machine;
  machine.name = "random" + std::to_string(seed);
  for (unsigned i = 0; i < ranks + switches; ++i) {
    machine.nodes.push_back({static_cast<int>(2 * i + 3),
                             i < ranks ? node_kind::rank : node_kind::switch_node, "",
                             static_cast<int>(i * 2 / ranks)});
  }
  std::map<std::pair<int, int>, std::int64_t> capacity;
  for (unsigned r = 0; r < ranks + routes; ++r) {
    unsigned const from = r < ranks ? r : static_cast<unsigned>(random() % ranks);
    unsigned const to = r < ranks ? (r + 1) % ranks : static_cast<unsigned>(random() % ranks);
    if (from == to) continue;
    auto const amount = static_cast<std::int64_t>(1 + random() % largest);
    auto at = static_cast<int>(from);
    for (auto hops = switches == 0 ? 0 : random() % 4; hops > 0; --hops) {
      auto const next = static_cast<int>(ranks + random() % switches);
      if (next == at) continue;
      capacity[{at, next}] += amount;
      at = next;
    }
    capacity[{at, static_cast<int>(to)}] += amount;
  }
  for (auto const& [ends, c] : capacity) machine.links.push_back({ends.first, ends.second, c});
  return machine;
}

/// A random machine of full-duplex links: a random tree over ranks and switches, and `more` links.
inline topology make_random_duplex_machine(unsigned seed, unsigned ranks, unsigned switches,
                                           unsigned more, unsigned largest = 6) {
  std::mt19937 random(seed);
  topology machine;
  machine.name = "random_duplex" + std::to_string(seed);
  auto const join = [&](int a, int b) {
    auto const amount = static_cast<std::int64_t>(1 + random() % largest);
    machine.links.push_back({a, b, amount});
    machine.links.push_back({b, a, amount});
  };
  for (unsigned i = 0; i < ranks + switches; ++i) {
    machine.nodes.push_back({static_cast<int>(i), node_kind::rank, ""});
    if (i > 0) join(static_cast<int>(i), static_cast<int>(random() % i));
  }
  for (unsigned left = switches; left > 0;) {
    auto& node = machine.nodes[random() % machine.nodes.size()];
    if (node.kind == node_kind::switch_node) continue;
    node.kind = node_kind::switch_node;
    --left;
  }
  for (unsigned i = 0; i < more; ++i) {
    auto const a = static_cast<int>(random() % (ranks + switches));
    auto const b = static_cast<int>(random() % (ranks + switches));
    if (a != b) join(a, b);
  }
  return machine;
}

}  // namespace blink::test
