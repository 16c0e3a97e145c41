// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives.hpp>
#include <blink/collectives/all_reduce_sparse.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

// A folder may be compiled as one source.
namespace sparse_test { namespace {

using blink_test::below;

TEST(block_mask, finds_every_block_that_holds_something) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::size_t const count = random() % 2000;
    std::size_t const length = 1 + random() % 300;
    std::vector<float> data(count, 0.0F);
    std::vector<bool> holds(count / length + 1, false);
    for (std::uint64_t k = random() % 6; k > 0 && count > 0; --k) {
      std::size_t const at = random() % count;
      data[at] = random() % 2 == 0 ? -0.0F : 1.0F;
      holds[at / length] = true;
    }
    auto const mask = blink::block_mask::of(data.data(), count, length);
    std::size_t elements = 0;
    std::vector<std::size_t> visited;
    for (std::size_t block = 0; block < mask.block_count(); ++block) {
      ASSERT_EQ(mask.test(block), holds[block]) << block;
      if (!holds[block]) continue;
      visited.push_back(block);
      elements += std::min(length, count - block * length);
    }
    EXPECT_EQ(mask.elements(), elements);
    std::vector<std::size_t> listed;
    mask.for_each([&](std::size_t block) { listed.push_back(block); });
    EXPECT_EQ(listed, visited);
  }
}

template <class Ranks>
class sparse : public testing::Test {};
using rank_owners =
    testing::Types<blink::thread_ranks, blink::basic_thread_ranks<blink::slot_transport>>;
TYPED_TEST_SUITE(sparse, rank_owners);

// log(1 + …): maps zeros to other values, so that no block may be left out.
struct counting_sum {
  struct total {
    int sum, ranks;
  };
  total lift(int value) const { return {value, 1}; }
  total operator()(total const& a, total const& b) const {
    return {a.sum + b.sum, a.ranks + b.ranks};
  }
  int finish(total const& all, int) const { return all.sum * 100 + all.ranks; }
};

TYPED_TEST(sparse, is_what_dense_is) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 5);
    blink::communicator_options options;
    options.slot_bytes = 64 + random() % 900;
    TypeParam threads(ranks, options);
    auto& prepared =
        threads.prepare(blink_test::random_schedule(random, ranks, blink::collective::all_reduce));
    std::size_t const count = random() % 5 == 0 ? random() % 10 : random() % 5000;
    std::size_t const length = 1 + random() % 100;
    std::uint64_t const sparsity = 1 + random() % 40;
    int const way = static_cast<int>(seed % 4);
    std::atomic<int> dense = 0;
    threads.run([&](auto& comm) {
      std::mt19937_64 own(seed * 17 + static_cast<std::uint64_t>(comm.rank()));
      std::vector<int> data(count, 0);
      blink::block_mask mask(count, length);
      for (std::size_t block = 0; block < mask.block_count(); ++block) {
        if (own() % sparsity != 0) continue;
        mask.set(block);  // also some that are zero
        if (own() % 8 == 0) continue;
        for (std::size_t k = 0; k < mask.length(block); ++k) {
          data[mask.begin(block) + k] = static_cast<int>(own() % 7) - 3;
        }
      }
      auto expected = data;
      int const* const in = expected.data();
      blink::sparse_report report;
      if (way == 0) {
        blink::all_reduce(comm, prepared, in, expected.data(), count, counting_sum{});
        report = blink::all_reduce_sparse(comm, prepared, data.data(), mask, counting_sum{});
        EXPECT_TRUE(report.was_dense);
      } else if (way == 1) {
        blink::all_reduce(comm, prepared, in, expected.data(), count, blink::max{});
        report =
            blink::all_reduce_sparse(comm, prepared, data.data(), count, length, blink::max{}, 0.9);
      } else {
        blink::all_reduce(comm, prepared, in, expected.data(), count, blink::sum{});
        if (way == 2) {
          report = blink::all_reduce_sparse(comm, prepared, data.data(), mask, blink::sum{});
        } else {
          blink::call_queue queue(
              comm, own() % 2 == 0 ? blink::progress::in_waits : blink::progress::thread);
          auto call = queue.make_all_reduce_sparse(prepared, data.data(), mask, blink::sum{},
                                                   blink::default_pays_below, &report);
          queue.start(call).wait();
          EXPECT_EQ(report.elements, report.was_dense ? count : mask.elements());
        }
        for (std::size_t block = 0; block < mask.block_count(); ++block) {
          auto const* const first = data.data() + mask.begin(block);
          bool const is_zero =
              std::all_of(first, first + mask.length(block), [](int v) { return v == 0; });
          EXPECT_TRUE(is_zero || mask.test(block)) << block;
        }
      }
      EXPECT_EQ(data, expected);
      EXPECT_LE(report.elements, count);
      dense += report.was_dense ? 1 : 0;
    });
    EXPECT_TRUE(dense == 0 || dense == ranks);
  }
}

TYPED_TEST(sparse, takes_a_schedule_that_is_not_prepared) {
  TypeParam threads(3);
  threads.run([&](auto& comm) {
    auto const star = blink::star_schedule(3);
    std::vector<int> data(64, 0);
    data[static_cast<std::size_t>(comm.rank()) * 20] = 7;
    auto const report = blink::all_reduce_sparse(comm, star, data.data(), 64, 4, blink::sum{}, 1.0);
    EXPECT_EQ(report.elements, 12U);
    auto mask = blink::block_mask::of(data.data(), 64, 4);
    blink::all_reduce_sparse(comm, blink::star_schedule(3), data.data(), mask, blink::sum{});
    for (std::size_t k = 0; k < 64; ++k) EXPECT_EQ(data[k], k % 20 == 0 && k < 60 ? 21 : 0) << k;
  });
}

TYPED_TEST(sparse, mistakes_are_reported) {
  TypeParam threads(2);
  auto& prepared = threads.prepare(blink::star_schedule(2));
  threads.run([&](auto& comm) {
    std::vector<float> data(64, 0.0F);
    float* const nothing = nullptr;
    EXPECT_THROW(blink::all_reduce_sparse(comm, prepared, nothing, 64, 8, blink::sum{}),
                 blink::precondition_error);
    EXPECT_THROW(blink::all_reduce_sparse(comm, prepared, data.data(), 64, 0, blink::sum{}),
                 blink::precondition_error);
    // Equal numbers of words, different lengths: all ranks report it, and the next call works.
    std::size_t const count = comm.rank() == 0 ? 64 : 63;
    EXPECT_ERROR(blink::all_reduce_sparse(comm, prepared, data.data(), count, 8, blink::sum{}),
                 "rank 1 has 63 elements in blocks of 8, rank 0 has 64 elements in blocks of 8");
    data[10] = 1;
    (void)blink::all_reduce_sparse(comm, prepared, data.data(), 64, 8, blink::sum{});
    EXPECT_EQ(data[10], 2);
  });
}

}}  // namespace sparse_test
