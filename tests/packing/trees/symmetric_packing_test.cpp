// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/trees/all_gather_rate.hpp>
#include <blink/packing/trees/spanning_tree_packing.hpp>
#include <blink/packing/trees/symmetric_packing.hpp>
#include <blink/topology/machines.hpp>

#include "support/random_machines.hpp"
#include <gtest/gtest.h>

#include <cstdint>
#include <map>
#include <set>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace symmetric_packing_test { namespace {

using namespace blink;

std::vector<std::int64_t> capacities(topology const& machine) {
  std::vector<std::int64_t> result;
  for (auto const& l : machine.links) result.push_back(l.capacity);
  return result;
}

TEST(symmetric_packing, reaches_the_rate_with_low_trees) {
  struct row {
    topology machine;
    std::size_t height;
  };
  for (auto const& [machine, most] :
       {row{machines::ring(9), 4}, row{machines::torus(4, 6), 5}, row{machines::dgx_a100(4), 2},
        row{machines::dgx_h100(2), 2}, row{machines::dgx_a100(16), 2}, row{machines::dgx2(), 1},
        row{machines::hypercube(5), 5}}) {
    SCOPED_TRACE(machine.name);
    auto const capacity = capacities(machine);
    auto const ranks = machine.rank_positions();
    auto const rate = all_gather_rate(machine, capacity, ranks).rate_per_root;
    auto const turns = find_symmetries(machine, capacity, ranks);
    ASSERT_TRUE(turns.has_value());
    auto const trees = pack_symmetric_trees(machine, capacity, ranks, *turns, rate);
    ASSERT_TRUE(trees.has_value());
    rational sum;
    std::map<std::pair<int, int>, rational> load;
    for (auto const& t : *trees) {
      sum += t.weight;
      std::map<int, std::size_t> depth{{ranks.front(), 0}};
      for (auto const& path : t.paths) {
        ASSERT_TRUE(depth.contains(path.front()));
        EXPECT_TRUE(depth.emplace(path.back(), depth[path.front()] + 1).second);
        EXPECT_LE(depth[path.back()], most);
        for (auto const& image : turns->image) {
          for (std::size_t i = 1; i < path.size(); ++i) {
            load[{image[static_cast<std::size_t>(path[i - 1])],
                  image[static_cast<std::size_t>(path[i])]}] += t.weight;
          }
        }
      }
      EXPECT_EQ(depth.size(), ranks.size());
    }
    EXPECT_EQ(sum, rate);
    std::map<std::pair<int, int>, rational> available;
    for (auto const& l : machine.links) available[{l.tail, l.head}] += l.capacity;
    for (auto const& [ends, amount] : load) EXPECT_LE(amount, available[ends]);
  }
}

/// Checks that the capacity into each part is exactly what must enter it.
void expect_tight(topology const& machine, rational const& rate,
                  std::vector<std::vector<bool>> const& parts) {
  auto const ranks = machine.rank_positions();
  std::multiset<int> covered;
  for (auto const& part : parts) {
    std::int64_t inside = 0;
    std::int64_t entering = 0;
    for (int const r : ranks) {
      if (part[static_cast<std::size_t>(r)]) {
        covered.insert(r);
        ++inside;
      }
    }
    for (auto const& l : machine.links) {
      if (!part[static_cast<std::size_t>(l.tail)] && part[static_cast<std::size_t>(l.head)]) {
        entering += l.capacity;
      }
    }
    EXPECT_EQ(rational(entering), rate * (std::ssize(ranks) - inside));
  }
  EXPECT_EQ(std::vector<int>(covered.begin(), covered.end()), ranks);
}

TEST(tight_partition, parts_are_tight) {
  int found = 0;
  std::vector<topology> all{machines::dgx_a100(2), machines::dgx_a100(4), machines::mi250(2),
                            machines::torus(3, 3), machines::dgx1v()};
  for (unsigned seed = 0; seed < 60; ++seed) {
    all.push_back(test::make_random_duplex_machine(seed, 2 + seed % 4, seed % 3, seed % 7, 2));
  }
  for (auto const& machine : all) {
    SCOPED_TRACE(machine.name);
    auto const capacity = capacities(machine);
    auto const ranks = machine.rank_positions();
    auto const rate = all_gather_rate(machine, capacity, ranks).rate_per_root;
    auto const parts = tight_partition(machine, capacity, ranks, rate);
    if (!parts) continue;
    ++found;
    EXPECT_GE(parts->size(), 2u);
    expect_tight(machine, rate, *parts);
  }
  EXPECT_GE(found, 10);
  EXPECT_LT(found, 60);
}

TEST(tight_partition, boxes_of_four_and_single_ranks_of_two) {
  auto const parts_of = [](topology const& machine) {
    auto const capacity = capacities(machine);
    auto const ranks = machine.rank_positions();
    return tight_partition(machine, capacity, ranks,
                           all_gather_rate(machine, capacity, ranks).rate_per_root)
        ->size();
  };
  EXPECT_EQ(parts_of(machines::dgx_a100(4)), 4u);   // networks are the bottleneck
  EXPECT_EQ(parts_of(machines::dgx_a100(2)), 16u);  // the capacity into each GPU is the bottleneck
}

}}  // namespace symmetric_packing_test
