// SPDX-License-Identifier: Apache-2.0
#include "../../tools/stall_analysis.hpp"

#include <gtest/gtest.h>
#include <support/expect_error.hpp>

#include <cstddef>
#include <random>
#include <string>
#include <vector>

namespace stall_analysis_test { namespace {

using blink::tools::analyse_loop;
using blink::tools::call_bucket;
using blink::tools::calls_of_ranks;
using blink::tools::find_repetition;
using blink::tools::longest_repetition;
using blink::tools::loop_options;
using blink::tools::loop_times;
using blink::tools::recorded_call;
using blink::tools::scaled_time;
using blink::tools::stall_between;

using numbers = std::vector<std::size_t>;

/// The longest repetition by definition, in O(calls^2 * period).
std::size_t longest_by_definition(numbers const& calls, std::size_t period) {
  std::size_t result = 0;
  for (std::size_t first = 0; first < calls.size(); ++first) {
    std::size_t end = std::min(first + period, calls.size());
    while (end < calls.size() && calls[end] == calls[end - period]) ++end;
    if (end - first >= 2 * period) result = std::max(result, end - first);
  }
  return result;
}

TEST(stall_analysis, the_longest_repetition_is_that_of_its_definition) {
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    numbers calls(random() % 40);
    for (auto& call : calls) call = random() % 3;
    for (std::size_t period = 0; period < 12; ++period) {
      auto const found = longest_repetition(calls, period);
      ASSERT_EQ(found.calls, period == 0 ? 0 : longest_by_definition(calls, period)) << period;
      if (found.period == 0) continue;
      ASSERT_EQ(found.period, period);
      ASSERT_LE(found.first + found.calls, calls.size());
      for (std::size_t k = found.first + period; k < found.first + found.calls; ++k) {
        ASSERT_EQ(calls[k], calls[k - period]);
      }
    }
  }
}

/// A sequence of one iteration that has no shorter period in itself.
numbers aperiodic(std::mt19937& random, std::size_t period) {
  for (;;) {
    numbers result(period);
    for (auto& call : result) call = random() % 4;
    bool has_shorter = false;
    for (std::size_t shorter = 1; shorter < period; ++shorter) {
      bool repeats = period % shorter == 0;
      for (std::size_t k = shorter; repeats && k < period; ++k) {
        repeats = result[k] == result[k - shorter];
      }
      has_shorter = has_shorter || repeats;
    }
    if (!has_shorter) return result;
  }
}

TEST(stall_analysis, iterations_are_found_among_calls_before_and_behind_them) {
  for (unsigned seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const period = 1 + random() % 12, iterations = 4 + random() % 20;
    auto const one = aperiodic(random, period);
    numbers calls(random() % (2 * period));
    for (auto& call : calls) call = random() % 6;  // 4 and 5 are in no iteration
    auto const before = calls.size();
    for (std::size_t i = 0; i < iterations; ++i) calls.insert(calls.end(), one.begin(), one.end());
    auto const behind = random() % period;
    for (std::size_t k = 0; k < behind; ++k) calls.push_back(4 + random() % 2);
    auto const found = find_repetition(calls);
    EXPECT_EQ(found.period, period);
    EXPECT_LE(found.first, before);
    EXPECT_EQ(found.first + found.calls, before + iterations * period);  // 4 and 5 end it
    EXPECT_GE(found.iterations(), iterations);
  }
}

TEST(stall_analysis, the_shortest_period_counts) {
  EXPECT_EQ(find_repetition({1, 2, 1, 2, 1, 2, 1, 2}).period, 2U);
  EXPECT_EQ(longest_repetition({1, 2, 1, 2, 1, 2, 1, 2}, 4).iterations(), 2U);
  EXPECT_EQ(find_repetition({7, 7, 7, 7}).period, 1U);
  // Equal buckets within an iteration do not make it shorter.
  EXPECT_EQ(find_repetition({1, 1, 1, 2, 1, 1, 1, 2, 1, 1, 1, 2}).period, 4U);
}

TEST(stall_analysis, nothing_repeats_where_all_calls_differ) {
  EXPECT_EQ(find_repetition({}).period, 0U);
  EXPECT_EQ(find_repetition({1}).iterations(), 0U);
  EXPECT_EQ(find_repetition({1, 2, 3, 4, 5}).period, 0U);
  EXPECT_EQ(longest_repetition({1, 1}, 0).period, 0U);
  EXPECT_EQ(longest_repetition({1, 1}, 2).period, 0U);
}

/// The calls of two ranks in `iterations` steps of 1000 us: an all-reduce of 400 bytes that takes
/// 300 us, and a broadcast of 8 bytes that takes 100. Rank 1 waits for 50 us in each, of which 20
/// for rank 0 to enter. A first call is in no step.
calls_of_ranks two_ranks(std::size_t iterations, double step = 1000) {
  calls_of_ranks result;
  for (int rank = 0; rank < 2; ++rank) {
    auto const add = [&](char const* collective, std::uint64_t count, double begin, double time) {
      recorded_call call;
      call.collective = collective;
      call.host = "a";
      call.rank = rank;
      call.ranks = 2;
      call.is_ok = true;
      call.count = count;
      call.element_bytes = 4;
      call.begin = begin + 7000 * rank;  // hosts have clocks of their own
      call.time = time;
      call.for_peers = rank == 0 ? 0 : 20;
      call.to_receive = rank == 0 ? 0 : 30;
      call.to_peers = {{1 - rank, 4 * count}};
      result[rank].push_back(call);
    };
    add("all_gather", 1, 0, 10);
    for (std::size_t i = 0; i < iterations; ++i) {
      double const begin = 5000 + static_cast<double>(i) * step;
      // The first iterations are slow, as caches are cold.
      add("all_reduce", 100, begin, i < 2 ? 900 : 300);
      add("broadcast", 2, begin + 600, 100);
    }
  }
  return result;
}

TEST(stall_analysis, the_times_of_a_loop) {
  auto const loop = analyse_loop(two_ranks(10), {});
  EXPECT_EQ(loop.found.first, 1U);
  EXPECT_EQ(loop.found.period, 2U);
  EXPECT_EQ(loop.all_calls, 21U);
  EXPECT_EQ(loop.counted, 7U);  // of ten: not the first two, nor the last
  EXPECT_DOUBLE_EQ(loop.iteration, 1000);
  ASSERT_EQ(loop.buckets.size(), 2U);
  auto const& first = loop.buckets[0];
  EXPECT_EQ(first.collective, "all_reduce");
  EXPECT_EQ(first.bytes, 400U);
  EXPECT_DOUBLE_EQ(first.time, 300);  // the slow ones are left out
  EXPECT_NEAR(first.mean, 300, 1e-9);
  EXPECT_NEAR(first.for_peers, 10, 1e-9);
  EXPECT_NEAR(first.to_receive, 15, 1e-9);
  EXPECT_NEAR(first.waiting(), 25, 1e-9);
  EXPECT_NEAR(first.moving(), 275, 1e-9);
  EXPECT_NEAR(first.sent.at({0, 1}), 400, 1e-9);
  EXPECT_EQ(first.busiest, "0 -> 1");
  EXPECT_EQ(loop.buckets[1].collective, "broadcast");
  EXPECT_EQ(loop.buckets[1].bytes, 8U);
  EXPECT_EQ(loop.calls.at(1).size(), loop.counted_calls());
}

TEST(stall_analysis, an_iteration_lasts_to_the_begin_of_the_next) {
  auto calls = two_ranks(6);
  for (auto& [rank, all] : calls) {  // the fourth begins late, the fifth as much early
    all[7].begin += 100;
  }
  loop_options every;
  every.warm_up = 0;
  auto const loop = analyse_loop(calls, every);
  EXPECT_EQ(loop.counted, 5U);
  EXPECT_DOUBLE_EQ(loop.iteration, 1000);  // the median
  calls.at(0)[7].begin += 900;             // of one rank: the mean over ranks
  every.warm_up = 2;
  EXPECT_DOUBLE_EQ(analyse_loop(calls, every).iteration, 1000);
}

TEST(stall_analysis, the_number_of_calls_may_be_given) {
  loop_options given;
  given.period = 4;
  auto const loop = analyse_loop(two_ranks(10), given);
  EXPECT_EQ(loop.found.period, 4U);
  EXPECT_EQ(loop.counted, 2U);  // of five
  EXPECT_DOUBLE_EQ(loop.iteration, 2000);
  given.period = 3;
  EXPECT_ERROR((void)analyse_loop(two_ranks(10), given),
               "no repeated sequence of 3 calls among 21 calls of each rank, expected at least 4");
}

TEST(stall_analysis, calls_that_give_no_iteration_are_named) {
  EXPECT_ERROR((void)analyse_loop(two_ranks(3), {}),
               "3 iterations of 2 calls among 7 calls of each rank, expected at least 4 "
               "iterations: --warm-up leaves out 2");
  EXPECT_ERROR((void)analyse_loop(two_ranks(0), {}), "no repeated sequence among 1 calls");
  auto fewer = two_ranks(10);
  fewer.at(1).pop_back();
  EXPECT_ERROR((void)analyse_loop(fewer, {}),
               "rank 1 ended 20 calls, rank 0 21, expected equal numbers");
  auto failed = two_ranks(10);
  failed.at(1)[4].is_ok = false;
  EXPECT_ERROR((void)analyse_loop(failed, {}), "call 5 of rank 1 (broadcast) failed");
}

TEST(stall_analysis, stalls_are_shares_of_the_iteration_with_fewer_ranks) {
  auto const alone = analyse_loop(two_ranks(10, 800), {});
  auto const host = analyse_loop(two_ranks(10, 1000), {});
  auto const hosts = analyse_loop(two_ranks(10, 3000), {});
  auto const interconnect = stall_between(alone, host);
  EXPECT_DOUBLE_EQ(interconnect.microseconds, 200);
  EXPECT_DOUBLE_EQ(interconnect.share, 0.25);
  auto const network = stall_between(host, hosts);
  EXPECT_DOUBLE_EQ(network.microseconds, 2000);
  EXPECT_DOUBLE_EQ(network.share, 2);
  EXPECT_DOUBLE_EQ(stall_between(host, alone).microseconds, -200);
  EXPECT_EQ(stall_between(loop_times{}, host).share, 0);
}

TEST(stall_analysis, faster_data_does_not_shorten_waits_for_late_ranks) {
  call_bucket bucket;
  bucket.time = 200;
  bucket.mean = 100;
  bucket.for_peers = 40;
  EXPECT_DOUBLE_EQ(scaled_time(bucket, 1), 200);
  EXPECT_DOUBLE_EQ(scaled_time(bucket, 0.5), 140);  // 80 late, 120 that moves
  EXPECT_DOUBLE_EQ(scaled_time(bucket, 0), 80);
  EXPECT_DOUBLE_EQ(scaled_time(call_bucket{}, 0.5), 0);
}

}}  // namespace stall_analysis_test
