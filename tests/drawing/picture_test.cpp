// SPDX-License-Identifier: Apache-2.0
#include <blink/drawing/picture.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>
#include <pugixml.hpp>

#include <algorithm>
#include <cstddef>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace {

using blink::draw_svg;
using blink::picture_options;
using blink::plan;
using blink::rational;
using blink::topology;
using blink::tree;
using blink::tree_edge;

topology six_gpus() {
  auto machine =
      blink::test::direct_machine(blink::test::part_of(blink::test::dgx1v_matrix(25), 0x3f));
  machine.name = "DGX-1V {0..5}";
  return machine;
}

/// A plan of two trees by hand, with reduce and broadcast edges.
plan plan_of_six() {
  plan what;
  what.collective = blink::collective::all_reduce;
  what.planner = "by hand";
  what.unit = "GB/s";
  what.ranks = {0, 1, 2, 3, 4, 5};
  what.rate = rational(75, 2);
  what.bound = rational(125, 2);
  std::vector<std::vector<std::pair<int, int>>> const down{
      {{0, 3}, {0, 4}, {3, 2}, {2, 1}, {1, 5}}, {{1, 0}, {1, 2}, {1, 3}, {1, 5}, {5, 4}}};
  for (std::size_t i = 0; i < down.size(); ++i) {
    tree t;
    t.root = static_cast<int>(i);
    t.weight = i == 0 ? rational(25) : rational(25, 2);
    for (auto const& [from, to] : down[i]) {
      t.broadcast.push_back({from, to, {from, to}});
      t.reduce.push_back({to, from, {to, from}});
    }
    what.trees.push_back(t);
  }
  return what;
}

/// All text of a picture, in order. Fails unless the picture is well-formed XML with one <svg>.
std::string words_of(std::string const& svg) {
  pugi::xml_document document;
  auto const parsed = document.load_buffer(svg.data(), svg.size(),
                                           pugi::parse_default | pugi::parse_ws_pcdata_single);
  EXPECT_TRUE(parsed) << parsed.description() << " at " << parsed.offset;
  EXPECT_STREQ(document.document_element().name(), "svg");
  std::string words;
  for (auto const& found : document.select_nodes("//text")) {
    words += std::string(found.node().child_value()) + "\n";
  }
  return words;
}

bool has(std::string const& text, std::string const& part) {
  return text.find(part) != std::string::npos;
}

TEST(picture, the_title_and_the_legend_name_everything) {
  auto const words = words_of(draw_svg(six_gpus(), plan_of_six()));
  EXPECT_TRUE(has(words, "all_reduce on DGX-1V {0..5}\n")) << words;
  EXPECT_TRUE(has(words, "planner by hand: 37.5 GB/s, 60 % of the bound 62.5 GB/s\n")) << words;
  EXPECT_TRUE(has(words, "1: root gpu0 (0), weight 25, height 4\n")) << words;
  EXPECT_TRUE(has(words, "2: root gpu1 (1), weight 25/2, height 2\n")) << words;
}

TEST(picture, every_link_shows_its_load_and_capacity) {
  auto const words = words_of(draw_svg(six_gpus(), plan_of_six()));
  // 1-5 carries both trees, 0-1 and 1-3 carry the second one, and 2-0 carries none.
  EXPECT_TRUE(has(words, "37.5/50\n"));
  EXPECT_TRUE(has(words, "12.5/25\n"));
  EXPECT_TRUE(has(words, "0/25\n"));
  std::size_t numbers = 0;
  for (char const c : words) numbers += c == '/' ? 1 : 0;
  // One slash for each pair. The others are in "GB/s", in "25/2" and in the legend.
  EXPECT_EQ(numbers, 9U + 3U + 1U + 2U) << words;
}

TEST(picture, directions_that_differ_have_numbers_of_their_own) {
  auto what = plan_of_six();
  what.collective = blink::collective::broadcast;
  for (auto& t : what.trees) t.reduce.clear();
  auto const words = words_of(draw_svg(six_gpus(), what));
  EXPECT_TRUE(has(words, "37.5/50\n"));
  EXPECT_TRUE(has(words, "0/50\n"));
  EXPECT_FALSE(has(words, "only on the way to the root"));
}

TEST(picture, an_overloaded_link_is_red) {
  auto what = plan_of_six();
  EXPECT_FALSE(has(draw_svg(six_gpus(), what), "#c00000"));
  what.trees[1].weight = 26;
  EXPECT_TRUE(has(draw_svg(six_gpus(), what), "#c00000"));
}

TEST(picture, paths_over_a_switch_load_its_ports) {
  auto const machine = blink::test::star_machine(4, 50);
  plan what;
  what.collective = blink::collective::broadcast;
  what.planner = "chain";
  what.rate = 50;
  what.trees = {{0, 50, {}, {{0, 1, {0, 4, 1}}, {1, 2, {1, 4, 2}}, {2, 3, {2, 4, 3}}}}};
  auto const words = words_of(draw_svg(machine, what));
  EXPECT_TRUE(has(words, "switch\n"));
  EXPECT_TRUE(has(words, "50/50\n"));
  EXPECT_TRUE(has(words, "0/50\n"));
  EXPECT_TRUE(has(words, "weight 50, height 3\n"));
}

TEST(picture, every_tree_is_in_the_legend_however_many) {
  auto const machine = blink::test::star_machine(16, 60);
  plan what;
  what.collective = blink::collective::all_gather;
  what.rate = 64;
  for (int root = 0; root < 16; ++root) {
    tree t;
    t.root = root;
    t.weight = 4;
    for (int to = 0; to < 16; ++to) {
      if (to != root) t.broadcast.push_back({root, to, {root, 16, to}});
    }
    what.trees.push_back(t);
  }
  auto const svg = draw_svg(machine, what);
  auto const words = words_of(svg);
  for (int i = 0; i < 16; ++i) {
    EXPECT_TRUE(has(words, std::to_string(i + 1) + ": root gpu" + std::to_string(i) + " (")) << i;
  }
  std::set<std::string> colours;
  for (std::size_t i = 0; i < 16; ++i) colours.insert(blink::detail::tree_colour(i));
  EXPECT_EQ(colours.size(), 16U);
  for (auto const& colour : colours) EXPECT_TRUE(has(svg, colour));
}

TEST(picture, a_plan_without_trees_shows_the_machine_alone) {
  auto const machine = blink::test::star_machine(3, 50);
  auto const words = words_of(draw_svg(machine, plan{}));
  EXPECT_TRUE(has(words, "star\n"));
  EXPECT_TRUE(has(words, "switch\n"));
  EXPECT_TRUE(has(words, "50\n"));
  EXPECT_FALSE(has(words, "Trees"));
}

TEST(picture, unused_switches_are_left_out_unless_asked_for) {
  auto machine = six_gpus();
  machine.nodes.push_back({50, blink::node_kind::switch_node, "socket", 0});
  machine.links.push_back({0, 6, 6, 0, blink::link_kind::pcie});
  EXPECT_FALSE(has(words_of(draw_svg(machine, plan_of_six())), "socket"));
  EXPECT_TRUE(
      has(words_of(draw_svg(machine, plan_of_six(), {.with_unused_switches = true})), "socket\n"));
}

TEST(picture, servers_are_named) {
  auto machine = six_gpus();
  EXPECT_FALSE(has(words_of(draw_svg(machine, plan_of_six())), "server 1\n"));
  for (std::size_t i = 3; i < 6; ++i) machine.nodes[i].server = 1;
  auto const words = words_of(draw_svg(machine, plan_of_six()));
  EXPECT_TRUE(has(words, "server 0\n"));
  EXPECT_TRUE(has(words, "server 1\n"));
}

TEST(picture, labels_are_escaped) {
  auto machine = six_gpus();
  machine.nodes[0].label = "<b>&\"'";
  machine.name = "a<b";
  auto what = plan_of_six();
  what.planner = "</text><script>";
  auto const svg = draw_svg(machine, what);
  EXPECT_FALSE(has(svg, "<script>"));
  auto const words = words_of(svg);
  EXPECT_TRUE(has(words, "<b>&\"'\n"));
  EXPECT_TRUE(has(words, "on a<b\n"));
  EXPECT_TRUE(has(words, "planner </text><script>:"));
}

TEST(picture, any_bytes_in_labels_give_well_formed_text) {
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto machine = six_gpus();
    for (auto& node : machine.nodes) {
      node.label.clear();
      for (auto length = random() % 20; length > 0; --length) {
        node.label += static_cast<char>(random() % 256);
      }
    }
    auto const svg = draw_svg(machine, plan_of_six());
    (void)words_of(svg);
    for (std::size_t i = 0; i < svg.size();) {
      auto const length = blink::detail::utf8_length(std::string_view(svg).substr(i));
      ASSERT_GT(length, 0U);
      ASSERT_TRUE(length > 1 || svg[i] == '\n' || svg[i] >= ' ');
      i += length;
    }
  }
}

TEST(picture, a_page_finds_nodes_and_links_and_adds_the_words_itself) {
  auto machine = six_gpus();
  machine.nodes[2].label = "\" onload=\"x";
  picture_options options;
  options.for_page = true;
  auto const svg = draw_svg(machine, plan_of_six(), options);
  auto const words = words_of(svg);
  EXPECT_TRUE(has(words, "37.5/50\n")) << words;
  for (auto const* word : {"planner", "Trees", "How to read it", "root gpu0"}) {
    EXPECT_FALSE(has(words, word)) << word;
  }
  pugi::xml_document document;
  ASSERT_TRUE(document.load_string(svg.c_str()));
  EXPECT_TRUE(document.select_nodes("//@onload").empty());
  EXPECT_EQ(document.select_nodes("//g[@class='trees']").size(), 1U);
  EXPECT_EQ(document.select_nodes("//polygon").size(), 0U);
  std::set<int> ids;
  for (auto const& found : document.select_nodes("//g[@class='node']")) {
    ids.insert(found.node().attribute("data-id").as_int(-1));
    auto const circle = found.node().child("circle");
    EXPECT_EQ(circle.attribute("cx").as_string(),
              std::string(found.node().attribute("data-x").as_string()));
  }
  EXPECT_EQ(ids, (std::set<int>{0, 1, 2, 3, 4, 5}));
  std::set<std::pair<int, int>> pairs, joined;
  for (auto const& found : document.select_nodes("//line[@class='link']")) {
    pairs.emplace(found.node().attribute("data-from").as_int(-1),
                  found.node().attribute("data-to").as_int(-1));
  }
  for (auto const& l : machine.links) joined.insert(std::minmax(l.tail, l.head));
  EXPECT_EQ(pairs, joined);
  EXPECT_FALSE(has(draw_svg(machine, plan_of_six()), " class=")) << "pictures that stand alone";
}

TEST(picture, equal_input_gives_equal_text) {
  EXPECT_EQ(draw_svg(six_gpus(), plan_of_six()), draw_svg(six_gpus(), plan_of_six()));
}

TEST(picture, a_foreign_plan_is_refused) {
  auto what = plan_of_six();
  what.trees[0].broadcast[0].path = {0, 99};
  EXPECT_THROW((void)draw_svg(six_gpus(), what), blink::precondition_error);
  EXPECT_THROW((void)draw_svg(topology{}, plan{}), blink::input_error);
}

}  // namespace
