// SPDX-License-Identifier: Apache-2.0
#include "../../benchmarks/training/replay.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

namespace {

// Parameters as torchvision counts them, and multiply-adds as its pages list them ("GFLOPS").
TEST(training_networks, have_the_size_of_torchvisions_models) {
  struct known {
    std::size_t parameters;
    double billions;
  };
  std::vector<known> const all{
      {61'100'840, 0.71}, {11'689'512, 1.81}, {25'557'032, 4.09}, {138'357'544, 15.47}};
  auto const networks = blink_bench::all_networks();
  ASSERT_EQ(networks.size(), all.size());
  for (std::size_t k = 0; k < all.size(); ++k) {
    SCOPED_TRACE(networks[k].name);
    EXPECT_EQ(networks[k].parameters(), all[k].parameters);
    EXPECT_NEAR(networks[k].multiply_adds() * 1e-9, all[k].billions, 0.01);
  }
}

TEST(training_networks, have_their_layers) {
  EXPECT_EQ(blink_bench::alexnet().layers.size(), 8u);
  EXPECT_EQ(blink_bench::vgg16().layers.size(), 16u);
  EXPECT_EQ(blink_bench::resnet18().layers.size(), 18u + 3);  // three shortcuts with weights
  EXPECT_EQ(blink_bench::resnet50().layers.size(), 50u + 4);
}

// Layers of 1, 2, 3 and 4 Mi parameters, with work in the same proportion.
blink_bench::network four_layers() {
  blink_bench::network result{"four", {}, 10, 40};
  for (std::size_t k = 1; k <= 4; ++k) {
    result.layers.push_back({k << 20, static_cast<double>(k)});
  }
  return result;
}

TEST(training_iteration, fills_buckets_from_the_last_layer_on) {
  // Buckets close at 16 MiB and then 20 MiB of floats: layer 4 alone, then 3 and 2, then 1.
  auto const one = blink_bench::make_iteration(four_layers(), 20, {16 << 20, 20 << 20});
  ASSERT_EQ(one.buckets.size(), 3u);
  EXPECT_EQ(one.buckets[0].parameters, std::size_t{4} << 20);
  EXPECT_EQ(one.buckets[1].parameters, std::size_t{5} << 20);
  EXPECT_EQ(one.buckets[2].parameters, std::size_t{1} << 20);
  // 20 images take 2 s, of which the forward pass takes 0.5 s and a tenth of the work 0.15 s.
  EXPECT_DOUBLE_EQ(one.compute_seconds, 2);
  EXPECT_DOUBLE_EQ(one.buckets[0].ready_seconds, 0.5 + 0.15 * 4);
  EXPECT_DOUBLE_EQ(one.buckets[1].ready_seconds, 0.5 + 0.15 * 9);
  EXPECT_DOUBLE_EQ(one.buckets[2].ready_seconds, 2);
}

TEST(training_iteration, holds_all_parameters_and_ends_with_the_backward_pass) {
  for (auto const& trained : blink_bench::all_networks()) {
    SCOPED_TRACE(trained.name);
    auto const one = blink_bench::make_iteration(trained, 32);
    std::size_t sum = 0;
    double before = 0;
    for (auto const& each : one.buckets) {
      sum += each.parameters;
      EXPECT_GT(each.ready_seconds, before);
      before = each.ready_seconds;
    }
    EXPECT_EQ(sum, trained.parameters());
    EXPECT_NEAR(before, one.compute_seconds, 1e-12);
    EXPECT_GE(one.buckets.front().parameters * sizeof(float), std::size_t{1} << 20);
    for (std::size_t k = 1; k + 1 < one.buckets.size(); ++k) {
      EXPECT_GE(one.buckets[k].parameters * sizeof(float), std::size_t{25} << 20);
    }
  }
}

TEST(training_iteration, hides_all_reduces_behind_the_backward_pass) {
  blink_bench::iteration const one{{{1, 1.0}, {2, 2.0}, {3, 4.0}}, 4.0};
  auto const seconds = [&](double each) {
    return blink_bench::overlapped_seconds(
        one, [&](std::size_t parameters) { return each * static_cast<double>(parameters); });
  };
  EXPECT_DOUBLE_EQ(seconds(0), 4);      // only computation
  EXPECT_DOUBLE_EQ(seconds(0.5), 5.5);  // the last bucket follows the backward pass
  EXPECT_DOUBLE_EQ(seconds(2), 13);     // one all-reduce after the other from 1.0 on
}

TEST(training_replay, gives_the_mean_and_is_no_faster_than_the_links) {
  blink_bench::replay_scale const scale{200, 1};
  blink_bench::iteration const one{{{4'000'000, 0.01}, {40, 0.011}}, 0.011};
  for (auto const& machine : blink_bench::training_machines()) {
    SCOPED_TRACE(machine.name);
    double best = 0;
    for (auto const& planned : machine.contenders) {
      SCOPED_TRACE(planned.name);
      double const rate = planned.planned.rate.to_double() * 1e9;
      EXPECT_TRUE(best == 0 || rate <= best);  // the planned trees come first
      best = std::max(best, rate);
      auto const by_links = [&](std::size_t parameters) {
        return static_cast<double>(parameters * sizeof(float)) / rate;
      };
      auto const chunks = blink_bench::chunks_of(planned, scale, {});
      blink_bench::simulated_all_reduce simulated(planned, scale, {}, chunks);
      EXPECT_GT(simulated(4'000'000), by_links(4'000'000));
      EXPECT_LT(simulated(4'000'000), 4 * by_links(4'000'000));
      auto const trees = blink_bench::replayed_schedule(planned, scale, chunks);
      // The scheduler may only delay ranks, and `replay` itself checks every average.
      EXPECT_GE(blink_bench::replay(trees, one, 1, scale),
                blink_bench::overlapped_seconds(one, by_links));
    }
  }
}

}  // namespace
