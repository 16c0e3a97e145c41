// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/plan/plan_file.hpp>

#include "arguments.hpp"
#include "check_program.hpp"
#include "commands.hpp"
#include "plan_groups.hpp"
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <optional>
#include <string>

namespace blink::tools {
namespace {

struct check_options : machine_choice {
  check_options() { links = "all"; }
  std::string first;   // the machine, or the only file
  std::string second;  // the plan
};

void run_check(check_options options) {
  bool const is_named = !options.second.empty();
  if (is_named && !options.machine.empty()) {
    throw input_error("--machine " + options.machine + " beside the machine " + options.first +
                      ", expected one of them");
  }
  if (is_named) options.machine = options.first;
  auto const& file = is_named ? options.second : options.first;
  std::string const expected = options.machine.empty()
                                   ? "an algorithm of MSCCL, an execution plan of MSCCL++, a "
                                     "schedule in GOAL or a file of a Chakra trace, or a machine "
                                     "before a plan file"
                                   : "a plan file";
  auto const text = detail::file_text(file, expected);
  if (is_program_text(text)) {
    std::optional<topology> on;
    if (!options.machine.empty()) on = read_part(options).machine;
    return check_program_text(text, file, on);
  }
  if (options.machine.empty()) throw input_error(file + ": expected " + expected);
  auto const machine = read_part(options).machine;
  if (is_groups_text(text)) return check_groups_file(machine, file);
  auto const p = read_plan(text, file);
  auto const report = check_plan(machine, p);
  if (!report) throw input_error(file + ": " + *report.fault);
  std::printf("%s: sound\n", file.c_str());
  std::printf("collective   %s over ranks %s of %s\n", std::string(to_text(p.collective)).c_str(),
              in_words(p.ranks).c_str(), detail::printable(machine.name).c_str());
  std::printf("trees        %zu\n", p.trees.size());
  std::printf("rate         %s\n", in_words(report.rate, p.unit).c_str());
  if (report.bound) {
    std::printf("bound        %s, proven by %s\n", in_words(*report.bound, p.unit).c_str(),
                in_words(p.proof).c_str());
  } else {
    std::printf("bound        not proven (the plan has no certificate)\n");
  }
}

}  // namespace

void add_check_command(CLI::App& app) {
  auto options = std::make_shared<check_options>();
  auto* command = app.add_subcommand(
      "check",
      "Check a plan file against a machine: every contribution arrives exactly once, "
      "no rank waits\n"
      "without end, loads are within capacities, rate and bound are as claimed. Or check an MSCCL\n"
      "algorithm (XML), an MSCCL++ execution plan (JSON), a schedule in GOAL or a Chakra trace, "
      "of\n"
      "any author, operation by operation; with a machine, show the load on its links. The "
      "contents\n"
      "decide, not the file's name. Of a trace, PREFIX.0.et stands for the files of all ranks.\n"
      "  blink check MACHINE PLAN    blink check ALGORITHM [--machine MACHINE]\n"
      "Exit status 2 names the first fault.");
  command
      ->add_option("MACHINE", options->first,
                   std::string(about_machines) + "; or the algorithm, alone")
      ->required();
  command->add_option(
      "PLAN", options->second,
      "plan file, as blink plan --out writes it (of groups too), or an algorithm of MSCCL, "
      "MSCCL++,\nGOAL or Chakra");
  command->add_option("--machine,-m", options->machine, "the machine, for an algorithm alone");
  add_reading_options(*command, *options, "of the machine that take part");
  command->callback([options] { run_check(*options); });
}

}  // namespace blink::tools
