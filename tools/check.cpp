// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check_plan.hpp>
#include <blink/planning/plan_file.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include <CLI/CLI.hpp>

#include <cstdio>
#include <memory>
#include <string>

namespace blink::tools {
namespace {

struct check_options {
  std::string machine;
  std::string plan;
};

void run_check(check_options const& options) {
  auto const machine = read_part(options.machine, "", "all").machine;
  auto const p = read_plan_file(options.plan);
  auto const report = check_plan(machine, p);
  if (!report) throw input_error(options.plan + ": " + *report.fault);
  std::printf("%s: sound\n", options.plan.c_str());
  std::printf("collective   %s over ranks %s of %s\n", std::string(to_text(p.collective)).c_str(),
              in_words(p.ranks).c_str(), machine.name.c_str());
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
  auto* command = app.add_subcommand("check",
                                     "Check a plan file against a machine: every contribution "
                                     "arrives exactly once, nobody waits for\n"
                                     "ever, loads within capacities, rate and bound as claimed. "
                                     "Exit status 2 names the first fault.");
  command->add_option("MACHINE", options->machine, "built-in name, JSON file or NCCL XML file")
      ->required();
  command->add_option("PLAN", options->plan, "plan file, as blink plan --out writes it")
      ->required();
  command->callback([options] { run_check(*options); });
}

}  // namespace blink::tools
