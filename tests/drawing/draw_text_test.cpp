// SPDX-License-Identifier: Apache-2.0
#include <blink/drawing/draw_text.hpp>
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/topology.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>

// Rooms may be compiled as one source.
namespace blink::draw_text_test { namespace {

std::string drawn(std::string const& name, text_picture_options const& options = {}) {
  return draw_text(*make_built_in_machine(name), options);
}

TEST(draw_text, processors_are_boxes_and_nvlinks_are_lists) {
  EXPECT_EQ(drawn("dgx1v_pcie"),
            "┌─socket0───────┐  ┌─socket1───────┐\n"
            "│ ├─ pcie0 12   │  │ ├─ pcie2 12   │\n"
            "│ │  ├─ gpu0 12 │  │ │  ├─ gpu4 12 │\n"
            "│ │  └─ gpu1 12 │  │ │  └─ gpu5 12 │\n"
            "│ └─ pcie1 12   │  │ └─ pcie3 12   │\n"
            "│    ├─ gpu2 12 │  │    ├─ gpu6 12 │\n"
            "│    └─ gpu3 12 │  │    └─ gpu7 12 │\n"
            "└───────────────┘  └───────────────┘\n"
            "  nvlink 25: gpu0─gpu1 gpu0─gpu2 gpu1─gpu3 gpu2─gpu6 gpu3─gpu7 gpu4─gpu5\n"
            "     gpu4─gpu6 gpu5─gpu7\n"
            "  nvlink 50: gpu0─gpu3 gpu0─gpu4 gpu1─gpu2 gpu1─gpu5 gpu2─gpu3 gpu4─gpu7\n"
            "     gpu5─gpu6 gpu6─gpu7\n"
            "  socket 6: socket0─socket1\n");
}

TEST(draw_text, servers_that_are_alike_are_drawn_once) {
  auto const text = drawn("dgx_a100:3");
  EXPECT_TRUE(
      text.starts_with("servers 0-2, of which the first:\n══ b0.nvswitch ══ 8 x 300 "
                       "nvlink: b0.gpu0 b0.gpu1"))
      << text;
  EXPECT_EQ(text.find("══ b1.nvswitch"), std::string::npos) << text;
  EXPECT_NE(text.find("network0 12 x 25 network: b0.nic0"), std::string::npos) << text;
}

TEST(draw_text, a_server_that_differs_is_drawn) {
  auto machine = *make_built_in_machine("dgx_a100:3");
  for (auto& l : machine.links) {
    if (machine.nodes[static_cast<std::size_t>(l.tail)].server == 1 &&
        l.kind == link_kind::nvlink) {
      l.capacity /= 2;
    }
  }
  auto const text = draw_text(machine);
  EXPECT_NE(text.find("servers 0 2, of which the first:"), std::string::npos) << text;
  EXPECT_NE(text.find("server 1\n══ b1.nvswitch ══ 8 x 150 nvlink"), std::string::npos) << text;
}

TEST(draw_text, no_line_is_longer_than_the_terminal) {
  for (char const* const name : {"dgx1v_pcie", "dgx2", "dgx_h100:4", "torus:4x4", "mi250"}) {
    for (std::size_t const columns : {60U, 80U, 120U}) {
      text_picture_options options;
      options.columns = columns;
      std::istringstream lines(drawn(name, options));
      for (std::string line; std::getline(lines, line);) {
        auto const width = std::count_if(line.begin(), line.end(), [](char c) {
          return (static_cast<unsigned char>(c) >> 6) != 2;  // the first byte of a character
        });
        EXPECT_LE(static_cast<std::size_t>(width), columns) << name << ": " << line;
      }
    }
  }
}

TEST(draw_text, colours_change_no_other_character) {
  text_picture_options options;
  options.has_colours = true;
  auto text = drawn("dgx1v_pcie", options);
  EXPECT_NE(text.find("\x1b[32mgpu0\x1b[0m"), std::string::npos);
  for (auto at = text.find('\x1b'); at != std::string::npos; at = text.find('\x1b')) {
    text.erase(at, text.find('m', at) - at + 1);
  }
  EXPECT_EQ(text, drawn("dgx1v_pcie"));
}

TEST(draw_text, long_pictures_are_cut) {
  text_picture_options options;
  options.most_lines = 5;
  auto const text = drawn("dgx1v_pcie", options);
  EXPECT_EQ(std::count(text.begin(), text.end(), '\n'), 6);
  EXPECT_TRUE(text.ends_with("… and 8 lines more\n")) << text;
}

TEST(draw_text, labels_do_not_reach_the_terminal_raw) {
  topology machine;
  machine.name = "loud";
  machine.nodes = {{0, node_kind::rank, "\x1b[31m\n", 0}, {1, node_kind::rank, "", 0}};
  machine.links = {{0, 1, 1, 0, link_kind::unknown}};
  EXPECT_EQ(draw_text(machine), "  link 1/0: ?[31m?─rank 1\n");
}

}}  // namespace blink::draw_text_test
