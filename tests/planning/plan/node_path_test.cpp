// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/plan/node_path.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <random>
#include <utility>
#include <vector>

namespace node_path_test { namespace {

using blink::node_path;

std::vector<int> drawn(std::mt19937& random) {
  std::vector<int> result(random() % 6);
  for (int& v : result) v = static_cast<int>(random() % 3);
  return result;
}

TEST(node_path, behaves_as_a_vector) {
  std::mt19937 random(1);
  std::vector<node_path> paths(8);
  std::vector<std::vector<int>> vectors(8);
  for (int step = 0; step < 2000; ++step) {
    auto const a = random() % 8, b = random() % 8;
    switch (random() % 5) {
      case 0:
        vectors[a] = drawn(random);
        paths[a] = vectors[a];
        break;
      case 1:
        vectors[a] = vectors[b];
        paths[a] = paths[b];
        break;
      case 2:
        std::swap(vectors[a], vectors[b]);
        std::swap(paths[a], paths[b]);
        break;
      case 3:
        std::ranges::reverse(vectors[a]);
        std::reverse(paths[a].begin(), paths[a].end());
        break;
      default:
        vectors[a].clear();
        paths[a].clear();
    }
    ASSERT_EQ(std::vector<int>(paths[a]), vectors[a]);
    ASSERT_EQ(std::vector<int>(paths[a].rbegin(), paths[a].rend()),
              std::vector<int>(vectors[a].rbegin(), vectors[a].rend()));
    ASSERT_EQ(paths[a] == paths[b], vectors[a] == vectors[b]);
    ASSERT_EQ(paths[a] <=> paths[b], vectors[a] <=> vectors[b]);
    ASSERT_EQ(paths[a].empty(), vectors[a].empty());
    if (vectors[a].empty()) continue;
    ASSERT_EQ(paths[a].front(), vectors[a].front());
    ASSERT_EQ(paths[a].back(), vectors[a].back());
  }
}

TEST(node_path, needs_no_memory_for_two_nodes) {
  node_path const direct{4, 7};
  auto const* const object = reinterpret_cast<char const*>(&direct);
  auto const* const first = reinterpret_cast<char const*>(direct.begin());
  EXPECT_GE(first, object);
  EXPECT_LT(first, object + sizeof direct);
}

}}  // namespace node_path_test
