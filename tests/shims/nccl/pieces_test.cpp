// SPDX-License-Identifier: Apache-2.0
// Sends and receives: grouped in any order, between some ranks only, to the rank itself, and
// invalid ones.

#include "program.hpp"

#include <cstddef>
#include <cstdlib>
#include <memory>
#include <random>
#include <vector>

// The sources of a folder may be compiled as one.
namespace pieces_test { namespace {

using namespace blink_test;

/// A piece for each pair with data: sender, receiver, number of elements.
struct piece {
  std::size_t from, to, count;
};

void random_pieces(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::size_t const ranks = 1 + random() % 4;
  std::vector<int> on;
  for (std::size_t rank = 0; rank < ranks; ++rank) on.push_back(static_cast<int>(random() % 4));
  program const all(on);
  for (int round = 0; round < 3; ++round) {
    std::vector<piece> pieces;
    std::vector<std::unique_ptr<elements<int>>> in, out;
    std::size_t const many = random() % 9;
    for (std::size_t k = 0; k < many; ++k) {
      pieces.push_back({random() % ranks, random() % ranks, random() % 40});
      auto const& one = pieces.back();
      in.push_back(std::make_unique<elements<int>>(on[one.from], one.count));
      out.push_back(std::make_unique<elements<int>>(on[one.to], one.count, -1));
      for (std::size_t i = 0; i < one.count; ++i) (*in[k])[i] = static_cast<int>(k * 1000 + i);
    }
    auto const own_calls = [&](std::size_t rank) {
      for (std::size_t k = 0; k < many; ++k) {
        auto const& one = pieces[k];
        auto* const comm = all.comm[rank];
        auto const stream = program::stream(rank);
        if (one.to == rank) {
          EXPECT_EQ(ncclRecv(out[k]->data(), one.count, data_type::int32,
                             static_cast<int>(one.from), comm, stream),
                    result::success);
        }
        if (one.from == rank) {
          EXPECT_EQ(ncclSend(in[k]->data(), one.count, data_type::int32, static_cast<int>(one.to),
                             comm, stream),
                    result::success);
        }
      }
      return result::success;
    };
    if (random() % 2 == 0) {
      EXPECT_EQ(all.by_one_thread(own_calls), result::success) << ncclGetLastError(nullptr);
    } else {
      auto const results = all.by_threads([&](std::size_t rank) {
        EXPECT_EQ(ncclGroupStart(), result::success);
        EXPECT_EQ(ncclGroupStart(), result::success);  // nested
        (void)own_calls(rank);
        EXPECT_EQ(ncclGroupEnd(), result::success);
        return ncclGroupEnd();
      });
      EXPECT_EQ(results, std::vector<result>(ranks, result::success));
    }
    all.synchronize();
    for (std::size_t k = 0; k < many; ++k) {
      for (std::size_t i = 0; i < pieces[k].count; ++i) ASSERT_EQ((*out[k])[i], (*in[k])[i]);
    }
  }
}

TEST(nccl_pieces, random_groups) {
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    SCOPED_TRACE(seed);
    random_pieces(seed);
  }
}

TEST(nccl_pieces, without_groups_and_beside_a_rank_that_has_none) {
  program const all({0, 1, 2});
  elements<float> const a(0, 3, 1.5F), b(1, 3);
  auto const results = all.by_threads([&](std::size_t rank) {
    if (rank == 0) {
      return ncclSend(a.data(), 3, data_type::float32, 1, all.comm[0], program::stream(0));
    }
    if (rank == 1) {
      return ncclRecv(b.data(), 3, data_type::float32, 0, all.comm[1], program::stream(1));
    }
    return result::success;
  });
  EXPECT_EQ(results, std::vector<result>(3, result::success));
  all.synchronize();
  EXPECT_EQ(b[2], 1.5F);
}

TEST(nccl_pieces, a_call_of_all_beside_pieces) {
  program const all({0, 1});
  elements<float> const a(0, 2, 1.0F), b(1, 2, 2.0F);
  EXPECT_EQ(all.by_one_thread([&](std::size_t rank) {
    auto const& mine = rank == 0 ? a : b;
    auto const stream = program::stream(rank);
    EXPECT_EQ(ncclAllReduce(mine.data(), mine.data(), 1, data_type::float32, operation::sum,
                            all.comm[rank], stream),
              result::success);
    return rank == 0 ? ncclSend(a.data() + 1, 1, data_type::float32, 1, all.comm[0], stream)
                     : ncclRecv(b.data() + 1, 1, data_type::float32, 0, all.comm[1], stream);
  }),
            result::success);
  all.synchronize();
  EXPECT_EQ(a[0], 3.0F);
  EXPECT_EQ(b[0], 3.0F);
  EXPECT_EQ(b[1], 1.0F);
}

TEST(nccl_pieces, unequal_sizes_are_reported_to_both) {
  program const all({0, 1});
  elements<float> const a(0, 4), b(1, 4);
  auto const results = all.by_threads([&](std::size_t rank) {
    auto const code =
        rank == 0 ? ncclSend(a.data(), 3, data_type::float32, 1, all.comm[0], program::stream(0))
                  : ncclRecv(b.data(), 4, data_type::float32, 0, all.comm[1], program::stream(1));
    expect_refused(code, result::invalid_usage,
                   "rank 0 calls ncclSend of 3 float32, peer 1; rank 1 calls ncclRecv of 4 "
                   "float32, peer 0");
    return code;
  });
  EXPECT_EQ(results, std::vector<result>(2, result::invalid_usage));
}

TEST(nccl_pieces, wrong_ones_are_refused_where_they_are) {
  program const all({0, 1});
  elements<float> const a(0, 8);
  auto* const comm = all.comm[0];
  auto const stream = program::stream(0);
  expect_refused(ncclSend(a.data(), 1, data_type::float32, 2, comm, stream),
                 result::invalid_argument, "peer 2 of 2 ranks");
  expect_refused(ncclSend(nullptr, 1, data_type::float32, 1, comm, stream),
                 result::invalid_argument, "is null");
  float local = 0;
  expect_refused(ncclRecv(&local, 1, data_type::float32, 1, comm, stream), result::invalid_argument,
                 "memory of the host, expected memory of device 0");
  EXPECT_EQ(ncclGroupStart(), result::success);
  EXPECT_EQ(ncclSend(a.data(), 4, data_type::float32, 1, comm, stream), result::success);
  EXPECT_EQ(ncclRecv(a.data() + 3, 4, data_type::float32, 1, comm, stream), result::success);
  expect_refused(ncclGroupEnd(), result::invalid_argument, "overlaps another piece");
}

}}  // namespace pieces_test
