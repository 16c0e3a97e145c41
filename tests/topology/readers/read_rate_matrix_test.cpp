// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/make_plan.hpp>
#include <blink/topology/readers/read_rate_matrix.hpp>

#include "support/damaged_text.hpp"
#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_rate_matrix_test { namespace {

std::string const three =
    "# measured\n"
    "\n"
    "0    25   12.5\n"
    "25   0    0     # no link\n"
    "1e1, 0.001, 0\n";

struct expected_link {
  int tail, head;
  rational rate;
};

void expect_links(topology const& machine, std::vector<expected_link> const& links) {
  ASSERT_EQ(machine.links.size(), links.size());
  for (std::size_t i = 0; i < links.size(); ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(machine.links[i].tail, links[i].tail);
    EXPECT_EQ(machine.links[i].head, links[i].head);
    EXPECT_EQ(machine.in_units(machine.links[i].capacity), links[i].rate);
    EXPECT_EQ(machine.links[i].kind, link_kind::unknown);
    EXPECT_EQ(machine.links[i].latency_seconds, 0);
  }
}

TEST(read_rate_matrix, numbers_are_links_from_row_to_column) {
  auto const machine = read_rate_matrix(three, "dir/three.csv");
  EXPECT_EQ(machine.name, "three");
  EXPECT_EQ(machine.unit, "GB/s");
  EXPECT_EQ(machine.steps_per_unit, 1000);
  ASSERT_EQ(machine.nodes.size(), 3U);
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(machine.nodes[i].id, static_cast<int>(i));
    EXPECT_EQ(machine.nodes[i].label, "gpu" + std::to_string(i));
    EXPECT_EQ(machine.nodes[i].kind, node_kind::rank);
    EXPECT_EQ(machine.nodes[i].server, 0);
  }
  expect_links(
      machine,
      {{0, 1, 25}, {0, 2, rational(25, 2)}, {1, 0, 25}, {2, 0, 10}, {2, 1, rational(1, 1000)}});
  EXPECT_TRUE(machine.remarks.empty());
}

TEST(read_rate_matrix, marks_units_commas_and_ends_of_lines) {
  for (auto const* text :
       {"- 25\n25 -\n", "X,25\n25 , x\n", "\xef\xbb\xbfinf 25\r\n25 inf",
        "GB/s\nN/A\t25\n25\tN/A\n", "Gbps\n0 200\n200 0", "# a\n MB/s # b\n\n0,25000\n25e3,0"}) {
    SCOPED_TRACE(text);
    EXPECT_TRUE(is_rate_matrix(text));
    expect_links(read_rate_matrix(text, "t"), {{0, 1, 25}, {1, 0, 25}});
  }
}

TEST(read_rate_matrix, one_number_is_one_rank) {
  for (auto const* text : {"0", "-", "X\n", "GB/s\n0"}) {
    auto const machine = read_rate_matrix(text, "one");
    EXPECT_EQ(machine.nodes.size(), 1U);
    EXPECT_TRUE(machine.links.empty());
  }
}

TEST(read_rate_matrix, plans_reach_the_bound) {
  auto const machine = read_rate_matrix("0 50 25 25\n50 0 25 25\n25 25 0 50\n25 25 50 0\n", "four");
  auto const plan = make_plan(machine, {collective::all_gather, {}, planned_by::exact});
  EXPECT_EQ(plan.rate, rational(400, 3));  // each rank receives 3/4 at 100 GB/s
}

TEST(read_rate_matrix, a_rate_on_the_diagonal_is_a_remark) {
  auto const machine = read_rate_matrix("1500 25\n25 0\n", "t");
  expect_links(machine, {{0, 1, 25}, {1, 0, 25}});
  ASSERT_EQ(machine.remarks.size(), 1U);
  EXPECT_EQ(machine.remarks[0], "line 1: row 0: its rate to itself is left out");
  EXPECT_ERROR((void)read_rate_matrix("1500 25\n25 0\n", "t.txt", {{}, true}),
               "t.txt:1: row 0: its rate to itself is left out");
  EXPECT_NO_THROW((void)read_rate_matrix(three, "t", {{}, true}));
}

TEST(read_rate_matrix, refuses_what_it_cannot_read) {
  auto const fails = [](std::string const& text, std::string const& part) {
    EXPECT_ERROR((void)read_rate_matrix(text, "t.txt"), part);
  };
  fails("", "t.txt:1: no numbers, expected a matrix");
  fails("# nothing\n", "t.txt:1: no numbers");
  fails("0 1\n", "t.txt:1: the text ends after 1 rows, expected 2, one for each column");
  fails("0 1\n1 0\n\n5 # more\n", "t.txt:4: '5' behind the last row, expected 2 rows");
  fails("0 1\n1\n", "t.txt:2: row 1: 1 numbers, expected 2 as in row 0");
  fails("0 1\n1 0 1\n", "t.txt:2: row 1: 3 numbers, expected 2 as in row 0");
  fails("0 one\n1 0\n", "t.txt:1: row 0: 'one' in column 1, expected a rate from 0 to 1000000000");
  fails("0 -\n1 0\n", "row 0: '-' in column 1");
  fails("0 -1\n1 0\n", "row 0: '-1' in column 1");
  fails("0 1e30\n1 0\n", "row 0: '1e30' in column 1");
  fails("0 1e-30\n1 0\n", "row 0: '1e-30' in column 1");
  fails("0 2000000000\n1 0\n", "row 0: '2000000000' in column 1");
  fails("furlongs\n0 1\n1 0\n", "row 0: 'furlongs' in column 0");
  fails("0 0.333333333\n0.000000003 0\nGB/s\n", "t.txt:3: 'GB/s' behind the last row");
  std::string wide;
  for (int i = 0; i < 2000; ++i) wide += "1 ";
  fails(wide, "t.txt:1: 2000 numbers, expected at most 1024");
  EXPECT_ERROR((void)read_rate_matrix("0", "t.txt", {{{link_kind::pcie, 50}}}),
               "t.txt: states its own rates of pcie links");
}

TEST(read_rate_matrix, is_recognised_by_its_first_line) {
  EXPECT_TRUE(is_rate_matrix(three));
  EXPECT_TRUE(is_rate_matrix("0 1 2\n1 0 bad\n"));
  EXPECT_TRUE(is_rate_matrix("Gb/s\n0"));
  EXPECT_FALSE(is_rate_matrix(""));
  EXPECT_FALSE(is_rate_matrix("GB/s\n"));
  EXPECT_FALSE(is_rate_matrix("0 1 -\n"));
  EXPECT_FALSE(is_rate_matrix("3 0 3\n\n0 1 25Gbps 0.005ms 0\n"));  // ns-3
  EXPECT_FALSE(is_rate_matrix("GPU0 GPU1\nGPU0 X NV1\n"));
  EXPECT_FALSE(is_rate_matrix("{\"nodes\": 1}"));
  EXPECT_FALSE(is_rate_matrix("<system/>"));
  EXPECT_FALSE(is_rate_matrix("topology: [ Ring ]"));
}

TEST(read_rate_matrix, damaged_files_end_in_a_machine_or_an_error) {
  int const read = blink_test::read_damaged(
      three, [](std::string const& text) { validate(read_rate_matrix(text, "t.txt")); });
  EXPECT_GT(read, 50);
  EXPECT_LT(read, 950);
}

}}  // namespace blink::read_rate_matrix_test
