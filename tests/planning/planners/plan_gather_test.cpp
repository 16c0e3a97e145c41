// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/make_plan.hpp>

#include "support/brute_force.hpp"
#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace plan_gather_test { namespace {

using namespace blink;

plan sound_plan(topology const& machine, plan_request const& request) {
  auto p = make_plan(machine, request);
  EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
  EXPECT_EQ(p.rate, p.bound);
  return p;
}

// N times the smallest ratio of the capacity into a set without the root (scatter; out of it for a
// gather) to the ranks in it, by trying all sets of nodes.
rational best_by_cuts(topology const& machine, int root, bool gathers) {
  std::optional<rational> best;
  std::int64_t ranks = 0;
  for (auto const& n : machine.nodes) ranks += n.kind == node_kind::rank ? 1 : 0;
  for (unsigned set = 1; set < 1U << machine.nodes.size(); ++set) {
    auto const holds = [&](int at) { return (set >> at & 1U) != 0; };
    if (holds(machine.position_of(root))) continue;
    std::int64_t inside = 0, crossing = 0;
    for (std::size_t i = 0; i < machine.nodes.size(); ++i) {
      inside += machine.nodes[i].kind == node_kind::rank && holds(static_cast<int>(i)) ? 1 : 0;
    }
    for (auto const& l : machine.links) {
      auto const [from, to] = gathers ? std::pair(l.tail, l.head) : std::pair(l.head, l.tail);
      crossing += holds(from) && !holds(to) ? l.capacity : 0;
    }
    if (inside == 0) continue;
    auto const ratio = machine.in_units(rational(crossing, inside)) * ranks;
    if (!best || ratio < *best) best = ratio;
  }
  return *best;
}

TEST(plan_gather, random_machines_against_all_cuts) {
  for (unsigned seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    unsigned const largest = seed % 3 == 0 ? 1'000'000 : 6;
    auto const machine =
        seed % 2 == 0
            ? test::make_random_machine(seed, 2 + seed % 4, seed % 5, 6 + seed % 7, largest)
            : test::make_random_duplex_machine(seed, 2 + seed % 5, seed % 4, 5, largest);
    for (auto const kind : {collective::gather, collective::scatter}) {
      rational highest;
      for (int const at : machine.rank_positions()) {
        int const root = machine.nodes[static_cast<std::size_t>(at)].id;
        auto const p = sound_plan(machine, {kind, root, "exact"});
        EXPECT_EQ(p.rate, best_by_cuts(machine, root, kind == collective::gather));
        highest = std::max(highest, p.rate);
      }
      EXPECT_EQ(sound_plan(machine, {kind, {}, "exact"}).rate, highest);
    }
  }
}

TEST(plan_gather, closed_forms) {
  for (std::int64_t n = 2; n <= 9; ++n) {
    auto const star = test::star_machine(static_cast<int>(n), 12);
    EXPECT_EQ(sound_plan(star, {collective::gather, 0, "exact"}).rate, rational(12 * n, n - 1));
    test::capacity_matrix ring(static_cast<std::size_t>(n),
                               std::vector<std::int64_t>(static_cast<std::size_t>(n), 0));
    auto mesh = ring, line = ring;
    for (std::int64_t i = 0; i < n; ++i) {
      auto const row = static_cast<std::size_t>(i);
      ring[row][static_cast<std::size_t>((i + 1) % n)] = 5;
      ring[static_cast<std::size_t>((i + 1) % n)][row] = 5;
      for (std::int64_t j = 0; j < n; ++j) mesh[row][static_cast<std::size_t>(j)] = i == j ? 0 : 5;
      if (i + 1 < n) line[row][row + 1] = line[row + 1][row] = 5;
    }
    // Two links into the root of a ring, one into the end of a line, N - 1 in a full mesh.
    auto const ends = n == 2 ? 1 : 2;
    EXPECT_EQ(sound_plan(test::direct_machine(ring), {collective::gather, 0, "exact"}).rate,
              rational(5 * ends * n, n - 1));
    EXPECT_EQ(sound_plan(test::direct_machine(line), {collective::scatter, 0, "exact"}).rate,
              rational(5 * n, n - 1));
    auto const full = sound_plan(test::direct_machine(mesh), {collective::scatter, 0, "exact"});
    EXPECT_EQ(full.rate, rational(5 * n));
    EXPECT_EQ(full.trees.size(), static_cast<std::size_t>(n - 1));  // one direct path each
    for (auto const& t : full.trees) EXPECT_EQ(height(t), 1);
  }
}

TEST(plan_gather, every_allocation_of_a_dgx1) {
  auto const matrix = test::dgx1v_matrix(25);
  for (unsigned chosen = 1; chosen < 256; chosen += 2) {  // with rank 0
    auto const part = test::part_of(matrix, chosen);
    auto const machine = test::direct_machine(part);
    try {
      auto const p = sound_plan(machine, {collective::gather, 0, "exact"});
      if (part.size() > 1) {
        EXPECT_EQ(p.rate, best_by_cuts(machine, 0, true)) << chosen;
        EXPECT_LE(p.trees.size(), 2 * (part.size() - 1));
      } else {
        EXPECT_TRUE(p.trees.empty());
      }
    } catch (planning_error const& reason) {
      EXPECT_NE(std::string(reason.what()).find("is not reached by every other rank"),
                std::string::npos);
      EXPECT_EQ(best_by_cuts(machine, 0, true), rational(0));
    }
  }
}

TEST(plan_gather, parallel_links_are_one_way) {
  topology machine = test::direct_machine({{0, 1}, {1, 0}});
  machine.links.push_back(machine.links[1]);
  auto const p = sound_plan(machine, {collective::gather, 0, "exact"});
  EXPECT_EQ(p.rate, rational(4));
  EXPECT_EQ(p.trees.size(), 1U);
}

TEST(plan_barrier, is_shortest_there_and_back) {
  auto const line = test::direct_machine(
      {{0, 1, 0, 0, 0}, {1, 0, 1, 0, 0}, {0, 1, 0, 1, 0}, {0, 0, 1, 0, 1}, {0, 0, 0, 1, 0}});
  auto p = make_plan(line, {collective::barrier, {}, "exact"});
  EXPECT_EQ(check_plan(line, p).fault.value_or(""), "");
  EXPECT_EQ(p.trees.at(0).root, 2);
  EXPECT_EQ(height(p.trees[0]), 2);
  EXPECT_EQ(p.rate, rational(0));

  auto const star = test::star_machine(6, 3);
  p = make_plan(star, {collective::barrier, {}, "exact"});
  EXPECT_EQ(check_plan(star, p).fault.value_or(""), "");
  EXPECT_EQ(height(p.trees.at(0)), 1);

  // Latency decides before the number of hops: round the slow link 0 - 1.
  auto triangle = test::direct_machine({{0, 1, 1}, {1, 0, 1}, {1, 1, 0}});
  for (auto& l : triangle.links) l.latency_seconds = l.tail + l.head == 1 ? 5e-6 : 1e-6;
  p = make_plan(triangle, {collective::barrier, {}, "exact"});
  EXPECT_EQ(p.trees.at(0).root, 2);
  EXPECT_TRUE(
      make_plan(test::direct_machine({{0}}), {collective::barrier, {}, "exact"}).trees.empty());
  auto const one_way = test::direct_machine({{0, 1}, {0, 0}});
  EXPECT_THROW((void)make_plan(one_way, {collective::barrier, {}, "exact"}), planning_error);
  EXPECT_THROW((void)make_plan(star, {collective::barrier, {}, "ring"}), planning_error);
  EXPECT_THROW((void)make_plan(star, {collective::gather, {}, "magic"}), input_error);
}

TEST(plan_barrier, random_machines) {
  for (unsigned seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    auto machine = test::make_random_machine(seed, 2 + seed % 6, seed % 5, 8);
    for (std::size_t i = 0; i < machine.links.size(); ++i) {
      machine.links[i].latency_seconds = static_cast<double>((i * 7 + seed) % 4) * 1e-6;
    }
    auto const p = make_plan(machine, {collective::barrier, {}, "exact"});
    EXPECT_EQ(check_plan(machine, p).fault.value_or(""), "");
  }
}

}}  // namespace plan_gather_test
