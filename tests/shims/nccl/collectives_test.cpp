// SPDX-License-Identifier: Apache-2.0
// Random calls like those of nccl-tests and PyTorch, compared with a serial loop.

#include <blink/reducers/small_float.hpp>

#include "random_call.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <vector>

// The sources of a folder may be compiled as one.
namespace collectives_test { namespace {

using namespace blink_test;

/// Some calls on random devices: each by one thread or by many, several in one group.
template <class T>
void random_calls(std::uint64_t seed, data_type type) {
  std::mt19937_64 random(seed);
  std::vector<int> on;
  std::size_t const ranks = 1 + random() % 5;
  for (std::size_t rank = 0; rank < ranks; ++rank) on.push_back(static_cast<int>(random() % 4));
  program const all(on);
  std::vector<operation> own(ranks);
  std::vector<std::unique_ptr<elements<T>>> factors;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    auto factor = static_cast<T>(static_cast<float>(factor_of(rank)));
    factors.push_back(std::make_unique<elements<T>>(on[rank], 1, factor));
    bool const is_there = random() % 2 == 0;
    ASSERT_EQ(ncclRedOpCreatePreMulSum(&own[rank], is_there ? factors[rank]->data() : &factor, type,
                                       is_there ? residence::device : residence::host_immediate,
                                       all.comm[rank]),
              result::success);
  }
  for (int round = 0; round < 4; ++round) {
    std::vector<one_call<T>> calls;
    std::size_t const together = 1 + random() % 3;
    for (std::size_t k = 0; k < together; ++k) {
      calls.emplace_back(ranks, 0, on, static_cast<what>(random() % 9), type, random);
    }
    if (random() % 2 == 0) {
      EXPECT_EQ(all.by_one_thread([&](std::size_t rank) {
        for (auto const& one : calls)
          EXPECT_EQ(one.make(rank, all.comm[rank], own[rank]), result::success);
        return result::success;
      }),
                result::success)
          << ncclGetLastError(nullptr);
    } else {
      auto const results = all.by_threads([&](std::size_t rank) {
        for (auto const& one : calls) {
          auto const code = one.make(rank, all.comm[rank], own[rank]);
          if (code != result::success) return code;
        }
        return result::success;
      });
      EXPECT_EQ(results, std::vector<result>(ranks, result::success));
    }
    all.synchronize();
    for (auto const& one : calls) EXPECT_EQ(one.wrong(), "");
  }
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    EXPECT_EQ(ncclRedOpDestroy(own[rank], all.comm[rank]), result::success);
  }
}

TEST(nccl_collectives, float32) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    random_calls<float>(seed, data_type::float32);
  }
}
TEST(nccl_collectives, int32) {
  for (std::uint64_t seed = 100; seed < 108; ++seed) {
    SCOPED_TRACE(seed);
    random_calls<std::int32_t>(seed, data_type::int32);
  }
}
TEST(nccl_collectives, float8_e4m3) {
  for (std::uint64_t seed = 300; seed < 308; ++seed) {
    SCOPED_TRACE(seed);
    random_calls<blink::float8_e4m3>(seed, data_type::float8_e4m3);
  }
}

}}  // namespace collectives_test
