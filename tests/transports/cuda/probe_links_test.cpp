// SPDX-License-Identifier: Apache-2.0
// Routes between devices that are refused or lose data are found and left out of plans.

#include <blink/topology/machines.hpp>
#include <blink/topology/topology.hpp>
#include <blink/transports/cuda/runtime/probe_links.hpp>

#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

// The sources of a folder may be compiled as one.
namespace probe_links_test { namespace {

using blink_test::emulated_devices;

std::vector<blink::link_probe> probes_of(emulated_devices::options const& what) {
  emulated_devices machine(what);
  std::vector<int> all;
  for (int device = 0; device < what.devices; ++device) all.push_back(device);
  auto result = blink::probe_links(machine, all, {5000, 2});
  EXPECT_EQ(machine.allocated_bytes(), 0U);
  return result;
}

std::size_t links_between(blink::topology const& machine, int a, int b) {
  std::size_t count = 0;
  for (auto const& each : machine.links) {
    count += (each.tail == a && each.head == b) || (each.tail == b && each.head == a) ? 1 : 0;
  }
  return count;
}

class probed_links : public testing::TestWithParam<std::uint32_t> {};

// With blocks of one thread and of three.
TEST_P(probed_links, all_is_well) {
  auto const probes = probes_of({.devices = 3, .threads_each = GetParam()});
  ASSERT_EQ(probes.size(), 6U);
  for (auto const& each : probes) {
    EXPECT_TRUE(each.reaches && each.arrives);
    EXPECT_GT(each.bytes_per_second, 0);
  }
  auto const machine = blink::machines::fully_connected(3);
  EXPECT_EQ(blink::without_false_links(machine, probes).links.size(), machine.links.size());
}

INSTANTIATE_TEST_SUITE_P(threads_of_a_block, probed_links, testing::Values(1U, 3U));

TEST(probe_links, a_way_that_loses_writes_is_left_out) {
  auto const probes = probes_of({.devices = 4, .unreachable = {{0, 2}}, .loses = {{1, 3}, {3, 1}}});
  for (auto const& each : probes) {
    bool const is_lost = (each.from == 1 && each.to == 3) || (each.from == 3 && each.to == 1);
    EXPECT_EQ(each.reaches, !(each.from == 0 && each.to == 2));
    EXPECT_EQ(each.arrives, each.reaches && !is_lost);
  }
  auto const machine = blink::without_false_links(blink::machines::fully_connected(4), probes);
  EXPECT_EQ(links_between(machine, 1, 3), 0U);
  EXPECT_EQ(links_between(machine, 0, 2), 0U);
  EXPECT_GT(links_between(machine, 0, 1), 0U);
  EXPECT_GT(links_between(machine, 2, 3), 0U);
}

TEST(probe_links, nvlinks_remain_where_pcie_loses_writes) {
  auto const nvlinks = blink::machines::dgx1v();
  emulated_devices::options what{.devices = 8};
  for (int a = 0; a < 8; ++a) {
    for (int b = 0; b < 8; ++b) {
      if (a != b && links_between(nvlinks, a, b) == 0) what.loses.insert({a, b});
    }
  }
  auto const machine = blink::without_false_links(blink::machines::dgx1v_pcie(), probes_of(what));
  auto const is_nvlink = [](auto const& each) { return each.kind == blink::link_kind::nvlink; };
  EXPECT_EQ(std::count_if(machine.links.begin(), machine.links.end(), is_nvlink),
            static_cast<std::ptrdiff_t>(nvlinks.links.size()));
  EXPECT_LT(machine.links.size(), blink::machines::dgx1v_pcie().links.size());
}

TEST(probe_links, where_no_other_way_joins_all_it_is_an_error) {
  auto const machine = blink::machines::hgx_h200();
  auto const probes = probes_of({.devices = 8, .loses = {{2, 5}}});
  EXPECT_ERROR((void)blink::without_false_links(machine, probes),
               "without the routes that lose data: 2-5");
  auto const good = probes_of({.devices = 8});
  EXPECT_EQ(blink::without_false_links(machine, good).links.size(), machine.links.size());
}

}}  // namespace probe_links_test
