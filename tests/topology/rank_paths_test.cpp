// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/rank_paths.hpp>
#include <blink/topology/topology.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <optional>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::rank_paths_test { namespace {

topology machine_of(int ranks, int switches, std::vector<link> const& links) {
  topology machine;
  for (int id = 0; id < ranks + switches; ++id) {
    machine.nodes.push_back({id, id < ranks ? node_kind::rank : node_kind::switch_node, "", 0});
  }
  machine.links = links;
  return machine;
}

TEST(rank_paths, a_fast_narrow_path_comes_before_a_slow_wide_one) {
  auto const machine = machine_of(2, 1,
                                  {{0, 1, 10, 0, link_kind::nvlink},
                                   {0, 2, 90, 0, link_kind::pcie},
                                   {2, 1, 80, 0, link_kind::pcie},
                                   {1, 2, 90, 0, link_kind::pcie},
                                   {2, 0, 70, 0, link_kind::pcie}});
  auto const paths = paths_between_ranks(machine);
  EXPECT_EQ(paths[0][1], (rank_path{link_kind::nvlink, 10, {0, 1}}));
  EXPECT_EQ(paths[1][0],
            (rank_path{link_kind::pcie, 70, {1, 2, 0}}));  // there is no NVLink this way
  EXPECT_EQ(paths[0][0], std::nullopt);
}

TEST(rank_paths, ranks_do_not_forward_and_parallel_links_add_up) {
  auto const machine = machine_of(3, 2,
                                  {{0, 1, 50, 0, link_kind::nvlink},
                                   {1, 2, 50, 0, link_kind::nvlink},
                                   {0, 3, 10, 0, link_kind::pcie},
                                   {0, 3, 10, 0, link_kind::pcie},
                                   {3, 4, 15, 0, link_kind::socket},
                                   {4, 2, 40, 0, link_kind::pcie},
                                   {3, 2, 12, 0, link_kind::network}});
  auto const paths = paths_between_ranks(machine);
  EXPECT_EQ(paths[0][2], (rank_path{link_kind::socket, 15, {0, 3, 4, 2}}));
  EXPECT_EQ(paths[2][0], std::nullopt);
}

TEST(rank_paths, of_a_dgx1v_with_its_pcie_tree) {
  auto const machine = *make_built_in_machine("dgx1v_pcie");
  auto const paths = paths_between_ranks(machine);
  EXPECT_EQ(paths[0][3], (rank_path{link_kind::nvlink, 50 * machine.steps_per_unit, {0, 3}}));
  EXPECT_EQ(paths[0][7],
            (rank_path{link_kind::socket, 6 * machine.steps_per_unit, {0, 9, 8, 11, 13, 7}}));
  std::size_t without = 0;
  for (std::size_t a = 0; a < paths.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) without += paths[a][b]->slowest != link_kind::nvlink;
  }
  EXPECT_EQ(without, 12U);
}

}}  // namespace blink::rank_paths_test
