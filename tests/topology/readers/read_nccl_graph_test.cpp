// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/readers/read_nccl_graph.hpp>

#include "support/damaged_text.hpp"
#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_nccl_graph_test { namespace {

using blink_test::replaced;

using devices = std::vector<std::int64_t>;

std::string const two =
    "<graphs version=\"1\">\n"
    "  <!-- a ring and a tree -->\n"
    "  <graph id=\"0\" pattern=\"4\" crossnic=\"0\" nchannels=\"2\" speedintra=\"20\" "
    "speedinter=\"12.5\" latencyinter=\"0\" typeintra=\"NVL\" typeinter=\"PXN\" "
    "samechannels=\"0\">\n"
    "    <channel>\n"
    "      <net dev=\"5\"/>\n"
    "      <gpu dev=\"0\" rank=\"3\"/>\n"
    "      <gpu dev=\"0xa\" rank=\"1\"/>\n"
    "      <gpu dev=\"10\"/>\n"
    "      <net dev=\"0x100000000000003\"/>\n"
    "    </channel>\n"
    "    <channel><gpu dev=\"0x10\"/><gpu dev=\"a\"/><gpu dev=\"0\"/></channel>\n"
    "  </graph>\n"
    "  <graph id=\"3\" pattern=\"5\" nchannels=\"0\" speedintra=\"0\" speedinter=\"0\"/>\n"
    "</graphs>\n";

TEST(read_nccl_graph, devices_are_hexadecimal) {
  auto const read = read_nccl_graphs(two, "g.xml");
  EXPECT_TRUE(read.remarks.empty());
  ASSERT_EQ(read.graphs.size(), 2U);
  auto const& ring = read.graphs[0];
  EXPECT_EQ(ring.id, 0);
  EXPECT_EQ(ring.pattern, 4);
  EXPECT_EQ(ring.channel_count, 2);
  EXPECT_EQ(ring.speed_intra, rational(20));
  EXPECT_EQ(ring.speed_inter, rational(25, 2));
  EXPECT_EQ(ring.type_intra, "NVL");
  EXPECT_EQ(ring.type_inter, "PXN");
  ASSERT_EQ(ring.channels.size(), 2U);
  EXPECT_EQ(ring.channels[0].gpus, (devices{0, 10, 16}));
  EXPECT_EQ(ring.channels[0].ranks, (devices{3, 1, -1}));
  EXPECT_EQ(ring.channels[0].nets, (devices{5, (std::int64_t{1} << 56) + 3}));
  EXPECT_EQ(ring.channels[1].gpus, (devices{16, 10, 0}));
  EXPECT_TRUE(ring.channels[1].nets.empty());
  EXPECT_EQ(read.graphs[1].id, 3);
  EXPECT_TRUE(read.graphs[1].channels.empty());
  EXPECT_EQ(read.graphs[1].type_intra, "");
}

TEST(read_nccl_graph, remarks_are_errors_if_it_is_strict) {
  struct row {
    std::string text, remark;
  };
  for (auto const& [text, remark] : std::vector<row>{
           {replaced(two, "nchannels=\"2\"", "nchannels=\"3\""),
            "line 3: <graph>: graph 0 has 2 channels, nchannels is 3"},
           {replaced(two, "\"PXN\"", "\"FAR\""), "line 3: <graph>: unknown typeinter='FAR'"},
           {replaced(two, "samechannels", "colour"), "line 3: <graph>: unknown attribute 'colour'"},
           {replaced(two, "<net dev=\"5\"/>", "<nic/>"),
            "line 4: <channel>: unknown element <nic>"},
       }) {
    auto const read = read_nccl_graphs(text, "g.xml");
    ASSERT_EQ(read.remarks.size(), 1U) << text;
    EXPECT_EQ(read.remarks[0], remark);
    EXPECT_ERROR((void)read_nccl_graphs(text, "g.xml", true),
                 "g.xml:" + remark.substr(std::string("line ").size()));
  }
}

TEST(read_nccl_graph, refuses_what_it_cannot_read) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_ERROR((void)read_nccl_graphs(text, "g.xml"), part);
  };
  fails("", "g.xml:1: not well-formed XML");
  fails("<system version=\"1\"/>", "g.xml:1: <system>: expected <graphs>, as NCCL_GRAPH_DUMP_FILE");
  fails("<graphs/>", "g.xml:1: <graphs>: attribute version is missing");
  fails("<graphs version=\"2\"/>", "version='2', expected an integer from 1 to 1");
  fails("<graphs version=\"1\"/>", "no <graph>, expected one or more");
  fails(replaced(two, "id=\"3\"", "id=\"0\""), "g.xml:13: <graph>: id 0 appears twice");
  fails(replaced(two, "pattern=\"4\" ", ""), "g.xml:3: <graph>: attribute pattern is missing");
  fails(replaced(two, "nchannels=\"2\"", "nchannels=\"2000000\""), "nchannels='2000000', expected");
  fails(replaced(two, "\"12.5\"", "\"quick\""),
        "g.xml:3: <graph>: speedinter='quick', expected GB/s");
  fails(replaced(two, "\"12.5\"", "\"-1\""), "speedinter='-1'");
  fails(replaced(two, "\"0xa\"", "\"0xg\""), "g.xml:7: <gpu>: dev='0xg', expected a hexadecimal");
  fails(replaced(two, "\"0xa\"", "\"-1\""), "dev='-1'");
  fails(replaced(two, "\"0xa\"", "\"\""), "dev=''");
  fails(replaced(two, "\"0xa\"", "\"ffffffffffffffff\""), "dev='ffffffffffffffff'");
  fails(replaced(two, "<net dev=\"5\"/>", "<net/>"), "g.xml:5: <net>: attribute dev is missing");
  fails(replaced(two, "<net dev=\"5\"/>", "five"), "text in <channel>, expected elements");
  fails(replaced(two, "rank=\"1\"", "rank=\"one\""), "rank='one', expected an integer");
  fails(replaced(two, "samechannels=\"0\">", "samechannels=\"0\"><channel/>"),
        "<channel>: no <gpu>, expected one or more");
}

TEST(read_nccl_graph, damaged_files_end_in_graphs_or_an_error) {
  int const read = blink_test::read_damaged(
      two, [](std::string const& text) { (void)read_nccl_graphs(text, "g.xml"); }, "g.xml:");
  EXPECT_GT(read, 50);
  EXPECT_LT(read, 950);
}

TEST(read_nccl_graph_corpus, agrees_with_the_facts) {
  std::string const shared = BLINK_SHARED_DIR;
  if (!std::filesystem::exists(shared + "/topo-corpus")) GTEST_SKIP() << "no corpus here";
  struct facts {
    std::string file;
    std::vector<int> channels;
    std::size_t gpus;  // of a ring
    std::string type_intra, type_inter;
    rational speed;
  };
  for (auto const& [file, channels, gpus, type_intra, type_inter, speed] : std::vector<facts>{
           {"/machine-cases/41-graph-nccl1406.xml", {1}, 1, "LOC", "PXB", 24},
           {"/topo-corpus/nccl-xml/azure-nc48v4-graph.xml", {2, 4, 4}, 2, "SYS", "PIX", 12},
           {"/topo-corpus/nccl-xml/modal-b200-gvisor-graph.xml", {8, 8}, 8, "NVL", "PIX", 40},
           {"/topo-corpus/nccl-xml/uccl-graph-dump.xml", {8, 8, 0, 0, 0}, 8, "NVL", "PXN", 24},
       }) {
    SCOPED_TRACE(file);
    auto const read = read_nccl_graph_file(shared + file, true);
    std::vector<int> found;
    for (auto const& each : read.graphs) found.push_back(each.channel_count);
    EXPECT_EQ(found, channels);
    EXPECT_EQ(read.graphs[0].pattern, 4);
    EXPECT_EQ(read.graphs[0].speed_intra, speed);
    EXPECT_EQ(read.graphs[0].type_intra, type_intra);
    EXPECT_EQ(read.graphs[0].type_inter, type_inter);
    for (auto const& channel : read.graphs[0].channels) {
      auto sorted = channel.gpus;
      std::sort(sorted.begin(), sorted.end());
      devices all(gpus);
      for (std::size_t i = 0; i < gpus; ++i) all[i] = static_cast<std::int64_t>(i);
      EXPECT_EQ(sorted, all);
    }
  }
}

}}  // namespace blink::read_nccl_graph_test
