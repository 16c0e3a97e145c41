// SPDX-License-Identifier: Apache-2.0
// The load of execution plans on a machine's links, computed by hand.
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/interop/mscclpp_load.hpp>
#include <blink/interop/read_mscclpp_json.hpp>

#include <gtest/gtest.h>
#include <support/expect_error.hpp>
#include <support/small_machines.hpp>

#include <string>
#include <vector>

// Rooms may be compiled as one source.
namespace mscclpp_load_test { namespace {

using namespace blink;

mscclpp_program plan_named(std::string const& name) {
  return read_mscclpp_json_file(std::string(BLINK_TEST_DATA_DIR) + "/plans/" + name);
}

TEST(mscclpp_load, what_a_rank_reads_comes_from_its_peer) {
  // Each rank reads one of two chunks from the other, and stores the other's chunk there.
  auto const load =
      load_of(test::direct_machine({{0, 30}, {20, 0}}), plan_named("mscclpp_all_reduce.json"));
  EXPECT_EQ(load.part.at({0, 1}), rational(1));
  EXPECT_EQ(load.part.at({1, 0}), rational(1));
  EXPECT_EQ(load.narrowest, std::pair(1, 0));
  EXPECT_EQ(load.rate, rational(20));
}

TEST(mscclpp_load, loops_move_each_chunk_once) {
  auto const load =
      load_of(test::direct_machine({{0, 30}, {20, 0}}), plan_named("mscclpp_all_gather.json"));
  EXPECT_EQ(load.part.at({0, 1}), rational(1, 2));
  EXPECT_EQ(load.rate, rational(40));
}

TEST(mscclpp_load, packets_are_twice_as_large) {
  // Two packets of a half each way.
  auto const load =
      load_of(test::direct_machine({{0, 30}, {20, 0}}), plan_named("mscclpp_earlier.json"));
  EXPECT_EQ(load.part.at({0, 1}), rational(2));
  EXPECT_EQ(load.rate, rational(10));
}

TEST(mscclpp_load, blocks_that_share_an_operation_share_its_load) {
  auto program = plan_named("mscclpp_all_reduce.json");
  for (auto& rank : program.ranks) {
    for (auto& op : rank.blocks[0].segments[0].operations) op.slices = 3;
    auto other = rank.blocks[0];
    for (auto& op : other.segments[0].operations) op.slice = 1;
    rank.blocks.push_back(other);
    for (auto& op : other.segments[0].operations) op.slice = 2;
    rank.blocks.push_back(other);
  }
  auto const load = load_of(test::direct_machine({{0, 30}, {20, 0}}), program);
  EXPECT_EQ(load.part.at({0, 1}), rational(1));
  EXPECT_EQ(load.rate, rational(20));
}

TEST(mscclpp_load, a_switch_copies_and_reduces) {
  mscclpp_program program;
  program.ranks.resize(4);
  for (int r = 0; r < 4; ++r) {
    auto& rank = program.ranks[static_cast<std::size_t>(r)];
    rank.input_chunks = 4;
    rank.groups = {{step_buffer::input, {0, 1, 2, 3}, 4}};
    mscclpp_operation op{mscclpp_kind::group_reduce};
    op.sources = op.destinations = {{-1, step_buffer::input, r, 0}};
    op.count = 1;
    rank.blocks = {{{{0, {op}}}}};
  }
  // A rank sends one chunk for each of the others' sums, and its own sum once. It receives as much.
  auto const load = load_of(test::star_machine(4, 12), program);
  for (int r = 0; r < 4; ++r) {
    EXPECT_EQ(load.part.at({r, 4}), rational(1));
    EXPECT_EQ(load.part.at({4, r}), rational(1));
  }
  EXPECT_EQ(load.rate, rational(12));
}

TEST(mscclpp_load, machines_that_do_not_fit_are_named) {
  auto const program = plan_named("mscclpp_all_reduce.json");
  EXPECT_ERROR((void)load_of(test::star_machine(3, 1), program),
               "the program has 2 ranks, the machine 'star' has 3");
  EXPECT_ERROR((void)load_of(test::direct_machine({{0, 1}, {0, 0}}), program),
               "no route leads from rank 1 to rank 0");
}

}}  // namespace mscclpp_load_test
