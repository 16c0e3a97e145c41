// SPDX-License-Identifier: Apache-2.0
// Sound step programs, broken at random. A program that the checker accepts must run to the right
// result. An error of the checker must name the place.
#include <blink/interop/check_program.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>

#include <gtest/gtest.h>
#include <support/step_program_runner.hpp>

#include <cstddef>
#include <cstdint>
#include <optional>
#include <random>
#include <string>
#include <utility>
#include <vector>

namespace {

using namespace blink;

/// The first schedule with a wrong result; nothing if all are right.
std::optional<std::string> first_failure(step_program const& program, int root, int schedules) {
  for (bool const in_place : {true, false}) {
    if (!(in_place ? program.runs_in_place : program.runs_out_of_place)) continue;
    for (int seed = 0; seed < schedules; ++seed) {
      auto const failure =
          test::step_program_runner(program, in_place, root, static_cast<std::uint64_t>(seed))
              .run();
      if (failure) return failure;
    }
  }
  return std::nullopt;
}

std::vector<std::pair<std::string, step_program>> sound_programs() {
  std::vector<std::pair<std::string, step_program>> result;
  for (auto const* name : {"ring:4", "mesh:2x2", "dgx1v", "torus:3x2"}) {
    auto const machine = make_built_in_machine(name).value();
    for (auto const kind :
         {collective::all_reduce, collective::all_gather, collective::reduce_scatter,
          collective::broadcast, collective::reduce}) {
      step_program_options options;
      options.most_chunks = 8 * (has_equal_roots(kind) ? 8 : 1);
      result.emplace_back(
          std::string(name) + " " + std::string(to_text(kind)),
          make_step_program(machine, make_plan(machine, {kind, {}, "exact"}), options).program);
    }
  }
  return result;
}

/// Changes one thing; says what.
std::string break_one(step_program& program, std::mt19937& random) {
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  auto& rank = program.ranks[below(program.ranks.size())];
  auto& block = rank.blocks[below(rank.blocks.size())];
  auto const s = below(block.steps.size());
  auto& step = block.steps[s];
  int const by = random() % 2 == 0 ? 1 : -1;
  switch (below(11)) {
    case 0:
      step.source.chunk += by;
      return "source chunk";
    case 1:
      step.destination.chunk += by;
      return "destination chunk";
    case 2:
      step.source.buffer = static_cast<step_buffer>(below(3));
      return "source buffer";
    case 3:
      step.destination.buffer = static_cast<step_buffer>(below(3));
      return "destination buffer";
    case 4:
      step.kind = static_cast<step_kind>(below(step_names.size()));
      return "kind";
    case 5:
      block.steps.erase(block.steps.begin() + static_cast<std::ptrdiff_t>(s));
      return "removed step";
    case 6:
      block.steps.insert(block.steps.begin() + static_cast<std::ptrdiff_t>(s), program_step(step));
      return "step twice";
    case 7:
      std::swap(step, block.steps[below(block.steps.size())]);
      return "order of steps";
    case 8:
      step.depends_block = step.depends_step = -1;
      return "dependency dropped";
    case 9:
      (random() % 2 == 0 ? block.send_peer : block.receive_peer) =
          static_cast<int>(below(program.ranks.size()));
      return "peer";
    default:
      step.count += by;
      return "count";
  }
}

TEST(broken_programs, what_passes_runs_to_the_right_result) {
  std::mt19937 random(7);
  int refused = 0;
  int seen = 0;  // of the refused ones, by running them
  int passed = 0;
  for (auto const& [name, program] : sound_programs()) {
    SCOPED_TRACE(name);
    auto const sound = check_program(program);
    ASSERT_TRUE(sound) << *sound.fault;
    int const root = sound.root.value_or(-1);
    ASSERT_EQ(first_failure(program, root, 3).value_or("right"), "right");
    for (int trial = 0; trial < 60; ++trial) {
      auto broken = program;
      auto const what = break_one(broken, random);
      if (broken == program) continue;
      SCOPED_TRACE(what);
      auto const report = check_program(broken);
      if (!report) {
        ++refused;
        EXPECT_GE(report.at.rank, 0) << *report.fault;
        EXPECT_EQ(report.fault->rfind("rank ", 0), 0U) << *report.fault;
        if (report.at.block >= 0 || report.at.step >= 0) {
          EXPECT_NE(report.fault->find(in_words(report.at)), std::string::npos) << *report.fault;
        }
        // Structures that do not fit together are not for running.
        if (report.at.step >= 0 && report.at.chunk >= 0) {
          seen += first_failure(broken, root, 4).has_value() ? 1 : 0;
        }
        continue;
      }
      ++passed;
      EXPECT_EQ(first_failure(broken, report.root.value_or(root), 6).value_or("right"), "right");
    }
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(seen, 100);
  EXPECT_GT(passed, 10);  // such as dependencies that another one implies
}

}  // namespace
