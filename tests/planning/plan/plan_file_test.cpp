// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/make_plan.hpp>
#include <blink/planning/plan/plan_file.hpp>

#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace blink;

void expect_equal(plan const& a, plan const& b) {
  EXPECT_EQ(a.collective, b.collective);
  EXPECT_EQ(a.planner, b.planner);
  EXPECT_EQ(a.unit, b.unit);
  EXPECT_EQ(a.links, b.links);
  EXPECT_EQ(a.ranks, b.ranks);
  EXPECT_EQ(a.rate, b.rate);
  EXPECT_EQ(a.bound, b.bound);
  EXPECT_EQ(a.proof.index(), b.proof.index());
  EXPECT_EQ(a.trees, b.trees);
}

TEST(plan_file, round_trips_every_collective) {
  for (int kind = 0; kind < 5; ++kind) {
    auto p = make_plan(test::star_machine(4, 7), {static_cast<collective>(kind), {}, "exact"});
    if (kind == 0) p.links = "nvlink";
    auto const text = write_plan(p);
    expect_equal(p, read_plan(text, "test"));
    EXPECT_EQ(text, write_plan(read_plan(text, "test")));
  }
}

TEST(plan_file, round_trips_every_certificate) {
  auto p = make_plan(test::star_machine(3, 7), {collective::all_reduce, {}, "exact"});
  for (certificate const& proof :
       {certificate(no_certificate{}), certificate(cut_certificate{{1, 2}}),
        certificate(partition_certificate{{{0}, {1, 2}}}),
        certificate(price_certificate{{{0, 3, rational(1, 8)}}})}) {
    p.proof = proof;
    EXPECT_EQ(write_plan(read_plan(write_plan(p), "test")), write_plan(p));
  }
}

std::string error_of(std::string const& text) {
  try {
    (void)read_plan(text, "p.json");
  } catch (input_error const& failure) {
    return failure.what();
  }
  return "no error";
}

TEST(plan_file, says_where_and_what_was_expected) {
  auto const good =
      write_plan(make_plan(test::star_machine(3, 7), {collective::broadcast, {}, "exact"}));
  auto const with = [&](std::string const& from, std::string const& to) {
    auto text = good;
    auto const at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    return error_of(text.replace(at, from.size(), to));
  };
  std::vector<std::pair<std::string, std::string>> const cases{
      {with("\"blink_plan\": 1", "\"blink_plan\": 2"), "found format 2, expected 1"},
      {with("\"broadcast\"", "\"broadcats\""), "found \"broadcats\", expected one of broadcast"},
      {with("[0,1,2]", "[0,\"1\",2]"), "ranks[1]: found \"1\", expected an integer"},
      {with("\"rate\": \"7\"", "\"rate\": \"7/0\""), "rate: found \"7/0\", expected a fraction"},
      {with("\"kind\":\"cut\"", "\"kind\":\"guess\""), "found \"guess\", expected cut"},
      {with("\"root\":0", "\"root\":99999999999"), "trees[0].root"},
      {with("\"weight\"", "\"wait\""), "trees[0].weight: missing"},
      {with("[0,1,[0,3,1]]", "[0,1]"), "trees[0].broadcast[0]: expected [from, to, path]"},
      {with("\"unit\": \"GB/s\",\n", "\"unit\": \"GB/s\"\n"), "p.json:6: malformed JSON"},
  };
  for (auto const& [found, expected] : cases) {
    EXPECT_NE(found.find(expected), std::string::npos) << found << " / " << expected;
  }
  EXPECT_NE(error_of("").find("p.json:1: malformed"), std::string::npos);
  EXPECT_NE(error_of("[]").find("expected an object"), std::string::npos);
  EXPECT_THROW((void)read_plan_file("/does/not/exist"), input_error);
  EXPECT_THROW((void)read_plan_file("/tmp"), input_error);  // opens, and cannot be read
}

TEST(plan_file, keeps_members_and_destinations) {
  plan p;
  p.collective = collective::permute;
  p.planner = "by hand";
  p.unit = "GB/s";
  p.ranks = {4, 5, 6};
  p.destinations = {6, 5, 4};
  p.trees = {{4, rational(1, 2), {}, {{4, 5, {4, 5}}, {5, 6, {5, 9, 6}}}, {4, 6}}};
  auto const text = write_plan(p);
  auto const again = read_plan(text, "p.json");
  EXPECT_EQ(again.trees, p.trees);
  EXPECT_EQ(again.destinations, p.destinations);
  EXPECT_EQ(write_plan(again), text);
  EXPECT_EQ(text.find("reduce"), std::string::npos);
}

TEST(plan_file, never_crashes_on_damaged_text) {
  auto const good =
      write_plan(make_plan(test::star_machine(3, 7), {collective::all_reduce, {}, "exact"}));
  std::mt19937 random(1);
  int refused = 0;
  for (int i = 0; i < 2000; ++i) {
    auto text = good;
    if (i % 4 == 0) text.resize(random() % text.size());
    for (unsigned k = 0; k < 1 + random() % 3 && !text.empty(); ++k) {
      text[random() % text.size()] = static_cast<char>(random() % 256);
    }
    try {
      (void)read_plan(text, "damaged");
    } catch (input_error const&) {
      ++refused;
    }
  }
  EXPECT_GT(refused, 1000);
  EXPECT_THROW((void)read_plan(std::string(100000, '['), "deep"), input_error);
}

}  // namespace
