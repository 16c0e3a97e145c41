// SPDX-License-Identifier: Apache-2.0
// All-gather and reduce-scatter with a block of any size for each rank, along schedules with
// unequal shares. Random cases against serial loops, and refused ones.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/prepared_tuning.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/running/walk/team_group.hpp>
#include <blink/schedule/tuning_file.hpp>
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

// A folder may be compiled as one source.
namespace unequal_shares_test { namespace {

using blink::collective;
using blink::order_promise;
using blink_test::error_of;
using blink_test::run_unequal;
using blink_test::unequal_case;

template <class Chunks, class Ranks>
std::string run_types(Ranks& threads, blink::schedule const& source, unequal_case const& what,
                      std::uint64_t type) {
  switch (type % 5) {
    case 0:
      return run_unequal<float, Chunks>(threads, source, what, blink::sum{});
    case 1:
      return run_unequal<std::int32_t, Chunks>(threads, source, what, blink::avg{});
    case 2:
      return run_unequal<std::uint8_t, Chunks>(
          threads, source, what, blink::with_order<order_promise::any>(blink::bit_xor{}));
    case 3:  // partial results are larger than elements
      return run_unequal<std::uint8_t, Chunks>(threads, source, what,
                                               blink::accumulate_in<std::uint32_t>(blink::sum{}));
    default:
      return run_unequal<blink_test::triple, Chunks>(
          threads, source, what,
          blink::with_order<order_promise::shape>(blink_test::triple_reducer{}));
  }
}

template <class Ranks>
void run_random_cases(std::uint64_t first_seed, std::uint64_t rank_owners, int most_ranks,
                      std::uint32_t team_size = 1) {
  for (std::uint64_t seed = first_seed; seed < first_seed + rank_owners; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + blink_test::below(random, most_ranks);
    blink::communicator_options options;
    options.window = 1 + static_cast<std::uint32_t>(random() % 4);
    options.slot_bytes = 16 + random() % 1000;
    options.streaming_bytes = random() % 4 == 0 ? 0 : options.streaming_bytes;
    options.measured_bytes = random() % 2 == 0 ? 0 : options.measured_bytes;
    options.team_size = team_size;
    Ranks threads(ranks, options);
    for (int call = 0; call < 3; ++call) {
      auto const [source, what] = blink_test::random_unequal_case(random, ranks, 700);
      SCOPED_TRACE(std::string(to_text(what.kind)) + (what.is_in_place ? ", in place" : ""));
      ASSERT_EQ(random() % 2 == 0
                    ? run_types<blink::scheduled_chunks>(threads, source, what, random())
                    : run_types<blink::fixed_chunks<37>>(threads, source, what, random()),
                "");
    }
  }
}

TEST(unequal_shares, threads_reach_each_others_buffers) {
  run_random_cases<blink::thread_ranks>(1, 60, 7);
}
TEST(unequal_shares, slots) {
  run_random_cases<blink::basic_thread_ranks<blink::slot_transport>>(1000, 50, 7);
}
TEST(unequal_shares, shaped_without_rates) {
  run_random_cases<blink::shaped_thread_ranks>(2000, 20, 5);
}
TEST(unequal_shares, teams_of_three) {
  run_random_cases<blink::basic_thread_ranks<blink::slot_transport, blink::team_group>>(3000, 12, 4,
                                                                                        3);
}

// Operands in the order of the ranks, with blocks of any sizes.
TEST(unequal_shares, reducers_that_are_not_commutative) {
  auto source = blink::star_schedule(4);
  source.shares = {3, 0, 1, 2};
  ASSERT_TRUE(blink::reduces_in_order(source));
  blink::thread_ranks threads(4);
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    unequal_case const what{collective::reduce_scatter, blink_test::random_blocks(random, 4),
                            seed % 2 == 0, 0, seed};
    EXPECT_EQ(run_unequal<blink_test::affine>(threads, source, what, blink_test::compose{}), "");
  }
}

TEST(unequal_shares, blocks_are_cut_in_proportion) {
  using blocks = std::vector<blink::block>;
  EXPECT_EQ(blink::proportional_blocks(60, {3, 1, 2}), (blocks{{0, 30}, {30, 10}, {40, 20}}));
  EXPECT_EQ(blink::proportional_blocks(7, {1, 0, 1}), (blocks{{0, 3}, {3, 0}, {3, 4}}));
  EXPECT_EQ(blink::proportional_blocks(0, {1, 2}), (blocks{{0, 0}, {0, 0}}));
  auto const large = blink::proportional_blocks(SIZE_MAX / 8, {INT64_MAX - 1, 1});
  EXPECT_EQ(large[0].count + large[1].count, SIZE_MAX / 8);
  EXPECT_ERROR((void)blink::proportional_blocks(7, {0, 0}), "all shares are 0");
  EXPECT_ERROR((void)blink::proportional_blocks(7, {INT64_MAX, 1}), "sum to 2^63 or more");
}

TEST(unequal_shares, schedules_with_bad_shares_are_refused) {
  auto source = blink::star_schedule(3);
  auto const refusal = [&](std::vector<std::uint64_t> shares) {
    source.shares = std::move(shares);
    return error_of([&] { validate(source); });
  };
  EXPECT_EQ(refusal({1, 0, 2}), "no error");
  EXPECT_SAYS(refusal({1, 2}), "2 shares, expected none or one for each of 3 ranks");
  EXPECT_SAYS(refusal({0, 0, 0}), "all shares are 0");
  EXPECT_SAYS(refusal({INT64_MAX, 1, 0}), "the shares sum to 2^63 or more");
  source = blink::one_shot_schedule(3);
  EXPECT_SAYS(refusal({1, 1, 2}), "one-shot");
  // A rank with a share roots a tree; a rank without need not.
  source = blink::star_schedule(3);
  std::erase_if(source.trees, [](auto const& tree) { return tree.root == 1; });
  auto const carried = [&](std::vector<std::uint64_t> shares) {
    source.shares = std::move(shares);
    return error_of([&] { validate_for(source, collective::all_gather); });
  };
  EXPECT_EQ(carried({1, 0, 2}), "no error");
  EXPECT_SAYS(carried({1, 1, 2}), "rank 1 roots no tree with a weight");
  EXPECT_SAYS(carried({}), "rank 1 roots no tree with a weight");
}

// Each rank detects it before it enters the call; the next call works.
TEST(unequal_shares, who_roots_no_tree_has_no_elements) {
  auto source = blink::star_schedule(3);
  std::erase_if(source.trees, [](auto const& tree) { return tree.root == 1; });
  source.shares = {1, 0, 1};
  blink::thread_ranks threads(3);
  auto& prepared = threads.prepare(source);
  threads.run([&](auto& comm) {
    std::vector<int> const in(9, comm.rank() + 1);
    std::vector<int> out(9, 0);
    EXPECT_ERROR(blink::all_gather(comm, prepared, in.data(), out.data(), 3),
                 "the block of rank 1 has elements, expected none: its share is 0");
    EXPECT_ERROR(blink::reduce_scatter(comm, prepared, in.data(), out.data(), 3, blink::sum{}),
                 "the block of rank 1 has elements");
    EXPECT_ERROR(blink::all_gather_v(comm, prepared, in.data(), out.data(),
                                     blink::consecutive_blocks({2, 1, 2})),
                 "the block of rank 1 has elements");
    blink::all_gather(comm, prepared, in.data(), out.data(), 0);
    blink::reduce_scatter_v(comm, prepared, in.data(), out.data(),
                            blink::consecutive_blocks({4, 0, 5}), blink::sum{});
    EXPECT_EQ(out[0], comm.rank() == 1 ? 0 : 6);
  });
}

TEST(unequal_shares, other_sizes_and_other_shares_are_reported_by_all) {
  auto const reported = [](auto const& call) {
    blink::communicator_options options;
    options.waits.deadline = std::chrono::seconds(20);
    blink::basic_thread_ranks<blink::slot_transport> threads(2, options);
    std::mutex mutex;
    std::string all;
    EXPECT_THROW(threads.run([&](auto& comm) {
      std::vector<int> const in(20, 1);
      std::vector<int> out(20);
      try {
        call(comm, in.data(), out.data());
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
  auto const counts = reported([&](auto& comm, int const* in, int* out) {
    blink::reduce_scatter_v(comm, star, in, out,
                            blink::consecutive_blocks({4, comm.rank() == 0 ? 5U : 6U}),
                            blink::sum{});
  });
  EXPECT_SAYS(counts, "elements of all blocks");
  EXPECT_SAYS(counts, "rank 0");
  EXPECT_SAYS(counts, "rank 1");
  auto const sizes = reported([&](auto& comm, int const* in, int* out) {
    blink::all_gather_v(
        comm, star, in, out,
        comm.rank() == 0 ? blink::consecutive_blocks({4, 5}) : blink::consecutive_blocks({5, 4}));
  });
  EXPECT_SAYS(sizes, "other sizes of blocks");
  auto const shares = reported([&](auto& comm, int const* in, int* out) {
    auto source = star;
    source.shares = {1, comm.rank() == 0 ? 2U : 3U};
    blink::all_gather_v(comm, source, in, out, blink::consecutive_blocks({4, 5}));
  });
  EXPECT_SAYS(shares, "another schedule");
}

// The size of the whole buffer selects the algorithm.
TEST(unequal_shares, tables_and_their_file) {
  auto shared = blink::star_schedule(3);
  shared.shares = {5, 0, 1};
  blink::tuning_table table;
  table.collective = collective::all_gather;
  table.algorithms = {{"star", blink::star_schedule(3)}, {"shares", shared}};
  table.ranges = {{0, 0, 0}, {40, 1, 8}};
  auto const read = blink::read_tuning(blink::write_tuning({table}), "text");
  ASSERT_EQ(read.size(), 1u);
  EXPECT_EQ(read[0].algorithms[1].source, shared);

  blink::thread_ranks threads(3);
  threads.run([&](auto& comm) {
    blink::prepared_tuning const algorithms(comm, read);
    for (auto const& counts : {std::vector<std::size_t>{3, 1, 2}, {9, 3, 1}}) {
      auto const blocks = blink::consecutive_blocks(counts);
      std::vector<int> const in(counts[static_cast<std::size_t>(comm.rank())], comm.rank() + 1);
      std::vector<int> out(13, 0);
      blink::all_gather_v(comm, algorithms, in.data(), out.data(), blocks);
      for (std::size_t rank = 0; rank < 3; ++rank) {
        for (std::size_t k = 0; k < counts[rank]; ++k) {
          EXPECT_EQ(out[blocks[rank].begin + k], static_cast<int>(rank) + 1);
        }
      }
    }
  });
  auto const carried = [&](blink::schedule const& source) {
    std::uint64_t bytes = 0;
    for (auto const& edge : threads.prepare(source).edges()) bytes += edge.bytes;
    return bytes;
  };
  EXPECT_EQ(carried(table.algorithms[0].source), 2 * 6 * sizeof(int));
  EXPECT_EQ(carried(shared), 2 * 13 * sizeof(int));
}

}}  // namespace unequal_shares_test
