// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/canonical.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/readers/read_nccl_xml.hpp>
#include <blink/topology/topology.hpp>
#include <blink/topology/write_nccl_xml.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <map>
#include <string>
#include <tuple>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::write_nccl_xml_test { namespace {

using blink_test::error_of;

topology again(topology const& machine) {
  return read_nccl_xml(write_nccl_xml(machine), machine.name + ".xml");
}

using link_list =
    std::map<std::tuple<std::string, std::string, link_kind>, std::pair<rational, double>>;

/// The links by labels of their ends, parallel ones together.
link_list links_of(topology const& machine) {
  link_list result;
  for (auto const& l : machine.links) {
    auto const label = [&](int at) {
      auto const& n = machine.nodes[static_cast<std::size_t>(at)];
      return std::to_string(n.server) + " " + n.label;
    };
    auto& here = result[{label(l.tail), label(l.head), l.kind}];
    here.first += machine.in_units(l.capacity);
    here.second = l.latency_seconds;
  }
  return result;
}

/// A name of the machine's shape: isomorphic machines have the same.
std::string shape_of(topology const& machine) {
  return canonical(machine, 100'000).key;
}

void expect_same(topology const& machine, std::string const& name) {
  SCOPED_TRACE(name);
  auto const copy = again(machine);
  std::vector<std::string> before, after;
  for (auto const& n : machine.nodes) before.push_back(n.label);
  for (auto const& n : copy.nodes) after.push_back(n.label);
  std::sort(before.begin(), before.end());
  std::sort(after.begin(), after.end());
  EXPECT_EQ(before, after);
  EXPECT_EQ(links_of(machine), links_of(copy));
  for (std::size_t i = 0; i < machine.rank_positions().size(); ++i) {
    EXPECT_EQ(machine.nodes[i].label, copy.nodes[i].label);
  }
}

TEST(write_nccl_xml, a_machine_that_was_read_comes_back) {
  expect_same(read_machine(std::string(BLINK_DATA_DIR) + "/dgx1v.xml"), "dgx1v.xml");
}

TEST(write_nccl_xml, files_of_the_corpus_come_back) {
  std::filesystem::path const folder = BLINK_SHARED_DIR "/topo-corpus/nccl-xml";
  if (!std::filesystem::is_directory(folder)) GTEST_SKIP() << "no " << folder;
  int compared = 0;
  for (auto const& file : std::filesystem::directory_iterator(folder)) {
    topology machine;
    try {
      machine = read_nccl_xml_file(file.path().string());
    } catch (input_error const&) {
      continue;  // graphs, and files that are cut short
    }
    expect_same(machine, file.path().filename().string());
    ++compared;
  }
  EXPECT_GT(compared, 40);
}

TEST(write_nccl_xml, a_tree_of_pcie_beside_nvlinks_comes_back) {
  auto const machine = *make_built_in_machine("dgx1v_pcie");
  auto const copy = again(machine);
  EXPECT_EQ(shape_of(machine), shape_of(copy));
  EXPECT_EQ(copy.rank_positions().size(), 8U);
}

TEST(write_nccl_xml, bus_ids_of_gpus_stay) {
  auto machine = *make_built_in_machine("dgx1v_pcie");
  std::vector<std::string> ids;
  for (int const rank : machine.rank_positions()) {
    ids.push_back("0001:" + std::to_string(80 + rank) + ":00.0");
    auto& n = machine.nodes[static_cast<std::size_t>(rank)];
    n.bus_id = ids.back();
    n.uuids = {"GPU-" + std::to_string(rank)};  // has no place in the file
  }
  auto const back = again(machine);
  for (std::size_t k = 0; k < ids.size(); ++k) EXPECT_EQ(back.nodes[k].bus_id, ids[k]);
  EXPECT_EQ(links_of(again(back)), links_of(back));
}

TEST(write_nccl_xml, partitions_and_functions_come_back) {
  topology machine;
  machine.name = "parts";
  machine.nodes = {
      {0, node_kind::rank, "gpu0", 0},         {1, node_kind::rank, "gpu1", 0},
      {2, node_kind::switch_node, "numa0", 0}, {3, node_kind::switch_node, "card", 0},
      {4, node_kind::switch_node, "nic", 0},   {5, node_kind::switch_node, "net a", 0},
      {6, node_kind::switch_node, "nic", 0},   {7, node_kind::switch_node, "net b", 0}};
  auto const join = [&](int a, int b, std::int64_t rate, link_kind kind) {
    machine.links.push_back({a, b, rate, 0, kind});
    machine.links.push_back({b, a, rate, 0, kind});
  };
  join(0, 3, 5000, link_kind::nvlink);
  join(1, 3, 5000, link_kind::nvlink);
  join(3, 2, 48, link_kind::pcie);
  join(4, 2, 24, link_kind::pcie);
  join(5, 4, 25, link_kind::network);
  join(6, 4, 5000, link_kind::pcie);
  join(7, 6, 25, link_kind::network);
  EXPECT_EQ(shape_of(machine), shape_of(again(machine)));
}

TEST(write_nccl_xml, what_no_file_can_state_is_refused) {
  auto const why = [](topology const& machine) {
    return error_of([&] { (void)write_nccl_xml(machine); });
  };
  EXPECT_NE(why(*make_built_in_machine("dgx_a100:2")).find("expected what a topology file"),
            std::string::npos);
  auto machine = *make_built_in_machine("dgx1v_pcie");
  for (auto& l : machine.links) {
    if (l.kind == link_kind::pcie) l.capacity += 1;
  }
  EXPECT_NE(why(machine).find("GB/s, which no width and generation"), std::string::npos)
      << why(machine);
  machine = *make_built_in_machine("dgx1v_pcie");
  for (auto& l : machine.links) {
    if (l.kind == link_kind::pcie && l.tail < l.head) l.capacity *= 2;
  }
  EXPECT_NE(why(machine).find("its directions differ"), std::string::npos) << why(machine);
  EXPECT_NE(why(*make_built_in_machine("ring:4")).find("its unit is 'links', expected GB/s"),
            std::string::npos);
  EXPECT_NE(why(*make_built_in_machine("dgx2")).find("hangs below no processor"),
            std::string::npos);
  machine = *make_built_in_machine("dgx1v_pcie");
  machine.nodes.back().copies = true;
  EXPECT_NE(why(machine).find("node 13 copies or reduces"), std::string::npos) << why(machine);
  machine.nodes.back().copies = false;
  machine.links.front().latency_seconds = 1e-6;
  EXPECT_NE(why(machine).find("its latency has no attribute"), std::string::npos) << why(machine);
  machine.links.front().latency_seconds = 0;
  for (int const processor : {8, 11}) {  // of GPU 0 and of another one
    auto with_c2c = machine;
    with_c2c.links.push_back({0, processor, 100, 0, link_kind::c2c});
    with_c2c.links.push_back({processor, 0, 100, 0, link_kind::c2c});
    if (processor == 8) {
      EXPECT_EQ(shape_of(again(with_c2c)), shape_of(with_c2c));
    } else {
      EXPECT_NE(why(with_c2c).find("it leads to another processor"), std::string::npos);
    }
  }
  machine.links.push_back({0, 1, 50, 0, link_kind::xgmi});
  machine.links.push_back({1, 0, 50, 0, link_kind::xgmi});
  EXPECT_NE(why(machine).find("an NVLink beside XGMI"), std::string::npos) << why(machine);
}

}}  // namespace blink::write_nccl_xml_test
