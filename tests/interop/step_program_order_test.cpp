// SPDX-License-Identifier: Apache-2.0
// The order of steps in thread blocks: the time of programs whose blocks run strictly in order.
#include <blink/interop/check_program.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/interop/write_msccl_xml.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>

#include <gtest/gtest.h>
#include <support/expect_error.hpp>
#include <support/random_plans.hpp>
#include <support/small_machines.hpp>
#include <support/step_program_clock.hpp>

#include <algorithm>
#include <limits>
#include <stdexcept>
#include <string>
#include <vector>

// A folder may be compiled as one source.
namespace step_program_order_test { namespace {

using namespace blink;

void expect_no_fault(step_program const& program) {
  for (int const slots : {1, 2}) {
    auto const report = check_program(program, {slots});
    EXPECT_EQ(report.fault.value_or("sound"), "sound") << slots << " slots";
    for (auto const& note : report.notes) ADD_FAILURE() << note;
  }
}

/// A program of two ranks: rank 0 sends some chunks, rank 1 receives them.
step_program one_connection(int chunks) {
  step_program program;
  program.collective = collective::broadcast;
  program.chunk_count = chunks;
  program.channel_count = 1;
  program.root = 0;
  program_step const sends{step_kind::send, {step_buffer::input, 0}, {}, chunks};
  program_step const receives{step_kind::receive, {}, {step_buffer::output, 0}, chunks};
  program.ranks = {{chunks, chunks, 0, {{1, -1, 0, {sends}}}},
                   {chunks, chunks, 0, {{-1, 0, 0, {receives}}}}};
  return program;
}

TEST(step_program_clock, times_by_hand) {
  auto const two = test::direct_machine({{0, 4}, {4, 0}});
  double const rate = two.in_units(4).to_double();
  auto program = one_connection(3);
  test::step_program_clock clock(two, program, 1);
  EXPECT_DOUBLE_EQ(clock.time(1), 1 / rate);
  EXPECT_DOUBLE_EQ(clock.time(5), 5 / rate);
  EXPECT_DOUBLE_EQ(clock.rate(4), rate);

  // Rank 1 forwards to rank 2. A step that receives and sends keeps its only slot while it sends.
  auto const line = test::direct_machine({{0, 1, 0}, {1, 0, 1}, {0, 1, 0}});
  double const one = 1 / line.in_units(1).to_double();
  program.ranks[1].blocks = {
      {2, 0, 0, {{step_kind::receive_copy_send, {}, {step_buffer::output, 0}, 3}}}};
  program.ranks.push_back(
      {3, 3, 0, {{-1, 1, 0, {{step_kind::receive, {}, {step_buffer::output, 0}, 3}}}}});
  EXPECT_DOUBLE_EQ(test::step_program_clock(line, program, 1).time(1), 6 * one / 3);
  EXPECT_DOUBLE_EQ(test::step_program_clock(line, program, 2).time(1), 4 * one / 3);

  // Two messages share the port of a switch.
  auto const star = test::star_machine(3, 2);
  program = one_connection(1);
  program.ranks[0].blocks.push_back({2, -1, 0, program.ranks[0].blocks[0].steps});
  program.ranks.push_back(program.ranks[1]);
  EXPECT_DOUBLE_EQ(test::step_program_clock(star, program, 1).time(1),
                   2 / star.in_units(2).to_double());
}

TEST(step_program_clock, finds_waits_without_end) {
  // Each rank first receives what the other sends last.
  auto program = one_connection(1);
  auto const send = program.ranks[0].blocks[0].steps[0];
  auto const receive = program.ranks[1].blocks[0].steps[0];
  program.ranks[0].blocks = {{1, 1, 0, {receive, send}}};
  program.ranks[1].blocks = {{0, 0, 0, {receive, send}}};
  test::step_program_clock clock(test::direct_machine({{0, 1}, {1, 0}}), program, 2);
  EXPECT_THROW((void)clock.time(1), std::runtime_error);
}

// Blocks that passed chunks tree by tree gave 29 % of the plan's rate for the first program. They
// gave 23 % for the second, and 6 % for the last.
TEST(step_program_order, blocks_run_at_the_rate_of_the_plan) {
  struct timed_case {
    char const* machine;
    collective kind;
    int slices;
    double least;  // of the plan's rate
  };
  for (auto const& [name, kind, slices, least] :
       std::vector<timed_case>{{"ring:8", collective::all_gather, 1, 0.99},
                               {"ring:8", collective::all_reduce, 4, 0.95},
                               {"ring:8", collective::reduce_scatter, 1, 0.99},
                               {"ring:8", collective::broadcast, 1, 0.99},
                               {"torus:4x4", collective::all_gather, 1, 0.99},
                               {"torus:4x4", collective::all_reduce, 16, 0.9},
                               {"dgx1v", collective::reduce_scatter, 1, 0.99},
                               {"dgx1v", collective::all_reduce, 16, 0.9},
                               {"dgx1v", collective::broadcast, 1, 0.99},
                               {"dgx_a100:2", collective::reduce_scatter, 1, 0.95}}) {
    SCOPED_TRACE(std::string(name) + " " + std::string(to_text(kind)));
    auto const machine = make_built_in_machine(name).value();
    auto const p = make_plan(machine, {kind, {}, "exact"});
    step_program_options options;
    options.slices = slices;
    auto const result = make_step_program(machine, p, options);
    EXPECT_EQ(result.rate, p.rate);
    for (int const slots : {1, 2}) {
      test::step_program_clock clock(machine, result.program, slots);
      auto const part = clock.rate(8) / p.rate.to_double();
      EXPECT_GE(part, least) << slots << " slots";
      EXPECT_LE(part, 1.001) << slots << " slots";
    }
  }
}

TEST(step_program_order, slices_are_sound_and_equal_plans_give_equal_files) {
  for (auto const* name : {"ring:5", "dgx1v", "mesh:3x2"}) {
    auto const machine = make_built_in_machine(name).value();
    for (auto const kind : test::tree_collectives) {
      auto const p = make_plan(machine, {kind, {}, "exact"});
      auto const whole = make_step_program(machine, p, {2});
      for (int const slices : {2, 5}) {
        SCOPED_TRACE(std::string(name) + " " + std::string(to_text(kind)) + " / " +
                     std::to_string(slices));
        step_program_options options;
        options.instances = 2;
        options.slices = slices;
        auto const result = make_step_program(machine, p, options);
        EXPECT_EQ(result.program.chunk_count, slices * whole.program.chunk_count);
        EXPECT_EQ(result.most_blocks, whole.most_blocks);
        expect_no_fault(result.program);
        EXPECT_EQ(write_msccl_xml(result.program),
                  write_msccl_xml(make_step_program(machine, p, options).program));
      }
    }
  }
  for (unsigned seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    auto const [machine, p] = test::make_random_forest(seed);
    step_program_options options;
    options.most_chunks = 64;
    options.slices = 3;
    expect_no_fault(make_step_program(machine, p, options).program);
  }
}

TEST(step_program_order, fewer_steps_and_blocks_where_limits_are_narrow) {
  auto const machine = make_built_in_machine("dgx1v").value();
  auto const p = make_plan(machine, {collective::all_reduce, {}, "exact"});
  auto const free = make_step_program(machine, p);
  auto const longest_count = [](step_program const& program) {
    int result = 0;
    for (auto const& rank : program.ranks) {
      for (auto const& block : rank.blocks) {
        for (auto const& step : block.steps) result = std::max(result, step.count);
      }
    }
    return result;
  };
  EXPECT_EQ(longest_count(free.program), 1);

  step_program_options short_blocks;
  short_blocks.limits.steps = free.most_steps - 1;
  auto const joined = make_step_program(machine, p, short_blocks);
  EXPECT_LT(joined.most_steps, free.most_steps);
  EXPECT_GT(longest_count(joined.program), 1);
  expect_no_fault(joined.program);

  step_program_options few_blocks;
  few_blocks.limits.blocks = free.most_blocks - 1;
  auto const paired = make_step_program(machine, p, few_blocks);
  EXPECT_LT(paired.most_blocks, free.most_blocks);
  expect_no_fault(paired.program);
}

TEST(step_program_order, slices_that_do_not_fit) {
  auto const machine = make_built_in_machine("ring:4").value();
  auto const p = make_plan(machine, {collective::all_reduce, {}, "exact"});
  step_program_options options;
  options.slices = 0;
  EXPECT_ERROR((void)make_step_program(machine, p, options),
               "expected instances, chunks and slices");
  options.slices = 1 << 20;
  EXPECT_ERROR((void)make_step_program(machine, p, options), "chunks of the buffer:");
  options.slices = std::numeric_limits<int>::max();
  EXPECT_ERROR((void)make_step_program(machine, p, options), " slices are too many");
}

}}  // namespace step_program_order_test
