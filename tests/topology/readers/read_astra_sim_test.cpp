// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/canonical.hpp>
#include <blink/topology/readers/read_astra_sim.hpp>

#include "support/damaged_text.hpp"
#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <map>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_astra_sim_test { namespace {

using blink_test::best_rate;
using blink_test::replaced;

// 2 x 3 x 2 NPUs; ids are a + 2 b + 6 c.
std::string const yaml =
    "# Network Configuration\n"
    "\n"
    "topology: [ Ring, FullyConnected, Switch ]  # Ring, Switch, FullyConnected\n"
    "npus_count: [ 2, 3, 2 ]  # number of NPUs\n"
    "bandwidth: [ 200.0, 100.0, 12.5 ]  # GB/s\n"
    "latency: [ 50.0, 500.0, 936.25 ]  # ns\n";

std::string const json = R"({
  "topology-name": "Hierarchical",
  "topologies-per-dim": ["Ring", "FullyConnected", "Switch"],
  "dimension-type": ["N", "N", "P"],
  "dimensions-count": 3,
  "units-count": [2, 3, 2],
  "links-count": [2, 4, 1],
  "link-latency": [500, 400, 300],
  "link-bandwidth": [250, 25, 12.5],
  "nic-latency": [0, 10, 20],
  "router-latency": [0, 0, 8],
  "hbm-latency": [500, 500, 500],
  "hbm-bandwidth": [370, 370, 370],
  "hbm-scale": [0, 0, 0]
})";

std::string network(std::string const& block, int npus, std::string const& rate = "50") {
  return "topology: [" + block + "]\nnpus_count: [" + std::to_string(npus) + "]\nbandwidth: [" +
         rate + "]\nlatency: [500]\n";
}

// The links from a node: rate by head.
std::map<int, rational> links_from(topology const& machine, int tail) {
  std::map<int, rational> result;
  for (auto const& l : machine.links) {
    if (l.tail == tail) result[l.head] += machine.in_units(l.capacity);
  }
  return result;
}

TEST(read_astra_sim, the_first_dimension_varies_fastest) {
  auto const machine = read_astra_sim(yaml, "dir/net.yml");
  EXPECT_EQ(machine.name, "net");
  ASSERT_EQ(machine.nodes.size(), 12U + 6U);
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    EXPECT_EQ(machine.nodes[i].id, static_cast<int>(i));
    EXPECT_EQ(machine.nodes[i].kind, i < 12 ? node_kind::rank : node_kind::switch_node);
    EXPECT_EQ(machine.nodes[i].server, 0);
  }
  EXPECT_EQ(machine.nodes[11].label, "npu11");
  EXPECT_EQ(machine.nodes[17].label, "dim2.switch5");
  // NPU 9 is (1, 1, 1): beside 8 in the first dimension, 7 and 11 in the second one. Its switch is
  // that of NPU 3.
  std::map<int, rational> const expected{{8, 200}, {7, 100}, {11, 100}, {15, rational(25, 2)}};
  EXPECT_EQ(links_from(machine, 9), expected);
  EXPECT_EQ(links_from(machine, 15),
            (std::map<int, rational>{{3, rational(25, 2)}, {9, rational(25, 2)}}));
  EXPECT_EQ(machine.links.size(), 12U * (1 + 2 + 2));
  for (auto const& l : machine.links) {
    EXPECT_EQ(l.kind, link_kind::unknown);
    auto const rate = machine.in_units(l.capacity);
    EXPECT_DOUBLE_EQ(l.latency_seconds, rate == 200 ? 50e-9 : rate == 100 ? 500e-9 : 936.25e-9);
  }
  EXPECT_TRUE(machine.remarks.empty());
}

TEST(read_astra_sim, rings_have_the_whole_bandwidth_each_way) {
  auto const ring = read_astra_sim(network("Ring", 8), "ring");
  EXPECT_EQ(ring.links.size(), 16U);
  EXPECT_EQ(links_from(ring, 0), (std::map<int, rational>{{1, 50}, {7, 50}}));
  EXPECT_EQ(best_rate(ring, collective::all_gather), rational(8 * 100, 7));
  auto const two = read_astra_sim(network("Ring", 2), "two");
  EXPECT_EQ(two.links.size(), 2U);
  EXPECT_EQ(links_from(two, 1), (std::map<int, rational>{{0, 50}}));
  auto const full = read_astra_sim(network("FullyConnected", 4), "full");
  EXPECT_EQ(full.links.size(), 12U);
  EXPECT_EQ(best_rate(full, collective::all_gather), rational(4 * 150, 3));
  auto const star = read_astra_sim(network("Switch", 8, "400.0"), "star");
  EXPECT_EQ(star.nodes.back().label, "dim0.switch0");
  EXPECT_EQ(best_rate(star, collective::all_gather), rational(8 * 400, 7));
  auto const torus = read_astra_sim(
      "topology: [ Ring, Ring ]\nnpus_count: [4, 4]\nbandwidth: [1, 1]\nlatency: [0, 0]\n", "t");
  auto built_in = *make_built_in_machine("torus:4x4");
  built_in.unit = "GB/s";
  EXPECT_EQ(canonical(torus).key, canonical(built_in).key);
  auto const line = read_astra_sim(
      "topology: [Switch, Ring]\nnpus_count: [1, 3]\nbandwidth: [9, 1]\nlatency: [0, 0]\n", "t");
  EXPECT_EQ(line.nodes.size(), 3U);
  EXPECT_EQ(line.links.size(), 6U);
}

TEST(read_astra_sim, other_ways_to_write_yaml) {
  auto const clean = canonical(read_astra_sim(network("Ring", 8), "t")).key;
  for (auto const* text : {
           "---\ntopology: [Ring]\nnpus_count: [8]\nbandwidth: [50]\nlatency: [500]\n",
           "topology:\n- Ring\nnpus_count:\n  - 8\nbandwidth: # GB/s\n  - 50.0  # x\nlatency:\n- "
           "5e2",
           "\xef\xbb\xbf# a\r\ntopology: [Ring ]\r\nlatency: [500,]\r\n"
           "npus_count: [ 8 ]\r\nbandwidth: [5e1]\r\n",
       }) {
    SCOPED_TRACE(text);
    EXPECT_EQ(canonical(read_astra_sim(text, "t")).key, clean);
  }
}

TEST(read_astra_sim, json_has_links_by_number) {
  auto const machine = read_astra_sim("\n" + json, "net.json");
  ASSERT_EQ(machine.nodes.size(), 12U + 6U);
  // Two links to the other NPU of a pair, two to each of two others, one to the switch.
  std::map<int, rational> const expected{{8, 500}, {7, 50}, {11, 50}, {15, rational(25, 2)}};
  EXPECT_EQ(links_from(machine, 9), expected);
  for (auto const& l : machine.links) {
    auto const rate = machine.in_units(l.capacity);
    EXPECT_DOUBLE_EQ(l.latency_seconds, rate == 500 ? 500e-9 : rate == 50 ? 420e-9 : 324e-9);
  }
  EXPECT_TRUE(machine.remarks.empty());
  auto const ring = read_astra_sim(
      R"({"topologies-per-dim": ["Ring"], "units-count": [4], "links-count": [4],
          "link-latency": [1], "link-bandwidth": [32]})",
      "ring");
  EXPECT_EQ(links_from(ring, 0), (std::map<int, rational>{{1, 64}, {3, 64}}));
}

TEST(read_astra_sim, remarks_are_errors_if_it_is_strict) {
  struct row {
    std::string text, remark;
  };
  for (auto const& [text, remark] : std::vector<row>{
           {yaml + "colour: red\n", "line 7: unknown key 'colour'"},
           {replaced(json, "\"links-count\": [2, 4, 1],\n", ""),
            "line 1: links-count is missing, one link to each neighbour is assumed"},
           {replaced(json, "[2, 4, 1]", "[2, 5, 1]"),
            "line 7: links-count[1] is 5, which is no multiple of 2: the rest is left out"},
           {replaced(json, "\"hbm-scale\"", "\"colour\": 1, \"hbm-scale\""),
            "line 14: unknown key 'colour'"},
       }) {
    auto const machine = read_astra_sim(text, "t");
    ASSERT_EQ(machine.remarks.size(), 1U) << text;
    EXPECT_EQ(machine.remarks[0], remark);
    auto const bare = remark.substr(remark.find(": ") + 2);
    EXPECT_ERROR((void)read_astra_sim(text, "t.yml", {{}, true}), bare);
  }
  auto const without = read_astra_sim(replaced(json, "\"links-count\": [2, 4, 1],\n", ""), "t");
  EXPECT_EQ(links_from(without, 9),
            (std::map<int, rational>{{8, 250}, {7, 25}, {11, 25}, {15, rational(25, 2)}}));
}

TEST(read_astra_sim, refuses_yaml_that_it_cannot_read) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_ERROR((void)read_astra_sim(text, "t.yml"), part);
  };
  fails("", "t.yml:1: no value, expected YAML");
  fails("- Ring\n", "t.yml:1: the file: found a list, expected keys such as topology");
  fails(replaced(yaml, "latency", "delay"), "t.yml:3: the machine: 'latency' is missing");
  fails(replaced(yaml, "[ Ring", "[ Line"),
        "t.yml:3: topology[0]: found 'Line', expected Ring, FullyConnected or Switch");
  fails(replaced(yaml, "[ Ring, FullyConnected, Switch ]", "[]"),
        "t.yml:3: topology: found 0 dimensions, expected 1 to 32");
  fails(replaced(yaml, "[ Ring, FullyConnected, Switch ]", "Ring"),
        "t.yml:3: topology: found 'Ring', expected a list");
  fails(replaced(yaml, "[ 2, 3, 2 ]", "[ 2, 3 ]"),
        "t.yml:4: npus_count: found 2 values, expected 3, one for each dimension");
  fails(replaced(yaml, "[ 2, 3, 2 ]", "[ 2, 3, 2, 2 ]"), "npus_count: found 4 values, expected 3");
  fails(replaced(yaml, "[ 2, 3, 2 ]", "[ 2, 0, 2 ]"),
        "t.yml:4: npus_count[1]: found 0, expected an integer from 1 to 65536");
  fails(replaced(yaml, "[ 2, 3, 2 ]", "[ 2, 1e9, 2 ]"), "npus_count[1]: found 1e9");
  fails(replaced(yaml, "[ 2, 3, 2 ]", "[ 60000, 3, 60000 ]"), "t.yml: more than 65536 ranks");
  fails(replaced(yaml, "[ 2, 3, 2 ]", "[ 2, 20000, 1 ]"), "links, expected at most 1048576");
  fails(replaced(yaml, "200.0", "tbd"),
        "t.yml:5: bandwidth[0]: found 'tbd', expected a number from 1/1000000 to 1000000 of at");
  fails(replaced(yaml, "200.0", "0"), "bandwidth[0]: found 0");
  fails(replaced(yaml, "500.0", "-1"), "t.yml:6: latency[1]: found -1, expected a number from 0");
  fails(replaced(yaml, "bandwidth:", "bandwidth: &x"), "t.yml:5: found '&x [");
  fails(yaml + "topology: [ Ring ]\n", "key 'topology' a second time");
  fails(yaml + "  - 3\n", "t.yml:7: found '- 3'");
  EXPECT_ERROR((void)read_astra_sim(yaml, "t.yml", {{{link_kind::nvlink, 50}}}),
               "t.yml: states its own rates of nvlink links");
}

TEST(read_astra_sim, refuses_json_that_it_cannot_read) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_ERROR((void)read_astra_sim(text, "t.json"), part);
  };
  fails(replaced(json, "Hierarchical", "Torus2D"),
        "t.json:2: topology-name: found 'Torus2D', expected \"Hierarchical\"");
  fails(replaced(json, "\"Switch\"", "\"Star\""), "topologies-per-dim[2]: found 'Star', expected");
  fails(replaced(json, "\"dimensions-count\": 3", "\"dimensions-count\": 4"),
        "t.json:3: topologies-per-dim: found 3 values, expected 4, one for each dimension");
  fails(replaced(json, "\"dimensions-count\": 3", "\"dimensions-count\": 0"),
        "dimensions-count: found 0");
  fails(replaced(json, "[2, 3, 2]", "[2, 3]"), "t.json:6: units-count: found 2 values");
  fails(replaced(json, "[2, 4, 1]", "[2, 4]"), "t.json:7: links-count: found 2 values");
  auto const wide =
      replaced(replaced(json, "[2, 4, 1]", "[60000, 4, 1]"), "[250, 25", "[250000, 25");
  fails(wide, "t.json:9: link-bandwidth[0]: found links of 15000000000 GB/s, expected at most");
  fails(replaced(json, "[2, 3, 2]", "[2, 3.5, 2]"),
        "units-count[1]: found 3.5, expected an integer");
  fails(replaced(json, "[2, 4, 1]", "[2, 1, 1]"),
        "t.json:7: links-count[1]: found 1, expected 2 or more, the number of neighbours");
  fails(replaced(json, "[250, 25", "[0, 25"),
        "t.json:9: link-bandwidth[0]: found 0, expected a number");
  fails(replaced(json, "[500, 400", "[-500, 400"), "link-latency[0]: found -500");
  fails(replaced(json, "\"link-latency\"", "\"latency\""),
        "the machine: 'link-latency' is missing");
  fails(replaced(json, "[0, 10, 20]", "0"), "nic-latency: found 0, expected a list");
}

TEST(read_astra_sim, is_recognised_by_its_keys) {
  EXPECT_TRUE(is_astra_sim(yaml));
  EXPECT_TRUE(is_astra_sim(json));
  EXPECT_TRUE(is_astra_sim("npus_count: [2]\ntopology:\n"));
  EXPECT_FALSE(is_astra_sim("the topology: npus_count: "));
  EXPECT_FALSE(is_astra_sim("topology: [ Ring ]\n"));
  EXPECT_FALSE(is_astra_sim("{\"nodes\": [], \"links\": []}"));
  EXPECT_FALSE(is_astra_sim("{\"logical-dims\": [\"8\"]}"));
  EXPECT_FALSE(is_astra_sim(""));
}

TEST(read_astra_sim, damaged_files_end_in_a_machine_or_an_error) {
  for (auto const& text : {yaml, json}) {
    int const read = blink_test::read_damaged(
        text, [](std::string const& damaged) { validate(read_astra_sim(damaged, "t.yml")); });
    EXPECT_GT(read, 50);
    EXPECT_LT(read, 950);
  }
}

}}  // namespace blink::read_astra_sim_test
