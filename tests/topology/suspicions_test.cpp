// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/suspicions.hpp>
#include <blink/topology/topology.hpp>

#include <gtest/gtest.h>

#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::suspicions_test { namespace {

TEST(suspicions, built_in_machines_have_none) {
  for (char const* const name :
       {"dgx1v_pcie", "dgx2", "dgx_a100:4", "mi250:2", "nvl72", "torus:4x4", "ring:5"}) {
    EXPECT_EQ(suspicions(*make_built_in_machine(name)), std::vector<std::string>{}) << name;
  }
}

TEST(suspicions, a_gpu_that_lost_its_nvlinks) {
  auto machine = *make_built_in_machine("dgx1v_pcie");
  auto const of_rank_2 = [](link const& l) {
    return l.kind == link_kind::nvlink && (l.tail == 2 || l.head == 2);
  };
  std::erase_if(machine.links, of_rank_2);
  EXPECT_EQ(suspicions(machine), std::vector<std::string>{"gpu2: no nvlink, but 7 others have"});
}

TEST(suspicions, pairs_of_bridged_gpus_are_none) {
  auto machine = *make_built_in_machine("dgx1v_pcie");
  std::erase_if(machine.links, [](link const& l) {
    return l.kind == link_kind::nvlink && (l.tail > 3 || l.head > 3);
  });
  EXPECT_TRUE(suspicions(machine).empty());  // as many have none
}

TEST(suspicions, a_bridge_of_one_lane_above_gpus_of_sixteen) {
  auto machine = *make_built_in_machine("dgx1v_pcie");
  for (auto& l : machine.links) {
    if (l.kind != link_kind::pcie) continue;
    bool const is_up = l.tail > 7 && l.head > 7 && (l.tail == 9 || l.head == 9);
    if (!is_up) l.capacity *= 5;
  }
  EXPECT_EQ(suspicions(machine), std::vector<std::string>{"pcie0: 12 GB/s up, above links of 60"});
}

}}  // namespace blink::suspicions_test
