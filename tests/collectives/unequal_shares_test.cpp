// SPDX-License-Identifier: Apache-2.0
// All-gather and reduce-scatter with a block of any size for each rank, along schedules whose ranks root unequal
// shares: random, against serial loops; and what is refused.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/prepared_methods.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/running/walk/team_group.hpp>
#include <blink/schedule/method_file.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/collective_case.hpp"
#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include "support/unequal_case.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <mutex>
#include <random>
#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace unequal_shares_test { namespace {

using blink::collective;
using blink::order_promise;
using blink_test::error_of;
using blink_test::run_unequal;
using blink_test::unequal_case;

template <class Chunks, class World>
std::string run_types(World& world, blink::schedule const& plan, unequal_case const& what,
                      std::uint64_t type) {
  switch (type % 5) {
    case 0:
      return run_unequal<float, Chunks>(world, plan, what, blink::sum{});
    case 1:
      return run_unequal<std::int32_t, Chunks>(world, plan, what, blink::avg{});
    case 2:
      return run_unequal<std::uint8_t, Chunks>(
          world, plan, what, blink::with_order<order_promise::any>(blink::bit_xor{}));
    case 3:  // partial results are larger than elements
      return run_unequal<std::uint8_t, Chunks>(world, plan, what,
                                               blink::accumulate_in<std::uint32_t>(blink::sum{}));
    default:
      return run_unequal<blink_test::triple, Chunks>(
          world, plan, what, blink::with_order<order_promise::shape>(blink_test::triple_reducer{}));
  }
}

template <class World>
void run_random_cases(std::uint64_t first_seed, std::uint64_t worlds, int most_ranks,
                      std::uint32_t team_size = 1) {
  for (std::uint64_t seed = first_seed; seed < first_seed + worlds; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + blink_test::below(random, most_ranks);
    blink::world_options options;
    options.window = 1 + static_cast<std::uint32_t>(random() % 4);
    options.slot_bytes = 16 + random() % 1000;
    options.streaming_bytes = random() % 4 == 0 ? 0 : options.streaming_bytes;
    options.measured_bytes = random() % 2 == 0 ? 0 : options.measured_bytes;
    options.team_size = team_size;
    World world(ranks, options);
    for (int call = 0; call < 3; ++call) {
      auto const [plan, what] = blink_test::random_unequal_case(random, ranks, 700);
      SCOPED_TRACE(std::string(to_text(what.kind)) + (what.is_in_place ? ", in place" : ""));
      ASSERT_EQ(random() % 2 == 0 ? run_types<blink::scheduled_chunks>(world, plan, what, random())
                                  : run_types<blink::fixed_chunks<37>>(world, plan, what, random()),
                "");
    }
  }
}

TEST(unequal_shares, threads_reach_each_others_buffers) {
  run_random_cases<blink::thread_world>(1, 60, 7);
}
TEST(unequal_shares, slots) {
  run_random_cases<blink::basic_world<blink::slot_link>>(1000, 50, 7);
}
TEST(unequal_shares, shaped_without_rates) {
  run_random_cases<blink::shaped_world>(2000, 20, 5);
}
TEST(unequal_shares, teams_of_three) {
  run_random_cases<blink::basic_world<blink::slot_link, blink::team_group>>(3000, 12, 4, 3);
}

// Operands in the order of the ranks, whatever the sizes of blocks.
TEST(unequal_shares, reducers_that_are_not_commutative) {
  auto plan = blink::star_schedule(4);
  plan.shares = {3, 0, 1, 2};
  ASSERT_TRUE(blink::reduces_in_order(plan));
  blink::thread_world world(4);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    unequal_case const what{collective::reduce_scatter, blink_test::random_blocks(random, 4),
                            seed % 2 == 0, 0, seed};
    EXPECT_EQ(run_unequal<blink_test::affine>(world, plan, what, blink_test::compose{}), "");
  }
}

TEST(unequal_shares, blocks_are_cut_in_proportion) {
  using blocks = std::vector<blink::block>;
  EXPECT_EQ(blink::proportional_blocks(60, {3, 1, 2}), (blocks{{0, 30}, {30, 10}, {40, 20}}));
  EXPECT_EQ(blink::proportional_blocks(7, {1, 0, 1}), (blocks{{0, 3}, {3, 0}, {3, 4}}));
  EXPECT_EQ(blink::proportional_blocks(0, {1, 2}), (blocks{{0, 0}, {0, 0}}));
  auto const large = blink::proportional_blocks(SIZE_MAX / 8, {INT64_MAX - 1, 1});
  EXPECT_EQ(large[0].count + large[1].count, SIZE_MAX / 8);
  EXPECT_ERROR((void)blink::proportional_blocks(7, {0, 0}), "a share that is not 0");
  EXPECT_ERROR((void)blink::proportional_blocks(7, {INT64_MAX, 1}), "less than 2^63");
}

TEST(unequal_shares, schedules_with_bad_shares_are_refused) {
  auto plan = blink::star_schedule(3);
  auto const refusal = [&](std::vector<std::uint64_t> shares) {
    plan.shares = std::move(shares);
    return error_of([&] { validate(plan); });
  };
  EXPECT_EQ(refusal({1, 0, 2}), "no error");
  EXPECT_SAYS(refusal({1, 2}), "2 shares, expected none or one for each of 3 ranks");
  EXPECT_SAYS(refusal({0, 0, 0}), "all shares are 0");
  EXPECT_SAYS(refusal({INT64_MAX, 1, 0}), "the shares sum to 2^63 or more");
  plan = blink::one_shot_schedule(3);
  EXPECT_SAYS(refusal({1, 1, 2}), "one-shot");
  // Who has a share roots a tree; who has none need not.
  plan = blink::star_schedule(3);
  std::erase_if(plan.trees, [](auto const& tree) { return tree.root == 1; });
  auto const carried = [&](std::vector<std::uint64_t> shares) {
    plan.shares = std::move(shares);
    return error_of([&] { validate_for(plan, collective::all_gather); });
  };
  EXPECT_EQ(carried({1, 0, 2}), "no error");
  EXPECT_SAYS(carried({1, 1, 2}), "rank 1 roots no tree with a weight");
  EXPECT_SAYS(carried({}), "rank 1 roots no tree with a weight");
}

// Known to each rank before anybody enters the call; the next one works.
TEST(unequal_shares, who_roots_no_tree_has_no_elements) {
  auto plan = blink::star_schedule(3);
  std::erase_if(plan.trees, [](auto const& tree) { return tree.root == 1; });
  plan.shares = {1, 0, 1};
  blink::thread_world world(3);
  auto& prepared = world.prepare(plan);
  world.run([&](auto& me) {
    std::vector<int> const in(9, me.rank() + 1);
    std::vector<int> out(9, 0);
    EXPECT_ERROR(blink::all_gather(me, prepared, in.data(), out.data(), 3),
                 "the block of rank 1 has elements, expected none: its share is 0");
    EXPECT_ERROR(blink::reduce_scatter(me, prepared, in.data(), out.data(), 3, blink::sum{}),
                 "the block of rank 1 has elements");
    EXPECT_ERROR(blink::all_gather_v(me, prepared, in.data(), out.data(),
                                     blink::consecutive_blocks({2, 1, 2})),
                 "the block of rank 1 has elements");
    blink::all_gather(me, prepared, in.data(), out.data(), 0);
    blink::reduce_scatter_v(me, prepared, in.data(), out.data(),
                            blink::consecutive_blocks({4, 0, 5}), blink::sum{});
    EXPECT_EQ(out[0], me.rank() == 1 ? 0 : 6);
  });
}

TEST(unequal_shares, other_sizes_and_other_shares_are_told_by_all) {
  auto const told = [](auto const& call) {
    blink::world_options options;
    options.waits.deadline = std::chrono::seconds(20);
    blink::basic_world<blink::slot_link> world(2, options);
    std::mutex mutex;
    std::string all;
    EXPECT_THROW(world.run([&](auto& me) {
      std::vector<int> const in(20, 1);
      std::vector<int> out(20);
      try {
        call(me, in.data(), out.data());
      } catch (blink::collective_error const& error) {
        std::lock_guard const lock(mutex);
        all += std::string(error.what()) + "\n";
        throw;
      }
    }),
                 blink::collective_error);
    return all;
  };
  auto const star = blink::star_schedule(2);
  auto const counts = told([&](auto& me, int const* in, int* out) {
    blink::reduce_scatter_v(me, star, in, out,
                            blink::consecutive_blocks({4, me.rank() == 0 ? 5U : 6U}), blink::sum{});
  });
  EXPECT_SAYS(counts, "elements of all blocks");
  EXPECT_SAYS(counts, "rank 0");
  EXPECT_SAYS(counts, "rank 1");
  auto const sizes = told([&](auto& me, int const* in, int* out) {
    blink::all_gather_v(
        me, star, in, out,
        me.rank() == 0 ? blink::consecutive_blocks({4, 5}) : blink::consecutive_blocks({5, 4}));
  });
  EXPECT_SAYS(sizes, "other sizes of blocks");
  auto const shares = told([&](auto& me, int const* in, int* out) {
    auto plan = star;
    plan.shares = {1, me.rank() == 0 ? 2U : 3U};
    blink::all_gather_v(me, plan, in, out, blink::consecutive_blocks({4, 5}));
  });
  EXPECT_SAYS(shares, "another schedule");
}

// Sizes of the whole buffer say which method is taken.
TEST(unequal_shares, methods_and_their_file) {
  auto shared = blink::star_schedule(3);
  shared.shares = {5, 0, 1};
  blink::method_table table;
  table.collective = collective::all_gather;
  table.methods = {{"star", blink::star_schedule(3)}, {"shares", shared}};
  table.ranges = {{0, 0, 0}, {40, 1, 8}};
  auto const read = blink::read_methods(blink::write_methods({table}), "text");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].methods[1].plan, shared);

  blink::thread_world world(3);
  world.run([&](auto& me) {
    blink::prepared_methods const methods(me, read);
    for (auto const& counts : {std::vector<std::size_t>{3, 1, 2}, {9, 3, 1}}) {
      auto const blocks = blink::consecutive_blocks(counts);
      std::vector<int> const in(counts[static_cast<std::size_t>(me.rank())], me.rank() + 1);
      std::vector<int> out(13, 0);
      blink::all_gather_v(me, methods, in.data(), out.data(), blocks);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        for (std::size_t k = 0; k < counts[rank]; ++k) {
          EXPECT_EQ(out[blocks[rank].begin + k], static_cast<int>(rank) + 1);
        }
      }
    }
  });
  auto const carried = [&](blink::schedule const& plan) {
    std::uint64_t bytes = 0;
    for (auto const& edge : world.prepare(plan).edges()) bytes += edge.bytes;
    return bytes;
  };
  EXPECT_EQ(carried(table.methods[0].plan), 2 * 6 * sizeof(int));
  EXPECT_EQ(carried(shared), 2 * 13 * sizeof(int));
}

}}  // namespace unequal_shares_test
