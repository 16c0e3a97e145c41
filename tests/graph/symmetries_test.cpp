// SPDX-License-Identifier: Apache-2.0
#include <blink/graph/symmetries.hpp>
#include <blink/topology/machines.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace symmetries_test { namespace {

using namespace blink;

std::vector<std::int64_t> capacities(topology const& machine) {
  std::vector<std::int64_t> result;
  for (auto const& l : machine.links) result.push_back(l.capacity);
  return result;
}

std::map<std::pair<int, int>, std::int64_t> matrix(topology const& machine,
                                                   std::vector<int> const& image) {
  std::map<std::pair<int, int>, std::int64_t> result;
  for (auto const& l : machine.links) {
    result[{image[static_cast<std::size_t>(l.tail)], image[static_cast<std::size_t>(l.head)]}] +=
        l.capacity;
  }
  return result;
}

TEST(symmetries, take_the_first_rank_everywhere_and_keep_the_machine) {
  for (auto const& machine :
       {machines::ring(7), machines::torus(3, 4), machines::torus(2, 3, 4), machines::hypercube(4),
        machines::fully_connected(6), machines::dgx2(), machines::dgx_a100(2),
        machines::dgx_a100(3), machines::dgx_h100(4), machines::dgx1p(), machines::nvl72()}) {
    SCOPED_TRACE(machine.name);
    auto const ranks = machine.rank_positions();
    auto const found = find_symmetries(machine, capacities(machine), ranks);
    ASSERT_TRUE(found.has_value());
    ASSERT_EQ(found->image.size(), ranks.size());
    auto const original = matrix(machine, found->image.front());
    for (std::size_t k = 0; k < ranks.size(); ++k) {
      auto const& image = found->image[k];
      EXPECT_EQ(image[static_cast<std::size_t>(ranks.front())], ranks[k]);
      EXPECT_EQ(std::set<int>(image.begin(), image.end()).size(), image.size());
      EXPECT_EQ(matrix(machine, image), original);
    }
  }
}

TEST(symmetries, are_a_group) {
  auto const machine = machines::dgx_a100(2);
  auto const found = find_symmetries(machine, capacities(machine), machine.rank_positions());
  ASSERT_TRUE(found.has_value());
  std::set<std::vector<int>> const all(found->image.begin(), found->image.end());
  for (auto const& a : found->image) {
    for (auto const& b : found->image) {
      std::vector<int> both(a.size());
      for (std::size_t v = 0; v < a.size(); ++v) both[v] = a[static_cast<std::size_t>(b[v])];
      EXPECT_TRUE(all.contains(both));
    }
  }
}

TEST(symmetries, none_where_ranks_differ) {
  auto degraded = machines::dgx_a100(2);
  degraded.links.back().capacity -= 1;
  for (auto const& machine :
       {machines::line(4), machines::mesh(3, 3), machines::mi250(2), degraded}) {
    EXPECT_FALSE(find_symmetries(machine, capacities(machine), machine.rank_positions()))
        << machine.name;
  }
}

}}  // namespace symmetries_test
