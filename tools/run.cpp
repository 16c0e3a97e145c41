// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/transports/host/process_environment.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "launcher.hpp"
#include "number_checks.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace blink::tools {
namespace {

struct run_options {
  int rank_count = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  std::string memory;
  double deadline = 0;
  bool no_labels = false;
  bool keep_going = false;
  bool bind = false;
  std::vector<std::string> program;
};

void run_program(run_options const& options) {
  launch_request request;
  request.program = options.program;
  request.rank_count = options.rank_count;
  if (!options.memory.empty()) request.memory_bytes = read_bytes("--memory", options.memory);
  if (options.deadline > 0) request.deadline_seconds = options.deadline;
  request.labels = !options.no_labels;
  request.keeps_going = options.keep_going;
  request.binds = options.bind;
  if (int const status = launch(request); status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<run_options>();
  auto* command = app.add_subcommand(
      "run",
      "Start a program in several processes of this machine "
      "that are the ranks of one communicator:\n"
      "blink run -n 4 -- PROGRAM ARGUMENTS. In the program, "
      "`blink::process_communicator comm;` joins.\n"
      "Ends with the status of the first rank that fails; the others are stopped then.");
  command->add_option("-n,--ranks", options->rank_count, "number of processes")
      ->check(CLI::Range(1, 1 << 14))
      ->capture_default_str();
  command->add_option("--deadline", options->deadline, "seconds that a rank waits for the others")
      ->check(positive_number(longest_deadline_seconds));
  command->add_option("--memory", options->memory,
                      "limit of the shared memory, such as 512M; default: half of the\n"
                      "machine's or job's memory, less if addresses or files are limited");
  command->add_flag("--no-labels", options->no_labels,
                    "do not put the rank before each line of output");
  command->add_flag("--keep-going", options->keep_going,
                    "let the other ranks continue when one fails, for programs that shrink");
  command->add_flag(
      "--bind", options->bind,
      "bind each rank to its share of the cores, so that the system does not move it");
  command->add_option("PROGRAM", options->program, "after `--`, with its arguments")->required();
  command->callback([options] { run_program(*options); });
}

}  // namespace blink::tools
