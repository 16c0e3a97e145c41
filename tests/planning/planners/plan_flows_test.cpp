// SPDX-License-Identifier: Apache-2.0
#include <blink/drawing/picture.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/topology/readers/read_json.hpp>

#include "support/brute_force.hpp"
#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <random>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace plan_flows_test { namespace {

using namespace blink;

plan sound_plan(topology const& machine, plan_request const& request) {
  auto p = make_plan(machine, request);
  EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
  EXPECT_EQ(p.rate, p.bound);
  return p;
}

rational all_to_all_rate(topology const& machine) {
  return sound_plan(machine, {collective::all_to_all, {}, "exact"}).rate;
}

topology machine_of(std::int64_t n, std::int64_t capacity, auto joins) {
  test::capacity_matrix matrix(static_cast<std::size_t>(n),
                               std::vector<std::int64_t>(static_cast<std::size_t>(n), 0));
  for (std::int64_t i = 0; i < n; ++i) {
    for (std::int64_t j = 0; j < n; ++j) {
      if (i != j && joins(i, j)) {
        matrix[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] = capacity;
      }
    }
  }
  return test::direct_machine(matrix);
}

// A ring: every pair takes its nearer way; a line: the middle link; a star: the ports; a mesh: the
// direct link.
TEST(plan_flows, closed_forms) {
  for (std::int64_t n = 3; n <= 9; ++n) {
    SCOPED_TRACE(n);
    auto const ring =
        machine_of(n, 6, [n](auto i, auto j) { return (i + 1) % n == j || (j + 1) % n == i; });
    std::int64_t distance = 0;  // from one rank to all others
    for (std::int64_t d = 1; d < n; ++d) distance += std::min(d, n - d);
    EXPECT_EQ(all_to_all_rate(ring), rational(2 * 6 * n, distance));
    auto const line = machine_of(n, 6, [](auto i, auto j) { return i + 1 == j || j + 1 == i; });
    EXPECT_EQ(all_to_all_rate(line), rational(6 * n, (n / 2) * (n - n / 2)));
    EXPECT_EQ(all_to_all_rate(machine_of(n, 6, [](auto, auto) { return true; })), rational(6 * n));
    EXPECT_EQ(all_to_all_rate(test::star_machine(static_cast<int>(n), 6)), rational(6 * n, n - 1));

    // To the next rank: over both ways round, but the last sends nothing and so leaves room.
    EXPECT_EQ(sound_plan(line, {collective::send_to_next, {}, "exact"}).rate, rational(6));
    EXPECT_EQ(sound_plan(test::star_machine(static_cast<int>(n), 6),
                         {collective::send_to_next, {}, "exact"})
                  .rate,
              rational(6));
    plan_request shift{collective::permute, {}, "exact"};
    for (std::int64_t i = 0; i < n; ++i) {
      shift.destinations.push_back(static_cast<int>((i + 1) % n));
    }
    // One way round costs 1, the other n - 1: both together are worth 2 n links for n pairs.
    EXPECT_EQ(sound_plan(ring, shift).rate, rational(6) + rational(6, n - 1));
  }
}

TEST(plan_flows, random_machines) {
  std::mt19937 random(7);
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    unsigned const largest = seed % 3 == 0 ? 1'000'000 : 6;
    auto const machine =
        seed % 2 == 0
            ? test::make_random_machine(seed, 2 + seed % 6, seed % 5, 6 + seed % 7, largest)
            : test::make_random_duplex_machine(seed, 2 + seed % 6, seed % 4, 5, largest);
    auto const p = sound_plan(machine, {collective::all_to_all, {}, "exact"});
    auto const n = p.ranks.size();
    EXPECT_LE(p.trees.size(), n * (n - 1) + 2 * machine.links.size());
    sound_plan(machine, {collective::send_to_next, {}, "exact"});
    plan_request shuffle{collective::permute, {}, "exact"};
    shuffle.destinations = p.ranks;
    std::shuffle(shuffle.destinations.begin(), shuffle.destinations.end(), random);
    auto const shuffled = sound_plan(machine, shuffle);
    auto const text = write_plan(shuffled);
    EXPECT_EQ(write_plan(read_plan(text, "p")), text);
    EXPECT_EQ(check_plan(machine, read_plan(text, "p")).fault.value_or(""), "");
  }
}

TEST(plan_flows, every_allocation_of_a_dgx1) {
  auto const matrix = test::dgx1v_matrix(25);
  int planned = 0;
  for (unsigned chosen = 1; chosen < 256; chosen += 3) {
    auto const part = test::part_of(matrix, chosen);
    auto const machine = test::direct_machine(part);
    try {
      auto const p = sound_plan(machine, {collective::all_to_all, {}, "exact"});
      ++planned;
      // Every cut bounds what crosses it.
      auto const n = static_cast<std::int64_t>(part.size());
      for (unsigned inside = 1; inside + 1 < 1U << n; ++inside) {
        auto const pairs = __builtin_popcount(inside) * (n - __builtin_popcount(inside));
        EXPECT_LE(p.rate, rational(test::capacity_leaving(part, inside) * n, pairs));
      }
    } catch (planning_error const& reason) {
      EXPECT_NE(std::string(reason.what()).find("no route leads from rank"), std::string::npos);
    }
  }
  EXPECT_GT(planned, 50);
  EXPECT_EQ(all_to_all_rate(test::direct_machine(matrix)), rational(75));
}

TEST(plan_flows, known_machines) {
  std::string const folder = std::string(BLINK_TEST_DATA_DIR) + "/topologies/";
  auto const named = [&](char const* name) { return read_json_file(folder + name + ".json"); };
  // 16 ranks of 4 links each, an average way of 32/15 links.
  EXPECT_EQ(all_to_all_rate(named("torus2d_4x4")), rational(100));
  // 4 x 4 pairs over the middle link.
  EXPECT_EQ(all_to_all_rate(named("line_8")), rational(8 * 1, 16));
  // 8 NICs of 25 out of a server for 64 pairs.
  EXPECT_EQ(all_to_all_rate(named("dgx_a100_2box")), rational(16 * 8 * 25, 64));
  // One NIC of 12.5 for 64 pairs.
  EXPECT_EQ(all_to_all_rate(named("ndv2_2box")), rational(16 * 25, 2 * 64));
  EXPECT_EQ(all_to_all_rate(named("dgx2")), rational(16 * 150, 15));
  EXPECT_EQ(all_to_all_rate(named("mesh2d_5x5")), rational(125, 3));
  // From server to server there is one pair only: it gets all 8 NICs of 25, through the switches.
  EXPECT_EQ(sound_plan(named("dgx_a100_2box"), {collective::send_to_next, {}, "exact"}).rate,
            rational(200));
}

TEST(plan_flows, refuses_what_it_cannot_do) {
  auto const ring = machine_of(4, 1, [](auto i, auto j) { return (i + 1) % 4 == j; });
  plan_request request{collective::permute, {}, "exact"};
  EXPECT_THROW((void)make_plan(ring, request), input_error);
  request.destinations = {1, 2, 3, 3};
  EXPECT_THROW((void)make_plan(ring, request), input_error);
  request.destinations = {1, 2, 3, 9};
  EXPECT_THROW((void)make_plan(ring, request), input_error);
  request.destinations = {0, 1, 2, 3};
  EXPECT_TRUE(sound_plan(ring, request).trees.empty());
  auto const apart = machine_of(4, 1, [](auto i, auto j) { return i / 2 == j / 2; });
  EXPECT_THROW((void)make_plan(apart, {collective::all_to_all, {}, "exact"}), planning_error);
  request.destinations = {1, 0, 3, 2};  // within the parts
  EXPECT_EQ(sound_plan(apart, request).rate, rational(1));
  EXPECT_TRUE(
      sound_plan(test::direct_machine({{0}}), {collective::all_to_all, {}, "exact"}).trees.empty());
  auto const p = sound_plan(ring, {collective::all_to_all, {}, "exact"});
  EXPECT_NO_THROW(validate_for(make_schedule(ring, p, 1e9), collective::all_to_all));
  EXPECT_NE(draw_svg(ring, p).find("</svg>"), std::string::npos);
}

}}  // namespace plan_flows_test
