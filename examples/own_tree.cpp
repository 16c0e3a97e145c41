// SPDX-License-Identifier: Apache-2.0 Trees that the caller makes: a chain for two thirds of the
// data, a star for the rest.
#include <blink/collectives.hpp>

#include <cstdio>
#include <vector>

int main() {
  blink::schedule trees{.rank_count = 4};
  trees.trees.push_back({.root = 0, .weight = 2, .broadcast_parent = {-1, 0, 1, 2}});
  trees.trees.push_back({.root = 0, .weight = 1, .broadcast_parent = {-1, 0, 0, 0}});

  blink::thread_ranks threads(trees.rank_count);
  threads.run([&](auto& comm) {
    std::vector<int> data(300'000, comm.rank() == 0 ? 42 : 0);
    blink::broadcast(comm, trees, data);
    if (comm.rank() == 3) std::printf("rank 3 has %d … %d\n", data.front(), data.back());
  });
  for (auto const& edge : threads.prepare(trees).edges()) {
    std::printf("tree %d: %d -> %d carried %llu bytes in %llu chunks\n", edge.tree, edge.from,
                edge.to, static_cast<unsigned long long>(edge.bytes),
                static_cast<unsigned long long>(edge.chunks));
  }
}
