// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/given_tuning.hpp>
#include <blink/schedule/tuning_file.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "launch_options.hpp"
#include "plan_in_use.hpp"
#include "stall_report.hpp"
#include "table_folder.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cerrno>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <memory>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <tuple>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

struct stalls_options : launch_options {
  machine_choice machine;
  cost_options cost;
  std::size_t calls_per_iteration = 0;  // 0: not given
  std::size_t warm_up = loop_options{}.warm_up;
  bool without_alone = false;
  bool tries = false;
  std::string folder;
  table_files files;
  bool may_replace = false;
};

/// A folder for the records of one run, removed at the end.
class record_folder {
 public:
  explicit record_folder(std::string const& parent) {
    std::error_code fault;
    auto const above = std::filesystem::absolute(parent, fault);
    name_ = (above / "blink-stalls-XXXXXX").string();
    if (fault || mkdtemp(name_.data()) == nullptr) {
      throw input_error(above.string() + ": no folder can be made there: " + std::strerror(errno) +
                        ", expected one for records (--folder)");
    }
  }
  record_folder(record_folder const&) = delete;
  record_folder& operator=(record_folder const&) = delete;
  ~record_folder() {
    std::error_code ignored;
    std::filesystem::remove_all(name_, ignored);
  }

  [[nodiscard]] std::string file(char const* name) const { return name_ + "/" + name; }
  /// The value of BLINK_RECORD_FILE.
  [[nodiscard]] std::string pattern() const {
    std::string result;
    for (char const letter : name_) result += letter == '%' ? "%%" : std::string(1, letter);
    return result + "/calls.%h.%p.jsonl";
  }
  [[nodiscard]] std::vector<std::string> records() const {
    std::vector<std::string> result;
    for (auto const& entry : std::filesystem::directory_iterator(name_)) {
      if (entry.path().extension() == ".jsonl") result.push_back(entry.path().string());
    }
    std::sort(result.begin(), result.end());
    return result;
  }

 private:
  std::string name_;
};

/// The runs of one command, and what they found.
class stall_runs {
 public:
  explicit stall_runs(stalls_options const& options)
      : options_(options), whole_(make_launch_request(options)) {
    use_tuning_of_ranks();
    on_host_ = whole_;
    if (!whole_.hosts.empty()) {
      on_host_.hosts.resize(1);
      on_host_.rank_count = whole_.hosts[0].rank_count;
    }
    if (whole_.rank_count < 2) {
      throw input_error("stalls: one rank waits for none, expected at least 2 (-n)");
    }
    if (!options.machine.machine.empty()) place_ = read_place(options.machine);
    found_.program = options.program;
    loop_ = {options.calls_per_iteration, options.warm_up};
  }

  stall_findings run() && {
    auto host = run_once("one host", on_host_);
    loop_.period = host.loop.found.period;  // of all runs
    std::optional<stall_run> alone;
    if (!options_.without_alone && on_host_.rank_count > 1) {
      auto request = on_host_;
      request.rank_count = 1;
      for (auto& only : request.hosts) only.rank_count = 1;
      alone = run_once("alone", request);
      found_.interconnect = stall_between(alone->loop, host.loop);
    }
    std::optional<stall_run> hosts;
    if (whole_.hosts.size() > 1) {
      hosts = run_once("hosts", whole_);
      found_.network = stall_between(host.loop, hosts->loop);
    }
    if (alone) found_.runs.push_back(std::move(*alone));
    found_.runs.push_back(std::move(host));
    if (hosts) found_.runs.push_back(std::move(*hosts));
    add_remarks();
    add_advice();
    if (options_.tries) try_advice();
    return std::move(found_);
  }

 private:
  /// Tables that `--env` gives the ranks count here as well: they name the plans in use.
  void use_tuning_of_ranks() const {
    std::string const name = "BLINK_TUNING=";
    for (auto const& variable : whole_.environment) {
      if (variable.starts_with(name)) {
        setenv("BLINK_TUNING", variable.substr(name.size()).c_str(), 1);
      }
    }
  }

  /// Throws: input_error unless the machine has the ranks of one host or of all.
  [[nodiscard]] allocation read_place(machine_choice const& choice) const {
    auto result = read_allocation(choice, collective::all_reduce);
    auto const ranks = static_cast<int>(result.machine.rank_positions().size());
    if (ranks != whole_.rank_count && ranks != on_host_.rank_count) {
      throw input_error("--machine " + choice.machine + ": " + std::to_string(ranks) +
                        " ranks, expected " + std::to_string(whole_.rank_count) +
                        ", those of the program (-n, --ranks)");
    }
    static_cast<void>(options_.cost.rate_of_unit(result.machine));
    return result;
  }

  [[nodiscard]] record_folder make_folder() const {
    // The hosts of `blink run --hosts` share the folder in which it is called.
    std::string const usual =
        whole_.hosts.empty() ? std::filesystem::temp_directory_path().string() : ".";
    return record_folder(options_.folder.empty() ? usual : options_.folder);
  }

  /// Runs the program and reads the records of its calls.
  ///
  /// Throws: CLI::RuntimeError with the program's status if it fails; input_error.
  stall_run run_once(std::string const& name, launch_request request,
                     std::vector<tuning_table> const& tables = {}) const {
    auto const folder = make_folder();
    request.environment.push_back("BLINK_RECORD_FILE=" + folder.pattern());
    if (!tables.empty()) {
      write_tuning_file(folder.file("tuning.json"), tables);
      request.environment.push_back("BLINK_TUNING=" + folder.file("tuning.json"));
    }
    std::fprintf(stderr, "blink stalls: %s, %d rank%s\n", name.c_str(), request.rank_count,
                 request.rank_count == 1 ? "" : "s");
    std::fflush(stdout);
    if (int const status = launch(request); status != 0) {
      std::fprintf(stderr, "blink stalls: %s: the program failed with status %d\n", name.c_str(),
                   status);
      throw CLI::RuntimeError(status);
    }
    stall_run result{name, request.rank_count, {}, 0};
    try {
      auto const calls = read_records_of(folder.records(), request.rank_count, result.other_calls);
      if (calls.empty()) throw input_error(no_calls(request.rank_count, result.other_calls));
      result.loop = analyse_loop(calls, loop_);
    } catch (input_error const& problem) {
      throw input_error(name + ": " + problem.what());
    }
    return result;
  }
  [[nodiscard]] static std::string no_calls(int ranks, std::size_t others) {
    return "no recorded calls of " + std::to_string(ranks) + (ranks == 1 ? " rank (" : " ranks (") +
           std::to_string(others) +
           " of others), expected a program whose processes are the ranks of one communicator" +
           (ranks == 1 ? ", or --without-alone" : "");
  }

  void add_remarks() {
    auto const cores = static_cast<int>(std::max(1U, std::thread::hardware_concurrency()));
    if (whole_.hosts.empty() && on_host_.rank_count > cores) {
      found_.remarks.push_back(std::to_string(on_host_.rank_count) + " ranks share " +
                               std::to_string(cores) +
                               " cores: the interconnect stall holds their computation, too");
    }
    std::size_t others = 0;
    for (auto const& run : found_.runs) others += run.other_calls;
    if (others > 0) {
      found_.remarks.push_back(std::to_string(others) +
                               " calls of other communicators are left out");
    }
  }

  void add_advice() {
    auto const of_ranks = [&](int ranks) {
      auto const at = std::find_if(found_.runs.begin(), found_.runs.end(),
                                   [&](auto const& run) { return run.ranks == ranks; });
      return static_cast<std::size_t>(at - found_.runs.begin());
    };
    try {
      if (!place_) place_ = this_host();
      if (!place_) return;
      found_.advised = of_ranks(static_cast<int>(place_->machine.rank_positions().size()));
      found_.advice = advise(*place_, found_.runs[found_.advised].loop, options_.cost);
    } catch (error const& problem) {
      found_.no_advice = problem.what();
    }
  }
  /// The cores of this computer that ranks of one host use; nothing, with a reason, if they are
  /// fewer.
  [[nodiscard]] std::optional<allocation> this_host() {
    auto choice = options_.machine;
    choice.machine = "host";
    auto whole = choice.read();
    auto const cores = whole.rank_positions().size();
    if (!whole_.hosts.empty() || on_host_.rank_count > static_cast<int>(cores)) {
      found_.no_advice = "machine 'host' has " + std::to_string(cores) +
                         " ranks of this computer, expected a machine of the program's ranks "
                         "(--machine)";
      return std::nullopt;
    }
    choice.ranks = "0-" + std::to_string(on_host_.rank_count - 1);
    return allocation_of(std::move(whole), choice, collective::all_reduce);
  }

  /// The tables of BLINK_TUNING that those of the advice do not replace.
  [[nodiscard]] std::vector<tuning_table> tables_to_try() const {
    auto result = found_.advice->better;
    auto const calls_of = [](tuning_table const& table) {
      auto const& source = table.algorithms.front().source;
      return std::tuple(table.collective, source.rank_count,
                        detail::end_points(source, table.collective));
    };
    auto const fresh = result.size();
    detail::for_each_tuning_file([&](std::string const& file) {
      for (auto& table : read_tuning_file(file)) {
        auto const is_replaced = [&](tuning_table const& by) {
          return calls_of(by) == calls_of(table);
        };
        auto const end = result.begin() + static_cast<std::ptrdiff_t>(fresh);
        if (std::none_of(result.begin(), end, is_replaced)) result.push_back(std::move(table));
      }
    });
    return result;
  }

  void try_advice() {
    if (!found_.advice || found_.advice->better.empty()) {
      found_.about_try = "no better plan is predicted, so none was tried";
      return;
    }
    auto const& before = found_.runs[found_.advised];
    auto const& request = before.name == "hosts" ? whole_ : on_host_;
    try {
      found_.tried = run_once("tried", request, tables_to_try());
    } catch (CLI::RuntimeError const& failure) {
      found_.status = failure.get_exit_code();
      found_.about_try =
          "the program failed with the plans in BLINK_TUNING, which programs read that include "
          "<blink/schedule/tuning_file.hpp>";
      return;
    } catch (input_error const& problem) {
      found_.status = exit_input_error;
      found_.about_try = problem.what();
      return;
    }
    constexpr double same = 0.05;
    bool is_other = false;
    for (std::size_t k = 0; k < before.loop.buckets.size(); ++k) {
      is_other = is_other ||
                 difference(before.loop.buckets[k].sent, found_.tried->loop.buckets[k].sent) > same;
    }
    if (!is_other) {
      found_.about_try =
          "the bytes between ranks are as before: the program has plans of its own, or the best "
          "ones move the same bytes";
    }
  }

  stalls_options const& options_;
  launch_request whole_, on_host_;
  loop_options loop_;
  std::optional<allocation> place_;
  stall_findings found_;
};

void run_stalls(stalls_options const& options) {
  auto const found = stall_runs(options).run();
  print(found);
  auto const document = to_json(found);
  write_table_folder(options.files, document, stall_tables(document), options.may_replace);
  if (found.status != 0) throw CLI::RuntimeError(found.status);
}

}  // namespace

void add_stalls_command(CLI::App& app) {
  auto options = std::make_shared<stalls_options>();
  auto* command = app.add_subcommand(
      "stalls",
      "Measure what waiting costs a training loop: blink stalls -n 4 -- PROGRAM ARGUMENTS. Runs\n"
      "the program with one rank, with all ranks of a host and, with --hosts, on hosts; the work\n"
      "of a rank is the same in each run. Shows the interconnect stall, the network stall, what\n"
      "each call of an iteration waits for, and what a better plan or faster links would give.\n"
      "Programs are those of `blink run`.");
  add_launch_options(*command, *options, "-n");
  auto& machine = options->machine;
  command->add_option("-m,--machine", machine.machine,
                      "machine of the program's ranks, for predictions; default: host, the cores "
                      "of this\ncomputer");
  add_reading_options(*command, machine, "of the machine that the program has");
  command->add_option("--links", machine.links, "kind of link to plan on, all, or auto")
      ->capture_default_str();
  add_cost_options(*command, options->cost);
  command
      ->add_option("--calls-per-iteration", options->calls_per_iteration,
                   "default: the shortest period of the calls' collectives and sizes")
      ->check(CLI::Range(std::size_t{1}, longest_period));
  command->add_option("--warm-up", options->warm_up, "iterations that are left out first")
      ->check(CLI::Range(0, 1 << 20))
      ->capture_default_str();
  command->add_flag("--without-alone", options->without_alone,
                    "leave out the run with one rank, for programs that need several");
  command->add_flag("--try", options->tries,
                    "run once more with the best plans, and show measured beside predicted times;\n"
                    "for programs that obey BLINK_TUNING");
  command->add_option("--folder", options->folder,
                      "where records are kept meanwhile; hosts share it. Default: the system's "
                      "folder for\ntemporary files, with --hosts the current one");
  add_table_folder(*command, options->files, {stall_table_names.begin(), stall_table_names.end()});
  command->callback([options, command] {
    options->may_replace = command->count("--force") > 0;
    run_stalls(*options);
  });
}

}  // namespace blink::tools
