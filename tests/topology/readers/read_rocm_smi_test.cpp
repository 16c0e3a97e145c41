// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/make_plan.hpp>
#include <blink/topology/canonical.hpp>
#include <blink/topology/readers/read_nccl_xml.hpp>
#include <blink/topology/readers/read_rocm_smi.hpp>
#include <blink/topology/subset.hpp>

#include "support/damaged_text.hpp"
#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_rocm_smi_test { namespace {

using blink_test::best_rate;
using blink_test::labels_of;
using blink_test::pairs_of_links;
using blink_test::remarks_of;
using blink_test::text_of;

std::string const banner = "======= ROCm System Management Interface =======\n";
std::string const weight_title = "====== Weight between two GPUs ======\n";
std::string const hops_title = "====== Hops between two GPUs ======\n";
std::string const type_title = "====== Link Type between two GPUs ======\n";
std::string const bandwidth_title = "====== Bandwidth ======\n";

// A table of rows such as "0 XGMI".
std::string table(std::vector<std::string> const& rows) {
  std::string text = "      ";
  for (std::size_t i = 0; i < rows.size(); ++i) text += " GPU" + std::to_string(i);
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "\nGPU" + std::to_string(i) + "   " + rows[i];
  }
  return text + "\n\n";
}

std::string numa(std::vector<int> const& nodes) {
  std::string text = "====== Numa Nodes ======\n";
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    for (auto const* what : {"Node: ", "Affinity: "}) {
      text += "GPU[" + std::to_string(i) + "]\t\t: (Topology) Numa " + what +
              std::to_string(nodes[i]) + "\n";
    }
  }
  return text;
}

// Two pairs with XGMI on two sockets, which PCIe joins.
std::string const two_pairs =
    banner + weight_title + table({"0 15 72 72", "15 0 72 72", "72 72 0 15", "72 72 15 0"}) +
    hops_title + table({"0 1 3 3", "1 0 3 3", "3 3 0 1", "3 3 1 0"}) + type_title +
    table({"0 XGMI PCIE PCIE", "XGMI 0 PCIE PCIE", "PCIE PCIE 0 XGMI", "PCIE PCIE XGMI 0"}) +
    numa({0, 0, 1, 1});

std::string const two_pairs_of_bandwidths =
    bandwidth_title +
    table({"N/A 50000-100000 0-0 50000-50000", "50000-100000 N/A 50000-50000 0-0",
           "0-0 50000-50000 N/A 50000-100000", "50000-50000 0-0 50000-100000 N/A"}) +
    "Format: min-max; Units: mps\n";

std::vector<std::string> links_of(std::string const& text) {
  return pairs_of_links(read_rocm_smi(text, "t"));
}

std::string const unique_ids =
    "======= Unique ID =======\n"
    "GPU[0] \t\t: Unique ID: 592c190172fd5d40\nGPU[1]\t\t: Unique ID: 0xe54792172da5eeb\n"
    "GPU[2]\t\t: Unique ID: N/A\nGPU[7]\t\t: Unique ID: 0x7\n"
    "======= PCI Bus ID =======\nGPU[0]\t\t: PCI Bus: 0000:C1:00.0\n"
    "======= End of ROCm SMI Log =======\n";
std::string const amd_smi_list =
    "GPU: 0\n    BDF: 0000:c1:00.0\n    UUID: b5ff74a1-0000-1000-806f-3d3e7b684465\n"
    "    KFD_ID: 31896\n    NODE_ID: 8\n    PARTITION_ID: 0\n\n"
    "GPU: 1\n    BDF: 0000:c2:00.0\n    UUID: N/A\n\n"
    "GPU: 9\n    BDF: 0000:c9:00.0\n    UUID: 00ff74a1-0000-1000-8000-000000000009\n";

TEST(read_rocm_smi, names_of_devices_may_stand_in_the_same_text) {
  using texts = std::vector<std::string>;
  for (auto const& text : {two_pairs + unique_ids, unique_ids + two_pairs}) {
    auto const machine = read_rocm_smi(text, "t");
    EXPECT_EQ(machine.nodes[0].uuids, texts{"GPU-592c190172fd5d40"});
    EXPECT_EQ(machine.nodes[1].uuids, texts{"GPU-0e54792172da5eeb"});
    EXPECT_TRUE(machine.nodes[2].uuids.empty());
    EXPECT_EQ(machine.nodes[0].bus_id, "0000:c1:00.0");
    EXPECT_EQ(machine.nodes[1].bus_id, "");
    EXPECT_EQ(pairs_of_links(machine), links_of(two_pairs));
  }
  auto const both = read_rocm_smi(amd_smi_list + two_pairs + unique_ids, "t");
  EXPECT_EQ(both.nodes[0].uuids, (texts{"b5ff74a1-0000-1000-806f-3d3e7b684465",
                                        "GPU-b56f3d3e7b684465", "GPU-592c190172fd5d40"}));
  // The text may end there, and this is no remark.
  reading_options strict;
  strict.is_strict = true;
  EXPECT_NO_THROW((void)read_rocm_smi(two_pairs + "GPU[0] : Unique ID: 0x1\n", "t", strict));
  auto const machine = read_rocm_smi(amd_smi_list + two_pairs, "t");
  EXPECT_EQ(machine.nodes[0].uuids,
            (texts{"b5ff74a1-0000-1000-806f-3d3e7b684465", "GPU-b56f3d3e7b684465"}));
  EXPECT_EQ(machine.nodes[0].bus_id, "0000:c1:00.0");
  EXPECT_TRUE(machine.nodes[1].uuids.empty());
  EXPECT_EQ(machine.nodes[1].bus_id, "0000:c2:00.0");
  EXPECT_SAYS(remarks_of(machine), "line 13: no table names the GPU 0000:c9:00.0\n");
}

TEST(read_rocm_smi, tables_of_bus_ids_name_the_devices) {
  std::string const tables =
      "LINK TYPE TABLE:\n             0000:c2:00.0 0000:c1:00.0\n0000:c2:00.0 SELF XGMI\n"
      "0000:c1:00.0 XGMI SELF\n\n";
  std::string const list =
      "GPU: 0\n    BDF: 0000:C1:00.0\n    UUID: 01ff74a1-0000-1000-8000-000000000001\n";
  auto const machine = read_rocm_smi(tables + list, "t");
  EXPECT_EQ(machine.nodes[0].bus_id, "0000:c2:00.0");
  EXPECT_TRUE(machine.nodes[0].uuids.empty());
  EXPECT_EQ(machine.nodes[1].bus_id, "0000:c1:00.0");
  ASSERT_EQ(machine.nodes[1].uuids.size(), 2U);
  EXPECT_EQ(machine.nodes[1].uuids[1], "GPU-0100000000000001");
}

TEST(read_rocm_smi, types_make_one_link_and_pcie_joins_processors) {
  auto const machine = read_rocm_smi(two_pairs, "folder/mi210.txt");
  EXPECT_EQ(machine.name, "mi210");
  EXPECT_EQ(labels_of(machine),
            (std::vector<std::string>{"gpu0", "gpu1", "gpu2", "gpu3", "processor0", "processor1"}));
  EXPECT_EQ(machine.rank_positions(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(pairs_of_links(machine),
            (std::vector<std::string>{"0-1 xgmi 50", "0-4 pcie 24", "1-4 pcie 24", "2-3 xgmi 50",
                                      "2-5 pcie 24", "3-5 pcie 24", "4-5 socket 16"}));
  auto const remarks = remarks_of(machine);
  EXPECT_SAYS(remarks, "xgmi counts as 50 GB/s, one link of an MI250X for each pair (MI300X: 64)");
  EXPECT_SAYS(remarks, "(--link-rate xgmi=GB/s)");
  EXPECT_SAYS(remarks, "pcie counts as 24 GB/s, Gen 4 x16");
  EXPECT_SAYS(remarks, "socket counts as 16 GB/s, as NCCL assumes between AMD processors");
  // Half of the data passes the socket.
  EXPECT_EQ(best_rate(machine, collective::all_gather), rational(32));
  auto const mesh = read_rocm_smi(type_title + table({"0 XGMI XGMI XGMI", "XGMI 0 XGMI XGMI",
                                                      "XGMI XGMI 0 XGMI", "XGMI XGMI XGMI 0"}),
                                  "mesh");
  EXPECT_EQ(mesh.nodes.size(), 4U);
  // A GPU lacks 3/4 of the data, and 150 GB/s enter it.
  EXPECT_EQ(best_rate(mesh, collective::all_gather), rational(200));
}

TEST(read_rocm_smi, rates_are_replaced_by_options) {
  auto const given = read_rocm_smi(
      two_pairs, "t",
      {{{link_kind::xgmi, 36}, {link_kind::pcie, rational(63, 2)}, {link_kind::socket, 9}}});
  EXPECT_EQ(
      pairs_of_links(given),
      (std::vector<std::string>{"0-1 xgmi 36", "0-4 pcie 63/2", "1-4 pcie 63/2", "2-3 xgmi 36",
                                "2-5 pcie 63/2", "3-5 pcie 63/2", "4-5 socket 9"}));
  EXPECT_TRUE(given.remarks.empty());
  EXPECT_ERROR((void)read_rocm_smi(two_pairs_of_bandwidths, "t.txt", {{{link_kind::xgmi, 36}}}),
               "t.txt: states its own rates of xgmi links, expected no other one");
  EXPECT_EQ(read_rocm_smi(two_pairs_of_bandwidths, "t", {{{link_kind::pcie, 36}}}).links.size(),
            8U);
}

TEST(read_rocm_smi, bandwidths_are_exact_and_zero_is_no_link) {
  std::vector<std::string> const links{"0-1 xgmi 100", "0-3 xgmi 50", "1-2 xgmi 50",
                                       "2-3 xgmi 100"};
  auto const machine = read_rocm_smi(two_pairs_of_bandwidths, "t");
  EXPECT_EQ(pairs_of_links(machine), links);
  EXPECT_TRUE(machine.remarks.empty());
  // The table of types says XGMI of all pairs, and all tables are combined in any order.
  auto const types = type_title + table({"0 XGMI XGMI XGMI", "XGMI 0 XGMI XGMI", "XGMI XGMI 0 XGMI",
                                         "XGMI XGMI XGMI 0"});
  EXPECT_EQ(links_of(banner + types + two_pairs_of_bandwidths), links);
  EXPECT_EQ(links_of(two_pairs_of_bandwidths + types + numa({0, 0, 1, 1})), links);
  EXPECT_EQ(links_of(bandwidth_title + table({"N/A 64000-76500", "64000-76500 N/A"})),
            (std::vector<std::string>{"0-1 xgmi 153/2"}));
  // rocm-smi has bandwidths of XGMI only: N/A of other pairs.
  EXPECT_EQ(
      links_of(type_title + table({"0 XGMI PCIE", "XGMI 0 PCIE", "PCIE PCIE 0"}) + bandwidth_title +
               table({"N/A 50000-50000 N/A", "50000-50000 N/A N/A", "N/A N/A N/A"})),
      (std::vector<std::string>{"0-1 xgmi 50", "0-3 pcie 24", "1-3 pcie 24", "2-3 pcie 24"}));
}

TEST(read_rocm_smi, unknown_numbers_are_no_rates) {
  auto const types = type_title + table({"0 XGMI", "XGMI 0"});
  for (auto const* cell : {"65535-65535", "0-4294967295", "4294967295", "0", "N/A"}) {
    SCOPED_TRACE(cell);
    auto const machine = read_rocm_smi(
        types + bandwidth_title + table({std::string("N/A ") + cell, std::string(cell) + " N/A"}),
        "t");
    EXPECT_EQ(pairs_of_links(machine), (std::vector<std::string>{"0-1 xgmi 50"}));
    EXPECT_SAYS(remarks_of(machine), "xgmi counts as 50 GB/s");
  }
  // One of the two rows is enough.
  EXPECT_EQ(links_of(bandwidth_title + table({"N/A 0", "50000-50000 N/A"})),
            (std::vector<std::string>{"0-1 xgmi 50"}));
}

TEST(read_rocm_smi, processors_follow_from_numa_nodes_or_hops_or_weights) {
  std::vector<std::string> const two{"0-4 pcie 24", "1-5 pcie 24", "2-4 pcie 24", "3-5 pcie 24",
                                     "4-5 socket 16"};
  auto const types = type_title + table({"0 PCIE PCIE PCIE", "PCIE 0 PCIE PCIE", "PCIE PCIE 0 PCIE",
                                         "PCIE PCIE PCIE 0"});
  EXPECT_EQ(links_of(types + numa({7, 1, 7, 1})), two);
  EXPECT_EQ(links_of(types + hops_title + table({"0 3 2 3", "3 0 3 2", "2 3 0 3", "3 2 3 0"})),
            two);
  EXPECT_EQ(links_of(types + weight_title +
                     table({"0 72 40 72", "72 0 72 40", "40 72 0 72", "72 40 72 0"})),
            two);
  EXPECT_EQ(links_of(types + weight_title +
                     table({"0 52 52 52", "52 0 52 52", "52 52 0 52", "52 52 52 0"}) +
                     numa({0, 1, 0, 1})),
            two);
  EXPECT_EQ(labels_of(read_rocm_smi(types, "t")).size(), 5U) << "nothing parts the GPUs";
  EXPECT_EQ(labels_of(read_rocm_smi(types + numa({-1, -1, -1, -1}), "t")).size(), 5U);
}

TEST(read_rocm_smi, xgmi_of_several_hops_is_no_link) {
  std::vector<std::string> const ring{"0-1 xgmi 50", "0-3 xgmi 50", "1-2 xgmi 50", "2-3 xgmi 50"};
  auto const types = type_title + table({"0 XGMI XGMI XGMI", "XGMI 0 XGMI XGMI", "XGMI XGMI 0 XGMI",
                                         "XGMI XGMI XGMI 0"});
  auto const machine = read_rocm_smi(
      types + weight_title + table({"0 15 30 15", "15 0 15 30", "30 15 0 15", "15 30 15 0"}), "t");
  EXPECT_EQ(pairs_of_links(machine), ring);
  EXPECT_SAYS(remarks_of(machine),
              "GPU0 and GPU2 and 1 other pairs are joined by several XGMI "
              "hops, which are links of other pairs");
}

TEST(read_rocm_smi, hops_or_weights_alone_say_the_type) {
  std::vector<std::string> const links{"0-1 xgmi 50", "0-3 pcie 24", "1-3 pcie 24", "2-4 pcie 24",
                                       "3-4 socket 16"};
  auto const hops =
      read_rocm_smi(hops_title + table({"0 1 3", "1 0 3", "3 3 0"}) + numa({0, 0, 1}), "t");
  EXPECT_EQ(pairs_of_links(hops), links);
  EXPECT_SAYS(remarks_of(hops), "link types follow from hops: 1 is XGMI, 2 and 3 are PCIe");
  auto const weights =
      read_rocm_smi(weight_title + table({"0 15 72", "15 0 72", "72 72 0"}) + numa({0, 0, 1}), "t");
  EXPECT_EQ(pairs_of_links(weights), links);
  EXPECT_SAYS(remarks_of(weights), "link types follow from weights: less than 40 is XGMI");
}

TEST(read_rocm_smi, reads_the_table_of_transferbench) {
  std::string const rule = "--------+--------+--------+--------+--------------+------+---\n";
  auto const text = [&](std::string const& architectures) {
    return architectures +
           "        | GPU 00 | GPU 01 | GPU 02 | PCIe Bus ID  | #CUs | Closest NUMA | DMA "
           "engines\n" +
           rule +
           " GPU 00 |    -   | XGMI-1 | PCIE-3 | 0000:0c:00.0 |  304 | 0            |0,1,2,3\n"
           " GPU 01 | XGMI-1 |    -   | PCIE-3 | 0000:22:00.0 |  304 | 0            |0,1,2,3\n"
           " GPU 02 | PCIE-3 | PCIE-3 |    -   | 0000:38:00.0 |  304 | 1            |0,1,2,3\n"
           "[WARN] Large BAR is not enabled for GPU 0 in BIOS.  This may result in segfaults\n";
  };
  EXPECT_TRUE(is_rocm_smi(text("")));
  EXPECT_EQ(links_of(text("")),
            (std::vector<std::string>{"0-1 xgmi 50", "0-3 pcie 24", "1-3 pcie 24", "2-4 pcie 24",
                                      "3-4 socket 16"}));
  auto const named = read_rocm_smi(text("        | gfx942 | gfx942 | gfx942 |\n"), "t");
  EXPECT_EQ(pairs_of_links(named),
            (std::vector<std::string>{"0-1 xgmi 64", "0-3 pcie 48", "1-3 pcie 48", "2-4 pcie 48",
                                      "3-4 socket 16"}));
  EXPECT_SAYS(remarks_of(named), "xgmi counts as 64 GB/s, one link of a gfx942 for each pair");
  EXPECT_SAYS(remarks_of(named), "pcie counts as 48 GB/s, Gen 5 x16 as of a gfx942");
  EXPECT_EQ(links_of(text("        | gfx908 | gfx90a | gfx942 |\n")), links_of(text("")));
  // Hops of XGMI are true here, and unknown types are no links.
  auto const ring = read_rocm_smi(table({"- XGMI-1 XGMI-2 XGMI-1", "XGMI-1 - XGMI-1 XGMI-2",
                                         "XGMI-2 XGMI-1 - XGMI-1", "XGMI-1 XGMI-2 XGMI-1 -"}),
                                  "t");
  EXPECT_EQ(pairs_of_links(ring),
            (std::vector<std::string>{"0-1 xgmi 50", "0-3 xgmi 50", "1-2 xgmi 50", "2-3 xgmi 50"}));
  auto const unknown = read_rocm_smi(table({"- XGMI-1 ???"
                                            "?-2",
                                            "XGMI-1 - HT-1",
                                            "???"
                                            "?-2 HT-1 -"}),
                                     "t");
  EXPECT_EQ(pairs_of_links(unknown), (std::vector<std::string>{"0-1 xgmi 50"}));
  EXPECT_SAYS(remarks_of(unknown),
              "GPU0 and GPU2 and 1 other pairs: the link type is unknown, none is counted");
  EXPECT_SAYS(remarks_of(unknown), "GPU2 has no link");
}

TEST(read_rocm_smi, reads_the_tables_of_amd_smi) {
  auto const bdf = [](std::string const& title, std::string const& diagonal,
                      std::string const& cell) {
    return title + " TABLE:\n             0000:0c:00.0 0000:22:00.0\n0000:0c:00.0 " + diagonal +
           " " + cell + "\n0000:22:00.0 " + cell + " " + diagonal + "\n\n";
  };
  auto const types = bdf("LINK TYPE", "SELF", "XGMI");
  EXPECT_EQ(labels_of(read_rocm_smi(types, "t")), (std::vector<std::string>{"gpu0", "gpu1"}));
  EXPECT_EQ(links_of(types), (std::vector<std::string>{"0-1 xgmi 50"}));
  auto const all =
      read_rocm_smi(bdf("ACCESS", "ENABLED", "ENABLED") + bdf("WEIGHT", "0", "15") +
                        bdf("HOPS", "0", "1") + types + bdf("NUMA BW", "N/A", "64000-64000") +
                        bdf("CACHE COHERANCY", "SELF", "NC") + bdf("ATOMICS", "SELF", "64,32") +
                        bdf("DMA", "SELF", "T") + "Legend:\n SELF = Current GPU\n",
                    "t");
  EXPECT_EQ(pairs_of_links(all), (std::vector<std::string>{"0-1 xgmi 64"}));
  EXPECT_TRUE(all.remarks.empty()) << remarks_of(all);
  EXPECT_EQ(links_of(bdf("HOPS", "0", "2") + bdf("LINK TYPE", "SELF", "PCIE") +
                     bdf("NUMA BW", "N/A", "N/A")),
            (std::vector<std::string>{"0-2 pcie 24", "1-2 pcie 24"}));
  auto const disabled = read_rocm_smi(bdf("ACCESS", "ENABLED", "DISABLED") + types, "t");
  EXPECT_SAYS(remarks_of(disabled),
              "line 3: access of 0000:0c:00.0 to other GPUs is disabled, which counts as enabled");
}

TEST(read_rocm_smi, what_people_and_programs_do_to_a_text_changes_nothing) {
  auto const clean = canonical(read_rocm_smi(two_pairs, "t")).key;
  auto const same = [&](std::string const& text) {
    EXPECT_TRUE(is_rocm_smi(text)) << text;
    EXPECT_EQ(canonical(read_rocm_smi(text, "t")).key, clean) << text;
  };
  std::string lines, plain, complaints;
  for (char const c : two_pairs) {
    lines += c == '\n' ? std::string("\r\n") : std::string(1, c);
    if (c != ']') plain += c == '[' ? ' ' : c;
    complaints += c;
    if (c == '\n') complaints += "ERROR: GPU[1]   : Cannot read Link Type: Not supported\n";
  }
  same(lines);
  same(plain);
  same(complaints);
  same("$ rocm-smi --showtopo\n```\n" + two_pairs + "```\n");
  same("\x1b[1m" + two_pairs + "\x1b[0m");
  same(two_pairs + two_pairs);
  same(two_pairs.substr(two_pairs.find("       GPU0")));
  auto const machine = read_rocm_smi(complaints, "t");
  EXPECT_SAYS(remarks_of(machine), "line 2: the program reports 'ERROR: GPU1   : Cannot read");
  EXPECT_LT(machine.remarks.size(), 30U) << "remarks without end";
  EXPECT_ERROR((void)read_rocm_smi(complaints, "t.txt", {{}, true}),
               "t.txt:2: the program reports 'ERROR: GPU1");
}

TEST(read_rocm_smi, cells_decide_and_unknown_types_are_no_links) {
  auto const text = weight_title + table({"0 XGMI XGMI", "XGMI 0 XXXX", "XGMI XXXX 0"});
  auto const machine = read_rocm_smi(text, "t");
  EXPECT_EQ(pairs_of_links(machine), (std::vector<std::string>{"0-1 xgmi 50", "0-2 xgmi 50"}));
  EXPECT_SAYS(remarks_of(machine), "line 2: a table of link types below the title in line 1");
  EXPECT_SAYS(remarks_of(machine),
              "line 5: GPU1 and GPU2: the link type is unknown, none is counted");
  EXPECT_ERROR((void)read_rocm_smi(text, "t.txt", {{}, true}),
               "t.txt:2: a table of link types below the title in line 1");
}

TEST(read_rocm_smi, rows_that_differ_count_as_the_slower_one) {
  auto const types = read_rocm_smi(type_title + table({"0 XGMI", "PCIE 0"}), "t");
  EXPECT_EQ(pairs_of_links(types), (std::vector<std::string>{"0-2 pcie 24", "1-2 pcie 24"}));
  EXPECT_SAYS(remarks_of(types),
              "line 4: GPU0 and GPU1 say other things of each other; the slower ones count");
  EXPECT_EQ(links_of(bandwidth_title + table({"N/A 50000-50000", "50000-100000 N/A"})),
            (std::vector<std::string>{"0-1 xgmi 50"}));
  EXPECT_ERROR(
      (void)read_rocm_smi(bandwidth_title + table({"N/A 50000-50000", "0-0 N/A"}), "t.txt"),
      "t.txt:2: the tables name no link between two GPUs, expected XGMI or PCIE for some");
}

TEST(read_rocm_smi, a_cut_text_counts_as_far_as_it_says_enough) {
  auto const links = links_of(two_pairs);
  auto const end = two_pairs.find("GPU[3]\t\t: (Topology) Numa Node") + 12;
  auto const cut = read_rocm_smi(two_pairs.substr(0, end), "t");
  EXPECT_EQ(pairs_of_links(cut), links);
  EXPECT_SAYS(remarks_of(cut), "line 30: the text ends in 'GPU3  : (T'");
  EXPECT_ERROR((void)read_rocm_smi(two_pairs.substr(0, end), "t.txt", {{}, true}),
               "t.txt:30: the text ends in 'GPU3  : (T'");
  auto const row3 = two_pairs.find("GPU3   PCIE");
  auto const half = read_rocm_smi(two_pairs.substr(0, row3 + 20), "t");
  EXPECT_EQ(pairs_of_links(half), links) << "hops part the GPUs";
  EXPECT_SAYS(remarks_of(half), "line 21: the text ends in the row of 'GPU3'");
  EXPECT_ERROR((void)read_rocm_smi(two_pairs.substr(0, two_pairs.find("GPU2   PCIE")), "t.txt"),
               "t.txt:19: the text ends here and says nothing about a link between GPU2 and GPU3, "
               "expected the row of one of them");
  EXPECT_ERROR((void)read_rocm_smi(two_pairs.substr(0, two_pairs.find("Link Type") + 20), "t.txt"),
               "t.txt:16: no table follows the title of link types, expected the names and rows");
}

TEST(read_rocm_smi, refuses_texts_without_links) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_TRUE(is_rocm_smi(text)) << text;
    EXPECT_ERROR((void)read_rocm_smi(text, "t.txt"), part);
  };
  std::string const what =
      ", expected that of rocm-smi --showtopo or --shownodesbw, or of amd-smi topology";
  fails(banner, "t.txt:1: the text ends without a table of links between GPUs" + what);
  fails(banner + numa({0, 1}),
        "t.txt:6: the text ends without a table of links between GPUs, it states NUMA nodes only" +
            what);
  fails(
      "    LINK METRIC TABLE:\n"
      "           bdf           bit_rate  max_bandwidth  link_type  GPU0         GPU1\n"
      "    GPU0   0000:08:00.0  65535 Gb/s4294967295 Gb/sN/A\n"
      "     Read                                                    N/A          N/A\n",
      "t.txt:4: the text ends without a table of links between GPUs, its tables state no links" +
          what);
  fails(
      "    XGMI LINK STATUS:\n"
      "           bdf           GPU0          GPU1\n"
      "    GPU0   0000:05:00.0  SELF          N/A\n"
      "    GPU1   0000:15:00.0  N/A           SELF\n",
      "t.txt:4: the text ends without a table of links between GPUs, its tables state no links");
  fails(type_title + table({"0 XXXX", "XXXX 0"}),
        "t.txt:2: the tables name no link between two GPUs, expected XGMI or PCIE for some");
}

TEST(read_rocm_smi, refuses_damaged_tables) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_ERROR((void)read_rocm_smi(text, "t.txt"), part);
  };
  fails(type_title + table({"0 XGMI XGMI", "XGMI 0"}),
        "t.txt:3: the row of 'GPU0' has 3 cells, expected 2, one for each name in line 2");
  fails(type_title + table({"0", "XGMI 0"}),
        "t.txt:3: the row of 'GPU0' has 1 cells, expected 2, one for each name in line 2");
  fails(type_title + table({"0 XGMI", "XGMX 0"}),
        "t.txt:4: the row of 'GPU1' has 'XGMX' in column 'GPU0', expected XGMI or PCIE");
  fails(type_title + table({"XGMI 0", "0 XGMI"}),
        "t.txt:3: the row of 'GPU0' has 'XGMI' in column 'GPU0', expected no link to itself");
  fails(weight_title + table({"0 many", "15 0"}),
        "t.txt:3: the row of 'GPU0' has 'many' in column 'GPU1', expected a number");
  fails(bandwidth_title + table({"N/A 100-50", "100-50 N/A"}),
        "t.txt:3: the row of 'GPU0' has '100-50' in column 'GPU1', expected such as 50000-200000");
  fails(bandwidth_title + table({"N/A 50000-50000", "50000-99999999 N/A"}),
        "t.txt:4: the row of 'GPU1' has '50000-99999999' in column 'GPU0', expected such as");
  fails(bandwidth_title + table({"N/A 50000-50000", "99999999999999999999999 N/A"}),
        "has '99999999999999999999999' in column 'GPU0'");
  fails("GPU0 GPU0\nGPU0 0 XGMI\n", "t.txt:1: 'GPU0' appears twice, expected each GPU once");
  fails("GPU0 GPU1\nGPU0 0 XGMI\nGPU0 0 XGMI\n",
        "t.txt:3: a second row of 'GPU0', expected only that of line 2");
  fails("GPU0 GPU1\nGPU2 0 XGMI\n", "t.txt:2: a row of 'GPU2', expected a name of line 1");
  fails(type_title + table({"0 XGMI", "XGMI 0"}) + type_title + table({"0 PCIE", "PCIE 0"}),
        "t.txt:8: contradicts line 3 about GPU0 and GPU1, expected tables of one machine");
  fails(type_title + table({"0 XGMI", "XGMI 0"}) + hops_title + table({"0 1 1", "1 0 1", "1 1 0"}),
        "t.txt:7: names other GPUs than line 2, expected the same ones in each table");
  fails(type_title + table({"0 XGMI XGMI", "XGMI 0 XGMI", "XGMI XGMI 0"}) + bandwidth_title +
            table({"N/A 50000-50000 N/A", "50000-50000 N/A 0-0", "N/A 0-0 N/A"}),
        "t.txt:11: no bandwidth of GPU0 and GPU2, whose type is XGMI, expected one as other pairs");
  std::string wide;
  for (int i = 0; i < 1100; ++i) wide += "GPU" + std::to_string(i) + " ";
  fails(wide + "\n", "t.txt:1: more than 1024 GPUs, expected a table of one host");
}

TEST(read_rocm_smi, knows_its_texts_from_others) {
  EXPECT_TRUE(is_rocm_smi(type_title));
  EXPECT_TRUE(is_rocm_smi(numa({0})));
  EXPECT_TRUE(is_rocm_smi(table({"0 XGMI", "XGMI 0"}))) << "no title";
  EXPECT_TRUE(is_rocm_smi("NUMA BW TABLE:\n"));
  EXPECT_FALSE(is_rocm_smi("GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0-7\nGPU1 NV4 X 8-15\n"));
  EXPECT_FALSE(is_rocm_smi("<system version=\"2\"><xgmi/></system>"));
  EXPECT_FALSE(is_rocm_smi("XGMI GPU0\n"));
  EXPECT_FALSE(is_rocm_smi(""));
  auto const one = read_rocm_smi(type_title + table({"0"}), "t");
  EXPECT_EQ(labels_of(one), (std::vector<std::string>{"gpu0"}));
}

TEST(read_rocm_smi, damaged_texts_end_in_a_machine_or_an_error) {
  auto const read = [](std::string const& text) { validate(read_rocm_smi(text, "t.txt")); };
  EXPECT_GT(blink_test::read_damaged(two_pairs, read), 100);
  EXPECT_GT(blink_test::read_damaged(two_pairs_of_bandwidths, read), 100);
  EXPECT_GT(blink_test::read_damaged(two_pairs_of_bandwidths + unique_ids + amd_smi_list, read),
            100);
}

// As the manifest of the corpus describes them, and compared with RCCL's description.
class read_rocm_smi_corpus : public testing::Test {
 protected:
  void SetUp() override {
    folder_ = std::string(BLINK_SHARED_DIR) + "/topo-corpus/";
    if (!std::filesystem::exists(folder_ + "rocm-smi")) GTEST_SKIP() << "no corpus here";
  }
  [[nodiscard]] topology read(std::string const& name) const {
    auto const text = text_of(folder_ + "rocm-smi/" + name);
    EXPECT_TRUE(is_rocm_smi(text)) << name;
    return read_rocm_smi(text, name);
  }

  std::string folder_;
};

TEST_F(read_rocm_smi_corpus, an_mi250x_node_is_that_of_rccl) {
  auto const machine = read("mi250x-gcd-x8-shownodesbw.txt");
  EXPECT_EQ(
      pairs_of_links(machine),
      (std::vector<std::string>{"0-1 xgmi 200", "0-2 xgmi 50", "0-6 xgmi 100", "1-3 xgmi 50",
                                "1-5 xgmi 50", "2-3 xgmi 200", "2-4 xgmi 100", "3-7 xgmi 50",
                                "4-5 xgmi 200", "4-6 xgmi 50", "5-7 xgmi 50", "6-7 xgmi 200"}));
  auto const rccl = read_nccl_xml_file(folder_ + "nccl-xml/rccl-8p1h_n1.xml");
  EXPECT_EQ(canonical(machine).key, canonical(only_links(rccl, link_kind::xgmi)).key);
  auto const plan = make_plan(machine, {collective::all_gather, {}, planned_by::exact});
  EXPECT_EQ(plan.rate, plan.bound);
}

TEST_F(read_rocm_smi_corpus, meshes_have_a_link_for_each_pair) {
  struct fact {
    char const* name;
    std::size_t ranks, pairs;
  };
  for (auto const& [name, ranks, pairs] :
       {fact{"amdsmi-x8-topology-full.txt", 8, 28}, fact{"mi210-x4-archer2.txt", 4, 6},
        fact{"mi300-tpx-broken-showtopo.txt", 12, 54}, fact{"mi300a-x4-showtopo.txt", 4, 6},
        fact{"mi300x-x8-transferbench-topology.txt", 8, 28}}) {
    SCOPED_TRACE(name);
    auto const machine = read(name);
    EXPECT_EQ(machine.rank_positions().size(), ranks);
    EXPECT_EQ(machine.nodes.size(), ranks);
    auto const links = pairs_of_links(machine);
    EXPECT_EQ(links.size(), pairs);
    EXPECT_TRUE(std::all_of(links.begin(), links.end(),
                            [](auto const& link) { return link.ends_with(" xgmi 50"); }));
  }
  auto const broken = remarks_of(read("mi300-tpx-broken-showtopo.txt"));
  EXPECT_SAYS(broken, "line 4: the program reports 'ERROR: GPU1   : Cannot read Link Weight:...'");
  EXPECT_SAYS(broken, "line 6: a table of link types below the title in line 2");
  EXPECT_SAYS(broken, "line 9: GPU1 and GPU2 and 11 other pairs: the link type is unknown");
  EXPECT_SAYS(remarks_of(read("mi210-x4-archer2.txt")), "line 31: the text ends in 'GPU3  ");
}

TEST_F(read_rocm_smi_corpus, gpus_of_one_socket_share_its_processor) {
  EXPECT_EQ(pairs_of_links(read("mi100-x4-pcie-noxgmi.txt")),
            (std::vector<std::string>{"0-4 pcie 24", "1-5 pcie 24", "2-4 pcie 24", "3-5 pcie 24",
                                      "4-5 socket 16"}));
}

TEST_F(read_rocm_smi_corpus, texts_without_links_are_refused) {
  EXPECT_ERROR((void)read("mi300a-x4-showtoponuma.txt"),
               "mi300a-x4-showtoponuma.txt:11: the text ends without a table of links between "
               "GPUs, it states NUMA nodes only, expected that of rocm-smi --showtopo");
  EXPECT_ERROR((void)read("mi300x-x8-showtopo-trunc.txt"),
               "mi300x-x8-showtopo-trunc.txt:23: no table follows the title of link types");
  for (std::string const name : {"amdsmi-x8-cndz-tables.txt:52", "amdsmi-xgmi-linkstatus-na.txt:11",
                                 "amdsmi-xgmi-metric-navi-garbage.txt:9"}) {
    EXPECT_ERROR((void)read(name.substr(0, name.find(':'))),
                 name +
                     ": the text ends without a table of links between GPUs, its tables state "
                     "no links, expected that of rocm-smi --showtopo or --shownodesbw");
  }
}

}}  // namespace blink::read_rocm_smi_test
