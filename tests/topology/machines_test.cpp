// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/readers/read_json.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <functional>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::machines_test { namespace {

topology made(std::string const& name) {
  return make_built_in_machine(name).value();
}

/// Capacity between positions, as the sum of parallel links.
std::map<std::pair<int, int>, rational> capacities(topology const& machine, rational const& scale) {
  std::map<std::pair<int, int>, rational> result;
  for (auto const& l : machine.links) {
    result[{l.tail, l.head}] += machine.in_units(l.capacity) * scale;
  }
  return result;
}

std::vector<node_kind> kinds(topology const& machine) {
  std::vector<node_kind> result;
  for (auto const& n : machine.nodes) result.push_back(n.kind);
  return result;
}

/// True if a renumbering maps `a` onto `b`. Tries all that keep the links, so machines must be
/// small.
bool isomorphic(topology const& a, topology const& b) {
  auto const n = a.nodes.size();
  if (n != b.nodes.size()) return false;
  auto const in_a = capacities(a, 1);
  auto const in_b = capacities(b, 1);
  auto const at = [](auto const& map, int i, int j) {
    auto const found = map.find({i, j});
    return found == map.end() ? rational(0) : found->second;
  };
  std::vector<int> image;
  std::function<bool()> const extend = [&] {
    auto const i = image.size();
    if (i == n) return true;
    for (int j = 0; j < static_cast<int>(n); ++j) {
      if (std::find(image.begin(), image.end(), j) != image.end()) continue;
      bool fits = a.nodes[i].kind == b.nodes[static_cast<std::size_t>(j)].kind;
      for (std::size_t k = 0; fits && k < i; ++k) {
        auto const here = static_cast<int>(i);
        auto const other = static_cast<int>(k);
        fits = at(in_a, here, other) == at(in_b, j, image[k]) &&
               at(in_a, other, here) == at(in_b, image[k], j);
      }
      if (!fits) continue;
      image.push_back(j);
      if (extend()) return true;
      image.pop_back();
    }
    return false;
  };
  return extend();
}

TEST(machines, equal_published_descriptions_node_by_node) {
  struct row {
    char const* name;
    char const* file;
    std::int64_t scale = 1;  // the file's capacity of one link, for machines in links
  };
  std::vector<row> const rows{{"dgx2", "dgx2"},
                              {"dgx_a100", "dgx_a100_1box"},
                              {"dgx_a100:2", "dgx_a100_2box"},
                              {"dgx_a100:4", "dgx_a100_4box"},
                              {"dgx_a100:8", "dgx_a100_8box"},
                              {"dgx_h100", "dgx_h100_1box"},
                              {"dgx_h100:2", "dgx_h100_2box"},
                              {"dgx_h100:4", "dgx_h100_4box"},
                              {"hgx_h200", "hgx_h200_1box"},
                              {"mi250", "mi250_1box"},
                              {"mi250:2", "mi250_2box"},
                              {"ring:4", "ring_4"},
                              {"ring:16", "ring_16"},
                              {"line:8", "line_8"},
                              {"fully_connected:8", "fully_connected_8"},
                              {"hypercube:3", "hypercube_8", 50},
                              {"hypercube:5", "hypercube_32", 50},
                              {"mesh:4x4", "mesh2d_4x4", 50},
                              {"mesh:10x10", "mesh2d_10x10", 50},
                              {"mesh:5x4x3", "hypercube3d_3x4x5", 50},
                              {"torus:4x4", "torus2d_4x4", 50},
                              {"torus:3x3x3", "torus3d_3x3x3", 50},
                              {"torus:4x4x4", "torus3d_4x4x4", 50}};
  std::filesystem::path const folder = BLINK_TEST_DATA_DIR "/topologies";
  for (auto const& each : rows) {
    SCOPED_TRACE(each.name);
    auto const ours = made(each.name);
    auto const published = read_json_file((folder / (std::string(each.file) + ".json")).string());
    EXPECT_EQ(ours.name, each.name);
    EXPECT_EQ(kinds(ours), kinds(published));
    EXPECT_EQ(capacities(ours, each.scale), capacities(published, 1));
  }
}

TEST(machines, the_cube_mesh_is_isomorphic_to_published_descriptions) {
  std::filesystem::path const folder = BLINK_TEST_DATA_DIR "/topologies";
  auto const dgx1v = read_json_file((folder / "dgx1v.json").string());
  auto const dgx1p = read_json_file((folder / "dgx1p.json").string());
  EXPECT_TRUE(isomorphic(machines::dgx1v(), dgx1v));
  EXPECT_TRUE(isomorphic(machines::dgx1p(), dgx1p));
  EXPECT_FALSE(isomorphic(machines::dgx1p(), dgx1v));
  auto swapped = machines::dgx1v();
  std::swap(swapped.links[0].capacity, swapped.links[4].capacity);  // 0 -> 1 and 0 -> 3
  EXPECT_FALSE(isomorphic(swapped, dgx1v));
}

/// The sums of the capacities out of each rank.
std::set<std::int64_t> out_capacities(topology const& machine) {
  std::vector<std::int64_t> out(machine.nodes.size(), 0);
  for (auto const& l : machine.links) out[static_cast<std::size_t>(l.tail)] += l.capacity;
  std::set<std::int64_t> result;
  for (int const rank : machine.rank_positions())
    result.insert(out[static_cast<std::size_t>(rank)]);
  return result;
}

TEST(machines, each_is_sound_symmetric_and_connected) {
  for (auto const* name : {"dgx1p",
                           "dgx1v",
                           "dgx2",
                           "dgx_a100",
                           "dgx_a100:3",
                           "dgx_h100",
                           "dgx_h100:2",
                           "hgx_h200",
                           "mi250",
                           "mi250:3",
                           "nvl72",
                           "ring:2",
                           "ring:5",
                           "line:1",
                           "line:6",
                           "mesh:3x5",
                           "mesh:2x3x4",
                           "torus:4x5",
                           "torus:2x2",
                           "torus:3x4x5",
                           "hypercube:0",
                           "hypercube:4",
                           "fully_connected:1",
                           "fully_connected:7"}) {
    SCOPED_TRACE(name);
    auto const machine = made(name);
    EXPECT_EQ(machine.name, name);
    EXPECT_NO_THROW(validate(machine));
    EXPECT_NO_THROW(require_connected(machine));
    auto const there = capacities(machine, 1);
    for (auto const& [ends, capacity] : there) {
      auto const back = there.find({ends.second, ends.first});
      ASSERT_NE(back, there.end());
      EXPECT_EQ(back->second, capacity);
    }
    EXPECT_EQ(there.size(), machine.links.size()) << "parallel links";
    for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
      EXPECT_EQ(machine.nodes[i].id, static_cast<int>(i));
    }
  }
}

TEST(machines, ranks_links_and_capacity_of_each) {
  struct row {
    char const* name;
    std::size_t ranks;
    std::size_t links;
    std::set<std::int64_t> out;
  };
  for (auto const& each : std::vector<row>{{"dgx1p", 8, 32, {80}},
                                           {"dgx1v", 8, 32, {150}},
                                           {"dgx2", 16, 32, {150}},
                                           {"dgx_a100:2", 16, 96, {325}},
                                           {"dgx_h100:2", 16, 64, {500}},
                                           {"nvl72", 72, 144, {900}},
                                           {"mi250", 16, 56, {350}},
                                           {"ring:2", 2, 2, {1}},
                                           {"ring:7", 7, 14, {2}},
                                           {"line:7", 7, 12, {1, 2}},
                                           {"mesh:3x5", 15, 2 * (3 * 4 + 2 * 5), {2, 3, 4}},
                                           {"torus:3x5", 15, 60, {4}},
                                           {"torus:2x5", 10, 30, {3}},
                                           {"torus:3x4x5", 60, 360, {6}},
                                           {"hypercube:4", 16, 64, {4}},
                                           {"fully_connected:6", 6, 30, {5}}}) {
    SCOPED_TRACE(each.name);
    auto const machine = made(each.name);
    EXPECT_EQ(machine.rank_positions().size(), each.ranks);
    EXPECT_EQ(machine.links.size(), each.links);
    EXPECT_EQ(out_capacities(machine), each.out);
  }
}

TEST(machines, kinds_of_links_distinguish_servers_from_network) {
  std::map<link_kind, int> count;
  for (auto const& l : machines::dgx_a100(2).links) ++count[l.kind];
  EXPECT_EQ(count, (std::map<link_kind, int>{{link_kind::nvlink, 32}, {link_kind::network, 64}}));
  count.clear();
  for (auto const& l : machines::mi250(2).links) ++count[l.kind];
  EXPECT_EQ(count, (std::map<link_kind, int>{{link_kind::xgmi, 112}, {link_kind::network, 64}}));
  // The network alone joins the servers, but a plan without NVLink would be slow.
  EXPECT_EQ(fastest_connecting_kind(machines::dgx_a100(2)), std::nullopt);
}

TEST(machines, sizes_out_of_range_are_refused) {
  EXPECT_THROW((void)machines::ring(0), input_error);
  EXPECT_THROW((void)machines::ring(-3), input_error);
  EXPECT_THROW((void)machines::ring(5000), input_error);
  EXPECT_THROW((void)machines::mesh(70, 70), input_error);
  EXPECT_THROW((void)machines::torus(100000, 100000), input_error);
  EXPECT_THROW((void)machines::hypercube(13), input_error);
  EXPECT_THROW((void)machines::hypercube(-1), input_error);
  EXPECT_THROW((void)machines::fully_connected(100), input_error);
  EXPECT_THROW((void)machines::dgx_a100(0), input_error);
  EXPECT_THROW((void)machines::mi250(1 << 30), input_error);
}

}}  // namespace blink::machines_test
