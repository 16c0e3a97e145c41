// SPDX-License-Identifier: Apache-2.0
// Numbers of 8 and 16 bits, blocks with a common scale, random rounding: the types in buffers and
// on links differ from the accumulator.

#include <blink/reducers.hpp>

#include "support/reducer_conformance.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

// A folder may be compiled as one source.
namespace storage_reducers_test {

namespace {

using blink_test::dice;
using blink_test::reducer_case;

// ---- conversions -------------------------------------------------------------------------------

template <class Small>
class small_floats : public testing::Test {};
using small_types =
    testing::Types<blink::bfloat16, blink::float16, blink::float8_e5m2, blink::float8_e4m3>;
TYPED_TEST_SUITE(small_floats, small_types);

template <class Small>
constexpr unsigned sign_bit = sizeof(Small) == 1 ? 0x80U : 0x8000U;

template <class Small>
Small from_code(unsigned code) {
  return Small::from_code(static_cast<typename Small::code_type>(code));
}

TYPED_TEST(small_floats, every_code_comes_back) {
  unsigned nans = 0;
  for (unsigned code = 0; code < 2 * sign_bit<TypeParam>; ++code) {
    float const value = from_code<TypeParam>(code);
    TypeParam const again(value);
    if (std::isnan(value)) {
      ++nans;
      EXPECT_TRUE(std::isnan(static_cast<float>(again))) << code;
    } else {
      EXPECT_EQ(again.code(), code);
    }
    EXPECT_EQ(std::signbit(value), code >= sign_bit<TypeParam>) << code;
  }
  EXPECT_GT(nans, 0U);
}

// No neighbour of the result is nearer, and among equally near codes the result is even.
TYPED_TEST(small_floats, rounds_to_the_nearest_ties_to_even) {
  for (std::uint64_t seed = 0; seed < 200000; ++seed) {
    dice random{seed};
    float value = std::bit_cast<float>(static_cast<std::uint32_t>(random()) & 0x7fffffffU);
    if (seed % 3 != 0) {  // half way between two codes, or close to it
      unsigned const code = static_cast<unsigned>(random() % (sign_bit<TypeParam> - 1));
      float const low = from_code<TypeParam>(code);
      float const high = from_code<TypeParam>(code + 1);
      value = static_cast<float>((static_cast<double>(low) + high) / 2);
      if (seed % 3 == 2) value = std::nextafter(value, random() % 2 == 0 ? low : high);
    }
    if (!std::isfinite(value)) continue;
    TypeParam const rounded(value);
    ASSERT_EQ(TypeParam(-value).code(), rounded.code() | sign_bit<TypeParam>) << value;
    auto const distance = [&](unsigned code) {
      return std::abs(static_cast<double>(static_cast<float>(from_code<TypeParam>(code))) - value);
    };
    float const result = rounded;
    unsigned const code = rounded.code();
    if (!std::isfinite(result)) {  // the largest number plus its distance to the next smaller one
      unsigned const largest = code - 1;
      double const most = static_cast<float>(from_code<TypeParam>(largest));
      double const step = most - static_cast<float>(from_code<TypeParam>(largest - 1));
      ASSERT_GE(value, most + step / 2);
      continue;
    }
    for (unsigned const other : {code - 1, code + 1}) {
      if (other >= sign_bit<TypeParam>) continue;
      if (!std::isfinite(static_cast<float>(from_code<TypeParam>(other)))) continue;
      ASSERT_LE(distance(code), distance(other)) << value;
      if (distance(code) == distance(other)) {
        ASSERT_EQ(code % 2, 0U) << value;
      }
    }
  }
}

TYPED_TEST(small_floats, random_rounding_keeps_the_mean) {
  dice random{7};
  for (float const value : {1.03F, -2.6F, 0.3F, 100.7F, 0.007F}) {
    double total = 0;
    constexpr int times = 40000;
    float low = 1e30F;
    float high = -1e30F;
    for (int k = 0; k < times; ++k) {
      float const rounded = TypeParam::at_random(value, static_cast<std::uint32_t>(random() >> 32));
      low = std::min(low, rounded);
      high = std::max(high, rounded);
      total += rounded;
    }
    EXPECT_LE(low, value);
    EXPECT_GE(high, value);
    EXPECT_LE(std::abs(total / times - value), 6 * (high - low) / 2 / std::sqrt(times)) << value;
  }
}

TEST(small_floats, known_codes) {
  EXPECT_EQ(blink::bfloat16(1.0F).code(), 0x3f80);
  EXPECT_EQ(blink::float16(65504.0F).code(), 0x7bff);
  EXPECT_EQ(blink::float16(65520.0F).code(), 0x7c00);  // infinity
  EXPECT_EQ(blink::float16(0x1p-24F).code(), 1);
  EXPECT_EQ(blink::float16(0x1p-25F).code(), 0);
  EXPECT_EQ(blink::float8_e5m2(57344.0F).code(), 0x7b);
  EXPECT_EQ(blink::float8_e5m2(61440.0F).code(), 0x7c);  // infinity
  EXPECT_EQ(blink::float8_e4m3(448.0F).code(), 0x7e);
  EXPECT_EQ(blink::float8_e4m3(464.0F).code(), 0x7e);
  EXPECT_EQ(blink::float8_e4m3(465.0F).code(), 0x7f);  // NaN: there is no infinity
  EXPECT_EQ(blink::float8_e4m3(0x1p-9F).code(), 1);
}

// ---- conformance -------------------------------------------------------------------------------

/// Sums of small floats: half an ulp relative to the number, and half of the smallest number.
template <class Small>
struct small_case {
  using element = Small;
  static constexpr bool is_exact = false;
  static constexpr bool is_long = sizeof(Small) == 2;
  static constexpr double rounding = std::is_same_v<Small, blink::bfloat16>      ? 0x1p-8
                                     : is_long                                   ? 0x1p-11
                                     : std::is_same_v<Small, blink::float8_e5m2> ? 0x1p-3
                                                                                 : 0x1p-4;
  static constexpr double least = is_long                                     ? 0x1p-25
                                  : std::is_same_v<Small, blink::float8_e5m2> ? 0x1p-17
                                                                              : 0x1p-10;
  static Small input(dice& random) { return Small(static_cast<float>(random.signed_unit())); }
  static double sum_of(std::vector<Small> const& inputs) {
    double total = 0;
    for (Small const input : inputs) total += static_cast<float>(input);
    return total;
  }
  static double sizes_of(std::vector<Small> const& inputs) {
    double total = 0;
    for (Small const input : inputs) total += std::abs(static_cast<float>(input));
    return total;
  }
  static Small expected(std::vector<Small> const& inputs) {
    return Small(static_cast<float>(sum_of(inputs)));
  }
  /// True if the error is within one rounding of the result, `others` of partial sums, and the
  /// errors of sums of floats.
  static bool is_near(Small got, double exact, std::vector<Small> const& inputs, double others) {
    double const sizes = sizes_of(inputs);
    auto const n = static_cast<double>(inputs.size());
    return std::abs(static_cast<float>(got) - exact) <=
           rounding * (std::abs(exact) + others * sizes) * 1.01 + (1 + others) * least +
               n * 0x1p-24 * sizes;
  }
};
template <class Small>
struct summed_as_float : small_case<Small> {
  static auto reducer() { return blink::accumulate_in<float>(blink::sum{}); }
  static bool agrees(Small got, Small, std::vector<Small> const& inputs) {
    return small_case<Small>::is_near(got, small_case<Small>::sum_of(inputs), inputs, 0);
  }
  static float neutral() { return 0; }
};
struct rounded_when_sent : small_case<blink::float16> {
  static auto reducer() { return blink::accumulate_in<float, blink::bfloat16>(blink::avg{}); }
  static blink::float16 expected(std::vector<blink::float16> const& inputs) {
    return blink::float16(static_cast<float>(sum_of(inputs) / static_cast<double>(inputs.size())));
  }
  static bool agrees(blink::float16 got, blink::float16,
                     std::vector<blink::float16> const& inputs) {
    auto const n = static_cast<double>(inputs.size());
    return is_near(got, sum_of(inputs) / n, inputs, 8 * n);  // an ulp of bfloat16 is 8 of float16
  }
};
struct largest_small : small_case<blink::bfloat16> {
  static constexpr bool is_exact = true;
  static blink::max reducer() { return {}; }
  static blink::bfloat16 expected(std::vector<blink::bfloat16> const& inputs) {
    return *std::max_element(inputs.begin(), inputs.end());
  }
  static bool agrees(blink::bfloat16 got, blink::bfloat16 expected,
                     std::vector<blink::bfloat16> const&) {
    return got.code() == expected.code();
  }
};
struct rounded_at_random : small_case<blink::float8_e5m2> {
  static auto reducer() { return blink::stochastic_storage_sum<blink::float8_e5m2>{99}; }
  static bool agrees(blink::float8_e5m2 got, blink::float8_e5m2,
                     std::vector<blink::float8_e5m2> const& inputs) {
    return is_near(got, sum_of(inputs), inputs, 0) ||
           std::abs(static_cast<float>(got) - sum_of(inputs)) <=
               2 * rounding * std::abs(sum_of(inputs)) * 1.01 + 2 * least;
  }
};
struct connections_at_random : reducer_case<float, blink::stochastic_sent_sum<blink::bfloat16>> {
  static constexpr bool is_exact = false;
  static blink::stochastic_sent_sum<blink::bfloat16> reducer() { return {123}; }
  static float input(dice& random) { return static_cast<float>(random.signed_unit()); }
  static float expected(std::vector<float> const& inputs) {
    double total = 0;
    for (float const input : inputs) total += input;
    return static_cast<float>(total);
  }
  static bool agrees(float got, float expected, std::vector<float> const& inputs) {
    double sizes = 0;
    for (float const input : inputs) sizes += std::abs(input);
    return std::abs(got - expected) <= static_cast<double>(inputs.size()) * 0x1p-7 * sizes;
  }
};

constexpr std::size_t block_length = 8;
using floats = blink::float_block<block_length>;
using bytes = blink::int8_block<block_length>;

/// Each crossing of a link rounds by at most half of a 127th of the largest number.
template <class Block>
struct blocks : reducer_case<Block, blink::quantised_sum> {
  static constexpr bool is_exact = false;
  static Block input(dice& random) {
    floats result{};
    float const size = std::ldexp(1.0F, random.below(20) - 10);
    for (float& value : result.values) value = static_cast<float>(random.signed_unit()) * size;
    if (random() % 20 == 0) result = {};
    return static_cast<Block>(result);
  }
  static Block expected(std::vector<Block> const& inputs) {
    floats total{};
    for (auto const& input : inputs) {
      auto const decoded = static_cast<floats>(input);
      for (std::size_t k = 0; k < block_length; ++k) total.values[k] += decoded.values[k];
    }
    return static_cast<Block>(total);
  }
  static bool agrees(Block const& got, Block const& expected, std::vector<Block> const& inputs) {
    float largest = 0;
    for (auto const& input : inputs) {
      for (float const value : static_cast<floats>(input).values) {
        largest = std::max(largest, std::abs(value));
      }
    }
    auto const n = static_cast<float>(inputs.size());
    auto const a = static_cast<floats>(got);
    auto const b = static_cast<floats>(expected);
    for (std::size_t k = 0; k < block_length; ++k) {
      float const sizes = n * largest;
      if (!(std::abs(a.values[k] - b.values[k]) <= (n + 1) * sizes / 254 * 1.001F)) return false;
    }
    return true;
  }
};

}  // namespace

using namespace blink_test;

using storage_cases =
    testing::Types<summed_as_float<blink::bfloat16>, summed_as_float<blink::float16>,
                   summed_as_float<blink::float8_e5m2>, summed_as_float<blink::float8_e4m3>,
                   rounded_when_sent, largest_small, rounded_at_random, connections_at_random,
                   blocks<floats>, blocks<bytes>>;
INSTANTIATE_TYPED_TEST_SUITE_P(storage, reducer_conformance, storage_cases);

namespace {

TEST(quantised_blocks, numbers_without_a_scale) {
  floats block{{1, -2, 3, 0, 5, -6, 127, 0.6F}};
  bytes const exact(block);
  EXPECT_EQ(exact.scale, 1.0F);
  EXPECT_EQ(exact.values[1], -2);
  EXPECT_EQ(exact.values[7], 1);
  block.values[3] = std::numeric_limits<float>::infinity();
  EXPECT_TRUE(std::isnan(static_cast<floats>(bytes(block)).values[0]));
  EXPECT_EQ(static_cast<floats>(bytes(floats{{1e-40F}})).values[0], 0.0F);
}

TEST(stochastic_rounding, is_keyed_by_seed_and_index_and_keeps_the_mean) {
  constexpr std::size_t count = 20000;
  blink::basic_thread_ranks<blink::slot_transport> all_threads(3);
  auto const results = [&](std::uint64_t seed) {
    std::vector<float> kept(count);
    all_threads.run([&](auto& comm) {
      std::vector<float> data(count, 1.0F + 0x1p-9F);  // a quarter of the way to the next
      blink::all_reduce(comm, blink::chain_schedule(3, 0), data.data(), data.data(), count,
                        blink::stochastic_sent_sum<blink::bfloat16>{seed});
      if (comm.rank() == 1) kept = data;
    });
    return kept;
  };
  auto const first = results(1);
  EXPECT_EQ(first, results(1));
  EXPECT_NE(first, results(2));
  double total = 0;
  for (float const value : first) total += value;
  // At most two roundings by 2^-7 and 2^-6 for each element.
  EXPECT_NEAR(total / count, 3 * (1 + 0x1p-9), 6 * 0x1p-6 / std::sqrt(count));
}

// A kernel rounds as hosts do, element by element, with any number of threads in a block.
template <class HostLink, class DeviceLink>
void expect_same_roundings(blink::schedule const& plan) {
  constexpr std::size_t count = 777;
  constexpr auto kind = blink::collective::all_reduce;
  auto const ranks = static_cast<std::size_t>(plan.rank_count);
  auto const reducer = connections_at_random::reducer();
  std::vector<std::vector<float>> inputs(ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    dice random{rank};
    for (std::size_t k = 0; k < count; ++k)
      inputs[rank].push_back(connections_at_random::input(random));
  }
  std::vector<std::vector<float>> by_hosts(ranks, std::vector<float>(count));
  blink::communicator_options options;
  options.eager_payload = 0;
  blink::basic_thread_ranks<HostLink> all_threads(plan.rank_count, options);
  all_threads.run([&](auto& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    blink::all_reduce(comm, plan, inputs[rank].data(), by_hosts[rank].data(), count, reducer);
  });
  for (std::uint32_t const threads : {1U, 3U}) {
    SCOPED_TRACE(threads);
    std::vector<std::vector<float>> in_blocks(ranks, std::vector<float>(count));
    std::vector<void const*> from;
    std::vector<void*> to;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      from.push_back(inputs[rank].data());
      to.push_back(in_blocks[rank].data());
    }
    emulation how;
    how.block_threads = threads;
    emulated_device<DeviceLink> device(plan, how);
    ASSERT_EQ(device.template walk<float>(kind, count, from, to, reducer), "");
    EXPECT_EQ(in_blocks, by_hosts);
  }
}
TEST(stochastic_rounding, gives_the_same_bits_in_kernels_as_on_hosts) {
  for (auto const& plan : {blink::chain_schedule(4, 0), blink::binomial_schedule(5, 1)}) {
    expect_same_roundings<blink::slot_transport, blink::slot_peer_transport>(plan);
    expect_same_roundings<blink::threads_link, blink::reaching_peer_transport>(plan);
  }
}

// Leaves send elements of 2 bytes, inner ranks partial sums of 4, and the root results of 2.
TEST(connections, carry_what_is_smaller_from_leaves) {
  auto const plan = blink::chain_schedule(3, 0);
  constexpr std::size_t count = 1000;
  auto const bytes_between = [&](auto const& reducer, auto element, int from, int to) {
    blink::communicator_options options;
    options.eager_payload = 0;
    blink::basic_thread_ranks<blink::slot_transport> all_threads(3, options);
    auto& prepared = all_threads.prepare(plan);
    all_threads.run([&](auto& comm) {
      std::vector<decltype(element)> data(count, element);
      blink::all_reduce(comm, prepared, data.data(), data.data(), count, reducer);
    });
    for (auto const& edge : prepared.edges()) {
      if (edge.from == from && edge.to == to) return edge.bytes;
    }
    return std::uint64_t{0};
  };
  auto const halves = blink::accumulate_in<float>(blink::sum{});
  blink::bfloat16 const one(1.0F);
  EXPECT_EQ(bytes_between(halves, one, 2, 1), 2 * count);
  EXPECT_EQ(bytes_between(halves, one, 1, 0), 4 * count);
  EXPECT_EQ(bytes_between(halves, one, 0, 1), 2 * count);
  constexpr auto connection = sizeof(bytes);
  EXPECT_EQ(bytes_between(blink::quantised_sum{}, floats{}, 2, 1), connection * count);
  EXPECT_EQ(bytes_between(blink::quantised_sum{}, floats{}, 1, 0), connection * count);
  EXPECT_EQ(bytes_between(blink::quantised_sum{}, floats{}, 0, 1), sizeof(floats) * count);
}

}  // namespace

}  // namespace storage_reducers_test
