// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives.hpp>
#include <blink/collectives/all_reduce_blocks.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/small_float.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <vector>

namespace blocks_test { namespace {

template <class T>
std::vector<T> drawn(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> result;
  for (std::size_t i = 0; i < count; ++i) {
    auto const magnitude = static_cast<float>(random() % 4096) / 64.0F;
    result.push_back(static_cast<T>(random() % 2 == 0 ? magnitude : -1.0F / (1.0F + magnitude)));
  }
  return result;
}

// Element i of blocks [from, from + many), each of `count` elements.
template <class Total, class T>
Total serial(std::vector<T> const& blocks, std::size_t count, std::size_t i, std::size_t from,
             std::size_t many) {
  if (many == 1) return static_cast<Total>(blocks[from * count + i]);
  std::size_t left = many - 1;
  if (many % 2 == 0) {
    left = many / 2;
  } else if (many % 3 == 0) {
    left = 2 * (many / 3);
  }
  return static_cast<Total>(serial<Total>(blocks, count, i, from, left) +
                            serial<Total>(blocks, count, i, from + left, many - left));
}

template <class T>
bool equal_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class Ranks>
class all_reduce_blocks : public testing::Test {};
using rank_owners =
    testing::Types<blink::thread_ranks, blink::basic_thread_ranks<blink::slot_transport>>;
TYPED_TEST_SUITE(all_reduce_blocks, rank_owners);

template <class Ranks, class Total, class T, class Reducer>
void expect_equal_bits_on_all_rank_counts(Reducer const& reduce) {
  for (std::size_t const blocks : {1U, 5U, 12U, 24U}) {
    for (std::size_t const ranks : {1U, 2U, 3U, 4U, 5U, 6U, 8U, 12U}) {
      if (blocks % ranks != 0) continue;
      Ranks owner(static_cast<int>(ranks));
      for (std::size_t const count : {0U, 1U, 7U, 512U, 1000U, 4099U}) {
        SCOPED_TRACE(std::to_string(blocks) + " blocks, " + std::to_string(ranks) + " ranks, " +
                     std::to_string(count));
        auto const data = drawn<T>(blocks * count, blocks + count);
        std::vector<T> expected;
        for (std::size_t i = 0; i < count; ++i) {
          expected.push_back(static_cast<T>(serial<Total>(data, count, i, 0, blocks)));
        }
        std::vector<std::vector<T>> results(ranks, std::vector<T>(count));
        owner.run([&](auto& comm) {
          auto const rank = static_cast<std::size_t>(comm.rank());
          auto const own = blocks / ranks * count;
          std::vector<T> const input(data.begin() + static_cast<std::ptrdiff_t>(rank * own),
                                     data.begin() + static_cast<std::ptrdiff_t>((rank + 1) * own));
          blink::all_reduce_blocks(comm, input.data(), results[rank].data(), count, blocks, reduce);
          std::vector<T> again(count);
          blink::all_reduce_blocks(comm, input, again, blocks, reduce);
          EXPECT_TRUE(equal_bits(again, results[rank]));
        });
        for (auto const& result : results) EXPECT_TRUE(equal_bits(result, expected));
      }
    }
  }
}

TYPED_TEST(all_reduce_blocks, gives_the_same_bits_on_all_numbers_of_ranks) {
  expect_equal_bits_on_all_rank_counts<TypeParam, float, float>(blink::sum{});
  expect_equal_bits_on_all_rank_counts<TypeParam, float, blink::bfloat16>(
      blink::accumulate_in<float>(blink::sum{}));
}

TYPED_TEST(all_reduce_blocks, averages_over_blocks) {
  TypeParam owner(2);
  owner.run([&](auto& comm) {
    std::vector<double> const input{1.0 + comm.rank(), 2.0, 3.0, 6.0};  // two blocks of two
    std::vector<double> output(2);
    blink::all_reduce_blocks(comm, input, output, 4, blink::avg{});
    EXPECT_EQ(output[0], (1 + 3 + 2 + 3) / 4.0);
    EXPECT_EQ(output[1], 4.0);
  });
}

// Layers that are served in batches of other sizes.
TYPED_TEST(all_reduce_blocks, rows_have_the_same_bits_in_any_batch) {
  constexpr std::size_t width = 96, blocks = 24;
  auto const rows = drawn<float>(20 * blocks * width, 3);  // by row and block
  std::vector<std::vector<float>> first;
  for (int const ranks : {1, 2, 3, 4, 6, 8}) {
    TypeParam owner(ranks);
    std::mt19937 random(7);
    for (int batch = 0; batch < 20; ++batch) {
      std::vector<std::size_t> members(1 + random() % 12);
      for (auto& row : members) row = random() % 20;
      auto const count = members.size() * width;
      std::vector<float> result(count);
      owner.run([&](auto& comm) {
        auto const own = blocks / static_cast<std::size_t>(comm.rank_count());
        std::vector<float> input, output(count);
        for (std::size_t b = 0; b < own; ++b) {
          auto const block = static_cast<std::size_t>(comm.rank()) * own + b;
          for (auto const row : members) {
            auto const from =
                rows.begin() + static_cast<std::ptrdiff_t>((row * blocks + block) * width);
            input.insert(input.end(), from, from + width);
          }
        }
        blink::all_reduce_blocks(comm, input, output, blocks);
        if (comm.rank() == 0) result = output;
      });
      for (std::size_t m = 0; m < members.size(); ++m) {
        std::vector<float> const row(result.begin() + static_cast<std::ptrdiff_t>(m * width),
                                     result.begin() + static_cast<std::ptrdiff_t>((m + 1) * width));
        first.resize(20);
        if (first[members[m]].empty()) first[members[m]] = row;
        EXPECT_TRUE(equal_bits(row, first[members[m]])) << ranks << " ranks, batch " << batch;
      }
    }
  }
}

TYPED_TEST(all_reduce_blocks, refuses_parts_that_do_not_fit) {
  TypeParam owner(2);
  owner.run([&](auto& comm) {
    std::vector<float> buffer(12), output(4);
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer, output, 5), "5 blocks on 2 ranks");
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer, output, 0), "0 blocks on 2 ranks");
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer, output, 4), "12");
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer.data(), buffer.data() + 4, 4, 4),
                 "the output overlaps the input");
    float* const none = nullptr;
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer.data(), none, 4, 4), "output is null");
    blink::all_reduce_blocks(comm, buffer.data(), output.data(), 4, 6);
  });
}

}}  // namespace blocks_test
