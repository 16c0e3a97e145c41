// SPDX-License-Identifier: Apache-2.0
// The exact planner on machines with published or independently computed optima. The tables are not
// part of the project; without them these tests are skipped.
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/planners/prove_bound.hpp>
#include <blink/topology/copying_switches.hpp>
#include <blink/topology/readers/read_json.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/subset.hpp>

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace known_machines_test { namespace {

using namespace blink;
using nlohmann::json;

std::string const folder = std::string(BLINK_TEST_DATA_DIR) + "/topologies/";

json table(std::string const& name) {
  std::ifstream file(folder + name);
  return file ? json::parse(file) : json();
}

topology machine_named(std::string const& name) {
  return read_json_file(folder + name + ".json");
}

plan sound_plan(topology const& machine, plan_request const& request) {
  auto p = make_plan(machine, request);
  EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
  EXPECT_EQ(p.rate, p.bound);
  return p;
}

/// The tables round to six significant digits or more.
void expect_rate(rational const& rate, json const& expected) {
  EXPECT_NEAR(rate.to_double(), expected.get<double>(), 2e-5 * expected.get<double>());
}

std::vector<int> ids_of(std::string const& digits) {
  std::vector<int> result;
  for (char const c : digits) result.push_back(c - '0');
  return result;
}

TEST(known_machines, all_classes_of_dgx1_allocations) {
  auto const expected = table("DGX1_FRAGMENTS.json");
  ASSERT_FALSE(expected.is_null());
  int classes = 0;
  for (auto const& c : expected["classes"]) {
    if (!c["connected"].get<bool>()) continue;
    ++classes;
    auto const gpus = c["gpus"].get<std::string>();
    auto const gen = c["gen"].get<std::string>();
    SCOPED_TRACE(gen + " " + gpus);
    auto const machine = subset(machine_named(gen == "V" ? "dgx1v" : "dgx1p"), ids_of(gpus));
    rational lowest(1'000'000), highest;
    for (int const root : ids_of(gpus)) {
      auto const rate = sound_plan(machine, {collective::broadcast, root, "exact"}).rate;
      lowest = std::min(lowest, rate);
      highest = std::max(highest, rate);
    }
    expect_rate(lowest, c["bcast_min"]);
    expect_rate(highest, c["bcast_max"]);
    EXPECT_EQ(sound_plan(machine, {collective::broadcast, {}, "exact"}).rate, highest);
    expect_rate(sound_plan(machine, {collective::all_gather, {}, "exact"}).rate, c["ag"]);
    expect_rate(sound_plan(machine, {collective::all_reduce, {}, "exact"}).rate, c["ar_lp"]);

    if (c["rings"].get<int>() > 0) {
      expect_rate(make_plan(machine, {collective::broadcast, {}, "ring"}).rate, c["ring_bcast"]);
      expect_rate(make_plan(machine, {collective::all_reduce, {}, "ring"}).rate, c["ring_ar"]);
    } else {
      EXPECT_THROW((void)make_plan(machine, {collective::all_reduce, {}, "ring"}), planning_error);
    }
    for (auto const kind : {collective::broadcast, collective::all_reduce}) {
      auto const blinks = make_plan(machine, {kind, {}, "blink"});
      EXPECT_EQ(check_plan(machine, blinks).fault.value_or(""), "");
      EXPECT_GE(blinks.rate, blinks.bound * rational(95, 100)) << to_text(kind);
    }
  }
  EXPECT_EQ(classes, 60);
}

TEST(known_machines, every_machine) {
  auto const expected = table("EXPECTED.json");
  ASSERT_FALSE(expected.is_null());
  constexpr std::size_t most_ranks = 40;  // larger ones take seconds: see the benchmarks
  int planned = 0;
  for (auto const& [name, values] : expected["values"].items()) {
    SCOPED_TRACE(name);
    if (!std::filesystem::exists(folder + name + ".json")) continue;
    auto const machine = machine_named(name);
    auto const ranks = machine.rank_positions();
    if (ranks.size() > most_ranks) continue;
    rational lowest(1'000'000), highest;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      int const root = machine.nodes[static_cast<std::size_t>(ranks[i])].id;
      auto const rate = prove_bound(machine, collective::broadcast, root).bound;
      lowest = std::min(lowest, rate);
      highest = std::max(highest, rate);
      if (ranks.size() > 16 && i % 7 != 0) continue;  // to take less time
      EXPECT_EQ(sound_plan(machine, {collective::broadcast, root, "exact"}).rate, rate);
    }
    expect_rate(lowest, values["broadcast_rate_min_root"]);
    expect_rate(highest, values["broadcast_rate_max_root"]);
    ++planned;
    auto const gathered = sound_plan(machine, {collective::all_gather, {}, "exact"}).rate;
    expect_rate(gathered, values["allgather_algbw"]);
    auto const inverse = rational::from_text(values["inv_x_star"].get<std::string>());
    EXPECT_EQ(gathered, rational(static_cast<std::int64_t>(ranks.size())) / *inverse);
    bool const routed = !detail::used_switches(machine).empty() && !detail::to_star(machine);
    if (values.contains("allreduce_tree_lp") && (!routed || ranks.size() <= 16)) {
      // Printed with five digits in this column.
      auto const rate = sound_plan(machine, {collective::all_reduce, {}, "exact"}).rate;
      auto const lp = values["allreduce_tree_lp"].get<double>();
      EXPECT_NEAR(rate.to_double(), lp, 1e-3 * lp);
    }
  }
  EXPECT_GE(planned, 40);
}

/// Machines as drivers report them: PCIe switches, sockets, NICs and NVLinks together.
TEST(known_machines, real_machines_with_all_their_links) {
  std::filesystem::path const files = std::string(BLINK_SHARED_DIR) + "/topo-corpus/nccl-xml";
  if (!std::filesystem::exists(files)) GTEST_SKIP() << "no topology files of real machines";
  int planned = 0;
  for (auto const& file : std::filesystem::directory_iterator(files)) {
    SCOPED_TRACE(file.path().filename().string());
    topology machine;
    try {
      machine = read_machine(file.path().string());
    } catch (input_error const&) {  // refused with a reason: see read_nccl_xml_test
      continue;
    }
    if (machine.rank_positions().size() < 2) continue;
    ++planned;
    (void)sound_plan(machine, {collective::broadcast, {}, "exact"});
    if (machine.rank_positions().size() <= 4) {
      (void)sound_plan(machine, {collective::all_gather, {}, "exact"});
    }
  }
  EXPECT_GE(planned, 30);
}

TEST(known_machines, all_reduce_with_switches_that_copy_and_reduce) {
  auto const expected = table("EXPECTED.json");
  ASSERT_FALSE(expected.is_null());
  int planned = 0;
  for (auto const& [name, values] : expected["values"].items()) {
    if (!values.contains("allreduce_lp_switch_multicast_reduce")) continue;
    SCOPED_TRACE(name);
    auto const machine = with_copying_switches(machine_named(name), "all");
    ++planned;
    expect_rate(sound_plan(machine, {collective::all_reduce, {}, "exact"}).rate,
                values["allreduce_lp_switch_multicast_reduce"]);
  }
  EXPECT_EQ(planned, 8);
}

}}  // namespace known_machines_test
