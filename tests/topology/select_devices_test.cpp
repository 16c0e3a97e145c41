// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/detail/device_names.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/select_devices.hpp>
#include <blink/topology/topology.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::select_devices_test { namespace {

using ids = std::vector<int>;
using texts = std::vector<std::string>;

/// Four GPUs with the ids 10, 20, 30 and 40. The last is split into two MIG devices, 40 and 41.
topology box() {
  topology machine;
  machine.name = "box";
  auto const add = [&](int id, std::string label, texts uuids, std::string bus_id,
                       node_kind kind = node_kind::rank) {
    node n{id, kind, std::move(label), 0};
    n.uuids = std::move(uuids);
    n.bus_id = std::move(bus_id);
    machine.nodes.push_back(std::move(n));
  };
  add(10, "gpu0", {"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6"}, "0000:06:00.0");
  add(20, "gpu1", {"GPU-8932a000-0000-0000-0000-000000000001"}, "0000:07:00.0");
  add(30, "gpu2", {"b5ff74a1-0000-1000-806f-3d3e7b684465", "GPU-b56f3d3e7b684465"}, "0001:06:00.0");
  add(40, "gpu3:0", {"MIG-aaaa0000-1111", "MIG-GPU-77770000-2222/1/0"}, "0000:0a:00.0");
  add(41, "gpu3:1", {"MIG-aaaa9999-1111", "MIG-GPU-77770000-2222/11/0"}, "0000:0a:00.0");
  add(50, "gpu3 to host", {"GPU-77770000-2222"}, "", node_kind::switch_node);
  add(51, "processor0", {}, "", node_kind::switch_node);
  for (int const part : {3, 4}) machine.links.push_back({part, 5, 1, 0, link_kind::pcie});
  machine.links.push_back({5, 6, 1, 0, link_kind::pcie});
  return machine;
}

ids selected(std::string const& list, device_numbers numbers = device_numbers::ids) {
  return select_devices(box(), list, "--ranks", numbers);
}
std::string fault_of(std::string const& list, device_numbers numbers = device_numbers::ids) {
  return blink_test::error_of([&] { (void)selected(list, numbers); });
}

TEST(select_devices, takes_numbers_uuids_and_bus_ids_in_their_order) {
  struct row {
    std::string list;
    ids expected;
  };
  for (auto const& [list, expected] : std::vector<row>{
           {"20", {20}},
           {"4-6,20", {4, 5, 6, 20}},  // `subset` checks ids
           {"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", {10}},
           {"GPU-8932f", {10}},
           {"gpu-8932F", {10}},
           {"GPU-8932a,GPU-8932f", {20, 10}},
           {"b5ff74a1", {30}},
           {"B5FF74A1-0000-1000-806F-3D3E7B684465", {30}},
           {"GPU-B56F", {30}},
           {"MIG-aaaa9", {41}},
           {"MIG-GPU-77770000-2222/1/0", {40}},
           {"MIG-GPU-77770000-2222/11/0", {41}},
           {"MIG-GPU-7/11/0", {41}},
           {"0000:06:00.0", {10}},
           {"00000000:06:00.0", {10}},
           {"0001:06:00.0", {30}},
           {"07:00.0", {20}},
           {"7:0.0", {20}},
           {" 07:00.0 ,\t10", {20, 10}},
           {"GPU-8932f,07:00.0,30,3:0", {10, 20, 30, 40}},
       }) {
    SCOPED_TRACE(list);
    EXPECT_EQ(selected(list), expected);
  }
}

TEST(select_devices, numbers_of_drivers_are_those_of_labels) {
  auto const labels = device_numbers::labels;
  EXPECT_EQ(selected("2,0-1", labels), (ids{30, 10, 20}));
  EXPECT_EQ(selected("3:1,GPU-8932f", labels), (ids{41, 10}));
  EXPECT_EQ(fault_of("0,8", labels),
            "--ranks: found '8', where programs end the list: gpu8 is not in machine 'box', "
            "expected one of gpu0, gpu1, gpu2, gpu3:0, gpu3:1");
  EXPECT_EQ(fault_of("3", labels),
            "--ranks: found '3', where programs end the list: gpu3 is split in machine 'box', "
            "expected one of gpu3:0, gpu3:1");
  topology tiles;
  tiles.nodes = {{0, node_kind::rank, "gpu0/0", 0}, {1, node_kind::rank, "gpu0/1", 0}};
  EXPECT_EQ(select_devices(tiles, "0.1", "ZE_AFFINITY_MASK", labels), ids{1});
  EXPECT_ERROR((void)select_devices(tiles, "0", "ZE_AFFINITY_MASK", labels),
               "gpu0 is split in machine '', expected one of gpu0/0, gpu0/1");
}

TEST(select_devices, an_entry_names_one_rank_or_the_error_lists_them) {
  struct row {
    std::string list, fault;
  };
  std::string const all =
      "expected one of 10 (GPU-8932f937-d72c-4106-c12f-20bd9faed9f6), 20 "
      "(GPU-8932a000-0000-0000-0000-000000000001), 30 (b5ff74a1-0000-1000-806f-3d3e7b684465), 40 "
      "(MIG-aaaa0000-1111), 41 (MIG-aaaa9999-1111)";
  for (auto const& [list, fault] : std::vector<row>{
           {"0:0",
            "found '0:0': gpu0:0 is not in machine 'box', expected one of gpu0, gpu1, gpu2, "
            "gpu3:0, gpu3:1"},
           {"GPU-1", "found 'GPU-1': no rank of machine 'box' has this UUID, " + all},
           {"10,MIG-b", "found 'MIG-b': no rank of machine 'box' has this UUID, " + all},
           {"MIG-GPU-77770000-2222/1/1", "no rank of machine 'box' has this UUID, " + all},
           {"MIG-GPU-77770000-2222/0", "no rank of machine 'box' has this UUID, " + all},
           {"GPU-8932",
            "found 'GPU-8932': 2 devices of machine 'box' fit, expected one of 10 "
            "(GPU-8932f937-d72c-4106-c12f-20bd9faed9f6), 20 (GPU-8932a000-"},
           {"MIG-aaaa",
            "2 devices of machine 'box' fit, expected one of 40 (MIG-aaaa0000-1111), "
            "41 (MIG-aaaa9999-1111)"},
           {"MIG-GPU-7777", "2 devices of machine 'box' fit"},
           {"GPU-7777",
            "found 'GPU-7777': a GPU that is split, expected one of 40 "
            "(MIG-aaaa0000-1111), 41 (MIG-aaaa9999-1111)"},
           {"08:00.0",
            "found '08:00.0': no rank of machine 'box' has this bus id, expected one of "
            "0000:06:00.0, 0000:07:00.0, 0001:06:00.0, 0000:0a:00.0, 0000:0a:00.0"},
           {"06:00.0", "2 devices of machine 'box' fit, expected one of 10 (GPU-8932f937"},
           {"0000:0a:00.0", "2 devices of machine 'box' fit, expected one of 40 (MIG-aaaa0000"},
           {"06:00.1", "no rank of machine 'box' has this bus id"},
       }) {
    SCOPED_TRACE(list);
    EXPECT_SAYS(fault_of(list), fault);
  }
  EXPECT_ERROR((void)select_devices(machines::dgx1v(), "GPU-1", "--ranks", device_numbers::ids),
               "no rank of machine 'dgx1v' has this UUID, expected numbers, because the machine "
               "states none");
  EXPECT_ERROR((void)select_devices(machines::dgx1v(), "6:0.0", "--ranks", device_numbers::ids),
               "has this bus id, expected numbers, because the machine states none");
}

TEST(select_devices, a_whole_uuid_is_no_beginning_of_another) {
  auto machine = box();
  machine.nodes[1].uuids = {"GPU-8932f937-d72c-4106-c12f-20bd9faed9f6-and-more"};
  EXPECT_EQ(select_devices(machine, "GPU-8932f937-d72c-4106-c12f-20bd9faed9f6", "--ranks",
                           device_numbers::ids),
            ids{10});
}

TEST(select_devices, other_texts_are_refused) {
  for (auto const* list : {"",           "x",       "0,",
                           ",0",         "0,,1",    "-1",
                           "0,2,-1,1",   "6-4",     "1-",
                           "100001",     "1.5.2",   "GPU-",
                           "MIG-",       "GPU",     "1:2:3",
                           "06:00.",     ":00.0",   "b5ff74",
                           "NoDevFiles", "visible", "123456789012345678901234567890:00:00.0"}) {
    SCOPED_TRACE(list);
    auto const fault = fault_of(list);
    EXPECT_SAYS(fault, "--ranks: found '");
    EXPECT_SAYS(fault,
                "', expected ids such as 0,1,4-6, UUIDs such as GPU-8932f937 or bus ids such as "
                "06:00.0");
  }
  EXPECT_SAYS(fault_of("0,2,-1,1"), "--ranks: found '-1', expected");
  EXPECT_SAYS(fault_of(std::string("\x1b[31m", 5)), "found '?[31m', expected");
  EXPECT_SAYS(fault_of("GPU-\x1b"), "found 'GPU-?': no rank");
}

TEST(select_devices, long_lists_are_cut) {
  auto machine = machines::nvl72();
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    machine.nodes[i].uuids = {"GPU-" + std::to_string(1000 + i)};
  }
  auto const fault = blink_test::error_of(
      [&] { (void)select_devices(machine, "GPU-2", "--ranks", device_numbers::ids); });
  EXPECT_SAYS(fault, "15 (GPU-1015) and 56 more");
}

TEST(visible_devices, takes_the_variable_that_is_set) {
  std::map<std::string, char const*> set;
  auto const value_of = [&](char const* name) {
    auto const found = set.find(name);
    return found == set.end() ? nullptr : found->second;
  };
  auto const seen = [&] { return visible_devices(box(), value_of); };
  EXPECT_ERROR((void)seen(),
               "CUDA_VISIBLE_DEVICES, ROCR_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES and "
               "ZE_AFFINITY_MASK are not set, expected one of them");
  for (auto const* name : {"CUDA_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES",
                           "ZE_AFFINITY_MASK"}) {
    set = {{name, "2,GPU-8932f937"}};
    EXPECT_EQ(seen(), (ids{30, 10})) << name;
  }
  set = {{"ROCR_VISIBLE_DEVICES", "1"}, {"HIP_VISIBLE_DEVICES", "1"}};
  EXPECT_EQ(seen(), ids{20});
  set["HIP_VISIBLE_DEVICES"] = "0";
  EXPECT_ERROR((void)seen(),
               "ROCR_VISIBLE_DEVICES='1' and HIP_VISIBLE_DEVICES='0' differ, expected one of them");
  set = {{"CUDA_VISIBLE_DEVICES", ""}};
  EXPECT_ERROR((void)seen(),
               "CUDA_VISIBLE_DEVICES: found '', where programs end the list, expected ids");
  set = {{"CUDA_VISIBLE_DEVICES", "0,2,-1,1"}};
  EXPECT_ERROR((void)seen(),
               "CUDA_VISIBLE_DEVICES: found '-1', where programs end the list, expected ids");
  set = {{"CUDA_VISIBLE_DEVICES", "MIG-aaaa0,GPU-1,0"}};
  EXPECT_ERROR((void)seen(),
               "CUDA_VISIBLE_DEVICES: found 'GPU-1', where programs end the list: no rank of");
}

TEST(device_names, bus_ids_have_a_domain_or_none) {
  using detail::read_pci_address;
  auto const whole = read_pci_address("00000000:c1:1f.7");
  ASSERT_TRUE(whole);
  EXPECT_EQ(whole->domain, 0U);
  EXPECT_EQ(std::vector({whole->bus, whole->device, whole->function}),
            (std::vector<unsigned>{0xc1, 0x1f, 7}));
  auto const brief = read_pci_address("C1:1f.7");
  ASSERT_TRUE(brief);
  EXPECT_EQ(brief->domain, std::nullopt);
  EXPECT_TRUE(brief->agrees_with(*whole));
  EXPECT_TRUE(whole->agrees_with(*brief));
  EXPECT_FALSE(read_pci_address("0001:c1:1f.7")->agrees_with(*whole));
  EXPECT_FALSE(read_pci_address("c1:1f.6")->agrees_with(*whole));
  for (auto const* other : {"", ".", ":", "c1:1f", "c1.1f", "c1:1f.", "c1:.7", ":1f.7", "c11:1f.7",
                            "c1:1ff.7", "c1:1f.77", "000000000:c1:1f.7", ":c1:1f.7", "g1:1f.7",
                            "0:0:c1:1f.7", "-1:1f.7", "0x:1f.7", "gpu0"}) {
    EXPECT_FALSE(read_pci_address(other)) << other;
  }
}

TEST(device_names, amd_gpus_have_a_uuid_of_their_unique_id) {
  using detail::amd_uuids;
  EXPECT_EQ(amd_uuids("0xe54792172da5eeb"), texts{"GPU-0e54792172da5eeb"});
  EXPECT_EQ(amd_uuids("592C190172FD5D40"), texts{"GPU-592c190172fd5d40"});
  EXPECT_EQ(amd_uuids("b5ff74a1-0000-1000-806f-3d3e7b684465"),
            (texts{"b5ff74a1-0000-1000-806f-3d3e7b684465", "GPU-b56f3d3e7b684465"}));
  EXPECT_EQ(amd_uuids("00ff1586-0000-1000-8000-000000000000"),
            texts{"00ff1586-0000-1000-8000-000000000000"});
  EXPECT_EQ(amd_uuids("b5ff74a1-0000-4000-806f-3d3e7b684465"),
            texts{"b5ff74a1-0000-4000-806f-3d3e7b684465"});
  EXPECT_EQ(amd_uuids("REDACTED012"), texts{"REDACTED012"});
  for (auto const* none : {"", "0", "0x0", "0000000000000000", "N/A"}) {
    EXPECT_TRUE(amd_uuids(none).empty()) << none;
  }
}

}}  // namespace blink::select_devices_test
