// SPDX-License-Identifier: Apache-2.0

#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/schedule/operand_order.hpp>
#include <blink/schedule/proportional_split.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <random>
#include <string>
#include <vector>

// A folder may be compiled as one source.
namespace schedule_test { namespace {

TEST(schedule, random_ones_are_valid_and_carry_their_collective) {
  for (std::uint64_t seed = 0; seed < 300; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    auto const kind = static_cast<blink::collective>(seed % blink::collective_names.size());
    int const least = kind == blink::collective::send_to_next ? 2 : 1;
    auto const source =
        blink_test::random_schedule(random, least + blink_test::below(random, 9), kind);
    EXPECT_NO_THROW(blink::validate(source));
    EXPECT_NO_THROW(blink::validate_for(source, kind));
  }
}

std::string refusal(std::function<void(blink::schedule&)> const& damage) {
  auto source = blink::star_schedule(4);
  source.link_bytes_per_second = {1, 2};
  damage(source);
  try {
    blink::validate(source);
  } catch (blink::precondition_error const& error) {
    return error.what();
  }
  return "";
}

TEST(schedule, damage_is_named) {
  EXPECT_EQ(refusal([](auto&) {}), "");
  auto const names = [](std::string const& text, std::string const& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  names(refusal([](auto& p) { p.rank_count = 0; }), "0 ranks");
  names(refusal([](auto& p) { p.trees.clear(); }), "no trees");
  names(refusal([](auto& p) { p.trees[2].root = 4; }), "tree 2: root 4 of 4");
  names(refusal([](auto& p) { p.trees[1].reduce_parent.set(3, 7); }), "parent of rank 3 is 7");
  names(refusal([](auto& p) { p.trees[1].reduce_parent.set(1, 0); }), "expected -1 at the root");
  names(refusal([](auto& p) { p.trees[0].broadcast_parent = {-1, 2, 1, 0}; }), "cycle");
  names(refusal([](auto& p) { p.trees[0].broadcast_parent = {-1, 1, 0, 0}; }), "cycle");
  names(refusal([](auto& p) { p.trees[0].broadcast_parent = {-1, 0, 0}; }), "3 parents");
  names(refusal([](auto& p) { p.trees[0].reduce_route = {{}, {2}, {}, {}}; }), "link 2 of 2");
  names(refusal([](auto& p) { p.trees[0].reduce_route = {{}, {0}}; }), "2 routes");
  names(refusal([](auto& p) { p.link_bytes_per_second[1] = 0; }), "link 1: rate");
  names(refusal([](auto& p) {
          for (auto& tree : p.trees) tree.weight = 0;
        }),
        "sum to 0");
  names(refusal([](auto& p) { p.trees[1].weight = p.trees[2].weight = 1ULL << 62; }), "2^63");
  names(refusal([](auto& p) {
          p.trees[3].reduce_parent.clear();
          p.trees[3].broadcast_parent.clear();
        }),
        "tree 3: no parents");
}

TEST(schedule, rooted_collectives_need_one_root_and_shares_need_all) {
  EXPECT_THROW(blink::validate_for(blink::star_schedule(3), blink::collective::broadcast),
               blink::precondition_error);
  EXPECT_THROW(blink::validate_for(blink::flat_schedule(3, 1), blink::collective::all_gather),
               blink::precondition_error);
}

TEST(schedule, damage_to_receivers_is_named) {
  auto const refusal_of = [](std::vector<int> parents, std::vector<int> receivers) {
    blink::schedule source{.rank_count = 4};
    source.trees.push_back(
        {.root = 0, .broadcast_parent = std::move(parents), .receivers = std::move(receivers)});
    try {
      blink::validate(source);
    } catch (blink::precondition_error const& error) {
      return std::string(error.what());
    }
    return std::string();
  };
  auto const names = [](std::string const& text, std::string const& part) {
    EXPECT_NE(text.find(part), std::string::npos) << text;
  };
  EXPECT_EQ(refusal_of({-1, 2, 0, -1}, {1}), "");
  EXPECT_EQ(refusal_of({-1, -1, -1, -1}, {0}), "");
  EXPECT_EQ(refusal_of({-1, 0, 0, 2}, {1, 3}), "");
  names(refusal_of({-1, 2, 0, -1}, {1, 1}), "rank 1 twice");
  names(refusal_of({-1, 2, 0, -1}, {4}), "rank 4 of 4");
  names(refusal_of({-1, 2, 0, -1}, {3}), "no path leads to rank 3");
  names(refusal_of({-1, 2, 0, -1}, {2}), "rank 1 is a leaf and keeps nothing");
  names(refusal_of({-1, 2, -1, -1}, {1}), "ends before the root");
  names(refusal_of({-1, 2, 1, -1}, {1}), "cycle");
  names(refusal([](auto& p) {
          p.trees[1].broadcast_parent.clear();
          p.trees[1].receivers = {2};
        }),
        "tree 1, receivers: no phase leads from the root to the receivers");
}

TEST(schedule, a_reduce_ends_at_one_rank_wherever_trees_combine) {
  auto source = blink::shared_reduce_schedule(3, 1);
  blink::validate(source);
  blink::validate_for(source, blink::collective::reduce);
  EXPECT_EQ(blink::root_of(source, blink::collective::reduce), 1);
  EXPECT_ERROR(blink::validate_for(source, blink::collective::all_reduce), "1 receivers");
  auto elsewhere = source;
  elsewhere.trees[2].receivers.clear();
  EXPECT_ERROR(blink::validate_for(elsewhere, blink::collective::reduce),
               "tree 2 of the schedule ends at rank 2, the first at 1");
  auto two = source;
  two.trees[0].broadcast_parent = {-1, 0, 0};
  two.trees[0].receivers = {1, 2};
  EXPECT_ERROR(blink::validate_for(two, blink::collective::reduce), "2 receivers, expected one");
}

TEST(schedule, flows_are_complete_and_no_others) {
  using blink::collective;
  auto const carries = [](blink::schedule const& source, collective kind) {
    blink::validate(source);
    try {
      blink::validate_for(source, kind);
    } catch (blink::precondition_error const&) {
      return false;
    }
    return true;
  };
  for (int ranks = 2; ranks <= 5; ++ranks) {
    for (int root = 0; root < ranks; ++root) {
      auto gather = blink::gather_schedule(ranks, root);
      EXPECT_TRUE(carries(gather, collective::gather));
      EXPECT_FALSE(carries(gather, collective::scatter));
      EXPECT_FALSE(carries(gather, collective::all_to_all));
      EXPECT_FALSE(carries(gather, collective::permute));
      EXPECT_FALSE(carries(gather, collective::broadcast));
      auto scatter = blink::scatter_schedule(ranks, root);
      EXPECT_TRUE(carries(scatter, collective::scatter));
      EXPECT_FALSE(carries(scatter, collective::gather));
      gather.trees.pop_back();
      EXPECT_FALSE(carries(gather, collective::gather));
      scatter.trees.front().weight = 0;
      EXPECT_FALSE(carries(scatter, collective::scatter));
    }
    auto all = blink::all_to_all_schedule(ranks);
    EXPECT_TRUE(carries(all, collective::all_to_all));
    EXPECT_FALSE(carries(all, collective::gather));
    EXPECT_FALSE(carries(all, collective::all_gather));
    all.trees.erase(all.trees.begin() + 1);
    EXPECT_FALSE(carries(all, collective::all_to_all));
    auto const next = blink::send_to_next_schedule(ranks);
    EXPECT_TRUE(carries(next, collective::send_to_next));
    EXPECT_TRUE(carries(next, collective::permute));
    EXPECT_FALSE(carries(blink::star_schedule(ranks), collective::all_to_all));
  }
  EXPECT_FALSE(carries(blink::permute_schedule({1, 0, 0}), collective::permute));
  EXPECT_TRUE(carries(blink::permute_schedule({1, 0, 2, -1}), collective::permute));
  EXPECT_FALSE(carries(blink::permute_schedule({1, 0, 2, -1}), collective::send_to_next));
  EXPECT_THROW((void)blink::permute_schedule({-1, -1}), blink::precondition_error);
  EXPECT_THROW((void)blink::permute_schedule({2, -1}), blink::precondition_error);
}

TEST(schedule, heights_of_default_schedules) {
  for (int ranks = 1; ranks <= 17; ++ranks) {
    for (int root = 0; root < ranks; ++root) {
      EXPECT_NO_THROW(blink::validate(blink::flat_schedule(ranks, root)));
      auto const chain = blink::chain_schedule(ranks, root);
      EXPECT_NO_THROW(blink::validate(chain));
      EXPECT_EQ(blink::tree_height(chain.trees[0].reduce_parent), ranks - 1);
      auto const binomial = blink::binomial_schedule(ranks, root);
      EXPECT_NO_THROW(blink::validate(binomial));
      int rounds = 0;
      while (1 << rounds < ranks) ++rounds;
      EXPECT_LE(blink::tree_height(binomial.trees[0].reduce_parent), rounds);
      EXPECT_TRUE(root != 0 || blink::reduces_in_order(binomial));
      EXPECT_TRUE(root != 0 || blink::reduces_in_order(chain));
    }
  }
}

// The order by brute force: the sequence in which "lower children, own, higher children" visits the
// ranks.
void visit(blink::by_rank<int> const& parents, int rank, std::vector<int>& order) {
  for (int child = 0; child < static_cast<int>(parents.size()); ++child) {
    if (child == rank) order.push_back(rank);
    if (parents[static_cast<std::size_t>(child)] == rank) visit(parents, child, order);
  }
}

TEST(schedule, order_is_kept_iff_ranks_are_visited_in_order) {
  int kept = 0;
  for (std::uint64_t seed = 0; seed < 400; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + blink_test::below(random, 5);
    blink::schedule source;
    source.rank_count = ranks;
    source.trees.emplace_back();
    source.trees[0].root = seed % 4 == 0 ? blink_test::below(random, ranks) : 0;
    source.trees[0].reduce_parent = blink_test::random_parents(random, ranks, source.trees[0].root);
    std::vector<int> order;
    visit(source.trees[0].reduce_parent, source.trees[0].root, order);
    EXPECT_EQ(blink::reduces_in_order(source), std::is_sorted(order.begin(), order.end()));
    kept += blink::reduces_in_order(source) ? 1 : 0;
  }
  EXPECT_GT(kept, 50);
  EXPECT_LT(kept, 350);
}

TEST(split, parts_cover_the_buffer_once_in_order_and_in_proportion) {
  for (std::uint64_t seed = 0; seed < 500; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::size_t const element_bytes = 1 + random() % 100;
    std::size_t const count = random() % 3 == 0 ? SIZE_MAX / 128 : random() % 100000;
    std::vector<std::uint64_t> weights(1 + random() % 10);
    std::uint64_t total = 0;
    for (auto& weight : weights) total += weight = random() % 2 == 0 ? random() % 5 : random() >> 8;
    if (total == 0) total = weights[0] = 1;
    std::uint64_t before = 0;
    std::size_t begin = blink::part_begin(count, element_bytes, 0, total);
    EXPECT_EQ(begin, 0U);
    for (auto const weight : weights) {
      auto const end = blink::part_begin(count, element_bytes, before + weight, total);
      ASSERT_LE(begin, end);
      double const share = static_cast<double>(weight) / static_cast<double>(total);
      EXPECT_NEAR(static_cast<double>(end - begin), share * static_cast<double>(count),
                  64.0 + 1e-9 * static_cast<double>(count));
      if (end < count) {
        EXPECT_EQ(end % (element_bytes < 64 ? 64 / element_bytes : 1), 0U);
      }
      begin = end;
      before += weight;
    }
    EXPECT_EQ(begin, count);
  }
}

TEST(schedule, predicted_rate_is_the_tightest_link) {
  auto source = blink::chain_schedule(3, 0);
  EXPECT_EQ(blink::predicted_bytes_per_second(source, blink::collective::all_reduce), 0);
  source.link_bytes_per_second = {10, 20, 30};
  source.trees[0].broadcast_route = {{}, {1}, {1, 2}};  // link 1 carries both edges
  source.trees[0].reduce_route = {{}, {0}, {2}};
  EXPECT_DOUBLE_EQ(blink::predicted_bytes_per_second(source, blink::collective::broadcast), 10);
  EXPECT_DOUBLE_EQ(blink::predicted_bytes_per_second(source, blink::collective::reduce), 10);
  source.link_bytes_per_second[0] = 100;
  EXPECT_DOUBLE_EQ(blink::predicted_bytes_per_second(source, blink::collective::reduce), 30);
  EXPECT_DOUBLE_EQ(blink::predicted_bytes_per_second(source, blink::collective::all_reduce), 10);
  auto gather = blink::gather_schedule(3, 0);  // two blocks of three cross one link
  gather.link_bytes_per_second = {10};
  for (auto& tree : gather.trees) {
    if (tree.root != 0) tree.broadcast_route = {{0}, {}, {}};
  }
  EXPECT_DOUBLE_EQ(blink::predicted_bytes_per_second(gather, blink::collective::gather), 15);
}

}}  // namespace schedule_test
