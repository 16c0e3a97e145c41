// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/readers/read_nccl_xml.hpp>

#include "support/machine_contents.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <vector>

// Rooms may be compiled as one source.
namespace read_nccl_xml_test { namespace {

using blink_test::replaced;
using blink_test::text_of;

using blink::input_error;
using blink::link_kind;
using blink::nccl_xml_options;
using blink::node_kind;
using blink::rational;
using blink::read_nccl_xml;
using blink::read_nccl_xml_file;
using blink::topology;

std::string const dgx1v_path = std::string(BLINK_DATA_DIR) + "/dgx1v.xml";

/// The sum of the links from one node to another, in GB/s.
rational between(topology const& machine, int tail, int head) {
  rational sum;
  for (auto const& link : machine.links) {
    if (link.tail == tail && link.head == head) sum += machine.in_units(link.capacity);
  }
  return sum;
}

int position_of(topology const& machine, std::string const& label) {
  for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
    if (machine.nodes[i].label == label) return static_cast<int>(i);
  }
  ADD_FAILURE() << "no node " << label;
  return 0;
}

/// A file of two GPUs of one processor. `first` and `second` are the contents of their `<gpu>`.
std::string two_gpus(std::string const& first, std::string const& second,
                     std::string const& attributes = "sm=\"80\"") {
  return "<system version=\"1\">\n<cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n"
         "<pci busid=\"0000:01:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" "
         "link_width=\"16\">\n<gpu dev=\"0\" rank=\"0\" " +
         attributes + ">" + first +
         "</gpu></pci>\n<pci busid=\"0000:02:00.0\" class=\"0x030200\" link_speed=\"16 GT/s\" "
         "link_width=\"8\">\n<gpu dev=\"1\" rank=\"1\" " +
         attributes + ">" + second + "</gpu></pci>\n</cpu>\n</system>\n";
}
std::string const to_first = "<nvlink target=\"0000:01:00.0\" count=\"2\" tclass=\"0x030200\"/>";
std::string const to_second = "<nvlink target=\"0000:02:00.0\" count=\"2\" tclass=\"0x030200\"/>";

std::string error_of(std::string const& text, nccl_xml_options const& options = {}) {
  try {
    (void)read_nccl_xml(text, "machine.xml", options);
  } catch (input_error const& fault) {
    return fault.what();
  }
  return "no error";
}

TEST(read_nccl_xml, dgx1v_has_the_links_of_the_matrix) {
  for (bool const as_nccl : {false, true}) {
    nccl_xml_options options;
    options.reading.as_nccl = as_nccl;
    auto const machine = read_nccl_xml_file(dgx1v_path, options);
    auto const matrix = blink::test::dgx1v_matrix(as_nccl ? 20 : 25);
    ASSERT_EQ(machine.rank_positions(), (std::vector{0, 1, 2, 3, 4, 5, 6, 7}));
    for (int i = 0; i < 8; ++i) {
      auto const& node = machine.nodes[static_cast<std::size_t>(i)];
      EXPECT_EQ(node.id, i);
      EXPECT_EQ(node.label, "gpu" + std::to_string(i));
      for (int j = 0; j < 8; ++j) {
        EXPECT_EQ(between(machine, i, j),
                  rational(matrix[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)]))
            << i << " " << j;
      }
    }
  }
}

TEST(read_nccl_xml, dgx1v_has_its_pcie_tree) {
  auto const machine = read_nccl_xml_file(dgx1v_path);
  EXPECT_EQ(machine.name, "dgx1v");
  EXPECT_EQ(machine.steps_per_unit, 2);  // 12.5 GB/s of a network port
  EXPECT_EQ(machine.nodes.size(), 8U + 2U + 4U + 4U + 4U);
  std::map<link_kind, int> kinds;
  for (auto const& link : machine.links) ++kinds[link.kind];
  EXPECT_EQ(kinds[link_kind::nvlink], 32);
  EXPECT_EQ(kinds[link_kind::pcie], 2 * (8 + 4 + 4));
  EXPECT_EQ(kinds[link_kind::network], 2 * 4);
  EXPECT_EQ(kinds[link_kind::socket], 2);
  std::map<int, int> switch_of;
  for (auto const& link : machine.links) {
    if (link.kind == link_kind::pcie && link.tail < 8) switch_of[link.tail] = link.head;
  }
  for (int const gpu : {0, 2, 4, 6}) EXPECT_EQ(switch_of[gpu], switch_of[gpu + 1]);
  for (int const gpu : {0, 1, 4, 5}) EXPECT_NE(switch_of[gpu], switch_of[gpu + 2]);
  int const first_socket = position_of(machine, "numa0");
  int const second_socket = position_of(machine, "numa1");
  EXPECT_EQ(between(machine, switch_of[3], first_socket), rational(12));
  EXPECT_EQ(between(machine, switch_of[3], second_socket), rational(0));
  EXPECT_EQ(between(machine, second_socket, switch_of[4]), rational(12));
  EXPECT_EQ(between(machine, first_socket, second_socket), rational(6));
}

TEST(read_nccl_xml, without_networks_no_network_is_read) {
  nccl_xml_options options;
  options.with_networks = false;
  auto const machine = read_nccl_xml_file(dgx1v_path, options);
  EXPECT_EQ(machine.nodes.size(), 8U + 2U + 4U);
  EXPECT_EQ(machine.steps_per_unit, 1);
}

TEST(read_nccl_xml, ranks_order_the_gpus_and_dev_where_there_are_none) {
  auto text = two_gpus(to_second, to_first);
  text = replaced(text, "rank=\"0\"", "rank=\"9\"");
  auto machine = read_nccl_xml(text, "machine.xml");
  EXPECT_EQ(machine.nodes[0].label, "gpu1");
  EXPECT_EQ(machine.nodes[0].id, 0);
  text = replaced(replaced(text, "rank=\"9\"", ""), "rank=\"1\"", "");
  machine = read_nccl_xml(text, "machine.xml");
  EXPECT_EQ(machine.nodes[0].label, "gpu0");
}

TEST(read_nccl_xml, switch_links_add_up_at_one_switch) {
  std::string const four = "<nvlink target=\"0000:c1:00.0\" count=\"4\" tclass=\"0x068000\"/>";
  std::string const hidden = "<nvlink target=\"fffffff:ffff:ff\" count=\"5\"/>";
  auto const machine = read_nccl_xml(two_gpus(four + hidden, hidden + four), "machine.xml");
  int const switch_node = position_of(machine, "nvswitch");
  EXPECT_EQ(machine.nodes[static_cast<std::size_t>(switch_node)].kind, node_kind::switch_node);
  EXPECT_EQ(between(machine, 0, switch_node), rational(225));
  EXPECT_EQ(between(machine, switch_node, 0), rational(225));
  EXPECT_EQ(between(machine, switch_node, 1), rational(225));
  EXPECT_EQ(between(machine, 0, 1), rational(0));
}

TEST(read_nccl_xml, links_to_one_gpu_add_up) {
  std::string const one = "<nvlink target=\"0000:01:00.0\" count=\"1\" tclass=\"0x030200\"/>";
  auto const machine = read_nccl_xml(two_gpus(to_second, one + one), "machine.xml");
  EXPECT_EQ(between(machine, 0, 1), 50);
  EXPECT_EQ(between(machine, 1, 0), 50);
}

TEST(read_nccl_xml, processor_bridges_and_chip_to_chip_links) {
  std::string const bridge = "<nvlink target=\"0004:04:00.0\" count=\"3\" tclass=\"0x068001\"/>";
  auto text = two_gpus(bridge, "<c2c bw=\"44712\" count=\"5\"/>", "sm=\"70\"");
  text = replaced(text, "arch=\"x86_64\" vendor=\"AuthenticAMD\"", "arch=\"ppc64\"");
  auto const machine = read_nccl_xml(text, "machine.xml");
  int const cpu = position_of(machine, "numa0");
  EXPECT_EQ(between(machine, 0, cpu), rational(75) + 24);
  EXPECT_EQ(between(machine, cpu, 0), rational(75) + 24);
  EXPECT_EQ(between(machine, 1, cpu), rational(22356, 100) + 12);
  EXPECT_EQ(std::count_if(machine.links.begin(), machine.links.end(),
                          [](auto const& link) { return link.kind == link_kind::c2c; }),
            2);
}

TEST(read_nccl_xml, xgmi_rates_follow_the_chip) {
  std::string const forth = "<xgmi target=\"0000:02:00.0\" count=\"4\" tclass=\"0x038000\"/>";
  std::string const back = "<xgmi target=\"0000:01:00.0\" count=\"4\" tclass=\"0x038000\"/>";
  std::map<std::string, std::pair<rational, rational>> const rates{
      {"906", {46, 24}},    {"908", {46, 24}},    {"910", {50, 36}},
      {"gfx90a", {50, 36}}, {"gfx942", {64, 48}}, {"gfx950", {rational(153, 2), 48}}};
  for (auto const& [gcn, rate] : rates) {
    auto const text = two_gpus(forth, back, "sm=\"104\" gcn=\"" + gcn + "\"");
    EXPECT_EQ(between(read_nccl_xml(text, "machine.xml"), 0, 1), rate.first * 4) << gcn;
    nccl_xml_options options;
    options.reading.as_nccl = true;
    EXPECT_EQ(between(read_nccl_xml(text, "machine.xml", options), 0, 1), rate.second * 4) << gcn;
  }
}

TEST(read_nccl_xml, nvlink_rates_follow_the_compute_capability) {
  std::map<std::string, std::pair<rational, rational>> const rates{
      {"60", {20, 18}},
      {"70", {25, 20}},
      {"75", {25, 20}},
      {"80", {25, 20}},
      {"86", {rational(225, 16), 12}},
      {"90", {25, rational(206, 10)}},
      {"100", {50, rational(401, 10)}}};
  for (auto const& [sm, rate] : rates) {
    auto const text = two_gpus(to_second, to_first, "sm=\"" + sm + "\"");
    EXPECT_EQ(between(read_nccl_xml(text, "machine.xml"), 1, 0), rate.first * 2) << sm;
    nccl_xml_options options;
    options.reading.as_nccl = true;
    EXPECT_EQ(between(read_nccl_xml(text, "machine.xml", options), 1, 0), rate.second * 2) << sm;
  }
}

TEST(read_nccl_xml, pcie_speeds_and_widths) {
  std::vector<std::pair<std::string, rational>> const speeds{{"2.5 GT/s PCIe", 3},
                                                             {"5 GT/s", 6},
                                                             {"5.0 GT/s PCIe", 6},
                                                             {"8 GT/s", 12},
                                                             {"8.0 GT/s PCIe", 12},
                                                             {"16 GT/s", 24},
                                                             {"16.0 GT/s PCIe", 24},
                                                             {"32 GT/s PCIe/s", 48},
                                                             {"32.0 GT/s PCIe", 48},
                                                             {"64.0 GT/s PCIe", 96},
                                                             {"16.0 GT/s", 24},
                                                             {"Unknown", 12},
                                                             {"", 12}};
  for (auto const& [speed, rate] : speeds) {
    auto const text =
        replaced(two_gpus("", ""), "link_speed=\"16 GT/s\"", "link_speed=\"" + speed + "\"");
    auto const machine = read_nccl_xml(text, "machine.xml");
    EXPECT_EQ(between(machine, 0, position_of(machine, "numa0")), rate) << speed;
  }
  std::vector<std::pair<std::string, rational>> const widths{
      {"0", 24}, {"", 24}, {"1", rational(3, 2)}, {"8", 12}, {"12", 18}, {"32", 48}};
  for (auto const& [width, rate] : widths) {
    auto const text =
        replaced(two_gpus("", ""), "link_width=\"16\"", "link_width=\"" + width + "\"");
    auto const machine = read_nccl_xml(text, "machine.xml");
    EXPECT_EQ(between(machine, 0, position_of(machine, "numa0")), rate) << width;
  }
}

TEST(read_nccl_xml, levels_of_one_broadcom_switch_are_one) {
  std::string const chip =
      "class=\"0x060400\" vendor=\"0x1000\" device=\"0xc010\" subsystem_vendor=\"0x1000\" "
      "subsystem_device=\"0xa064\" link_speed=\"16 GT/s\" link_width=\"16\"";
  std::string const text =
      "<system version=\"1\"><cpu numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">"
      "<pci busid=\"0000:01:00.0\" " +
      chip + "><pci busid=\"0000:02:00.0\" " + chip +
      "><pci busid=\"0000:03:00.0\"><gpu dev=\"0\"/></pci></pci><pci busid=\"0000:04:00.0\" " +
      chip + "><pci busid=\"0000:05:00.0\"><gpu dev=\"1\"/></pci></pci></pci></cpu></system>";
  auto const machine = read_nccl_xml(text, "machine.xml");
  ASSERT_EQ(machine.nodes.size(), 4U);  // two GPUs, a socket, one switch
  EXPECT_EQ(between(machine, 0, position_of(machine, "pci 0000:01:00.0")), rational(12));
  EXPECT_EQ(between(machine, 1, position_of(machine, "pci 0000:01:00.0")), rational(12));
  auto const apart = read_nccl_xml(replaced(text, "0xa064", "0x0000"), "machine.xml");
  EXPECT_EQ(apart.nodes.size(), 6U);
}

TEST(read_nccl_xml, switches_joined_chip_to_chip) {
  auto const branch = [](std::string const& n, std::string const& other) {
    return "<pci busid=\"0000:" + n +
           "0:00.0\" link_speed=\"16 GT/s\"><pcilink target=\"0000:" + other +
           "0:00.0\"/><pci busid=\"0000:" + n + "1:00.0\"><gpu dev=\"" + n + "\"/></pci></pci>";
  };
  auto const machine = read_nccl_xml("<system version=\"1\"><cpu numaid=\"0\">" + branch("1", "2") +
                                         branch("2", "1") + "</cpu></system>",
                                     "machine.xml");
  int const a = position_of(machine, "pci 0000:10:00.0");
  int const b = position_of(machine, "pci 0000:20:00.0");
  EXPECT_EQ(between(machine, a, b), rational(5000));
  EXPECT_EQ(between(machine, b, a), rational(5000));
}

TEST(read_nccl_xml, hosts_are_boxes_and_have_their_own_sockets) {
  std::string text = "<system version=\"1\">";
  for (int host = 0; host < 2; ++host) {
    for (int numa = 0; numa < 2; ++numa) {
      auto const rank = std::to_string(2 * host + numa);
      text += "<cpu host_hash=\"0x" + std::to_string(7 + host) + "\" numaid=\"" +
              std::to_string(numa) + "\" arch=\"arm64\"><pci busid=\"0000:0" +
              std::to_string(numa) + ":00.0\"><gpu dev=\"" + std::to_string(numa) +
              "\" sm=\"100\" rank=\"" + rank +
              "\"><nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/></gpu>"
              "</pci></cpu>";
    }
  }
  auto const machine = read_nccl_xml(text + "</system>", "rack.xml");
  EXPECT_EQ(machine.rank_positions().size(), 4U);
  EXPECT_EQ(machine.nodes[1].server, 0);
  EXPECT_EQ(machine.nodes[2].server, 1);
  int const switch_node = position_of(machine, "nvswitch");
  EXPECT_EQ(machine.nodes[static_cast<std::size_t>(switch_node)].server, -1);
  for (int gpu = 0; gpu < 4; ++gpu) EXPECT_EQ(between(machine, gpu, switch_node), rational(900));
  EXPECT_EQ(std::count_if(machine.links.begin(), machine.links.end(),
                          [](auto const& link) { return link.kind == link_kind::socket; }),
            4);
}

TEST(read_nccl_xml, inter_processor_rates) {
  auto const rate_of = [](std::string const& attributes) {
    std::string text = "<system version=\"1\">";
    for (int numa = 0; numa < 2; ++numa) {
      auto const n = std::to_string(numa);
      text += "<cpu numaid=\"" + n + "\" " + attributes + "><pci busid=\"0000:0" + n +
              ":00.0\"><gpu dev=\"" + n + "\"/></pci></cpu>";
    }
    auto const machine = read_nccl_xml(text + "</system>", "machine.xml");
    return between(machine, position_of(machine, "numa0"), position_of(machine, "numa1"));
  };
  std::string const intel = "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=";
  EXPECT_EQ(rate_of(intel + "\"79\""), rational(6));
  EXPECT_EQ(rate_of(intel + "\"85\""), rational(10));
  EXPECT_EQ(rate_of(intel + "\"143\""), rational(22));
  EXPECT_EQ(rate_of(intel + "\"0xcf\""), rational(40));
  EXPECT_EQ(rate_of("arch=\"x86_64\" vendor=\"AuthenticAMD\""), rational(16));
  EXPECT_EQ(rate_of("arch=\"ppc64\""), rational(32));
  EXPECT_EQ(rate_of("arch=\"arm64\""), rational(6));
  EXPECT_EQ(rate_of("arch=\"x86_64\" vendor=\"  Shanghai  \" familyid=\"7\" modelid=\"91\""),
            rational(9));
  // Unknown ones have a remark; see below.
  EXPECT_EQ(rate_of("arch=\"x86_64\" vendor=\"AMD\""), rational(16));
  EXPECT_EQ(rate_of("arch=\"x86_64\" vendor=\"GenuineIntel\""), rational(16));
}

TEST(read_nccl_xml, gpus_outside_the_file_have_no_link) {
  std::string const away = "<nvlink target=\"0000:77:00.0\" count=\"2\" tclass=\"0x030200\"/>";
  auto const machine = read_nccl_xml(two_gpus(away + to_second, to_first), "machine.xml");
  EXPECT_EQ(between(machine, 0, 1), rational(50));
  EXPECT_EQ(machine.nodes.size(), 3U);
}

TEST(read_nccl_xml, malformed_input_names_line_element_and_expectation) {
  std::string const good = two_gpus(to_second, to_first);
  ASSERT_EQ(error_of(good), "no error");
  struct fault {
    std::string text;
    std::string expected;
  };
  std::vector<fault> const faults{
      {"", "machine.xml:1: not well-formed XML"},
      {"hello", "machine.xml:1: not well-formed XML"},
      {"<system version=\"1\">\n<cpu", "machine.xml:2: not well-formed XML"},
      {std::string("<system\0/>", 10), "machine.xml:1: a zero byte"},
      {"<system version=\"1\"/>", "machine.xml:1: <system>: no GPU found"},
      {"<graphs version=\"1\"/>",
       "machine.xml:1: <graphs>: no GPU found, expected the element <system>"},
      {"<system version=\"2\">\n<group/></system>",
       "no GPU found: line 2 has an unknown element <group>"},
      {"<system version=\"1\">\n<gpu dev=\"0\"/></system>", "no GPU found: line 2"},
      {good + "<system version=\"1\"/>",
       "machine.xml:9: <system>: expected nothing beside <system>"},
      {replaced(good, "version=\"1\"", ""),
       "machine.xml:1: <system>: attribute version is missing"},
      {replaced(good, "version=\"1\"", "version=\"3\""),
       "version='3', expected an integer from 1 to 2"},
      {replaced(good, "<cpu", "text <cpu"), "machine.xml:1: <system>: text between tags"},
      {replaced(good, "<cpu", "<spu/><cpu"), "machine.xml:2: <spu>: unknown element"},
      {replaced(good, "dev=\"0\"", "dev=\"0\" colour=\"1\""),
       "machine.xml:4: <gpu>: unknown attribute 'colour'"},
      {replaced(good, "dev=\"0\"", "dev=\"0\" dev=\"0\""),
       "machine.xml:4: <gpu>: attribute 'dev' appears twice, expected once"},
      {replaced(good, "numaid=\"0\"", ""), "machine.xml:2: <cpu>: attribute numaid is missing"},
      {replaced(good, "numaid=\"0\"", "numaid=\"zero\""), "numaid='zero', expected an integer"},
      {replaced(good, "busid=\"0000:01:00.0\"", ""),
       "machine.xml:3: <pci>: attribute busid is missing"},
      {replaced(good, "busid=\"0000:01:00.0\"", "busid=\"slot 1\""),
       "busid='slot 1', expected a bus id such as"},
      {replaced(good, "busid=\"0000:02:00.0\"", "busid=\"00000000:01:00.0\""),
       "machine.xml:5: <pci>: busid='00000000:01:00.0' appears twice"},
      {replaced(good, "class=\"0x030200\"", "class=\"0x060400\""), "class '0x060400' with a <gpu>"},
      {replaced(good, "link_width=\"16\"", "link_width=\"-1\""),
       "link_width='-1', expected an integer from 0 to 255"},
      {replaced(good, "link_width=\"16\"", "link_width=\"63\""),
       "link_width='63' stands for an unknown width"},
      {replaced(good, "link_width=\"16\"", "link_width=\"7\""), "link_width='7', expected 1, 2, 4"},
      {replaced(good, "link_width=\"16\"", "link_width=\"x16\""), "link_width='x16', expected"},
      {replaced(good, "rank=\"1\"", "rank=\"0\""), "machine.xml:6: <gpu>: rank='0' appears twice"},
      {replaced(good, "rank=\"1\"", ""),
       "machine.xml:6: <gpu>: no rank though other GPUs have one"},
      {replaced(good, "rank=\"1\"", "rank=\"-1\""), "rank='-1', expected an integer from 0"},
      {replaced(good, "sm=\"80\"", ""), "machine.xml:4: <gpu>: attribute sm is missing"},
      {replaced(good, "sm=\"80\"", "sm=\"89\""), "sm='89' has no NVLink"},
      {replaced(good, "sm=\"80\"", "sm=\"30\""), "sm='30' has no NVLink"},
      {two_gpus(to_second, ""),
       "machine.xml:4: <nvlink>: 2 links to '0000:02:00.0', which lists 0 back"},
      {two_gpus(to_second, replaced(to_first, "\"2\"", "\"1\"")), "which lists 1 back"},
      {two_gpus(to_first, to_first), "target '0000:01:00.0' is the GPU itself"},
      {replaced(good, "count=\"2\"", "count=\"0\""), "count='0', expected an integer from 1 to 36"},
      {replaced(good, "count=\"2\"", "count=\"-2\""), "count='-2', expected"},
      {replaced(good, "count=\"2\"", "count=\"99999999999999999999\""),
       "count='99999999999999999999', expected"},
      {replaced(good, "count=\"2\"", "count=\"37\""), "count='37', expected"},
      {replaced(good, "count=\"2\"", "count=\"2.0\""), "count='2.0', expected"},
      {replaced(good, " count=\"2\"", ""), "machine.xml:4: <nvlink>: attribute count is missing"},
      {replaced(good, "tclass=\"0x030200\"", "tclass=\"0x010000\""),
       "tclass='0x010000', expected 0x03"},
      {replaced(good, "tclass=\"0x030200\"", "tclass=\"0x068000\""),
       "is a GPU, its tclass says a switch"},
      {replaced(replaced(good, " tclass=\"0x030200\"", ""), "target=\"0000:02:00.0\"",
                "target=\"0000:88:00.0\""),
       "a GPU or a switch?"},
      {replaced(good, "target=\"0000:02:00.0\"", "target=\"nowhere\""),
       "target='nowhere', expected a bus id such as"},
      {replaced(good, " target=\"0000:02:00.0\"", ""), "attribute target is missing"},
      {two_gpus("<xgmi target=\"0000:02:00.0\" count=\"1\" tclass=\"0x038000\"/>",
                "<xgmi target=\"0000:01:00.0\" count=\"1\" tclass=\"0x038000\"/>"),
       "attribute gcn is missing"},
      {two_gpus("<xgmi target=\"0000:02:00.0\" count=\"1\" tclass=\"0x038000\"/>",
                "<xgmi target=\"0000:01:00.0\" count=\"1\" tclass=\"0x038000\"/>", "gcn=\"gfx1\""),
       "gcn='gfx1' has no known rate of an XGMI link, which counts as 153/2 GB/s"},
      {two_gpus("<c2c bw=\"0\" count=\"1\"/>", ""), "<c2c>: bw='0', expected"},
      {two_gpus("<c2c bw=\"10\"/>", ""), "<c2c>: attribute count is missing"},
      {replaced(good, "</cpu>", "<nic><net dev=\"0\" speed=\"200000000\"/></nic></cpu>"),
       "<net>: speed='200000000', expected an integer from"},
      {replaced(good, "</cpu>", "<nic><net dev=\"0\" latency=\"-1\"/></nic></cpu>"),
       "<net>: latency='-1', expected microseconds"},
      {replaced(good, "</cpu>", "</cpu><cpu numaid=\"0\"/>"), "<cpu>: numaid='0' appears twice"},
      {replaced(good, "</gpu></pci>", "</gpu><pci busid=\"0:9:0.0\"/></pci>"), "and further <pci>"},
  };
  nccl_xml_options strict;
  strict.reading.is_strict = true;
  for (auto const& [text, expected] : faults) {
    EXPECT_NE(error_of(text, strict).find(expected), std::string::npos)
        << "expected: " << expected << "\nfound:    " << error_of(text, strict);
  }
}

TEST(read_nccl_xml, limits_are_parameters) {
  nccl_xml_options options;
  options.limits.depth = 3;
  EXPECT_NE(error_of(two_gpus(to_second, to_first), options).find("more than 3 levels"),
            std::string::npos);
  options = {};
  options.largest_element_count = 5;
  EXPECT_NE(error_of(two_gpus(to_second, to_first), options).find("more than 5 elements"),
            std::string::npos);
  options = {};
  options.limits.bytes = 100;
  EXPECT_NE(error_of(two_gpus(to_second, to_first), options).find("more than 100 bytes"),
            std::string::npos);
  std::string deep = "<system version=\"1\"><cpu numaid=\"0\">";
  for (int i = 0; i < 20'000; ++i) deep += "<pci busid=\"0:" + std::to_string(i) + "\">";
  for (int i = 0; i < 20'000; ++i) deep += "</pci>";
  EXPECT_NE(error_of(deep + "</cpu></system>").find("levels of elements"), std::string::npos);
}

TEST(read_nccl_xml, what_it_does_not_know_is_a_remark_once_for_each_name) {
  auto text = replaced(two_gpus(to_second, to_first), "dev=\"0\"", "dev=\"0\" colour=\"red\"");
  text = replaced(text, "dev=\"1\"", "dev=\"1\" colour=\"blue\" size=\"2\"");
  text = replaced(text, "<cpu", "<spu/><cpu");
  auto const machine = read_nccl_xml(text, "t.xml");
  ASSERT_EQ(machine.remarks.size(), 3U);
  EXPECT_EQ(machine.remarks[0], "line 4: <gpu>: unknown attribute 'colour'");
  EXPECT_EQ(machine.remarks[1], "line 6: <gpu>: unknown attribute 'size'");
  EXPECT_EQ(machine.remarks[2], "line 2: <spu>: unknown element");
  nccl_xml_options strict;
  strict.reading.is_strict = true;
  EXPECT_NE(error_of(text, strict).find("unknown"), std::string::npos);
  // One element of very many attributes is read in time that grows with their number.
  std::string many = "dev=\"0\"";
  for (int i = 0; i < 40'000; ++i) many += " a" + std::to_string(i) + "=\"\"";
  EXPECT_EQ(error_of(replaced(two_gpus(to_second, to_first), "dev=\"0\"", many)), "no error");
}

TEST(read_nccl_xml, functions_of_one_adapter_share_its_slot) {
  auto const text = replaced(
      two_gpus(to_second, to_first), "</cpu>",
      "<pci busid=\"0000:13:00.0\" class=\"0x020700\" link_speed=\"16.0 GT/s\" link_width=\"16\">"
      "<nic><net dev=\"0\" speed=\"200000\"/></nic></pci>"
      "<pci busid=\"0000:13:00.1\" class=\"0x020700\" link_speed=\"16.0 GT/s\" link_width=\"16\">"
      "<nic><net dev=\"1\" speed=\"200000\"/></nic></pci></cpu>");
  auto const machine = read_nccl_xml(text, "t.xml");
  rational to_processor;
  int adapters = 0;
  for (auto const& l : machine.links) {
    auto const& tail = machine.nodes[static_cast<std::size_t>(l.tail)];
    auto const& head = machine.nodes[static_cast<std::size_t>(l.head)];
    if (!tail.label.starts_with("pci 0000:13:00")) continue;
    ++adapters;
    if (head.label.starts_with("numa")) to_processor += machine.in_units(l.capacity);
  }
  EXPECT_EQ(adapters, 5);  // two to ports, two between the functions, one to the processor
  EXPECT_EQ(to_processor, rational(24));  // at the speed that the file states
}

TEST(read_nccl_xml, generations_of_gpus_and_processors_set_limits_and_rates) {
  auto const good = two_gpus(to_second, to_first);
  auto const many = replaced(good, "count=\"2\"", "count=\"13\"");
  EXPECT_NE(error_of(many).find("the GPU has 13 or more NVLinks, expected at most 12 for sm=80"),
            std::string::npos)
      << error_of(many);
  EXPECT_EQ(blink::detail::pcie_rate(16, "32.0 GT/s"), rational(48));
  EXPECT_EQ(blink::detail::pcie_rate(16, "32.0 GT/s PCIe"), rational(48));
  EXPECT_EQ(blink::detail::pcie_rate(8, "64 GT/s"), rational(48));
  EXPECT_EQ(blink::detail::pcie_rate(16, "Unknown"), rational(12));
  EXPECT_EQ(blink::detail::pcie_rate(16, "320 GT/s"), rational(12));
  for (auto const& [model, rate] :
       std::map<int, int>{{0x4F, 6}, {0x6A, 10}, {0x8F, 22}, {0xAD, 48}, {0xCF, 40}}) {
    EXPECT_EQ(blink::detail::between_processors_rate({"x86_64", "GenuineIntel", 6, model}),
              rational(rate));
  }
  // A processor of which the file says nothing gets a figure, and a remark.
  auto const bare = read_nccl_xml(
      replaced(good, "</cpu>",
               "</cpu><cpu numaid=\"1\"><nic><net dev=\"0\" speed=\"10000\"/></nic></cpu>"),
      "t.xml");
  ASSERT_FALSE(bare.remarks.empty());
  EXPECT_NE(bare.remarks[0].find("no known rate between processors, which counts as 16 GB/s"),
            std::string::npos)
      << bare.remarks[0];
}

// A GPU at a bus id, which lists `links`.
std::string gpu_at(std::string const& bus, int rank, std::string const& kind,
                   std::string const& links) {
  return "<pci busid=\"" + bus + "\" class=\"0x030200\" link_speed=\"16 GT/s\">\n<gpu dev=\"" +
         std::to_string(rank) + "\" rank=\"" + std::to_string(rank) + "\" " + kind + ">" + links +
         "</gpu></pci>\n";
}
std::string host_of(std::string const& hash, std::string const& gpus) {
  return "<cpu host_hash=\"" + hash + "\" numaid=\"0\" arch=\"x86_64\" vendor=\"AuthenticAMD\">\n" +
         gpus + "</cpu>\n";
}
std::string to_switch(std::string const& bus, int count) {
  return "<nvlink target=\"" + bus + "\" count=\"" + std::to_string(count) +
         "\" tclass=\"0x068000\"/>";
}

TEST(read_nccl_xml, partitions_of_a_card_share_its_links) {
  std::string gpus;
  for (int card = 0; card < 2; ++card) {
    auto const other = card == 0 ? "0000:06:00.0" : "0000:05:00.0";
    for (int part = 0; part < 2; ++part) {
      gpus +=
          gpu_at("0000:0" + std::to_string(5 + card) + ":00." + std::to_string(part),
                 2 * card + part, "gcn=\"gfx942\"",
                 "<xgmi target=\"" + std::string(other) + "\" count=\"1\" tclass=\"0x120000\"/>");
    }
  }
  auto const machine =
      read_nccl_xml("<system version=\"2\">\n" + host_of("0x1", gpus) + "</system>", "machine.xml");
  ASSERT_EQ(machine.rank_positions().size(), 4U);
  int const first = position_of(machine, "card 0000:05:00");
  int const second = position_of(machine, "card 0000:06:00");
  int const processor = position_of(machine, "numa0");
  EXPECT_EQ(between(machine, first, second), 64);
  EXPECT_EQ(between(machine, second, first), 64);
  EXPECT_EQ(between(machine, first, processor), 24);
  for (int part = 0; part < 2; ++part) {
    EXPECT_EQ(between(machine, part, first), 5000);
    EXPECT_EQ(between(machine, 2 + part, second), 5000);
    EXPECT_EQ(between(machine, part, processor), 0);
  }
  EXPECT_EQ(machine.nodes[0].bus_id, "0000:05:00.0");
  EXPECT_EQ(machine.nodes[3].bus_id, "0000:06:00.1");
  EXPECT_EQ(machine.nodes[static_cast<std::size_t>(processor)].bus_id, "");
  ASSERT_EQ(machine.remarks.size(), 2U);
  EXPECT_EQ(machine.remarks[0],
            "gpu0, gpu1 are partitions of one card (0000:05:00), whose links they share");
}

TEST(read_nccl_xml, two_gpus_of_one_device_are_partitions_as_well) {
  auto const text = replaced(
      two_gpus(to_second, to_first, "sm=\"80\" mlopart=\"0\""), "</gpu></pci>",
      "</gpu><gpu dev=\"5\" rank=\"5\" sm=\"80\" mlopart=\"1\">" + to_second + "</gpu></pci>");
  auto const machine = read_nccl_xml(text, "machine.xml");
  ASSERT_EQ(machine.rank_positions().size(), 3U);
  int const card = position_of(machine, "card 0000:01:00");
  EXPECT_EQ(between(machine, card, 1), 50);
  EXPECT_EQ(between(machine, 1, card), 50);
  EXPECT_EQ(between(machine, 0, card), 5000);
  EXPECT_EQ(between(machine, 2, card), 5000);
  EXPECT_EQ(machine.nodes[2].bus_id, "0000:01:00.0");
}

TEST(read_nccl_xml, switches_of_two_hosts_are_two) {
  auto const both = [](std::string const& bus) {
    std::string hosts;
    for (int host = 0; host < 2; ++host) {
      hosts += host_of(host == 0 ? "0xa" : "0xb",
                       gpu_at("0000:01:00.0", 2 * host, "sm=\"90\"", to_switch(bus, 18)) +
                           gpu_at("0000:02:00.0", 2 * host + 1, "sm=\"90\"", to_switch(bus, 18)));
    }
    return read_nccl_xml("<system version=\"1\">\n" + hosts + "</system>", "machine.xml");
  };
  auto const apart = both("0000:f3:00.0");
  std::vector<int> servers;
  for (auto const& node : apart.nodes) {
    if (node.label == "nvswitch") servers.push_back(node.server);
  }
  EXPECT_EQ(servers, (std::vector<int>{0, 1}));
  EXPECT_TRUE(apart.remarks.empty());

  auto const joined = both("fffffff:ffff:ff");
  servers.clear();
  for (auto const& node : joined.nodes) {
    if (node.label == "nvswitch") servers.push_back(node.server);
  }
  EXPECT_EQ(servers, std::vector<int>{-1});
  EXPECT_EQ(joined.remarks, std::vector<std::string>{
                                "NVSwitches that no host sees count as one fabric of 2 hosts"});
}

TEST(read_nccl_xml, switches_stay_apart_where_a_gpu_has_lost_links) {
  auto const of = [](int lost) {
    auto const both = to_switch("0000:f3:00.0", 6) + to_switch("0000:f4:00.0", 6);
    auto const fewer = lost == 6
                           ? to_switch("0000:f4:00.0", 6)
                           : to_switch("0000:f3:00.0", 6 - lost) + to_switch("0000:f4:00.0", 6);
    return read_nccl_xml(two_gpus(lost == 0 ? both : fewer, both), "machine.xml");
  };
  auto const whole = of(0);
  EXPECT_EQ(between(whole, 0, position_of(whole, "nvswitch")), 300);
  for (int const lost : {2, 6}) {
    auto const machine = of(lost);
    auto const intact = position_of(machine, lost == 6 ? "nvswitch0" : "nvswitch1");
    auto const other = position_of(machine, lost == 6 ? "nvswitch1" : "nvswitch0");
    EXPECT_EQ(between(machine, 0, intact), 150);
    EXPECT_EQ(between(machine, 1, intact), 150);
    EXPECT_EQ(between(machine, 0, other), 150 - 25 * lost);
    EXPECT_EQ(between(machine, 1, other), 150);
  }
}

// What NCCL makes of a file where it is less than the file states.
TEST(read_nccl_xml, as_nccl_reads_it) {
  nccl_xml_options as_nccl;
  as_nccl.reading.as_nccl = true;
  auto const bare = replaced(two_gpus(to_second, to_first), "16 GT/s", "32.0 GT/s");
  EXPECT_EQ(between(read_nccl_xml(bare, "a.xml"), 0, 2), 48);
  EXPECT_EQ(between(read_nccl_xml(bare, "a.xml", as_nccl), 0, 2), 12);
  auto const full = replaced(bare, "32.0 GT/s", "32.0 GT/s PCIe");
  EXPECT_EQ(between(read_nccl_xml(full, "a.xml", as_nccl), 0, 2), 48);

  std::string hosts;
  for (char const* const hash : {"0xa", "0xb"}) {
    hosts += host_of(
        hash, gpu_at("0000:01:00.0", hash[2] - 'a', "sm=\"90\"", to_switch("0000:f3:00.0", 18)));
  }
  auto const two = "<system version=\"1\">\n" + hosts + "</system>";
  auto const joined = read_nccl_xml(two, "a.xml", as_nccl);
  auto const fabric = position_of(joined, "nvswitch");
  EXPECT_EQ(between(joined, 0, fabric), rational(206 * 18, 10));
  EXPECT_EQ(between(joined, fabric, 1), rational(206 * 18, 10));

  auto const functions = replaced(
      two_gpus(to_second, to_first), "</cpu>",
      "<pci busid=\"0000:09:00.0\" link_speed=\"16 GT/s\" link_width=\"16\"><nic><net dev=\"0\"/>"
      "</nic></pci><pci busid=\"0000:09:00.1\" link_speed=\"16 GT/s\" link_width=\"16\"><nic>"
      "<net dev=\"1\"/></nic></pci></cpu>");
  auto const of = [&](topology const& machine) {
    return between(machine, position_of(machine, "pci 0000:09:00.1"),
                   position_of(machine, "numa0"));
  };
  EXPECT_EQ(of(read_nccl_xml(functions, "a.xml")), 0);
  EXPECT_EQ(of(read_nccl_xml(functions, "a.xml", as_nccl)), 24);
}

// As on a DGX-2, whose boards of GPUs list switches of their own.
TEST(read_nccl_xml, boards_that_share_no_switch_meet_at_one) {
  std::string gpus;
  for (int gpu = 0; gpu < 4; ++gpu) {
    std::string links;
    for (int plane = 0; plane < 2; ++plane) {
      links += to_switch("0000:f" + std::to_string(2 * (gpu / 2) + plane) + ":00.0", 1);
    }
    gpus += gpu_at("0000:0" + std::to_string(gpu + 1) + ":00.0", gpu, "sm=\"70\"", links);
  }
  auto const machine =
      read_nccl_xml("<system version=\"1\">\n" + host_of("0x1", gpus) + "</system>", "a.xml");
  int const all = position_of(machine, "nvswitch");
  for (int gpu = 0; gpu < 4; ++gpu) {
    EXPECT_EQ(between(machine, gpu, all), 50);
    EXPECT_EQ(between(machine, all, gpu), 50);
  }
  EXPECT_EQ(machine.remarks,
            std::vector<std::string>{"NVSwitches of 2 boards count as one: the file does not state "
                                     "links between them"});
}

TEST(read_nccl_xml, unknown_widths_and_chips_are_assumed) {
  for (char const* const width : {"63", "255"}) {
    auto const machine = read_nccl_xml(replaced(two_gpus(to_second, to_first), "link_width=\"8\"",
                                                "link_width=\"" + std::string(width) + "\""),
                                       "machine.xml");
    EXPECT_EQ(between(machine, 1, 2), 24);
    ASSERT_EQ(machine.remarks.size(), 1U);
  }
  auto const link = [](char const* bus) {
    return "<xgmi target=\"" + std::string(bus) + "\" count=\"2\" tclass=\"0x120000\"/>";
  };
  auto const text = two_gpus(link("0000:02:00.0"), link("0000:01:00.0"), "gcn=\"gfx1250\"");
  EXPECT_EQ(between(read_nccl_xml(text, "machine.xml"), 0, 1), 153);
  nccl_xml_options given;
  given.reading.rates[link_kind::xgmi] = 76;
  auto const machine = read_nccl_xml(text, "machine.xml", given);
  EXPECT_EQ(between(machine, 0, 1), 152);
  EXPECT_TRUE(machine.remarks.empty());
}

TEST(read_nccl_xml, xgmi_to_a_gpu_that_was_not_visible_is_a_remark) {
  std::string const hidden = "<xgmi target=\"fffffff:ffff:ff\" count=\"4\" tclass=\"0x068000\"/>";
  auto const text = two_gpus(hidden, hidden, "gcn=\"910\"");
  auto const machine = read_nccl_xml(text, "t.xml");
  EXPECT_EQ(std::count_if(machine.links.begin(), machine.links.end(),
                          [](auto const& link) { return link.kind == link_kind::xgmi; }),
            0);
  ASSERT_EQ(machine.remarks.size(), 1U);
  EXPECT_NE(machine.remarks[0].find("<xgmi>: links to GPUs that the program did not see"),
            std::string::npos)
      << machine.remarks[0];
}

TEST(read_nccl_xml, a_file_that_is_not_there) {
  EXPECT_THROW((void)read_nccl_xml_file("/nonexistent/machine.xml"), input_error);
}

/// Expects a valid machine, or an input_error that names the file.
void expect_sound(std::string const& text) {
  try {
    auto const machine = read_nccl_xml(text, "mutant.xml");
    EXPECT_NO_THROW(validate(machine));
  } catch (input_error const& fault) {
    EXPECT_EQ(std::string_view(fault.what()).substr(0, 11), "mutant.xml:");
  }
}

TEST(read_nccl_xml, mutations_and_truncations_are_read_or_refused) {
  std::vector<std::string> const seeds{
      text_of(dgx1v_path), two_gpus(to_second, to_first),
      two_gpus("<c2c bw=\"44712\" count=\"5\"/>",
               "<nvlink target=\"fffffff:ffff:ff\" count=\"18\" tclass=\"0x068000\"/>",
               "sm=\"90\"")};
  std::vector<std::string> const bits{
      "\"",     "<",     ">",   "/",    "-1", "0",          "99999999999",
      "\n",     "&#0;",  "&",   "<!--", "x",  "\xff",       "count=\"2\"",
      "gpu",    "pci",   "cpu", "]]>",  "=",  "rank=\"0\"", "<pci busid=\"0:1:0.0\">",
      "</pci>", "1e308", "\0"};
  for (std::uint32_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random() % n); };
    std::string text = seeds[below(seeds.size())];
    for (std::size_t edits = 1 + below(4); edits > 0 && !text.empty(); --edits) {
      auto const at = below(text.size());
      switch (below(5)) {
        case 0:
          text[at] = static_cast<char>(below(256));
          break;
        case 1:
          text.erase(at, 1 + below(30));
          break;
        case 2:
          text.insert(at, bits[below(bits.size())]);
          break;
        case 3:
          text.resize(at);
          break;
        default: {  // a piece of the text itself
          auto const piece = text.substr(below(text.size()), below(200));
          text.insert(at, piece);
        }
      }
    }
    expect_sound(text);
  }
}

// Files of a corpus from public repositories.

/// The rows of a table with a header line. A row maps column names to cells.
std::vector<std::map<std::string, std::string>> read_table(std::string const& path) {
  std::ifstream stream(path);
  std::vector<std::string> header;
  std::vector<std::map<std::string, std::string>> rows;
  for (std::string line; std::getline(stream, line);) {
    std::vector<std::string> cells;
    std::stringstream split(line);
    for (std::string cell; std::getline(split, cell, '\t');) cells.push_back(cell);
    if (header.empty()) {
      header = cells;
      continue;
    }
    auto& row = rows.emplace_back();
    for (std::size_t i = 0; i < header.size(); ++i)
      row[header[i]] = i < cells.size() ? cells[i] : "";
  }
  return rows;
}

/// The line rate of one link of a chip, in GB/s.
rational line_rate_of(std::string const& chip) {
  static std::map<std::string, rational> const rates{
      {"70", 25},    {"80", 25},  {"86", rational(225, 16)},
      {"90", 25},    {"906", 46}, {"908", 46},
      {"910", 50},   {"940", 64}, {"942", 64},
      {"gfx942", 64}};
  auto const found = rates.find(chip);
  return found == rates.end() ? rational(1) : found->second;
}

/// The least rate on the route from a GPU to its processor, in GB/s.
rational rate_to_processor(topology const& machine, int gpu) {
  int at = gpu;
  rational least(1'000'000);
  while (machine.nodes[static_cast<std::size_t>(at)].label.substr(0, 4) != "numa") {
    for (auto const& link : machine.links) {
      if (link.tail != at || link.kind != link_kind::pcie) continue;
      bool const is_up = link.head > at || at >= static_cast<int>(machine.rank_positions().size());
      if (is_up && (at == gpu || link.head < at)) {
        least = std::min(least, machine.in_units(link.capacity));
        at = link.head;
        break;
      }
    }
  }
  return least;
}

TEST(read_nccl_xml_corpus, agrees_with_the_facts) {
  std::string const folder = std::string(BLINK_SHARED_DIR) + "/topo-corpus";
  if (!std::filesystem::exists(folder + "/nccl-facts.tsv")) GTEST_SKIP() << "no corpus here";
  // Refused files with the reason. All other files of kind "system" with a GPU must be accepted.
  std::map<std::string, std::string> const refused{
      {"azure-ncv4.xml", "is the GPU itself"},   // each GPU lists its NVLinks to itself
      {"rccl-4p_940.xml", "speed='200000000'"},  // 25000 GB/s: the speed is not in Mb/s
      {"rccl-4p_942.xml", "speed='200000000'"},
      {"flagcx-demo.xml", "no GPU found"},  // another format
      {"hygon-dtk-topo-mapping.xml", "no GPU found"},
      {"mlperf-dell-xe8545-nic-affinity.xml", "appears twice"},  // three devices with one bus id
      {"hygon-dcu-x8-rccl-trunc.xml", "not well-formed"},        // cut short
      {"nvidia-a100-nccl1125-trunc.xml", "not well-formed"},
  };
  int read = 0;
  for (auto& row : read_table(folder + "/nccl-facts.tsv")) {
    auto const& file = row["file"];
    SCOPED_TRACE(file);
    auto const path = folder + "/nccl-xml/" + file;
    nccl_xml_options options;
    try {
      if (auto const known = refused.find(file); known != refused.end()) {
        EXPECT_NE(error_of(text_of(path)).find(known->second), std::string::npos)
            << error_of(text_of(path));
        if (known->second.substr(0, 5) != "speed") continue;
        options.with_networks = false;
      } else if (row["kind"] != "system" || row["gpus"] == "0") {
        EXPECT_NE(error_of(text_of(path)).find("no GPU found"), std::string::npos);
        continue;
      }
      auto const machine = read_nccl_xml_file(path, options);
      ++read;
      auto const gpus = machine.rank_positions();
      EXPECT_EQ(std::to_string(gpus.size()), row["gpus"]);
      // Links of each GPU, and their numbers by GPU at the other end.
      std::set<std::string> totals;
      std::set<std::string> patterns;
      rational slowest(1'000'000);
      for (int const gpu : gpus) {
        rational sum;
        std::vector<std::string> bundles;
        for (auto const& link : machine.links) {
          if (link.tail != gpu) continue;
          if (link.kind != link_kind::nvlink && link.kind != link_kind::xgmi) continue;
          auto const count = machine.in_units(link.capacity) / line_rate_of(row["sm_or_gcn"]);
          sum += count;
          bundles.push_back(count.to_text());
        }
        std::sort(bundles.begin(), bundles.end());
        std::string pattern;
        for (auto const& bundle : bundles) pattern += (pattern.empty() ? "" : "+") + bundle;
        totals.insert(sum.to_text());
        if (sum != 0) patterns.insert(pattern);
        slowest = std::min(slowest, rate_to_processor(machine, gpu));
      }
      auto const joined = [](std::set<std::string> const& parts, std::string const& between) {
        std::string text;
        for (auto const& part : parts) text += (text.empty() ? "" : between) + part;
        return text;
      };
      if (row["link_targets_not_in_file"] == "0") {
        EXPECT_EQ(joined(totals, " "), row["links_per_gpu"]);
        if (row["link_target"] == "GPU") {
          EXPECT_EQ(joined(patterns, " | "), row["link_pattern"]);
        }
      } else {
        EXPECT_EQ(joined(totals, " "), "0");
      }
      // Two files show 5 GT/s inside a Broadcom switch whose levels count as one.
      bool const is_joined = file.starts_with("rccl-16p_gio");
      EXPECT_EQ(slowest, is_joined ? rational(24)
                                   : *rational::from_text(row["min_pci_bw_gpu_to_root_GBps"]));
    } catch (std::exception const& fault) {
      ADD_FAILURE() << fault.what();
    }
  }
  EXPECT_GE(read, 40);
}

}}  // namespace read_nccl_xml_test
