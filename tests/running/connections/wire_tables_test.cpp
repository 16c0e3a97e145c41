// SPDX-License-Identifier: Apache-2.0
// Where the counters of wires lie: what a core fetches is what one rank tells one other.

#include <blink/core/collective.hpp>
#include <blink/running/connections/wire_tables.hpp>

#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <utility>
#include <vector>

namespace wire_tables_test {

using ends = std::pair<int, int>;  // who writes, who reads

std::uintptr_t line_of(blink::counter const* at) {
  return reinterpret_cast<std::uintptr_t>(at) / alignof(blink::told_counters);
}

void expect_lines_of_two(blink::wire_tables const& tables) {
  std::map<std::uintptr_t, ends> ends_of_line;
  std::set<blink::counter const*> counters;
  auto const see = [&](blink::counter const* at, ends who) {
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(*at, 0U);
    EXPECT_TRUE(counters.insert(at).second) << "two wires use one counter";
    EXPECT_EQ(ends_of_line.emplace(line_of(at), who).first->second, who);
  };
  for (std::uint32_t number = 0; number < tables.wire_count(); ++number) {
    auto const& wire = tables.wires()[number];
    see(wire.posted, {wire.sender, wire.receiver});
    see(wire.taken, {wire.receiver, wire.sender});
  }
}

// Returns: how many edges have wires both ways.
int expect_shared_lines(blink::wire_tables const& tables) {
  int result = 0;
  auto const& places = tables.places();
  for (std::uint32_t one = 0; one < tables.wire_count(); ++one) {
    for (std::uint32_t other = one + 1; other < tables.wire_count(); ++other) {
      bool const is_same_edge = places[one].tree == places[other].tree &&
                                places[one].is_reduce != places[other].is_reduce &&
                                places[one].child() == places[other].child() &&
                                places[one].from == places[other].to &&
                                places[one].to == places[other].from;
      if (!is_same_edge) continue;
      ++result;
      EXPECT_EQ(line_of(tables.wires()[one].posted), line_of(tables.wires()[other].taken));
      EXPECT_EQ(line_of(tables.wires()[one].taken), line_of(tables.wires()[other].posted));
    }
  }
  return result;
}

TEST(wire_tables, a_line_is_what_one_rank_tells_one_other) {
  int edges_both_ways = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    auto const kind = static_cast<blink::collective>(seed % blink::collective_names.size());
    auto const plan = blink_test::random_schedule(random, 1 + static_cast<int>(seed % 7), kind);
    for (bool const reaches : {false, true}) {
      blink::wire_layout layout;
      layout.reaches = reaches;
      layout.slot_bytes = 64;
      blink::wire_tables const tables(plan, layout);
      expect_lines_of_two(tables);
      edges_both_ways += expect_shared_lines(tables);

      // Processes lay them out in memory that they share: as many bytes as they ask for, no more.
      std::size_t const bytes = blink::wire_tables::shared_bytes(plan, layout);
      blink::memory_block const memory({}, bytes);
      std::fill_n(memory.data(), bytes, std::byte{0});
      layout.ranks_share = memory.data();
      blink::wire_tables const shared(plan, layout);
      expect_lines_of_two(shared);
      for (std::uint32_t wire = 0; wire < shared.wire_count(); ++wire) {
        for (auto const* const at : {shared.wires()[wire].posted, shared.wires()[wire].taken}) {
          auto const* const byte = reinterpret_cast<std::byte const*>(at);
          EXPECT_TRUE(memory.data() <= byte && byte + sizeof(*at) <= memory.data() + bytes);
        }
      }
    }
  }
  EXPECT_GT(edges_both_ways, 100);
}

TEST(wire_tables, have_the_links_of_a_schedule_that_needs_no_wires) {
  for (int const ranks : {1, 3}) {  // a rank alone, and ranks that keep what they have
    blink::schedule plan;
    plan.rank_count = ranks;
    plan.link_bytes_per_second = {1e9, 2e9};
    plan.trees.push_back({.root = 0,
                          .broadcast_parent = std::vector<int>(static_cast<std::size_t>(ranks), -1),
                          .receivers = {0}});
    blink::validate(plan);
    blink::wire_layout layout;
    EXPECT_EQ(blink::wire_tables(plan, layout).wire_count(), 0U);
  }
}

}  // namespace wire_tables_test
