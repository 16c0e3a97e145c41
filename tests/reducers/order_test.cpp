// SPDX-License-Identifier: Apache-2.0
// The dependence of the last bits of rounded sums on order, counts and timing.

#include <blink/collectives.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/running/walk/team_group.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/collective_case.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <vector>

// A folder may be compiled as one source.
namespace order_test { namespace {

using blink_test::below;

// Sums of these are rounded differently in almost every order.
float rounded_input(int rank, std::size_t index) {
  auto const bits = blink_test::input_element<std::uint32_t>(7, rank, index);
  return 1.0F / static_cast<float>(bits % 100000 + 3);
}

/// The result on rank 0; for reduce-scatter the blocks of all ranks.
template <class Reducer>
std::vector<float> result_of(int ranks, blink::schedule const& plan, blink::collective kind,
                             std::size_t count, Reducer const& reducer) {
  bool const scatters = kind == blink::collective::reduce_scatter;
  std::vector<float> result(scatters ? count * static_cast<std::size_t>(ranks) : count);
  blink::thread_ranks threads(ranks);
  threads.run([&](auto& comm) {
    std::size_t const all = result.size();
    std::vector<float> mine(all);
    std::vector<float> ends(count);
    for (std::size_t k = 0; k < all; ++k) mine[k] = rounded_input(comm.rank(), k % count);
    auto& prepared = comm.prepare(plan);
    blink_test::call_collective<blink::scheduled_chunks>(comm, prepared, {kind, count, false, 0, 0},
                                                         static_cast<float const*>(mine.data()),
                                                         ends.data(), reducer);
    auto const rank = static_cast<std::size_t>(comm.rank());
    if (scatters || rank == 0) {
      std::copy(ends.begin(), ends.end(),
                result.begin() + static_cast<std::ptrdiff_t>(scatters ? rank * count : 0));
    }
  });
  return result;
}

// Element i of a block has the same bits in blocks of all lengths. With the weaker promise its bits
// differ, which shows that the test detects it.
TEST(order, shape_keeps_the_bits_of_each_element_whatever_the_count) {
  auto const shape = blink::with_order<blink::order_promise::shape>(blink::sum{});
  static_assert(blink::order_of<decltype(shape)> == blink::order_promise::shape);
  static_assert(blink::order_of<blink::sum> == blink::order_promise::run);
  constexpr std::size_t longest = 60000;
  std::size_t differs = 0;
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    std::mt19937_64 random(seed);
    auto const kind =
        seed % 2 == 0 ? blink::collective::all_reduce : blink::collective::reduce_scatter;
    int const ranks = 3 + below(random, 3);
    auto const plan = blink_test::random_schedule(random, ranks, kind);
    auto const whole = result_of(ranks, plan, kind, longest, shape);
    auto const weaker = result_of(ranks, plan, kind, longest, blink::sum{});
    for (std::size_t const count : {std::size_t{1}, std::size_t{1000 + random() % 9000},
                                    std::size_t{20000 + random() % 30000}}) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", count " << count);
      auto const part = result_of(ranks, plan, kind, count, shape);
      auto const weaker_part = result_of(ranks, plan, kind, count, blink::sum{});
      std::size_t wrong = 0;
      for (std::size_t k = 0; k < part.size(); ++k) {
        std::size_t const same = k / count * longest + k % count;
        wrong += part[k] == whole[same] ? 0U : 1U;
        differs += weaker_part[k] == weaker[same] ? 0U : 1U;
      }
      EXPECT_EQ(wrong, 0U);
    }
  }
  EXPECT_GT(differs, 1000U);
}

// Exact as with every other split: all reducing collectives, types and slots of many sizes.
TEST(order, shape_is_exact) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 6);
    blink::communicator_options options;
    options.slot_bytes = 12 + random() % 1000;
    blink::thread_ranks reaching(ranks, options);
    blink::basic_thread_ranks<blink::slot_transport> copying(ranks, options);
    for (auto const kind : {blink::collective::all_reduce, blink::collective::reduce,
                            blink::collective::reduce_scatter}) {
      auto const plan = blink_test::random_schedule(random, ranks, kind);
      blink_test::collective_case const what{kind, random() % 4000, seed % 2 == 0, seed % 4, seed};
      auto const sums = blink::with_order<blink::order_promise::shape>(blink::sum{});
      auto const triples =
          blink::with_order<blink::order_promise::shape>(blink_test::triple_reducer{});
      EXPECT_EQ(blink_test::run_case<std::uint8_t>(copying, plan, what, sums), "");
      EXPECT_EQ(blink_test::run_case<blink_test::triple>(reaching, plan, what, triples), "");
    }
  }
}

// Types whose sums do not depend on the order, with and without another accumulator type.
TEST(order, any_is_exact) {
  auto const sums = blink::with_order<blink::order_promise::any>(blink::sum{});
  auto const wider = blink::with_order<blink::order_promise::any>(
      blink::accumulate_in<std::int64_t>(blink::sum{}));
  auto const triples = blink::with_order<blink::order_promise::any>(blink_test::triple_reducer{});
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 3 + below(random, 6);
    blink::communicator_options options;
    options.slot_bytes = 12 + random() % 1000;
    options.window = 1 + static_cast<std::uint32_t>(random() % 3);
    blink::thread_ranks reaching(ranks, options);
    blink::basic_thread_ranks<blink::slot_transport> copying(ranks, options);
    options.team_size = 3;
    blink::basic_thread_ranks<blink::slot_transport, blink::team_group> teams(3, options);
    for (auto const kind : {blink::collective::all_reduce, blink::collective::reduce_scatter}) {
      auto const plan = blink_test::random_schedule(random, ranks, kind);
      blink_test::collective_case const what{kind, random() % 4000, seed % 2 == 0, seed % 4, seed};
      EXPECT_EQ(blink_test::run_case<std::uint8_t>(copying, plan, what, sums, 2), "");
      EXPECT_EQ(blink_test::run_case<std::int16_t>(copying, plan, what, wider, 2), "");
      EXPECT_EQ(blink_test::run_case<blink_test::triple>(reaching, plan, what, triples, 2), "");
      if (seed % 4 == 0) {
        auto const star = blink::star_schedule(3);
        EXPECT_EQ(blink_test::run_case<blink_test::triple>(teams, star, what, triples, 2), "");
      }
    }
  }
}

TEST(split, parts_of_periods_cover_the_buffer_once_and_have_at_most_the_most_elements) {
  for (std::uint64_t seed = 0; seed < 2000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::size_t const element_bytes = 1 + random() % (seed % 2 == 0 ? 100 : 9);
    std::size_t const most = 1 + random() % (seed % 3 == 0 ? 20 : 5000);
    std::vector<std::uint64_t> weights(1 + random() % 10);
    std::uint64_t total = 0;
    for (auto& weight : weights) total += weight = random() % 2 == 0 ? random() % 5 : random() >> 8;
    if (total == 0) total = weights[0] = 1;
    auto const heaviest = *std::max_element(weights.begin(), weights.end());
    auto const period = blink::period_of(most, element_bytes, heaviest, total);
    ASSERT_GE(period.elements, 1U);
    for (std::size_t const count : {std::size_t{0}, std::size_t{random() % 100000}}) {
      std::uint64_t before = 0;
      std::size_t next_begin = 0;
      std::size_t covered = 0;
      for (auto const weight : weights) {
        auto const part = blink::part_of_periods(count, period, before, weight, total);
        EXPECT_EQ(part.begin, next_begin);
        EXPECT_LE(part.share, most);
        next_begin = part.begin + part.share;
        before += weight;
        covered += part.count;
      }
      EXPECT_EQ(next_begin, period.elements);
      EXPECT_EQ(covered, count);
    }
  }
}

}}  // namespace order_test
