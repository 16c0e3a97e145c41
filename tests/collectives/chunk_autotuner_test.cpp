// SPDX-License-Identifier: Apache-2.0
#include <blink/collectives/chunk_autotuner.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <random>

// A folder may be compiled as one source.
namespace chunk_autotuner_test { namespace {

using namespace blink;

/// A pipeline over a tree with whole chunks, whose optimum is `best_chunk_bytes`.
struct pipeline {
  double step_seconds = 2e-6;
  double bytes_per_second = 25e9;
  double bytes = 64e6;
  int height = 4;

  [[nodiscard]] double throughput(double chunk) const {
    double const chunks = std::ceil(bytes / chunk);
    return bytes / ((chunks + height - 1) * (step_seconds + chunk / bytes_per_second));
  }
};

pipeline random_pipeline(std::mt19937& random) {
  auto const between = [&](double low, double high) {
    return low * std::pow(high / low, std::uniform_real_distribution<double>(0, 1)(random));
  };
  return {between(5e-7, 2e-5), between(5e9, 3e11), between(4e6, 1e9),
          2 + static_cast<int>(random() % 15)};
}

double best_throughput(pipeline const& p, chunk_autotuner_options const& limits) {
  double best = 0;
  for (double chunk = static_cast<double>(limits.smallest_bytes);
       chunk <= static_cast<double>(limits.largest_bytes); chunk *= 1.02) {
    best = std::max(best, p.throughput(chunk));
  }
  return best;
}

/// Reports until the tuner settles; returns the number of reports.
int settle(chunk_autotuner& feedback, pipeline const& p, double noise, std::mt19937& random) {
  std::uniform_real_distribution<double> disturb(1 - noise, 1 + noise);
  int reports = 0;
  while (!feedback.settled() && reports < 1'000) {
    feedback.report(p.throughput(static_cast<double>(feedback.bytes())) * disturb(random));
    ++reports;
  }
  return reports;
}

TEST(chunk_autotuner, converges_on_random_pipelines) {
  chunk_autotuner_options const limits;
  double const increases = std::log2(static_cast<double>(limits.largest_bytes) /
                                     static_cast<double>(limits.first_bytes));
  for (unsigned seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const p = random_pipeline(random);
    double const noise = seed % 3 == 0 ? 0 : seed % 3 == 1 ? 0.02 : 0.05;
    chunk_autotuner feedback(limits);
    int const reports = settle(feedback, p, noise, random);
    EXPECT_TRUE(feedback.settled());
    EXPECT_LE(reports, limits.samples * (increases + 1 + limits.decreases));
    EXPECT_GE(feedback.bytes(), limits.smallest_bytes);
    EXPECT_LE(feedback.bytes(), limits.largest_bytes);
    EXPECT_EQ(feedback.bytes() % limits.granule_bytes, 0U);
    EXPECT_GE(p.throughput(static_cast<double>(feedback.bytes())),
              (noise > 0 ? 0.85 : 0.9) * best_throughput(p, limits));
  }
}

TEST(chunk_autotuner, stays_while_nothing_changes_and_searches_again_when_it_does) {
  std::mt19937 random(7);
  pipeline p;
  chunk_autotuner feedback;
  settle(feedback, p, 0.02, random);
  auto const chosen = feedback.bytes();
  std::uniform_real_distribution<double> disturb(0.95, 1.05);
  for (int i = 0; i < 300; ++i) {
    feedback.report(p.throughput(static_cast<double>(chosen)) * disturb(random));
    ASSERT_TRUE(feedback.settled());
    ASSERT_EQ(feedback.bytes(), chosen);
  }
  p.bytes_per_second /= 10;  // other programs use the links now
  p.step_seconds *= 20;
  for (int i = 0; i < 3; ++i) {
    feedback.report(p.throughput(static_cast<double>(feedback.bytes())));
  }
  EXPECT_FALSE(feedback.settled());
  settle(feedback, p, 0.02, random);
  EXPECT_GE(p.throughput(static_cast<double>(feedback.bytes())), 0.9 * best_throughput(p, {}));
}

TEST(chunk_autotuner, stays_within_its_limits) {
  std::mt19937 random(1);
  chunk_autotuner_options options;
  options.first_bytes = options.smallest_bytes = options.largest_bytes = 4096;
  chunk_autotuner fixed(options);
  settle(fixed, {}, 0.1, random);
  EXPECT_EQ(fixed.bytes(), 4096U);
  chunk_autotuner dead;  // no throughput at all: settles, at any size
  while (!dead.settled()) dead.report(0);
  EXPECT_GE(dead.bytes(), chunk_autotuner_options{}.smallest_bytes);
}

TEST(chunk_autotuner, refuses_nonsense) {
  chunk_autotuner feedback;
  EXPECT_THROW(feedback.report(-1), precondition_error);
  EXPECT_THROW(feedback.report(std::numeric_limits<double>::quiet_NaN()), precondition_error);
  chunk_autotuner_options options;
  options.growth = 1;
  EXPECT_THROW(chunk_autotuner{options}, precondition_error);
  options = {};
  options.first_bytes = options.smallest_bytes - 1;
  EXPECT_THROW(chunk_autotuner{options}, precondition_error);
  EXPECT_THROW((void)best_chunk_bytes(-1, 1, 1, 1), precondition_error);
}

TEST(best_chunk_bytes, is_the_optimum_of_the_pipeline) {
  for (unsigned seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const p = random_pipeline(random);
    double const c = best_chunk_bytes(p.step_seconds, p.bytes_per_second, p.bytes, p.height);
    // Whole chunks cost a little more than the formula, and few chunks much more.
    if (p.bytes / c > 50) {
      EXPECT_GE(p.throughput(c),
                0.97 * best_throughput(p, {1 << 10, 1 << 8, std::size_t{1} << 30}));
    }
    auto const smooth = [&](double chunk) {
      return (p.bytes / chunk + p.height - 1) * (p.step_seconds + chunk / p.bytes_per_second);
    };
    if (c < p.bytes) {
      EXPECT_LE(smooth(c), smooth(c * 1.01));
      EXPECT_LE(smooth(c), smooth(c * 0.99));
    }
  }
  EXPECT_EQ(best_chunk_bytes(1e-6, 1e9, 5000, 1), 5000);
  EXPECT_EQ(best_chunk_bytes(0, 1e9, 5000, 3), 1);
}

}}  // namespace chunk_autotuner_test
