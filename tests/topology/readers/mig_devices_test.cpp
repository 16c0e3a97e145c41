// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/machines.hpp>
#include <blink/topology/readers/detail/mig_devices.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/write_json.hpp>

#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::mig_devices_test { namespace {

using blink_test::best_rate;
using blink_test::labels_of;
using blink_test::remarks_of;
using detail::mig_devices;
using detail::with_mig_devices;
using texts = std::vector<std::string>;

void join(topology& machine, int a, int b, std::int64_t capacity, link_kind kind) {
  machine.links.push_back({a, b, capacity, 0, kind});
  machine.links.push_back({b, a, capacity, 0, kind});
}

/// GPUs with PCIe links of 24 to a processor, an NVSwitch, and a NIC.
topology server(int gpus) {
  topology machine;
  machine.name = "server";
  auto const add = [&](node_kind kind, std::string label) {
    int const id = static_cast<int>(machine.nodes.size());
    machine.nodes.push_back({id, kind, std::move(label), 3});
    return id;
  };
  for (int gpu = 0; gpu < gpus; ++gpu) {
    add(node_kind::rank, "gpu" + std::to_string(gpu));
    machine.nodes.back().uuids = {"GPU-" + std::to_string(gpu)};
    machine.nodes.back().bus_id = "0000:0" + std::to_string(gpu) + ":00.0";
  }
  int const processor = add(node_kind::switch_node, "processor0");
  int const fabric = add(node_kind::switch_node, "nvswitch");
  int const nic = add(node_kind::switch_node, "nic0");
  for (int gpu = 0; gpu < gpus; ++gpu) {
    join(machine, gpu, processor, 24, link_kind::pcie);
    join(machine, gpu, fabric, 300, link_kind::nvlink);
  }
  join(machine, processor, nic, 24, link_kind::pcie);
  return machine;
}

/// A link as "gpu0:0 > gpu0 to host pcie 24".
std::set<std::string> links_of(topology const& machine) {
  std::set<std::string> result;
  for (auto const& l : machine.links) {
    auto const label = [&](int at) { return machine.nodes[static_cast<std::size_t>(at)].label; };
    result.insert(label(l.tail) + " > " + label(l.head) + " " + std::string(to_text(l.kind)) + " " +
                  std::to_string(l.capacity));
  }
  EXPECT_EQ(result.size(), machine.links.size());
  return result;
}

TEST(mig_devices, share_the_pcie_link_of_their_gpu_one_way_each) {
  auto const whole = server(2);
  auto const machine =
      with_mig_devices(whole, {{1, {{0, {"MIG-a", "MIG-GPU-1/1/0"}}, {4, {"MIG-b"}}}}});
  validate(machine);
  EXPECT_EQ(machine.name, "server");
  EXPECT_EQ(labels_of(machine), (texts{"gpu0", "gpu1:0", "gpu1:4", "processor0", "nvswitch", "nic0",
                                       "gpu1 to host", "gpu1 from host"}));
  EXPECT_EQ(
      links_of(machine),
      (std::set<std::string>{
          "gpu0 > processor0 pcie 24", "processor0 > gpu0 pcie 24", "gpu0 > nvswitch nvlink 300",
          "nvswitch > gpu0 nvlink 300", "processor0 > nic0 pcie 24", "nic0 > processor0 pcie 24",
          "gpu1:0 > gpu1 to host pcie 24", "gpu1:4 > gpu1 to host pcie 24",
          "gpu1 to host > processor0 pcie 24", "processor0 > gpu1 from host pcie 24",
          "gpu1 from host > gpu1:0 pcie 24", "gpu1 from host > gpu1:4 pcie 24"}));
  for (int k : {1, 2}) {
    auto const& part = machine.nodes[static_cast<std::size_t>(k)];
    EXPECT_EQ(part.id, k);
    EXPECT_EQ(part.server, 3);
    EXPECT_EQ(part.bus_id, "0000:01:00.0");
  }
  EXPECT_EQ(machine.nodes[1].uuids, (texts{"MIG-a", "MIG-GPU-1/1/0"}));
  EXPECT_EQ(machine.nodes[6].uuids, texts{"GPU-1"});
  EXPECT_TRUE(machine.nodes[7].uuids.empty());
  EXPECT_SAYS(remarks_of(machine), "2 MIG devices share the links of gpu1 to its host");
  EXPECT_EQ(write_json(read_json(write_json(machine))), write_json(machine));
}

TEST(mig_devices, of_one_gpu_exchange_data_at_the_rate_of_its_link) {
  auto const pcie = only_links(server(2), link_kind::pcie);
  auto const two_gpus = best_rate(pcie, collective::all_reduce);
  // Two devices take the link up twice and down twice, where two GPUs have a link each.
  auto const one = subset(with_mig_devices(server(2), {{0, {{0}, {1}}}}), {0, 1});
  EXPECT_EQ(best_rate(one, collective::all_reduce) * 2, two_gpus);
  EXPECT_EQ(best_rate(one, collective::all_gather) * 2, best_rate(pcie, collective::all_gather));
  // A device of each of two GPUs have a link each.
  auto const both = with_mig_devices(server(2), {{0, {{0}, {1}}}, {1, {{0}}}});
  EXPECT_EQ(best_rate(subset(both, {0, 2}), collective::all_reduce), two_gpus);
  EXPECT_EQ(best_rate(subset(both, {0, 1}), collective::broadcast), rational(24));
}

TEST(mig_devices, direct_links_of_their_gpu_go_and_c2c_stays) {
  auto machine = server(3);
  machine.links.clear();
  join(machine, 0, 1, 50, link_kind::nvlink);
  join(machine, 1, 2, 50, link_kind::nvlink);
  join(machine, 1, 2, 7, link_kind::pcie);  // a direct one
  join(machine, 1, 3, 200, link_kind::c2c);
  join(machine, 1, 3, 20, link_kind::pcie);
  join(machine, 0, 3, 20, link_kind::pcie);
  join(machine, 2, 3, 20, link_kind::pcie);
  auto const split = with_mig_devices(machine, {{1, {{0}}}});
  auto const links = links_of(split);
  EXPECT_TRUE(links.contains("gpu1:0 > gpu1 to host pcie 220"));
  EXPECT_TRUE(links.contains("gpu1 to host > processor0 c2c 200"));
  EXPECT_TRUE(links.contains("processor0 > gpu1 from host pcie 20"));
  EXPECT_EQ(links.size(), 2u * 2 + 4 + 2);
}

TEST(mig_devices, switches_that_only_split_gpus_had_go) {
  auto const machine = with_mig_devices(server(2), {{0, {{0}}}, {1, {{0}}}});
  auto const labels = labels_of(machine);
  EXPECT_EQ(std::count(labels.begin(), labels.end(), "nvswitch"), 0);
  EXPECT_EQ(std::count(labels.begin(), labels.end(), "nic0"), 1);
  auto bare = server(1);
  bare.nodes.push_back({9, node_kind::switch_node, "bare", 3});
  auto const kept = labels_of(with_mig_devices(bare, {{0, {{0}}}}));
  EXPECT_EQ(std::count(kept.begin(), kept.end(), "bare"), 1);
}

TEST(mig_devices, a_gpu_without_devices_is_no_rank) {
  auto const machine = with_mig_devices(server(2), {{0, {}}});
  EXPECT_EQ(labels_of(machine), (texts{"gpu1", "processor0", "nvswitch", "nic0"}));
  EXPECT_EQ(machine.rank_positions(), std::vector<int>{0});
  EXPECT_SAYS(remarks_of(machine), "gpu0 is in MIG mode without MIG devices: it is no rank\n");
  EXPECT_ERROR((void)with_mig_devices(server(1), {{0, {}}}),
               "machine 'server': no rank (GPU) found, expected at least one");
  EXPECT_EQ(write_json(with_mig_devices(server(2), {})), write_json(server(2)));
}

}}  // namespace blink::mig_devices_test
