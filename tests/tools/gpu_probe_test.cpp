// SPDX-License-Identifier: Apache-2.0
// What `blink probe --gpus` reads and fits, without GPUs.

#include "../../tools/gpu_probe.cpp"  // the command has no library

#include <blink/topology/built_in_machines.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/slow_links.hpp>

#include "../../tools/csv_text.hpp"
#include "../../tools/cuda/measure_gpus.hpp"
#include "../../tools/probe_tables.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/simulated_meter.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace blink::gpu_probe_test { namespace {

/// GPUs at two PCIe switches, whose uplinks have the rate of one GPU.
topology two_switches() {
  detail::machine_builder result;
  for (int gpu = 0; gpu < 4; ++gpu) {
    result.add_node(node_kind::rank, "gpu" + std::to_string(gpu), 0);
  }
  int const root = result.add_node(node_kind::switch_node, "root", 0);
  for (int k = 0; k < 2; ++k) {
    int const at = result.add_node(node_kind::switch_node, "pcie" + std::to_string(k), 0);
    for (int const gpu : {k, k + 2}) {
      result.add_both_ways(gpu, at, rational(24), link_kind::pcie);
    }
    result.add_both_ways(at, root, rational(12), link_kind::pcie);
  }
  return result.build("two switches");
}

measured_rates rates_of(topology const& machine) {
  blink_test::simulated_meter meter(machine);
  return detail::rate_measurer(meter, {0, 1, 2, 3}, 32).measure();
}

std::string text_of_probe(measured_rates const& rates) {
  std::vector<std::string> const bus_ids{"0000:07:00.0", "0000:08:00.0", "0000:09:00.0",
                                         "0000:0a:00.0"};
  std::vector<std::vector<int>> const refused{{0, 1}}, lost;
  nlohmann::ordered_json const all{{"gpu_probe", 1},
                                   {"bus_ids", bus_ids},
                                   {"bytes", 4'000'000},
                                   {"refused", refused},
                                   {"lost", lost},
                                   {"peer", tools::as_json(rates)},
                                   {"host", tools::as_json(rates)}};
  return all.dump();
}

TEST(gpu_probe, gpus_that_share_an_uplink_have_a_switch) {
  auto const machine = two_switches();
  auto const probe = tools::read_gpu_probe(text_of_probe(rates_of(machine)), "helper");
  EXPECT_EQ(probe.refused, (std::vector<std::pair<int, int>>{{0, 1}}));
  ASSERT_EQ(probe.peer.levels.size(), 1U);
  EXPECT_EQ(probe.peer.levels[0].cluster_of, (std::vector<int>{0, 1, 0, 1}));
  auto const fitted = tools::fit_gpus(probe.peer, probe.bus_ids);
  EXPECT_NO_THROW(validate(fitted));
  auto const again = read_json(write_json(fitted), "fitted");
  ASSERT_EQ(again.rank_positions().size(), 4U);
  EXPECT_EQ(again.nodes[2].label, "gpu2");
  EXPECT_EQ(again.nodes[2].bus_id, "0000:09:00.0");
  for (auto const& each : again.nodes) EXPECT_EQ(each.server, 0);
  std::size_t uplinks = 0;
  for (auto const& l : again.links) {
    auto const& tail = again.nodes[static_cast<std::size_t>(l.tail)].label;
    if (!tail.starts_with("shared")) continue;
    auto const& head = again.nodes[static_cast<std::size_t>(l.head)].label;
    if (head != "switch") continue;
    ++uplinks;
    EXPECT_NEAR(again.in_units(l.capacity).to_double(), 12, 0.5);
  }
  EXPECT_EQ(uplinks, 2U);
}

TEST(gpu_probe, links_that_are_not_as_described_are_listed) {
  auto const described = two_switches();
  auto slower = described;
  for (auto& l : slower.links) l.capacity /= l.tail == 1 || l.head == 1 ? 4 : 1;
  auto const rates = rates_of(slower);
  auto const found = slow_links(described, rates, 1e9);
  ASSERT_EQ(found.size(), 2U);  // both directions of GPU 1's link
  EXPECT_EQ(found[0].from, 1);
  EXPECT_EQ(found[1].to, 1);
  for (auto const& each : found) EXPECT_NEAR(each.measured / each.described, 0.25, 0.02);
  EXPECT_TRUE(fast_links(described, rates, 1e9).empty());
  // Direct links that reach more than described.
  auto const direct = *make_built_in_machine("fully_connected:4");
  auto faster = direct;
  faster.links[0].capacity *= 2;
  auto const more = fast_links(direct, rates_of(faster), 1e9);
  ASSERT_EQ(more.size(), 1U);
  EXPECT_NEAR(more[0].measured / more[0].described, 2, 0.1);
}

// NVML and CUDA may number GPUs differently.
TEST(gpu_probe, bus_ids_give_the_order) {
  auto described = two_switches();
  auto const text = text_of_probe(rates_of(described));
  auto probe = tools::read_gpu_probe(text, "helper");
  EXPECT_EQ(tools::in_order_of(described, probe.peer, probe.bus_ids), probe.peer);
  // The description has the GPUs 0 and 1 of the probe last.
  std::vector<std::size_t> const order{2, 3, 1, 0};
  for (std::size_t k = 0; k < 4; ++k) described.nodes[k].bus_id = "0000" + probe.bus_ids[order[k]];
  described.nodes[2].bus_id = "00000000:08:00.0";
  described.nodes[1].bus_id = "0000:0A:00.0";
  probe.peer.alone[3][1] = 77;
  auto const ordered = tools::in_order_of(described, probe.peer, probe.bus_ids);
  EXPECT_EQ(ordered.alone[1][2], 77);
  EXPECT_EQ(ordered.levels[0].cluster_of, (std::vector<int>{0, 1, 1, 0}));
  described.nodes[0].bus_id = "0000:0b:00.0";
  EXPECT_ERROR((void)tools::in_order_of(described, probe.peer, probe.bus_ids),
               "the GPU at '0000:0b:00.0' was not measured");
  EXPECT_ERROR((void)tools::in_order_of(*make_built_in_machine("fully_connected:3"), probe.peer,
                                        probe.bus_ids),
               "3 ranks, expected 4, the GPUs that are measured");
}

TEST(gpu_probe, what_the_program_measures_is_read) {
  blink_test::emulated_devices driver({.devices = 3, .unreachable = {{0, 2}}, .loses = {{1, 0}}});
  auto const text =
      tools::measure_gpus(driver, {.bytes = 1000, .seconds = 1e9, .calls = 1},
                          [](int device) { return "0000:0" + std::to_string(device) + ":00.0"; });
  auto const probe = tools::read_gpu_probe(text, "helper");
  EXPECT_EQ(probe.bus_ids.size(), 3U);
  EXPECT_EQ(probe.bytes, 1000U);
  EXPECT_EQ(probe.refused, (std::vector<std::pair<int, int>>{{0, 2}}));
  EXPECT_EQ(probe.lost, (std::vector<std::pair<int, int>>{{1, 0}}));
  for (auto const* rates : {&probe.peer, &probe.host}) {
    EXPECT_GT(rates->alone[2][1], 0);
    EXPECT_NO_THROW(validate(tools::fit_gpus(*rates, probe.bus_ids)));
  }
  EXPECT_EQ(driver.allocated_bytes(), 0U);
  blink_test::emulated_devices none({.devices = 0});
  EXPECT_ERROR((void)tools::measure_gpus(none, {}, [](int) { return std::string(); }),
               "no GPU is visible");
}

TEST(gpu_probe, wrong_texts_are_refused) {
  auto const good = text_of_probe(rates_of(two_switches()));
  auto const with = [&](std::string const& from, std::string const& to) {
    auto text = good;
    auto const at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return text.replace(at, from.size(), to);
  };
  EXPECT_ERROR((void)tools::read_gpu_probe("", "helper"), "helper:1: malformed JSON");
  EXPECT_ERROR((void)tools::read_gpu_probe("[]", "helper"), "expected an object");
  EXPECT_ERROR((void)tools::read_gpu_probe(with("probe\":1", "probe\":2"), "helper"), "format 2");
  EXPECT_ERROR((void)tools::read_gpu_probe(with("[[0,1]]", "[[0,4]]"), "helper"),
               "helper: refused[0]: expected the numbers of two GPUs");
  EXPECT_ERROR((void)tools::read_gpu_probe(with("[[0,1]]", "[[0]]"), "helper"), "refused[0]");
  EXPECT_ERROR((void)tools::read_gpu_probe(with("\"0000:07:00.0\",", ""), "helper"),
               "peer.alone[0]: 4 entries, expected 3");
  EXPECT_ERROR((void)tools::read_gpu_probe(with("\"out\":[", "\"out\":[1,"), "helper"),
               "peer.out: 5 entries, expected 4");
  EXPECT_ERROR((void)tools::read_gpu_probe(with("\"in\":[", "\"in\":[-1,"), "helper"),
               "found -1, expected a number from 0 to 1e15");
  EXPECT_ERROR((void)tools::read_gpu_probe(with("cluster_of\":[0", "cluster_of\":[9"), "helper"),
               "expected the number of a cluster");
  EXPECT_ERROR((void)tools::read_gpu_probe(good.substr(0, good.size() / 2), "helper"), "malformed");
}

TEST(probe_tables, have_clusters_of_all_levels_and_null_for_what_was_not_measured) {
  measured_rates rates;
  rates.host_of = {0, 1, 2, 3};
  rates.alone = rates.start_up = host_table(4, std::vector<double>(4, 0));
  rates.alone[1][2] = 2e9;
  rates.together = std::vector<double>(4, 0);
  rates.between = rates.alone;
  rates.out = rates.in = {1e9, 1e9, 1e9, 0};
  rates.levels = {{{0, 0, 1, 2}, {3e9, 0, 1e9}, {2e9, 0, 1e9}, {{0, 5e9, 0}, {0, 0, 0}, {0, 0, 0}}},
                  {{0, 0, 0, 1}, {4e9, 1e9}, {4e9, 1e9}, {{0, 0}, {6e9, 0}}}};
  auto const tables =
      tools::probe_tables(rates, {{"ring", 2e-6, 3e-6, 1.5, 64}}, {},
                          {{.from = 4, .to = 5, .described = 1e9, .measured = 2e9}});
  EXPECT_EQ(tables.size(), tools::probe_table_names.size());
  EXPECT_EQ(tools::csv_of(tables.at("clusters")),
            "level,cluster,out_gigabytes_per_second,in_gigabytes_per_second,hosts\n"
            "1,0,3.0,2.0,0 1\n1,1,,,2\n1,2,1.0,1.0,3\n2,0,4.0,4.0,0 1 2\n2,1,1.0,1.0,3\n");
  auto const pairs = tools::csv_of(tables.at("cluster_pairs"));
  EXPECT_EQ(std::count(pairs.begin(), pairs.end(), '\n'), 1 + 6 + 2);
  EXPECT_NE(pairs.find("\n1,0,1,5.0\n"), std::string::npos);
  EXPECT_NE(pairs.find("\n1,1,0,\n"), std::string::npos);
  EXPECT_NE(pairs.find("\n2,1,0,6.0\n"), std::string::npos);
  EXPECT_EQ(tables.at("pairs").size(), 12U);
  EXPECT_EQ(tables.at("pairs").at(4).dump(),
            R"({"from":1,"to":2,"gigabytes_per_second":2.0,"answer_microseconds":null})");
  EXPECT_TRUE(tables.at("hosts").at(3).at("out_gigabytes_per_second").is_null());
  EXPECT_TRUE(tables.at("host_pairs").at(0).at("loaded_gigabytes_per_second").is_null());
  EXPECT_EQ(tools::csv_of(tables.at("all_reduces")),
            "planner,bytes,gigabytes_per_second,predicted_microseconds,measured_microseconds\n"
            "ring,64,1.5,2.0,3.0\n");
  EXPECT_EQ(tools::csv_of(tables.at("links")),
            "from,to,found,gigabytes_per_second,described_gigabytes_per_second\n"
            "4,5,faster,2.0,1.0\n");
}

}}  // namespace blink::gpu_probe_test
