// SPDX-License-Identifier: Apache-2.0
// The checker on plans with unequal shares, ranks that only forward, and forbidden links.
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/plan/plan_file.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <string>

// Rooms may be compiled as one source.
namespace check_shares_test { namespace {

using namespace blink;

std::string fault_of(topology const& machine, plan const& p) {
  return check_plan(machine, p).fault.value_or("sound");
}

// Ranks 0 and 1, joined by two units each way; rank 0 has two thirds of the buffer.
plan two_to_one() {
  plan p{collective::all_gather, "by hand", "GB/s", "", {0, 1}, 3, 3, cut_certificate{{0}}, {}};
  p.trees.push_back({0, 2, {}, {{0, 1, {0, 1}}}});
  p.trees.push_back({1, 1, {}, {{1, 0, {1, 0}}}});
  p.shares = {2, 1};
  return p;
}

TEST(check_plan, unequal_shares_are_what_the_plan_names) {
  auto const machine = test::direct_machine({{0, 2}, {2, 0}});
  auto const p = two_to_one();
  auto const report = check_plan(machine, p);
  EXPECT_EQ(report.fault.value_or(""), "");
  EXPECT_EQ(report.bound, rational(3));  // 2 leave {0}, which has 2 of 3 shares
  auto other = p;
  other.shares = {1, 1};
  EXPECT_NE(fault_of(machine, other).find("rank 0 roots 2, expected the share 3/2"),
            std::string::npos);
  other.shares = {2, 1, 1};
  EXPECT_NE(fault_of(machine, other).find("3 shares for 2 ranks"), std::string::npos);
  other.shares = {4, -1};
  EXPECT_NE(fault_of(machine, other).find("a share of -1"), std::string::npos);
  other.shares = {0, 0};
  EXPECT_NE(fault_of(machine, other).find("all shares are 0"), std::string::npos);
  other.shares = {};
  EXPECT_NE(fault_of(machine, other).find("equal share"), std::string::npos);
}

TEST(check_plan, a_rank_that_forwards_is_named) {
  auto const machine = test::direct_machine({{0, 1, 0}, {1, 0, 1}, {0, 1, 0}});
  plan p{collective::broadcast, "by hand", "GB/s", "", {0, 2}, 1, 1, cut_certificate{{0}}, {}};
  p.trees.push_back({0, 1, {}, {{0, 2, {0, 1, 2}}}});
  EXPECT_NE(fault_of(machine, p).find("no usable link 0 -> 1"), std::string::npos);
  p.forwarding_ranks = {1};
  EXPECT_EQ(fault_of(machine, p), "sound");
  p.forwarding_ranks = {0};
  EXPECT_NE(fault_of(machine, p).find("forwarding rank 0 is also a rank"), std::string::npos);
  p.forwarding_ranks = {7};
  EXPECT_NE(fault_of(machine, p).find("forwarding rank 7 is not a node"), std::string::npos);
}

TEST(check_plan, forbidden_links_are_not_there) {
  auto const machine = test::direct_machine({{0, 3, 1}, {3, 0, 1}, {1, 1, 0}});
  plan p{collective::broadcast, "by hand", "GB/s", "", {0, 1, 2}, 1, 1, cut_certificate{{0}}, {}};
  p.trees.push_back({0, 1, {}, {{0, 2, {0, 2}}, {2, 1, {2, 1}}}});
  p.forbidden_links = {{0, 1}};
  EXPECT_EQ(fault_of(machine, p), "sound");  // and the bound is 1, not 4
  p.trees[0].broadcast[1] = {0, 1, {0, 1}};
  EXPECT_NE(fault_of(machine, p).find("no usable link 0 -> 1"), std::string::npos);
}

TEST(plan_file, keeps_shares_forwarding_ranks_and_forbidden_links) {
  auto p = two_to_one();
  p.forwarding_ranks = {5};
  p.forbidden_links = {{0, 7}, {7, 0}};
  auto const read = read_plan(write_plan(p), "text");
  EXPECT_EQ(read.shares, p.shares);
  EXPECT_EQ(read.forwarding_ranks, p.forwarding_ranks);
  EXPECT_EQ(read.forbidden_links, p.forbidden_links);
  auto text = write_plan(p);
  text.replace(text.find("[[0,7]"), 6, "[[0]");
  EXPECT_THROW((void)read_plan(text, "text"), input_error);
}

}}  // namespace check_shares_test
