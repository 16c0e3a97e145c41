// SPDX-License-Identifier: Apache-2.0
#include <blink/interop/graph_load.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/readers/read_nccl_graph.hpp>
#include <blink/topology/subset.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::graph_load_test { namespace {

nccl_graph rings(std::vector<std::vector<std::int64_t>> const& orders) {
  nccl_graph graph;
  graph.pattern = 4;
  for (auto const& order : orders) graph.channels.push_back({order, {}, {}});
  return graph;
}

TEST(graph_load, one_ring_is_as_fast_as_its_narrowest_link) {
  auto const machine = *make_built_in_machine("dgx1v");
  // Links of 50 and 25 in turn; an all-reduce takes 2 * 7/8 of the buffer over each.
  auto const load = load_of(machine, rings({{0, 1, 2, 3, 7, 6, 5, 4}}));
  EXPECT_EQ(load.rate, rational(25 * 8, 14));
  EXPECT_EQ(load.part.size(), 8U);
  EXPECT_EQ(load.part.at({0, 1}), rational(14, 8));
}

TEST(graph_load, rings_share_the_buffer) {
  auto const machine = *make_built_in_machine("dgx1v");
  auto const both = load_of(machine, rings({{0, 1, 2, 3, 7, 6, 5, 4}, {4, 5, 6, 7, 3, 2, 1, 0}}));
  EXPECT_EQ(both.rate, rational(2 * 25 * 8, 14));
  EXPECT_EQ(both.part.at({0, 1}), rational(7, 8));
  EXPECT_EQ(both.part.at({1, 0}), rational(7, 8));
}

TEST(graph_load, gpus_are_found_by_their_numbers) {
  auto const part = subset(*make_built_in_machine("dgx1v"), {4, 5, 6, 7});
  EXPECT_EQ(load_of(part, rings({{4, 5, 6, 7}})).rate, rational(25 * 4, 6));
  EXPECT_ERROR((void)load_of(part, rings({{0, 1, 2, 3}})), "GPU 0 of the graph is not in machine");
}

TEST(graph_load, what_is_no_ring_of_all_ranks_is_refused) {
  auto const machine = *make_built_in_machine("dgx1v");
  EXPECT_ERROR((void)load_of(machine, rings({{0, 1}})), "a ring of 2 GPUs, expected all ranks");
  EXPECT_ERROR((void)load_of(machine, rings({})), "0 channels, expected rings (4)");
  auto tree = rings({{0, 1, 2, 3, 4, 5, 6, 7}});
  tree.pattern = 1;
  EXPECT_ERROR((void)load_of(machine, tree), "has pattern 1 and 1 channels, expected rings (4)");
}

}}  // namespace blink::graph_load_test
