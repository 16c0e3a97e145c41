// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/make_plan.hpp>
#include <blink/topology/canonical.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/readers/read_smi_matrix.hpp>
#include <blink/topology/subset.hpp>

#include "support/expect_error.hpp"
#include "support/machine_contents.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::read_smi_matrix_test { namespace {

using blink_test::best_rate;
using blink_test::text_of;

using blink_test::error_of;

// The hybrid cube mesh of a DGX-1V with four NICs, as its driver prints it.
std::string const dgx1v_table =
    "\tGPU0\tGPU1\tGPU2\tGPU3\tGPU4\tGPU5\tGPU6\tGPU7\tmlx5_0\tmlx5_1\tCPU Affinity\n"
    "GPU0\t X \tNV1\tNV1\tNV2\tNV2\tSYS\tSYS\tSYS\tPIX\tSYS\t0-19\n"
    "GPU1\tNV1\t X \tNV2\tNV1\tSYS\tNV2\tSYS\tSYS\tPIX\tSYS\t0-19\n"
    "GPU2\tNV1\tNV2\t X \tNV2\tSYS\tSYS\tNV1\tSYS\tPHB\tSYS\t0-19\n"
    "GPU3\tNV2\tNV1\tNV2\t X \tSYS\tSYS\tSYS\tNV1\tPHB\tSYS\t0-19\n"
    "GPU4\tNV2\tSYS\tSYS\tSYS\t X \tNV1\tNV1\tNV2\tSYS\tPIX\t20-39\n"
    "GPU5\tSYS\tNV2\tSYS\tSYS\tNV1\t X \tNV2\tNV1\tSYS\tPIX\t20-39\n"
    "GPU6\tSYS\tSYS\tNV1\tSYS\tNV1\tNV2\t X \tNV2\tSYS\tPHB\t20-39\n"
    "GPU7\tSYS\tSYS\tSYS\tNV1\tNV2\tNV1\tNV2\t X \tSYS\tPHB\t20-39\n"
    "mlx5_0\tPIX\tPIX\tPHB\tPHB\tSYS\tSYS\tSYS\tSYS\t X \tSYS\t\n"
    "mlx5_1\tSYS\tSYS\tSYS\tSYS\tPIX\tPIX\tPHB\tPHB\tSYS\t X \t\n"
    "\n"
    "Legend:\n"
    "\n"
    "  X    = Self\n"
    "  NV#  = Connection traversing a bonded set of # NVLinks\n";

// Rows of GPUs alone.
std::string table(std::vector<std::string> const& rows, std::string const& extra = "") {
  std::string text = "        ";
  for (std::size_t i = 0; i < rows.size(); ++i) text += "GPU" + std::to_string(i) + "  ";
  text += "  CPU Affinity\n";
  for (std::size_t i = 0; i < rows.size(); ++i) {
    text += "GPU" + std::to_string(i) + "  " + rows[i] + extra + "\n";
  }
  return text;
}

rational sum_of(topology const& machine, link_kind kind, int from) {
  std::int64_t sum = 0;
  for (auto const& l : machine.links) {
    if (l.kind == kind && l.tail == from) sum += l.capacity;
  }
  return machine.in_units(sum);
}

TEST(read_smi_matrix, a_dgx1v_has_the_links_of_the_built_in_machine) {
  auto const machine = read_smi_matrix(dgx1v_table, "dgx1v.txt");
  EXPECT_EQ(machine.name, "dgx1v");
  auto const nvlinks = only_links(machine, link_kind::nvlink);
  auto const known = only_links(read_machine("dgx1v"), link_kind::nvlink);
  EXPECT_EQ(canonical(nvlinks).key, canonical(known).key);
  for (auto const kind : {collective::all_reduce, collective::broadcast}) {
    EXPECT_EQ(best_rate(nvlinks, kind), best_rate(known, kind));
  }
  // Two GPUs and the NIC at a switch; two GPUs at the processor, which another one joins.
  EXPECT_EQ(std::count_if(machine.nodes.begin(), machine.nodes.end(),
                          [](auto const& n) { return n.label.starts_with("pcie switch"); }),
            2);
  EXPECT_EQ(std::count_if(machine.nodes.begin(), machine.nodes.end(),
                          [](auto const& n) { return n.label.starts_with("processor"); }),
            2);
  // 12 GB/s for each direction of each link: GPUs 0 and 1 have one link up together.
  auto const pcie = only_links(machine, link_kind::pcie);
  EXPECT_EQ(best_rate(subset(pcie, {0, 1}), collective::all_gather), rational(24));
  EXPECT_EQ(best_rate(subset(pcie, {0, 1, 2}), collective::all_gather), rational(18));
}

TEST(read_smi_matrix, pairs_with_more_links_than_a_gpu_has_meet_at_a_switch) {
  auto const switched = read_smi_matrix(
      table({"X NV12 NV12", "NV12 X NV12", "NV12 NV12 X"}, " 0-7"), "three of an A100 box");
  ASSERT_EQ(switched.nodes[3].label, "nvswitch");
  for (int gpu = 0; gpu < 3; ++gpu) {
    EXPECT_EQ(sum_of(switched, link_kind::nvlink, gpu), rational(300));
  }
  auto const mesh = read_smi_matrix(
      table({"X NV6 NV6 NV6", "NV6 X NV6 NV6", "NV6 NV6 X NV6", "NV6 NV6 NV6 X"}), "four H100");
  EXPECT_EQ(mesh.nodes[4].label, "processor0");
  for (int gpu = 0; gpu < 4; ++gpu) {
    EXPECT_EQ(sum_of(mesh, link_kind::nvlink, gpu), rational(450));
  }
  EXPECT_EQ(best_rate(only_links(mesh, link_kind::nvlink), collective::all_gather), rational(600));
}

TEST(read_smi_matrix, switches_processors_and_sockets_follow_from_near_and_far) {
  // Two pairs at switches, one above both; two GPUs of another processor, host bridges apart.
  auto const machine = read_smi_matrix(
      table({"X PIX PXB PXB SYS SYS", "PIX X PXB PXB SYS SYS", "PXB PXB X PIX SYS SYS",
             "PXB PXB PIX X SYS SYS", "SYS SYS SYS SYS X NODE", "SYS SYS SYS SYS NODE X"}),
      "tree");
  std::vector<std::string> labels;
  for (auto const& n : machine.nodes) labels.push_back(n.label);
  EXPECT_EQ(labels, (std::vector<std::string>{"gpu0", "gpu1", "gpu2", "gpu3", "gpu4", "gpu5",
                                              "pcie switch0", "pcie switch1", "pcie switch2",
                                              "processor0", "processor1"}));
  // Of one direction: six GPUs, two switches, the one above, two GPUs at the other processor.
  auto const links_of = [&](link_kind kind) {
    return std::count_if(machine.links.begin(), machine.links.end(),
                         [&](auto const& l) { return l.kind == kind; });
  };
  EXPECT_EQ(links_of(link_kind::pcie), 2 * (4 + 2 + 1 + 2));
  EXPECT_EQ(links_of(link_kind::socket), 2);
  // From four GPUs to two over the socket, at 16 GB/s: 4/6 of the buffer.
  EXPECT_EQ(best_rate(machine, collective::all_gather), rational(24));
}

TEST(read_smi_matrix, what_people_do_to_a_table_changes_nothing) {
  auto const clean = canonical(read_smi_matrix(dgx1v_table, "t")).key;
  auto const same = [&](std::string const& text) {
    EXPECT_EQ(canonical(read_smi_matrix(text, "t")).key, clean) << text;
  };
  std::string spaces, lines, colours,
      marked = "$ nvidia-smi topo -m\n```\n" + dgx1v_table + "```\n";
  for (char const c : dgx1v_table) {
    spaces += c == '\t' ? std::string("   ") : std::string(1, c);
    lines += c == '\n' ? std::string("\r\n\r\n") : std::string(1, c);
  }
  colours = dgx1v_table;
  colours.insert(1, "\x1b[4m");
  colours.insert(colours.find("\tGPU1"), "\x1b[0m");
  same(spaces);
  same(lines);
  same(colours);
  same(marked);
  same(dgx1v_table.substr(1));                              // the first tab is lost
  same(dgx1v_table.substr(0, dgx1v_table.find("Legend")));  // no legend
  auto joined = dgx1v_table;                                // a terminal ran two columns together
  for (std::size_t at = 0; (at = joined.find("SYS\tSYS\tSYS\tPIX", at)) != std::string::npos;)
    joined.erase(at + 3, 1);
  same(joined);
}

TEST(read_smi_matrix, a_cut_table_counts_as_far_as_it_says_enough) {
  auto const row7 = dgx1v_table.find("GPU7\tSYS");
  auto const machine = read_smi_matrix(dgx1v_table.substr(0, row7), "t");
  EXPECT_EQ(canonical(only_links(machine, link_kind::nvlink)).key,
            canonical(only_links(read_machine("dgx1v"), link_kind::nvlink)).key);
  auto const half = read_smi_matrix(dgx1v_table.substr(0, row7 + 20), "t");
  EXPECT_TRUE(std::any_of(half.remarks.begin(), half.remarks.end(), [](auto const& remark) {
    return remark.find("line 9: the table is cut off in the row of GPU7") != std::string::npos;
  }));
  EXPECT_ERROR((void)read_smi_matrix(dgx1v_table.substr(0, row7 + 20), "t.txt", {{}, true}),
               "t.txt: line 9: the table is cut off in the row of GPU7, expected a table without");
  EXPECT_ERROR((void)read_smi_matrix(dgx1v_table.substr(0, dgx1v_table.find("GPU6\tSYS")), "t.txt"),
               "t.txt:7: the table ends here and says nothing about GPU6 and GPU7");
}

TEST(read_smi_matrix, says_what_it_assumed_and_what_looks_wrong) {
  auto const lost = read_smi_matrix(table({"X NV18 NODE", "NV18 X NODE", "NODE NODE X"}), "lost");
  std::string all;
  for (auto const& remark : lost.remarks) all += remark + "\n";
  EXPECT_SAYS(all, "GPU2 has no NVLink, other GPUs have");
  EXPECT_SAYS(all, "nvlink counts as 25 GB/s");
  EXPECT_SAYS(all, "pcie counts as 48 GB/s, Gen 5 x16 as beside 18 NVLinks");
  auto const uneven = read_smi_matrix(table({"X NV4", "NV2 X"}), "uneven");
  EXPECT_SAYS(uneven.remarks.front(), "GPU0 and GPU1 say other paths to each other");
  EXPECT_EQ(sum_of(uneven, link_kind::nvlink, 0), rational(50));
  auto const given = read_smi_matrix(
      table({"X NV18", "NV18 X"}), "given",
      {{{link_kind::nvlink, 50}, {link_kind::pcie, rational(63, 2)}, {link_kind::socket, 9}}});
  EXPECT_TRUE(given.remarks.empty());
  EXPECT_EQ(sum_of(given, link_kind::nvlink, 1), rational(900));
  EXPECT_EQ(sum_of(given, link_kind::pcie, 1), rational(63, 2));
}

TEST(read_smi_matrix, refuses_what_it_cannot_read) {
  auto const text = [](std::string const& rows) { return "GPU0 GPU1 CPU Affinity\n" + rows; };
  auto const fails = [](std::string const& all, std::string const& part) {
    EXPECT_ERROR((void)read_smi_matrix(all, "t.txt"), part);
  };
  fails("no table",
        "t.txt:1: no line with the names of the GPUs above their rows, expected GPU0, ");
  EXPECT_TRUE(is_smi_matrix("GPU0\t X \tNV18\nGPU1\tNV18\t X \n"));
  fails("GPU0\t X \tNV18\nGPU1\tNV18\t X \n", "t.txt:1: no line with the names of the GPUs");
  fails(text("GPU0 X PIX SYS\nGPU1 PIX X\n"), "t.txt:2: the row of 'GPU0' has 3 paths or more");
  fails(text("GPU0 X\nGPU1 PIX X\n"), "t.txt:2: the row of 'GPU0' has 1 paths, expected 2");
  fails(text("GPU0 PIX X\nGPU1 PIX X\n"), "has no X in column 'GPU0'");
  fails(text("GPU0 X X\nGPU1 PIX X\n"), "has X in column 'GPU1', expected X in its own");
  fails(text("GPU0 X PIX\nGPU0 X PIX\n"), "t.txt:3: a second row of 'GPU0'");
  fails("GPU0 GPU0\nGPU0 X PIX\n", "t.txt:1: 'GPU0' appears twice");
  fails(text("GPU0 X OK\nGPU1 OK X\n"), "'OK': a table of topo -p2p");
  fails(text("GPU0 X N/A\nGPU1 N/A X\n"), "says nothing about GPU0 and GPU1");
  fails("GPU0 GPU1\x07 GPU\xff\nGPU0 X PIX N/A\nGPU1 PIX X\n", "has X in column 'GPU1?'");
  std::string wide = "GPU0";
  for (int i = 1; i < 2000; ++i) wide += " GPU" + std::to_string(i);
  fails(wide + "\n", "more than 1024 devices");
}

TEST(read_smi_matrix, damaged_tables_end_in_a_machine_or_an_error) {
  std::mt19937 random(7);
  std::string const letters = "XNVPIBGU0129 \t\n/SYODE\x1b-";
  int read = 0;
  for (int round = 0; round < 3000; ++round) {
    auto text = dgx1v_table;
    for (auto changes = random() % 6; changes-- > 0;) {
      auto const at = random() % text.size();
      auto const letter = letters[random() % letters.size()];
      if (random() % 3 == 0) {
        text.erase(at, random() % 9);
      } else {
        text[at] = letter;
      }
    }
    try {
      validate(read_smi_matrix(text, "t"));
      ++read;
    } catch (input_error const&) {
    }
  }
  EXPECT_GT(read, 300);
  EXPECT_LT(read, 2700);
}

// Found by fuzzing: the number of such a device was read as digits.
TEST(read_smi_matrix, names_of_gpus_without_a_number) {
  for (std::string const name : {"GPUPU1", "GPU", "GPU-1", "GPU1a", "GPU12345", "GPU99999999999"}) {
    SCOPED_TRACE(name);
    auto const text = "        GPU0  " + name + "  CPU Affinity\nGPU0     X  PIX  0-3\n" + name +
                      "  PIX  X  0-3\n";
    try {
      auto const machine = read_machine_text(text, "input", machine_formats);
      EXPECT_EQ(machine.rank_positions().size(), 2U);
      EXPECT_NO_THROW(validate(machine));
    } catch (input_error const& refused) {
      EXPECT_NE(std::string(refused.what()).find("expected"), std::string::npos) << refused.what();
    }
  }
}

TEST(read_smi_matrix, is_recognised_by_its_text_and_takes_rates) {
  auto const path = std::filesystem::path(testing::TempDir()) / "topo_dump.log";
  std::ofstream(path) << "NVIDIA Topology:\n" << dgx1v_table;
  auto const machine = read_machine(path.string(), {{{link_kind::nvlink, 20}}});
  EXPECT_EQ(sum_of(machine, link_kind::nvlink, 0), rational(120));
  std::filesystem::remove(path);
  reading_options const rates{{{link_kind::nvlink, 20}}};
  EXPECT_ERROR((void)read_machine("dgx1v", rates), "dgx1v: states its own rates of nvlink links");
}

TEST(assumed_rates, are_read_or_refused) {
  assumed_rates rates;
  read_assumed_rate("nvlink=26.5", rates);
  read_assumed_rate("socket=40", rates);
  read_assumed_rate("xgmi=64", rates);
  read_assumed_rate("xelink=26.5", rates);
  EXPECT_EQ(rates, (assumed_rates{{link_kind::nvlink, rational(53, 2)},
                                  {link_kind::socket, 40},
                                  {link_kind::xgmi, 64},
                                  {link_kind::xelink, rational(53, 2)}}));
  for (auto const* text :
       {"", "nvlink", "nvlink=", "nvlink=0", "pcie=-1", "memory=5", "pcie=1e9", "pcie=x"}) {
    SCOPED_TRACE(text);
    EXPECT_ERROR(read_assumed_rate(text, rates),
                 "expected nvlink=, xgmi=, xelink=, pcie= or socket=");
  }
}

// Facts of the corpus, taken by an independent program.
TEST(read_smi_matrix_corpus, agrees_with_the_facts) {
  std::string const folder = std::string(BLINK_SHARED_DIR) + "/topo-corpus/";
  if (!std::filesystem::exists(folder + "smi-facts.tsv")) GTEST_SKIP() << "no corpus here";
  std::ifstream facts(folder + "smi-facts.tsv");
  int read = 0;
  for (std::string line; std::getline(facts, line);) {
    std::vector<std::string> cells;
    std::stringstream split(line);
    for (std::string cell; std::getline(split, cell, '\t');) cells.push_back(cell);
    if (cells.size() < 7 || cells[1] != "topo-m") continue;
    SCOPED_TRACE(cells[0]);
    auto const path = folder + "nvidia-smi/" + cells[0];
    if (cells[2] == "0" || cells[6].find("?:") != std::string::npos) {  // cut, or without header
      EXPECT_NE(error_of([&] { (void)read_machine(path); }).find(cells[0] + ":"),
                std::string::npos);
      continue;
    }
    auto const text = text_of(path);
    auto const found = detail::smi_matrix_reader(text, path).read();
    std::map<std::string, int> pairs;
    for (std::size_t a = 0; a < found.devices.size(); ++a) {
      for (std::size_t b = a + 1; b < found.devices.size(); ++b) {
        if (!found.devices[a].is_gpu() || !found.devices[b].is_gpu()) continue;
        using level = detail::smi_path::level;
        auto const path_of = found.between(a, b);
        std::map<level, std::string> const names{{level::pix, "PIX"},
                                                 {level::pxb, "PXB"},
                                                 {level::phb, "PHB"},
                                                 {level::node, "NODE"},
                                                 {level::sys, "SYS"}};
        ++pairs[path_of.is == level::nvlink ? "NV" + std::to_string(path_of.links)
                                            : names.at(path_of.is)];
      }
    }
    std::string all;
    for (auto const& [name, count] : pairs) {
      all += (all.empty() ? "" : " ") + name + ":" + std::to_string(count);
    }
    auto expected = cells[6];
    if (auto const old = expected.find("SOC"); old != std::string::npos)
      expected.replace(old, 3, "SYS");
    EXPECT_EQ(all, expected);
    auto const machine = read_machine(path);
    EXPECT_EQ(std::to_string(machine.rank_positions().size()), cells[2]);
    if (machine.rank_positions().size() > 1) {
      auto const plan = make_plan(machine, {collective::all_reduce, {}, planned_by::exact});
      EXPECT_EQ(plan.rate, plan.bound);
    }
    ++read;
  }
  EXPECT_GE(read, 37);
}

}}  // namespace blink::read_smi_matrix_test
