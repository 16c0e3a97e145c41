// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/canonical.hpp>
#include <blink/topology/readers/read_taccl.hpp>

#include "support/damaged_text.hpp"
#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_taccl_test { namespace {

using blink_test::remarks_of;
using blink_test::replaced;
using blink_test::text_of;

std::string const ndv2 = R"({
  "name": "ndv2", "gpus_per_node": 8, "nics_per_node": 1, "alpha": 0.7,
  "node_betas_list": [20, 40], "node_invbws_list": [21, 41],
  "remote_alpha": 1.7, "remote_beta": 106, "remote_invbw": 108
})";

// Three GPUs: two links 0 -> 1, one link 1 -> 0, one link 2 -> 0 and one link 1 -> 2.
std::string const own = R"({
  "name": "own", "gpus_per_node": 3, "alpha": 2,
  "links": [[0, 1, 1],
            [2, 0, 0],
            [0, 1, 0]],
  "betas": [[0, 40, 12.5], [50, 0, 0], [0, 0.8, 0]],
  "invbws": [[0, 42, 14.5], [52, 0, 0], [0, 2.8, 0]]
})";

TEST(read_taccl, an_ndv2_is_a_dgx1v_with_its_own_numbers) {
  auto const machine = read_taccl(ndv2, "dir/ndv2-1MB.json");
  EXPECT_EQ(machine.name, "ndv2-1MB");
  EXPECT_EQ(machine.unit, "GB/s");
  ASSERT_EQ(machine.nodes.size(), 8U);
  EXPECT_EQ(machine.nodes[5].label, "gpu5");
  EXPECT_EQ(machine.rank_positions().size(), 8U);
  ASSERT_EQ(machine.links.size(), 32U);
  // 0 and 1 have the first beta, 0 and 2 the second one.
  EXPECT_EQ(machine.links[0].tail, 0);
  EXPECT_EQ(machine.links[0].head, 1);
  EXPECT_EQ(machine.in_units(machine.links[0].capacity), rational(50));
  EXPECT_EQ(machine.links[1].tail, 1);
  EXPECT_EQ(machine.in_units(machine.links[2].capacity), rational(25));
  for (auto const& l : machine.links) {
    EXPECT_EQ(l.kind, link_kind::nvlink);
    EXPECT_DOUBLE_EQ(l.latency_seconds, 0.7e-6);
  }
  EXPECT_EQ(canonical(machine).key, canonical(*make_built_in_machine("dgx1v")).key);
  auto const plan = make_plan(machine, {collective::all_reduce, {}, planned_by::exact});
  EXPECT_EQ(plan.rate, plan.bound);
  EXPECT_SAYS(remarks_of(machine), "the mesh is that of an NDv2");
  EXPECT_SAYS(remarks_of(machine), "microseconds for 10^6 bytes");
  EXPECT_SAYS(remarks_of(machine), "nics_per_node and remote_beta are left out");
}

TEST(read_taccl, one_beta_puts_the_gpus_at_a_switch) {
  auto const machine = read_taccl(
      R"({"gpus_per_node": 16, "alpha": 0.7, "node_betas_list": [8], "node_invbws_list": [8]})",
      "dgx2");
  ASSERT_EQ(machine.nodes.size(), 17U);
  EXPECT_EQ(machine.nodes[16].label, "nvswitch");
  EXPECT_EQ(machine.nodes[16].kind, node_kind::switch_node);
  ASSERT_EQ(machine.links.size(), 32U);
  for (auto const& l : machine.links) {
    EXPECT_EQ(machine.in_units(l.capacity), rational(125));
    EXPECT_EQ(l.kind, link_kind::nvlink);
    EXPECT_DOUBLE_EQ(l.latency_seconds, 0.35e-6);
  }
  auto const plan = make_plan(machine, {collective::all_gather, {}, planned_by::exact});
  EXPECT_EQ(plan.rate, rational(16 * 125, 15));
  auto const four = read_taccl(R"({"gpus_per_node": 4, "node_betas_list": [10]})", "hub");
  EXPECT_EQ(four.nodes[4].label, "switch");
  EXPECT_EQ(four.links[0].kind, link_kind::unknown);
  EXPECT_EQ(four.links[0].latency_seconds, 0);
}

TEST(read_taccl, rows_of_matrices_are_the_receivers) {
  auto const machine = read_taccl(own, "own");
  struct expected {
    int tail, head;
    rational rate;
  };
  std::vector<expected> const links{{1, 0, 25}, {2, 0, 80}, {0, 1, 40}, {1, 2, 1250}};
  ASSERT_EQ(machine.links.size(), links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(machine.links[i].tail, links[i].tail);
    EXPECT_EQ(machine.links[i].head, links[i].head);
    EXPECT_EQ(machine.in_units(machine.links[i].capacity), links[i].rate);
    EXPECT_EQ(machine.links[i].kind, link_kind::unknown);
    EXPECT_DOUBLE_EQ(machine.links[i].latency_seconds, 2e-6);
  }
  EXPECT_EQ(machine.remarks.size(), 1U);  // of the unit
}

TEST(read_taccl, rates_without_a_common_unit_are_rounded) {
  std::string const text = R"({"gpus_per_node": 3,
    "links": [[0, 1, 1], [1, 0, 1], [1, 1, 0]],
    "betas": [[0, 23.000001, 46.000003], [46.000007, 0, 23.000009], [23.000011, 23.000021, 0]]})";
  auto const machine = read_taccl(text, "measured");
  EXPECT_EQ(machine.steps_per_unit, 1000);
  EXPECT_EQ(machine.links[0].capacity, 43478);
  EXPECT_EQ(machine.links[1].capacity, 21739);
  EXPECT_SAYS(remarks_of(machine), "rounded down to thousandths of a GB/s");
  auto const exact = read_taccl(replaced(ndv2, "[20, 40]", "[23, 46]"), "exact");
  EXPECT_EQ(exact.steps_per_unit, 23);
  EXPECT_EQ(exact.links[0].capacity, 1000);
}

TEST(read_taccl, remarks_are_errors_if_it_is_strict) {
  auto const odd = replaced(ndv2, "\"alpha\"", "\"colour\": 3, \"alpha\"");
  EXPECT_SAYS(remarks_of(read_taccl(odd, "t")), "line 2: unknown key 'colour'");
  EXPECT_ERROR((void)read_taccl(odd, "t.json", {{}, true}), "t.json:2: unknown key 'colour'");
  auto const costs = replaced(ndv2, "\"node_betas_list\": [20, 40], ", "");
  auto const machine = read_taccl(costs, "t");
  EXPECT_EQ(machine.in_units(machine.links[0].capacity), rational(1000, 21));
  EXPECT_SAYS(remarks_of(machine), "node_betas_list is missing, and node_invbws_list counts");
  EXPECT_ERROR((void)read_taccl(costs, "t.json", {{}, true}), "t.json:3: node_betas_list is");
  EXPECT_NO_THROW((void)read_taccl(ndv2, "t", {{}, true}));
}

TEST(read_taccl, refuses_what_it_cannot_read) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_ERROR((void)read_taccl(text, "t.json"), part);
  };
  fails("[]", "t.json:1: the file: found a list, expected an object with gpus_per_node");
  fails("{\"gpus_per_node\": 8,", "t.json:1: malformed JSON");
  fails("{\"gpus_per_node\": 8}", "t.json:1: the machine: 'node_betas_list' is missing");
  fails("{\"node_betas_list\": [1]}", "the machine: 'gpus_per_node' is missing");
  for (auto const* count : {"0", "-8", "8.5", "\"8\"", "1e9", "99999999999999999999"}) {
    fails(replaced(ndv2, ": 8", ": " + std::string(count)),
          "t.json:2: gpus_per_node: found " +
              std::string(count == std::string("\"8\"") ? "'8'" : ""));
  }
  fails(replaced(ndv2, "[20, 40]", "[20, 40, 60]"),
        "t.json:3: node_betas_list: found 3 betas for 8 GPUs, expected two for the 8 GPUs of an");
  fails(replaced(ndv2, ": 8", ": 7"), "found 2 betas for 7 GPUs");
  fails(replaced(ndv2, "[20, 40]", "[20, 0]"),
        "t.json:3: node_betas_list[1]: found 0, expected a number from 1/1000 to 1000000");
  fails(replaced(ndv2, "[20, 40]", "[20, 1e-30]"), "node_betas_list[1]: found 1e-30");
  fails(replaced(ndv2, "[20, 40]", "20"), "node_betas_list: found 20, expected a list");
  fails(replaced(ndv2, "0.7", "-1"), "alpha: found -1, expected a number from 0");
  fails(replaced(own, "[2, 0, 0]", "[2, 0]"), "links[1]: found 2 entries, expected 3");
  fails(replaced(own, "[2, 0, 0]", "[2, 1, 0]"), "t.json:4: links[1][1]: found 1, expected 0");
  fails(replaced(own, "[2, 0, 0]", "[2, 0, 0.5]"), "links[1][2]: found 0.5, expected an integer");
  fails(replaced(own, "[2, 0, 0]", "[2, 0, 1]"), "t.json:6: betas[1][2]: found 0, expected");
  fails(replaced(own, "\"betas\"", "\"node_betas_list\": [1], \"betas\""),
        "node_betas_list: found a list beside \"links\"");
  EXPECT_ERROR((void)read_taccl(ndv2, "t.json", {{{link_kind::nvlink, 50}}}),
               "t.json: states its own rates of nvlink links");
}

TEST(read_taccl, is_recognised_by_its_keys) {
  EXPECT_TRUE(is_taccl(ndv2));
  EXPECT_TRUE(is_taccl(own));
  EXPECT_FALSE(is_taccl(R"({"nodes": [], "links": []})"));
  EXPECT_FALSE(is_taccl(R"({"links": [{"gpus_per_node": 8, "node_betas_list": [1]}]})"));
  EXPECT_FALSE(is_taccl(R"({"name": "\"gpus_per_node\": ", "note": "node_betas_list"})"));
  EXPECT_FALSE(is_taccl("{\"gpus_per_node"));
  EXPECT_FALSE(is_taccl(""));
  EXPECT_FALSE(is_taccl("GPU0 GPU1"));
}

TEST(read_taccl, damaged_files_end_in_a_machine_or_an_error) {
  for (auto const& text : {ndv2, own}) {
    int const read = blink_test::read_damaged(
        text, [](std::string const& damaged) { validate(read_taccl(damaged, "t.json")); });
    EXPECT_GT(read, 50);
    EXPECT_LT(read, 950);
  }
}

TEST(read_taccl_corpus, reads_the_profile_of_an_ndv2) {
  auto const path = std::string(BLINK_SHARED_DIR) + "/machine-cases/35-taccl-ndv2.json";
  if (!std::filesystem::exists(path)) GTEST_SKIP() << "no corpus here";
  auto const text = text_of(path);
  EXPECT_TRUE(is_taccl(text));
  auto const machine = read_taccl(text, path);
  EXPECT_EQ(machine.name, "35-taccl-ndv2");
  EXPECT_EQ(machine.rank_positions().size(), 8U);
  EXPECT_EQ(machine.links.size(), 32U);
  EXPECT_EQ(machine.in_units(machine.links[0].capacity), rational(1000, 23));
  auto const plan = make_plan(machine, {collective::all_gather, {}, planned_by::exact});
  EXPECT_EQ(plan.rate, plan.bound);
}

}}  // namespace blink::read_taccl_test
