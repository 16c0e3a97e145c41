// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/make_plan.hpp>
#include <blink/topology/readers/read_ns3_topology.hpp>

#include "support/damaged_text.hpp"
#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_ns3_topology_test { namespace {

using blink_test::replaced;

// Two servers of two GPUs with an NVSwitch each, and a switch of the network.
std::string const simai =
    "7 2 2 1 8 H100\n"
    "4 5 6 \n"
    "0 4 2880Gbps 0.000025ms 0\n"
    "0 6 400Gbps 0.0005ms 0\n"
    "1 4 2880Gbps 0.000025ms 0\n"
    "1 6 400Gbps 0.0005ms 0\n"
    "2 5 2880Gbps 0.000025ms 0\n"
    "2 6 400Gbps 0.0005ms 0\n"
    "3 5 2880Gbps 0.000025ms 0\n"
    "3 6 400Gbps 0.0005ms 0\n";

std::string const star =
    "5 1 4\n"
    "0\n"
    "0 1 400Gbps 0.0005ms 0\n"
    "0 2 400Gbps 0.0005ms 0\n"
    "0 3 400Gbps 0.0005ms 0\n"
    "0 4 50GBps 500ns 0\n";

TEST(read_ns3_topology, simai_servers_have_nvswitches) {
  auto const machine = read_ns3_topology(simai, "dir/Spectrum-X_4g");
  EXPECT_EQ(machine.name, "Spectrum-X_4g");
  struct expected {
    std::string label;
    node_kind kind;
    int server;
  };
  std::vector<expected> const nodes{
      {"gpu0", node_kind::rank, 0},
      {"gpu1", node_kind::rank, 0},
      {"gpu2", node_kind::rank, 1},
      {"gpu3", node_kind::rank, 1},
      {"nvswitch4", node_kind::switch_node, 0},
      {"nvswitch5", node_kind::switch_node, 1},
      {"switch6", node_kind::switch_node, -1},
  };
  ASSERT_EQ(machine.nodes.size(), nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(machine.nodes[i].id, static_cast<int>(i));
    EXPECT_EQ(machine.nodes[i].label, nodes[i].label);
    EXPECT_EQ(machine.nodes[i].kind, nodes[i].kind);
    EXPECT_EQ(machine.nodes[i].server, nodes[i].server);
  }
  ASSERT_EQ(machine.links.size(), 16U);
  auto const& first = machine.links[0];
  EXPECT_EQ(first.tail, 0);
  EXPECT_EQ(first.head, 4);
  EXPECT_EQ(machine.in_units(first.capacity), rational(360));
  EXPECT_EQ(first.kind, link_kind::nvlink);
  EXPECT_DOUBLE_EQ(first.latency_seconds, 25e-9);
  EXPECT_EQ(machine.links[1].tail, 4);
  auto const& third = machine.links[2];
  EXPECT_EQ(third.head, 6);
  EXPECT_EQ(machine.in_units(third.capacity), rational(50));
  EXPECT_EQ(third.kind, link_kind::network);
  EXPECT_DOUBLE_EQ(third.latency_seconds, 5e-7);
  EXPECT_TRUE(machine.remarks.empty());
  // Two GPUs get the data of two others over 100 GB/s: half of the buffer.
  auto const plan = make_plan(machine, {collective::all_gather, {}, planned_by::exact});
  EXPECT_EQ(plan.rate, rational(200));
}

TEST(read_ns3_topology, hosts_at_a_switch_that_comes_first) {
  auto const machine = read_ns3_topology(star, "star");
  ASSERT_EQ(machine.nodes.size(), 5U);
  EXPECT_EQ(machine.nodes[0].label, "host1");
  EXPECT_EQ(machine.nodes[3].label, "host4");
  EXPECT_EQ(machine.nodes[3].server, 3);
  EXPECT_EQ(machine.nodes[4].label, "switch0");
  ASSERT_EQ(machine.links.size(), 8U);
  for (auto const& l : machine.links) {
    EXPECT_EQ(machine.in_units(l.capacity), rational(50));
    EXPECT_EQ(l.kind, link_kind::network);
    EXPECT_DOUBLE_EQ(l.latency_seconds, 5e-7);
  }
  auto const plan = make_plan(machine, {collective::all_gather, {}, planned_by::exact});
  EXPECT_EQ(plan.rate, rational(200, 3));
  auto const ring = read_ns3_topology(
      "\n3 0 3\n\n0 1 25Gbps 0.005ms 0\r\n1 2 25Gbps 0.005ms 0\n2\n0 25Gbps 0.005ms 0", "ring");
  EXPECT_EQ(ring.links.size(), 6U);
  EXPECT_EQ(ring.in_units(ring.links[5].capacity), rational(25, 8));
}

TEST(read_ns3_topology, reads_the_units_of_ns3) {
  using detail::read_data_rate;
  EXPECT_EQ(read_data_rate("8000000000"), rational(1));
  EXPECT_EQ(read_data_rate("8000Mb/s"), rational(1));
  EXPECT_EQ(read_data_rate("12.5Gbps"), rational(25, 16));
  EXPECT_EQ(read_data_rate("1.5GB/s"), rational(3, 2));
  EXPECT_EQ(read_data_rate("1KBps"), rational(1, 1'000'000));
  EXPECT_EQ(read_data_rate("1Kib/s"), rational(1024, 8'000'000'000));
  EXPECT_EQ(read_data_rate("1000MiB/s"), rational(1'048'576'000, 1'000'000'000));
  for (auto const* text : {"", "Gbps", "1.2.3Gbps", "5Tbps", "5 Gbps", "5Gb", "5GB", "-5Gbps",
                           "5e3Gbps", "99999999999GBps", "0.00000000001bps", "5XB/s"}) {
    EXPECT_EQ(read_data_rate(text), std::nullopt) << text;
  }
  using detail::read_delay;
  EXPECT_DOUBLE_EQ(*read_delay("0.0005ms"), 5e-7);
  EXPECT_DOUBLE_EQ(*read_delay("1us"), 1e-6);
  EXPECT_DOUBLE_EQ(*read_delay("25ns"), 25e-9);
  EXPECT_DOUBLE_EQ(*read_delay("1e-3"), 1e-3);
  EXPECT_DOUBLE_EQ(*read_delay("0.5s"), 0.5);
  EXPECT_DOUBLE_EQ(*read_delay("1h"), 3600);
  for (auto const* text : {"", "ms", "-1ms", "61min", "1d", "1 ms", "1e99"}) {
    EXPECT_EQ(read_delay(text), std::nullopt) << text;
  }
}

TEST(read_ns3_topology, remarks_are_errors_if_it_is_strict) {
  auto const lossy = read_ns3_topology(replaced(star, "500ns 0", "500ns 0.01"), "t");
  ASSERT_EQ(lossy.remarks.size(), 1U);
  EXPECT_EQ(lossy.remarks[0], "line 6: link 4 of 4 loses packets, which is left out");
  auto const longer = star + "0 4 50GBps 500ns 0\n";
  auto const machine = read_ns3_topology(longer, "t");
  EXPECT_EQ(machine.links.size(), 8U);
  ASSERT_EQ(machine.remarks.size(), 1U);
  EXPECT_SAYS(machine.remarks[0], "line 7: '0' and what follows it is not read, because 4 links");
  EXPECT_ERROR((void)read_ns3_topology(longer, "t.txt", {{}, true}), "t.txt:7: '0' and what");
}

TEST(read_ns3_topology, refuses_what_it_cannot_read) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_ERROR((void)read_ns3_topology(text, "t.txt"), part);
  };
  fails("", "t.txt:1: the first line is '', expected \"nodes switches links\" or");
  fails("\n5 1\n", "t.txt:2: the first line is '5 1'");
  fails(replaced(star, "5 1 4", "500000 1 4"),
        "t.txt:1: the number of nodes is '500000', expected an integer from 0 to 100000");
  fails(replaced(star, "5 1 4", "5 6 4"),
        "the number of switches is '6', expected an integer from");
  fails(replaced(star, "5 1 4", "5 1 99999999999999999999"), "the number of links is '9999999");
  fails(replaced(star, "5 1 4", "5 1 5"),
        "t.txt:7: link 5 of 5: its first node is missing, expected an integer from 0 to 4");
  fails(replaced(star, "\n0\n", "\n5\n"), "t.txt:2: a switch is '5', expected an integer from 0");
  fails("5 2 1\n0 0\n0 1 1Gbps 1ms 0\n", "t.txt:2: node 0 is a switch twice, expected each");
  fails(replaced(star, "0 1 400", "0 7 400"), "t.txt:3: link 1 of 4: its second node is '7'");
  fails(replaced(star, "0 1 400", "1 1 400"), "link 1 of 4 joins node 1 with itself");
  fails(replaced(star, "400Gbps", "0Gbps"),
        "link 1 of 4: its rate is '0Gbps', expected a positive one such as 200Gbps");
  fails(replaced(star, "400Gbps", "fast"), "its rate is 'fast'");
  fails(replaced(star, "0.0005ms", "soon"), "t.txt:3: link 1 of 4: its delay is 'soon'");
  fails(replaced(star, "500ns 0", "500ns 2"), "t.txt:6: link 4 of 4: its error rate is '2'");
  fails(replaced(star, "500ns 0", "500ns"), "its error rate is missing");
  fails(replaced(simai, "7 2", "7 0"), "t.txt:1: servers of 0 GPUs, expected 1 or more");
  fails("1 1 0\n0\n", "no rank (GPU) found");
  EXPECT_ERROR((void)read_ns3_topology(star, "t.txt", {{{link_kind::nvlink, 50}}}),
               "t.txt: states its own rates of nvlink links");
}

TEST(read_ns3_topology, is_recognised_by_its_counts_and_rates) {
  EXPECT_TRUE(is_ns3_topology(simai));
  EXPECT_TRUE(is_ns3_topology(star));
  EXPECT_TRUE(is_ns3_topology("3 0 3\r\n\r\n0 1 25Gbps 0.005ms 0\r\n"));
  EXPECT_TRUE(is_ns3_topology("1 8 0 0 0 H100\n"));
  EXPECT_FALSE(is_ns3_topology("0 25 25\n25 0 25\n25 25 0\n"));
  EXPECT_FALSE(is_ns3_topology("3 0 3\n0 1 fast\n"));
  EXPECT_FALSE(is_ns3_topology("GPU0 GPU1 GPU2\n"));
  EXPECT_FALSE(is_ns3_topology("{\"nodes\": []}"));
  EXPECT_FALSE(is_ns3_topology(""));
}

TEST(read_ns3_topology, damaged_files_end_in_a_machine_or_an_error) {
  for (auto const& text : {simai, star}) {
    int const read = blink_test::read_damaged(
        text, [](std::string const& damaged) { validate(read_ns3_topology(damaged, "t.txt")); });
    EXPECT_GT(read, 50);
    EXPECT_LT(read, 950);
  }
}

}}  // namespace blink::read_ns3_topology_test
