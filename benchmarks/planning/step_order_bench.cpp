// SPDX-License-Identifier: Apache-2.0
// How close do step programs come to the rate of their plan? Prints the Markdown table of
// docs/other_runtimes.md, in percent. Blocks run their steps in order, and only links take time. No
// limit of a runtime counts, so that every chunk has a step of its own.
#include <blink/interop/check_program.hpp>
#include <blink/interop/make_step_program.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/built_in_machines.hpp>

#include "support/step_program_clock.hpp"

#include <cstdio>
#include <stdexcept>
#include <string>

namespace {

using namespace blink;

constexpr int slots = 2;        // of each connection
constexpr int iterations = 32;  // of the program

/// Throws: std::runtime_error for a program with a fault.
double percent_of_plan(topology const& machine, collective kind, int slices) {
  auto const plan = make_plan(machine, {kind, {}, "exact"});
  step_program_options options;
  options.slices = slices;
  options.limits.steps = 100'000;
  options.limits.elements = 1'000'000;
  auto const program = make_step_program(machine, plan, options).program;
  if (auto const report = check_program(program); !report) throw std::runtime_error(*report.fault);
  test::step_program_clock clock(machine, program, slots);
  return 100 * clock.rate(iterations) / plan.rate.to_double();
}

}  // namespace

int main() {
  constexpr char const* machines[] = {"ring:8", "torus:4x4", "dgx1v", "dgx_a100:2"};
  struct measured_row {
    collective kind;
    int slices;
  };
  constexpr measured_row rows[] = {{collective::all_gather, 1},  {collective::reduce_scatter, 1},
                                   {collective::all_reduce, 1},  {collective::all_reduce, 4},
                                   {collective::all_reduce, 16}, {collective::broadcast, 1},
                                   {collective::reduce, 1}};
  std::printf("| collective | slices |");
  for (auto const* name : machines) std::printf(" `%s` |", name);
  std::printf("\n| --- | ---: | ---: | ---: | ---: | ---: |\n");
  for (auto const& [kind, slices] : rows) {
    std::printf("| %s | %d |", std::string(to_text(kind)).c_str(), slices);
    for (auto const* name : machines) {
      std::printf(" %.0f |", percent_of_plan(*make_built_in_machine(name), kind, slices));
      std::fflush(stdout);
    }
    std::printf("\n");
  }
}
