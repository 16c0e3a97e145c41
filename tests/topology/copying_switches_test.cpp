// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/canonical.hpp>
#include <blink/topology/copying_switches.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/write_json.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <string>

// Rooms may be compiled as one source.
namespace copying_switches_test { namespace {

using namespace blink;

std::size_t able(topology const& machine) {
  std::size_t count = 0;
  for (auto const& n : machine.nodes) count += n.copies && n.reduces ? 1 : 0;
  return count;
}

TEST(copying_switches, are_chosen_by_kind_by_id_or_all) {
  auto const servers = machines::dgx_h100(2);
  std::size_t switches = servers.nodes.size() - servers.rank_positions().size();
  EXPECT_EQ(able(servers), 0U);
  EXPECT_EQ(able(with_copying_switches(servers, "all")), switches);
  EXPECT_EQ(able(with_copying_switches(servers, "nvlink")), 2U);
  EXPECT_EQ(able(with_copying_switches(servers, "network")), 1U);
  int last = -1;
  for (auto const& n : servers.nodes) last = n.kind == node_kind::switch_node ? n.id : last;
  EXPECT_EQ(able(with_copying_switches(servers, std::to_string(last))), 1U);
  EXPECT_EQ(able(subset(with_copying_switches(servers, "nvlink"), {0, 1, 2})), 1U);
}

TEST(copying_switches, the_name_of_a_machine_says_so) {
  EXPECT_EQ(able(read_machine("dgx_h100:2+copying")), 3U);
  EXPECT_EQ(able(read_machine("dgx_h100:2+copying=nvlink")), 2U);
  EXPECT_EQ(read_machine("dgx_h100:2+copying=nvlink").name,
            read_machine("dgx_h100:2").name + "+copying=nvlink");
  for (auto const* wrong :
       {"dgx_h100:2+copying=", "dgx_h100:2+copying=pcie", "dgx_h100:2+copying=0",
        "dgx_h100:2+copying=1x", "dgx_h100:2+copying=18,", "dgx1v+copying",
        "dgx_h100:2+copying=none", "dgx_h100:2+copyings"}) {
    EXPECT_THROW((void)read_machine(wrong), input_error) << wrong;
  }
}

TEST(copying_switches, survive_json) {
  auto machine = machines::dgx_h100(1);
  auto const switch_node = static_cast<std::size_t>(machine.nodes.size() - 1);
  for (int bits = 0; bits < 4; ++bits) {
    machine.nodes[switch_node].copies = (bits & 1) != 0;
    machine.nodes[switch_node].reduces = (bits & 2) != 0;
    auto const back = read_json(write_json(machine));
    EXPECT_EQ(back.nodes[switch_node].copies, machine.nodes[switch_node].copies);
    EXPECT_EQ(back.nodes[switch_node].reduces, machine.nodes[switch_node].reduces);
  }
}

TEST(copying_switches, ranks_cannot) {
  auto machine = machines::dgx_h100(1);
  machine.nodes[0].copies = true;
  EXPECT_THROW(validate(machine), input_error);
  EXPECT_THROW((void)write_json(machine), input_error);
  std::string const text = R"({"unit": "GB/s", "nodes": [{"id": 0, "kind": "gpu", "reduces": true},
    {"id": 1, "kind": "gpu"}], "links": [{"src": 0, "dst": 1, "capacity": 1}]})";
  try {
    (void)read_json(text);
    FAIL() << "expected input_error";
  } catch (input_error const& fault) {
    EXPECT_NE(std::string(fault.what()).find("nodes[0].reduces"), std::string::npos);
  }
  EXPECT_THROW((void)read_json(R"({"unit": "GB/s", "nodes": [{"id": 0, "kind": "gpu"},
    {"id": 1, "kind": "switch", "copies": 1}], "links": []})"),
               input_error);
}

TEST(copying_switches, change_the_canonical_form) {
  auto const plain = machines::dgx_h100(1);
  auto copying = with_copying_switches(plain, "all");
  copying.name = plain.name;
  EXPECT_NE(canonical(plain).key, canonical(copying).key);
  auto only = copying;
  only.nodes.back().reduces = false;
  EXPECT_NE(canonical(only).key, canonical(copying).key);
}

}}  // namespace copying_switches_test
