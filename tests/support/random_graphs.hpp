// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/graph/concepts.hpp>

#include <cstdint>
#include <random>
#include <vector>

namespace blink::test {

/// A graph with a capacity for each edge.
struct random_graph {
  arc_list graph;
  std::vector<std::int64_t> capacity;
};

/// A graph with about `degree` edges out of each vertex (parallel ones possible, no loops) and
/// capacities 0 … `largest`. Equal arguments give equal graphs.
inline random_graph make_random_graph(unsigned seed, unsigned vertices, unsigned degree,
                                      unsigned largest) {
  std::mt19937 random(seed);
  random_graph result{{static_cast<int>(vertices), {}}, {}};
  for (unsigned i = 0; i < vertices * degree; ++i) {
    int const tail = static_cast<int>(random() % vertices);
    int const head = static_cast<int>(random() % vertices);
    auto const capacity = static_cast<std::int64_t>(random() % (largest + 1));
    if (tail == head) continue;
    result.graph.arcs.push_back({tail, head});
    result.capacity.push_back(capacity);
  }
  return result;
}

/// Such a graph with a ring in both directions, of capacity at least 1. So every vertex reaches
/// every other vertex.
inline random_graph make_connected_graph(unsigned seed, unsigned vertices, unsigned degree,
                                         unsigned largest) {
  auto result = make_random_graph(seed, vertices, degree, largest);
  std::mt19937 random(seed + 1);
  for (unsigned v = 0; vertices > 1 && v < vertices; ++v) {
    int const next = static_cast<int>((v + 1) % vertices);
    for (auto const& a : {arc{static_cast<int>(v), next}, arc{next, static_cast<int>(v)}}) {
      result.graph.arcs.push_back(a);
      result.capacity.push_back(1 + static_cast<std::int64_t>(random() % largest));
    }
  }
  return result;
}

}  // namespace blink::test
