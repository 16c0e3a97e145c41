// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives.hpp>
#include <blink/transports/split.hpp>

#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <stdexcept>
#include <vector>

namespace {

using blink_test::below;

TEST(split, parts_are_numbered_by_key_and_run_side_by_side) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 6);
    std::vector<int> colours, keys;
    for (int rank = 0; rank < ranks; ++rank) {
      colours.push_back(below(random, 4) - 1);
      keys.push_back(below(random, 3) - 1);
    }
    blink::thread_world world(ranks);
    world.run([&](auto& me) {
      auto const own = static_cast<std::size_t>(me.rank());
      auto part = blink::split(me, colours[own], keys[own]);
      ASSERT_EQ(part.has_value(), colours[own] >= 0);
      if (!part) return;
      std::vector<int> members;
      for (int key = -1; key < 2; ++key) {
        for (std::size_t rank = 0; rank < colours.size(); ++rank) {
          if (colours[rank] == colours[own] && keys[rank] == key) {
            members.push_back(static_cast<int>(rank));
          }
        }
      }
      EXPECT_EQ(part->parent_ranks(), members);
      EXPECT_EQ(part->rank_count(), static_cast<int>(members.size()));
      EXPECT_EQ(members[static_cast<std::size_t>(part->rank())], me.rank());
      int total = 0;
      for (int const member : members) total += member + 1;
      for (int round = 0; round < 5; ++round) {
        int const mine = me.rank() + 1;
        int sum = 0;
        blink::all_reduce(*part, blink::star_schedule(part->rank_count()), &mine, &sum, 1,
                          blink::sum{});
        EXPECT_EQ(sum, total);
      }
      // A part of the part.
      auto half = blink::split(*part, part->rank() % 2, -part->rank());
      ASSERT_TRUE(half.has_value());
      int const mine = part->rank();
      int first = -1;
      blink::broadcast(*half, blink::flat_schedule(half->rank_count(), 0), &mine, &first, 1);
      int const last = part->rank_count() - 1;
      EXPECT_EQ(first, last - (last - part->rank()) % 2);
    });
  }
}

TEST(split, who_leaves_a_part_is_missed_there) {
  blink::world_options options;
  options.waits.deadline = std::chrono::seconds(20);  // nobody waits for it
  blink::thread_world world(4, options);
  auto const start = std::chrono::steady_clock::now();
  EXPECT_THROW(world.run([&](auto& me) {
    auto part = blink::split(me, me.rank() / 2, 0);
    if (me.rank() == 3) throw std::runtime_error("no coffee");
    int const mine = 1;
    int sum = 0;
    if (me.rank() == 2) {
      EXPECT_THROW(blink::all_reduce(*part, blink::star_schedule(2), &mine, &sum, 1, blink::sum{}),
                   blink::collective_error);
    } else {
      blink::all_reduce(*part, blink::star_schedule(2), &mine, &sum, 1, blink::sum{});
      EXPECT_EQ(sum, 2);
    }
  }),
               std::runtime_error);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15));
}

}  // namespace
