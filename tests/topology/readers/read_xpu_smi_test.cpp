// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/canonical.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/readers/read_rocm_smi.hpp>
#include <blink/topology/readers/read_smi_matrix.hpp>
#include <blink/topology/readers/read_xpu_smi.hpp>
#include <blink/topology/select_devices.hpp>
#include <blink/topology/subset.hpp>

#include "support/damaged_text.hpp"
#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_xpu_smi_test { namespace {

using blink_test::best_rate;
using blink_test::labels_of;
using blink_test::pairs_of_links;
using blink_test::remarks_of;

// Two cards of two tiles, as the user guide shows them.
std::string const two_cards =
    "xpu-smi topology -m\n\n"
    "         GPU 0/0|GPU 0/1|GPU 1/0|GPU 1/1|CPU Affinity\n"
    "GPU 0/0 |S      |MDF    |XL*    |XL16   |0-23,48-71\n"
    "GPU 0/1 |MDF    |S      |XL16   |XL*    |0-23,48-71\n"
    "GPU 1/0 |XL*    |XL16   |S      |MDF    |24-47,72-95\n"
    "GPU 1/1 |XL16   |XL*    |MDF    |S      |24-47,72-95\n";

// Cards of one tile.
std::string table(std::vector<std::string> const& rows, std::string const& affinity = "0-7") {
  std::string text = "        ";
  for (std::size_t i = 0; i < rows.size(); ++i) text += " GPU " + std::to_string(i) + "/0";
  text += "  CPU Affinity\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "GPU " + std::to_string(i) + "/0  " + rows[i] + "  " + affinity + "\n";
  }
  return text;
}

// As `xpu-smi discovery` prints it. The second card states no UUID.
std::string const discovery =
    "+-----------+---------------------------------------------------------+\n"
    "| Device ID | Device Information                                      |\n"
    "+-----------+---------------------------------------------------------+\n"
    "| 0         | Device Name: Intel(R) Data Center GPU Max 1550          |\n"
    "|           | Vendor Name: Intel(R) Corporation                       |\n"
    "|           | UUID: 00000000-0000-0018-0000-002f0bd58086              |\n"
    "|           | PCI BDF Address: 0000:18:00.0                           |\n"
    "|           | Function Type: physical                                 |\n"
    "+-----------+---------------------------------------------------------+\n"
    "| 1         | Device Name: Intel(R) Data Center GPU Max 1550          |\n"
    "|           | PCI BDF Address: 0000:2a:0.0                            |\n"
    "+-----------+---------------------------------------------------------+\n";

TEST(read_xpu_smi, discovery_in_the_same_text_names_the_cards) {
  using texts = std::vector<std::string>;
  auto const ids = device_numbers::ids;
  for (auto const& text : {two_cards + discovery, discovery + two_cards}) {
    auto const machine = read_xpu_smi(text, "t");
    EXPECT_EQ(pairs_of_links(machine), pairs_of_links(read_xpu_smi(two_cards, "t")));
    EXPECT_EQ(machine.nodes[0].bus_id, "0000:18:00.0");
    EXPECT_EQ(machine.nodes[1].bus_id, "0000:18:00.0");
    EXPECT_EQ(machine.nodes[3].bus_id, "0000:2a:0.0");
    EXPECT_TRUE(machine.nodes[0].uuids.empty());
    EXPECT_EQ(machine.nodes[4].label, "card0");
    EXPECT_EQ(machine.nodes[4].uuids, texts{"00000000-0000-0018-0000-002f0bd58086"});
    EXPECT_TRUE(machine.nodes[5].uuids.empty());
    EXPECT_ERROR((void)select_devices(machine, "00000000-0000-0018", "--ranks", ids),
                 "a GPU that is split, expected one of 0 (gpu0/0), 1 (gpu0/1)");
    EXPECT_EQ(select_devices(machine, "1.0", "--ranks", ids), std::vector<int>{2});
  }
  auto const single = read_xpu_smi(table({"S XL8", "XL8 S"}) + discovery, "t");
  EXPECT_EQ(single.nodes[0].uuids, texts{"00000000-0000-0018-0000-002f0bd58086"});
  EXPECT_TRUE(single.nodes[1].uuids.empty());
}

TEST(read_xpu_smi, reads_tiles_cards_and_processors) {
  auto const machine = read_xpu_smi(two_cards, "folder/max1550.txt");
  EXPECT_EQ(machine.name, "max1550");
  EXPECT_EQ(labels_of(machine),
            (std::vector<std::string>{"gpu0/0", "gpu0/1", "gpu1/0", "gpu1/1", "card0", "card1",
                                      "processor0", "processor1"}));
  EXPECT_EQ(machine.rank_positions(), (std::vector<int>{0, 1, 2, 3}));
  EXPECT_EQ(
      pairs_of_links(machine),
      (std::vector<std::string>{"0-1 xelink 196", "0-3 xelink 425/4", "0-4 pcie 48",
                                "1-2 xelink 425/4", "1-4 pcie 48", "2-3 xelink 196", "2-5 pcie 48",
                                "3-5 pcie 48", "4-6 pcie 48", "5-7 pcie 48", "6-7 socket 16"}));
  // MDF and Xe Links join all tiles. A tile lacks 3/4 of the data, and 302.25 GB/s enter it.
  EXPECT_EQ(fastest_connecting_kind(machine), link_kind::xelink);
  EXPECT_EQ(best_rate(only_links(machine, link_kind::xelink), collective::all_gather),
            rational(403));
}

TEST(read_xpu_smi, bars_and_spaces_are_the_same) {
  auto const clean = canonical(read_xpu_smi(two_cards, "t")).key;
  auto const same = [&](std::string const& text) {
    EXPECT_TRUE(is_xpu_smi(text)) << text;
    EXPECT_EQ(canonical(read_xpu_smi(text, "t")).key, clean) << text;
  };
  std::string spaces, lines, framed;
  for (char const c : two_cards) {
    spaces += c == '|' ? ' ' : c;
    lines += c == '\n' ? std::string("\r\n\r\n") : std::string(1, c);
    framed += c == '\n' ? std::string(" |\n+------+------+\n| ") : std::string(1, c);
  }
  same(spaces);
  same(lines);
  same(framed);
  same("\x1b[4m" + two_cards + "\x1b[0m");
}

TEST(read_xpu_smi, xe_links_count_by_four_lanes) {
  auto const machine = read_xpu_smi(table({"S XL24", "XL24 S"}), "max1100");
  EXPECT_EQ(pairs_of_links(machine),
            (std::vector<std::string>{"0-1 xelink 1275/8", "0-2 pcie 48", "1-2 pcie 48"}));
  EXPECT_SAYS(remarks_of(machine), "xelink counts as 425/16 GB/s, four lanes of 53.125 Gb/s");
  auto const given = read_xpu_smi(table({"S XL6", "XL6 S"}), "given",
                                  {{{link_kind::xelink, 28}, {link_kind::pcie, 32}}});
  EXPECT_EQ(pairs_of_links(given),
            (std::vector<std::string>{"0-1 xelink 42", "0-2 pcie 32", "1-2 pcie 32"}));
  EXPECT_TRUE(given.remarks.empty());
  auto const bare = read_xpu_smi(table({"S XL", "XL S"}), "bare");
  EXPECT_EQ(pairs_of_links(bare).front(), "0-1 xelink 425/16");
  EXPECT_SAYS(remarks_of(bare), "GPU0/0 and GPU1/0 state no lanes of Xe Link, which count as four");
}

TEST(read_xpu_smi, pcie_follows_from_near_and_far) {
  auto const machine = read_xpu_smi(
      table({"S PIX PXB SYS", "PIX S PXB SYS", "PXB PXB S SYS", "SYS SYS SYS S"}, ""), "arc");
  EXPECT_EQ(labels_of(machine),
            (std::vector<std::string>{"gpu0/0", "gpu1/0", "gpu2/0", "gpu3/0", "pcie switch0",
                                      "pcie switch1", "processor0", "processor1"}));
  EXPECT_EQ(pairs_of_links(machine),
            (std::vector<std::string>{"0-4 pcie 24", "1-4 pcie 24", "2-5 pcie 24", "3-7 pcie 24",
                                      "4-5 pcie 24", "5-6 pcie 24", "6-7 socket 16"}));
  // Without affinities, NODE and PHB make one processor. A table without either does, too.
  for (auto const* path : {"NODE", "PHB", "XL4"}) {
    auto const near =
        read_xpu_smi(table({std::string("S ") + path, std::string(path) + " S"}, ""), "near");
    EXPECT_EQ(labels_of(near), (std::vector<std::string>{"gpu0/0", "gpu1/0", "processor0"}));
  }
  // Half of the data passes the socket.
  auto const two = read_xpu_smi(table({"S SYS", "SYS S"}, ""), "two");
  EXPECT_EQ(best_rate(two, collective::all_gather), rational(32));
}

TEST(read_xpu_smi, equal_affinities_make_one_processor) {
  auto const machine = read_xpu_smi(
      "GPU 0/0 GPU 1/0 GPU 2/0 CPU Affinity\n"
      "GPU 0/0 S XL4 XL4 0-7\n"
      "GPU 1/0 XL4 S XL4 8-15\n"
      "GPU 2/0 XL4 XL4 S 0-7\n",
      "t");
  EXPECT_EQ(pairs_of_links(machine),
            (std::vector<std::string>{"0-1 xelink 425/16", "0-2 xelink 425/16", "0-3 pcie 48",
                                      "1-2 xelink 425/16", "1-4 pcie 48", "2-3 pcie 48",
                                      "3-4 socket 16"}));
}

TEST(read_xpu_smi, rows_may_differ_or_be_cut) {
  auto const uneven = read_xpu_smi(table({"S XL8", "XL4 S"}), "t");
  EXPECT_EQ(pairs_of_links(uneven).front(), "0-1 xelink 425/16");
  EXPECT_SAYS(remarks_of(uneven),
              "line 2: GPU0/0 and GPU1/0 say other paths to each other; the slower one counts");
  EXPECT_ERROR((void)read_xpu_smi(table({"S XL8", "SYS S"}), "t.txt", {{}, true}),
               "t.txt:2: GPU0/0 and GPU1/0 say other paths to each other");
  auto const end = two_cards.find("GPU 1/1 |XL16");
  auto const cut = read_xpu_smi(two_cards.substr(0, end + 30), "t");
  EXPECT_SAYS(remarks_of(cut), "line 7: the text ends in the row of 'GPU1/1'");
  EXPECT_EQ(canonical(only_links(cut, link_kind::xelink)).key,
            canonical(only_links(read_xpu_smi(two_cards, "t"), link_kind::xelink)).key);
  EXPECT_ERROR((void)read_xpu_smi(two_cards.substr(0, two_cards.find("GPU 1/0 |XL*")), "t.txt"),
               "t.txt:5: the table ends here and says nothing about GPU1/0 and GPU1/1, expected "
               "the row of one of them");
}

TEST(read_xpu_smi, refuses_what_it_cannot_read) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_ERROR((void)read_xpu_smi(text, "t.txt"), part);
  };
  fails("no table", "t.txt:1: no line with the names of the tiles, expected one with GPU 0/0");
  fails(two_cards + "\n\n" + two_cards, "t.txt:12: a second line with the names of the tiles");
  fails(table({"S OK", "OK S"}),
        "t.txt:2: the row of 'GPU0/0' has 'OK' in column 'GPU1/0', expected XL and lanes, XL*, ");
  fails(table({"XL4 S", "S XL4"}),
        "t.txt:2: the row of 'GPU0/0' has 'XL4' in column 'GPU0/0', "
        "expected S");
  fails(table({"S S", "S S"}), "t.txt:2: the row of 'GPU0/0' has 'S' in column 'GPU1/0'");
  fails(table({"S XL1000", "S S"}), "has 'XL1000' in column 'GPU1/0'");
  fails(table({"S Unknown", "N/A S"}), "t.txt:3: the table ends here and says nothing about");
  fails("GPU 0/0 GPU 1/0\nGPU 0/0 S\nGPU 1/0 S S\n",
        "t.txt:2: the row of 'GPU0/0' has 1 cells, expected 2, one for each name in line 1");
  fails("GPU 0/0 GPU 1/0\nGPU 0/0 S NODE 0-7\nGPU 1/0 NODE S\n",
        "t.txt:2: the row of 'GPU0/0' has 3 cells, expected 2");
  fails("GPU 0/0 GPU 0/0\nGPU 0/0 S S\n", "t.txt:1: 'GPU0/0' appears twice");
  fails("GPU 0/0 GPU 1/0\nGPU 0/0 S XL4\nGPU 0/0 S XL4\n",
        "t.txt:3: a second row of 'GPU0/0', expected only that of line 2");
  fails("GPU 0/0 GPU 1/0\nGPU 0/1 S XL4\n",
        "t.txt:2: a row of 'GPU0/1', expected a name of line 1");
  std::string wide;
  for (int i = 0; i < 1100; ++i) wide += "GPU " + std::to_string(i) + "/0 ";
  fails(wide + "\n", "t.txt:1: more than 1024 GPUs, expected a table of one host");
}

TEST(read_xpu_smi, knows_its_table_from_others) {
  EXPECT_TRUE(is_xpu_smi(two_cards));
  EXPECT_TRUE(is_xpu_smi("GPU 0/0  CPU Affinity\nGPU 0/0  S  0-7\n"));
  EXPECT_FALSE(is_xpu_smi("GPU0 GPU1 CPU Affinity\nGPU0 X NV4 0-7\nGPU1 NV4 X 0-7\n"));
  EXPECT_FALSE(is_xpu_smi("GPU 0/0 is fine\n"));
  EXPECT_FALSE(is_xpu_smi(""));
  EXPECT_FALSE(is_rocm_smi(two_cards));
  EXPECT_FALSE(is_smi_matrix(two_cards));
  auto const one = read_xpu_smi("GPU 0/0  CPU Affinity\nGPU 0/0  S  0-7\n", "t");
  EXPECT_EQ(labels_of(one), (std::vector<std::string>{"gpu0/0", "processor0"}));
}

TEST(read_xpu_smi, damaged_tables_end_in_a_machine_or_an_error) {
  auto const read = [](std::string const& text) { validate(read_xpu_smi(text, "t.txt")); };
  EXPECT_GT(blink_test::read_damaged(two_cards, read), 100);
  EXPECT_GT(blink_test::read_damaged(two_cards + discovery, read), 100);
}

}}  // namespace blink::read_xpu_smi_test
