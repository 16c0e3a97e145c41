// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/transports/host/process_environment.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "launch_options.hpp"
#include "launcher.hpp"
#include "number_checks.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace blink::tools {
namespace {

struct run_options : launch_options {
  bool keep_going = false;
  int restarts = 0;
};

/// Returns the parts of a text between separators. Throws: input_error for an empty part.
std::vector<std::string> parts_of(std::string const& option, std::string const& text,
                                  char separator) {
  std::vector<std::string> result(1);
  for (char const letter : text) {
    if (letter == separator) {
      result.emplace_back();
    } else {
      result.back() += letter;
    }
  }
  for (auto const& part : result) {
    if (part.empty()) {
      throw input_error(option + ": '" + text + "' has an empty part, expected a name in each");
    }
  }
  return result;
}

/// Reads "a:2,b:4", or "a,b", among which `ranks` are divided.
std::vector<launch_host> read_hosts(std::string const& text, int ranks) {
  std::vector<launch_host> result;
  int counted = 0;
  for (auto const& part : parts_of("--hosts", text, ',')) {
    auto const colon = part.rfind(':');
    // An address of IPv6 has colons, too; a number behind one stands after its bracket.
    bool const has_count =
        colon != std::string::npos && (part.find(':') == colon || part[colon - 1] == ']');
    auto& host = result.emplace_back();
    host.name = part.substr(0, has_count ? colon : std::string::npos);
    host.rank_count = 0;
    if (!has_count) continue;
    ++counted;
    auto const* const end = part.data() + part.size();
    auto const [stop, problem] = std::from_chars(part.data() + colon + 1, end, host.rank_count);
    if (problem != std::errc() || stop != end || host.rank_count < 1 || host.name.empty()) {
      throw input_error("--hosts: '" + part +
                        "', expected a host and its number of ranks, as in a:2");
    }
  }
  auto const hosts = static_cast<int>(result.size());
  int all = 0;
  if (counted == 0) {
    for (int k = 0; k < hosts; ++k) {
      result[static_cast<std::size_t>(k)].rank_count = ranks / hosts + (k < ranks % hosts ? 1 : 0);
    }
    if (ranks < hosts) {
      throw input_error("-n " + std::to_string(ranks) + " for " + std::to_string(hosts) +
                        " hosts, expected at least a rank on each; or their numbers, as in "
                        "--hosts a:2,b:2");
    }
  } else if (counted < hosts) {
    throw input_error("--hosts: '" + text + "' has ranks for some hosts, expected for all or none");
  }
  for (auto const& host : result) all += host.rank_count;
  if (ranks != 0 && ranks != all) {
    throw input_error("-n " + std::to_string(ranks) + ", but --hosts names " + std::to_string(all) +
                      " ranks, expected the same");
  }
  return result;
}

void run_program(run_options const& options) {
  auto request = make_launch_request(options);
  request.keeps_going = options.keep_going;
  request.restarts = options.restarts;
  if (int const status = launch(request); status != 0) throw CLI::RuntimeError(status);
}

}  // namespace

launch_request make_launch_request(launch_options const& options) {
  launch_request request;
  request.program = options.program;
  request.rank_count = options.rank_count;
  if (!options.hosts.empty()) {
    request.hosts = read_hosts(options.hosts, options.rank_count);
    request.rank_count = 0;
    for (auto const& host : request.hosts) request.rank_count += host.rank_count;
    request.shell = parts_of("--shell", options.shell, ' ');
    request.blink = options.blink.empty() ? std::filesystem::read_symlink("/proc/self/exe").string()
                                          : options.blink;
  } else if (request.rank_count == 0) {
    request.rank_count = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
  }
  for (auto const& variable : options.environment) {
    auto const equals = variable.find('=');
    auto const name = variable.substr(0, equals);
    char const* const own = equals == std::string::npos ? std::getenv(name.c_str()) : nullptr;
    if (name.empty() || (equals == std::string::npos && own == nullptr)) {
      throw input_error("--env: '" + variable +
                        "' is not set, expected NAME=VALUE or the name of "
                        "a variable that is set");
    }
    request.environment.push_back(own == nullptr ? variable : name + "=" + own);
  }
  if (!options.memory.empty()) request.memory_bytes = read_bytes("--memory", options.memory);
  if (options.deadline > 0) request.deadline_seconds = options.deadline;
  request.labels = !options.no_labels;
  request.binds = options.bind;
  return request;
}

void add_launch_options(CLI::App& command, launch_options& options, std::string const& count) {
  command
      .add_option(count, options.rank_count,
                  "number of processes; default: as many as this machine has cores")
      ->check(CLI::Range(1, 1 << 14));
  auto* const hosts = command.add_option("--hosts", options.hosts,
                                         "hosts and their ranks, as in a:2,b:2, or a,b with -n");
  command
      .add_option("--shell", options.shell,
                  "runs a script on a host: called with the host and the script")
      ->needs(hosts)
      ->capture_default_str();
  command
      .add_option("--blink", options.blink,
                  "this command on the hosts; default: at the same path as here")
      ->needs(hosts);
  command
      .add_option("-x,--env", options.environment,
                  "variable for all ranks: NAME=VALUE, or NAME with the value that it has here")
      ->allow_extra_args(false);
  command.add_option("--deadline", options.deadline, "seconds that a rank waits for the others")
      ->check(positive_number(longest_deadline_seconds));
  command.add_option("--memory", options.memory,
                     "limit of the shared memory, such as 512M; default: half of the\n"
                     "machine's or job's memory, less if addresses or files are limited");
  command.add_flag("--no-labels", options.no_labels,
                   "do not put the rank before each line of output");
  command.add_flag("--bind", options.bind,
                   "bind each rank to its share of the cores, so that the system does not move it");
  command.add_option("PROGRAM", options.program, "after `--`, with its arguments")->required();
}

void add_run_command(CLI::App& app) {
  auto options = std::make_shared<run_options>();
  auto* command = app.add_subcommand(
      "run",
      "Start a program in several processes that are the ranks of one communicator:\n"
      "blink run -n 4 -- PROGRAM ARGUMENTS. In the program, "
      "`blink::process_communicator comm;` joins.\n"
      "On several hosts: blink run --hosts a:2,b:2 -- PROGRAM. There, "
      "`blink::launcher_bootstrap all; blink::ucx_communicator comm(all);`\n"
      "joins.\n"
      "Ends with the status of the first rank that fails; the others are stopped then.");
  add_launch_options(*command, *options, "-n,--ranks");
  command->add_flag("--keep-going", options->keep_going,
                    "let the other ranks continue when one fails, for programs that shrink");
  command
      ->add_option("--restart", options->restarts,
                   "start a rank again that fails, so often for all ranks together; for programs\n"
                   "that make a new communicator then")
      ->check(CLI::Range(0, 1 << 20));
  command->callback([options] { run_program(*options); });
  // What `blink run --hosts` starts on each host.
  app.add_subcommand("agent", "")->group("")->callback([] {
    if (int const status = run_agent(); status != 0) throw CLI::RuntimeError(status);
  });
}

}  // namespace blink::tools
