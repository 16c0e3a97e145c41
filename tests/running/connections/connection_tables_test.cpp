// SPDX-License-Identifier: Apache-2.0
// The placement of the counters of connections: a cache line holds counters from one rank to one
// peer.

#include <blink/core/collective.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/schedule/default_schedules.hpp>

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

namespace connection_tables_test {

using ends = std::pair<int, int>;  // writer, reader

std::uintptr_t line_of(blink::counter const* at) {
  return reinterpret_cast<std::uintptr_t>(at) / alignof(blink::reported_counters);
}

void expect_lines_of_two(blink::connection_tables const& tables) {
  std::map<std::uintptr_t, ends> ends_of_line;
  std::set<blink::counter const*> counters;
  auto const see = [&](blink::counter const* at, ends who) {
    ASSERT_NE(at, nullptr);
    EXPECT_EQ(*at, 0U);
    EXPECT_TRUE(counters.insert(at).second) << "two connections use one counter";
    EXPECT_EQ(ends_of_line.emplace(line_of(at), who).first->second, who);
  };
  for (std::uint32_t number = 0; number < tables.connection_count(); ++number) {
    auto const& connection = tables.connections()[number];
    see(connection.posted, {connection.sender, connection.receiver});
    see(connection.consumed, {connection.receiver, connection.sender});
  }
}

// Returns: the number of edges with connections in both directions
int expect_shared_lines(blink::connection_tables const& tables) {
  int result = 0;
  auto const& places = tables.places();
  for (std::uint32_t one = 0; one < tables.connection_count(); ++one) {
    for (std::uint32_t other = one + 1; other < tables.connection_count(); ++other) {
      bool const is_same_edge = places[one].tree == places[other].tree &&
                                places[one].is_reduce != places[other].is_reduce &&
                                places[one].child() == places[other].child() &&
                                places[one].from == places[other].to &&
                                places[one].to == places[other].from;
      if (!is_same_edge) continue;
      ++result;
      EXPECT_EQ(line_of(tables.connections()[one].posted),
                line_of(tables.connections()[other].consumed));
      EXPECT_EQ(line_of(tables.connections()[one].consumed),
                line_of(tables.connections()[other].posted));
    }
  }
  return result;
}

TEST(connection_tables, a_line_is_what_one_rank_reports_one_other) {
  int edges_both_ways = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    auto const kind = static_cast<blink::collective>(seed % blink::collective_names.size());
    auto const source = blink_test::random_schedule(random, 1 + static_cast<int>(seed % 7), kind);
    for (bool const reaches : {false, true}) {
      blink::connection_layout layout;
      layout.reaches = reaches;
      layout.slot_bytes = 64;
      blink::connection_tables const tables(source, layout);
      expect_lines_of_two(tables);
      edges_both_ways += expect_shared_lines(tables);

      // Processes place them in shared memory: they use exactly the bytes that they ask for.
      std::size_t const bytes = blink::connection_tables::shared_bytes(source, layout);
      blink::memory_block const memory({}, bytes);
      std::fill_n(memory.data(), bytes, std::byte{0});
      layout.ranks_share = memory.data();
      blink::connection_tables const shared(source, layout);
      expect_lines_of_two(shared);
      for (std::uint32_t connection = 0; connection < shared.connection_count(); ++connection) {
        for (auto const* const at :
             {shared.connections()[connection].posted, shared.connections()[connection].consumed}) {
          auto const* const byte = reinterpret_cast<std::byte const*>(at);
          EXPECT_TRUE(memory.data() <= byte && byte + sizeof(*at) <= memory.data() + bytes);
        }
      }
    }
  }
  EXPECT_GT(edges_both_ways, 100);
}

// A rank sends the same messages to all its children away from the root: one set of slots for those
// that share memory with it, and other slots for each other child.
TEST(connection_tables, children_share_the_slots_of_their_parent) {
  constexpr int ranks = 5;
  auto const source = blink::star_schedule(ranks);
  int const of_host[ranks] = {0, 1, 2, -1, 3};  // rank 3 is on another host
  for (bool const has_hosts : {false, true}) {
    blink::connection_layout layout;
    layout.shares_memory = true;
    layout.slot_bytes = 1024;
    if (has_hosts) {
      layout.sharing_ranks = of_host;
      layout.only_rank = 1;
    }
    std::vector<std::byte> memory(blink::connection_tables::shared_bytes(source, layout) + 128);
    auto const begin = reinterpret_cast<std::uintptr_t>(memory.data());
    if (has_hosts) layout.ranks_share = memory.data() + (128 - begin % 128) % 128;
    blink::connection_tables const tables(source, layout);
    std::map<std::byte const*, std::vector<blink::connection_place>> users;
    for (std::uint32_t number = 0; number < tables.connection_count(); ++number) {
      auto const* const slots = tables.connections()[number].slots;
      if (slots != nullptr) users[slots].push_back(tables.places()[number]);
    }
    for (auto const& [slots, places] : users) {
      auto const& first = places.front();
      std::size_t const expected = first.is_reduce ? 1 : !has_hosts ? ranks - 1 : ranks - 2;
      bool const is_of_hosts = has_hosts && (first.from == 3 || first.to == 3);
      EXPECT_EQ(places.size(), is_of_hosts ? 1 : expected);
      for (auto const& place : places) {
        EXPECT_TRUE(place.tree == first.tree && place.from == first.from &&
                    place.is_reduce == first.is_reduce);
      }
    }
    int const rank = 1;
    auto const tasks = tables.tasks(rank, blink::collective::all_gather);
    for (std::size_t k = 0; k < tasks.count; ++k) {
      auto const& here = tasks.first[k];
      int written = 0;
      for (std::uint32_t out = 0; out < here.out_count; ++out) {
        written += here.out[out].repeats_slots ? 0 : 1;
      }
      EXPECT_EQ(written, !here.is_root ? 0 : has_hosts ? 2 : 1);
    }
  }
}

TEST(connection_tables, a_rank_alone_on_its_host_has_slots_for_each_child) {
  auto const source = blink::star_schedule(3);
  blink::connection_layout layout;
  layout.shares_memory = true;  // other ranks do
  layout.only_rank = 1;
  blink::connection_tables const tables(source, layout);
  auto const [first, count] = tables.ends(1);
  for (std::size_t k = 0; k < count; ++k) EXPECT_FALSE(first[k].repeats_slots);
}

TEST(connection_tables, have_the_links_of_a_schedule_that_needs_no_connections) {
  for (int const ranks : {1, 3}) {  // a single rank, and ranks that keep their data
    blink::schedule source;
    source.rank_count = ranks;
    source.link_bytes_per_second = {1e9, 2e9};
    source.trees.push_back(
        {.root = 0,
         .broadcast_parent = std::vector<int>(static_cast<std::size_t>(ranks), -1),
         .receivers = {0}});
    blink::validate(source);
    blink::connection_layout layout;
    EXPECT_EQ(blink::connection_tables(source, layout).connection_count(), 0U);
  }
}

}  // namespace connection_tables_test
