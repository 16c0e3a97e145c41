// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/threads.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "gpu_probe.hpp"
#include "probe_report.hpp"
#include "probe_tables.hpp"
#include "table_folder.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstdlib>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

namespace blink::tools {
namespace {

constexpr std::size_t device_bytes = std::size_t{32} << 20;  // of a large message between GPUs

struct probe_arguments : machine_choice {
  probe_arguments() { links = "all"; }
  int rank_count = 0;
  std::string bytes;  ///< empty: the default of what is measured
  double seconds = probe_options{}.seconds;
  std::string out;
  bool has_gpus = false;
  bool is_through_host = false;
  table_files files;
  bool may_replace = false;
};

/// Writes the machine, and the tables that are requested.
void write_outputs_of_probe(probe_arguments const& options, topology const& machine,
                            std::size_t bytes, nlohmann::ordered_json const& tables) {
  if (options.files.are_requested()) {
    nlohmann::ordered_json document{{"blink_probe", 1}, {"bytes", bytes}};
    document.update(tables);
    write_table_folder(options.files, document, tables, options.may_replace);
  }
  if (options.out.empty()) return;
  detail::write_text(options.out, write_json(machine));
  std::printf("\nmachine written to %s\n", options.out.c_str());
}

void run_on_gpus(probe_arguments const& options) {
  if (options.rank_count > 0) throw input_error("-g: found with --gpus, expected one of them");
  if (std::getenv("BLINK_RANK") != nullptr) {
    throw input_error("--gpus: found under `blink run`, expected one process for all GPUs");
  }
  std::optional<topology> described;
  if (!options.machine.empty()) described = read_part(options).machine;
  auto const probe = run_gpu_probe(
      options.bytes.empty() ? device_bytes : read_bytes("--bytes", options.bytes), options.seconds);
  auto const& rates = options.is_through_host ? probe.host : probe.peer;
  std::optional<measured_rates> ordered;
  if (described) ordered = in_order_of(*described, rates, probe.bus_ids);
  auto const machine = fit_gpus(rates, probe.bus_ids);
  print_gpu_access(probe);
  print_gpu_rates(rates, machine,
                  options.is_through_host ? "through the host" : "by copies between them",
                  probe.bytes);
  std::vector<link_difference> slow, fast;
  if (described) {
    auto const unit = bytes_per_second(described->unit);
    slow = slow_links(*described, *ordered, unit);
    fast = fast_links(*described, *ordered, unit);
    probe_text::print_links("slower", slow);
    probe_text::print_links("faster", fast);
  }
  write_outputs_of_probe(options, machine, probe.bytes, probe_tables(rates, {}, slow, fast));
}

void run(probe_arguments const& options) {
  if (options.has_gpus) return run_on_gpus(options);
  probe_request request;
  request.options.bytes = read_bytes("--bytes", options.bytes.empty() ? "4M" : options.bytes);
  if (request.options.bytes == 0) throw input_error("--bytes 0: expected at least 1 byte");
  request.options.seconds = options.seconds;
  bool const is_launched = std::getenv("BLINK_RANK") != nullptr;
  if (is_launched && options.rank_count > 0) {
    throw input_error("-g: found under `blink run`, expected the ranks that it started");
  }
  int ranks = is_launched ? read_process_environment().rank_count : options.rank_count;
  if (!options.machine.empty()) {
    request.described = read_part(options).machine;
    auto const described = static_cast<int>(request.described->rank_positions().size());
    if (ranks == 0) ranks = described;
    if (ranks != described) {
      throw input_error(options.machine + ": " + std::to_string(described) + " ranks, expected " +
                        std::to_string(ranks) + ", those that are measured");
    }
    request.bytes_per_unit = bytes_per_second(request.described->unit);
  }
  if (ranks == 0) ranks = static_cast<int>(std::max(2U, std::thread::hardware_concurrency()));
  auto const end = [&](probe_result const& result) {
    write_outputs_of_probe(options, result.machine, request.options.bytes,
                           probe_tables(result.rates, result.checks, result.slow, {}));
  };
  if (is_launched) {
    direct_process_communicator comm;
    auto const result = run_probe(comm, request, "processes that read each other's buffers");
    if (comm.rank() == 0) end(result);
  } else {
    thread_ranks threads(ranks);
    threads.run([&](auto& comm) {
      auto const result = run_probe(comm, request, "threads");
      if (comm.rank() == 0) end(result);
    });
  }
}

}  // namespace

void add_probe_command(CLI::App& app) {
  auto options = std::make_shared<probe_arguments>();
  auto* command = app.add_subcommand(
      "probe",
      "Measure what ranks move between each other, alone and all at once, and make a machine of\n"
      "it. Check the machine by an all-reduce. With a MACHINE, list its links that are slower "
      "than\n"
      "described. Ranks are threads, or the processes of\n"
      "  blink run -n 4 -- blink probe --out machine.json\n"
      "For ranks of MPI on several hosts see tools/mpi/probe.cpp.");
  add_machine_options(*command, *options, "that are measured");
  command
      ->add_option("-g", options->rank_count, "ranks; default: those of MACHINE, else a core each")
      ->check(CLI::Range(1, 256));
  command->add_option("--bytes", options->bytes, "of a large message; default: 4M, of GPUs 32M");
  command
      ->add_option("--seconds", options->seconds, "for all measurements; then pairs are left out")
      ->check(CLI::Range(0.01, 3600.0))
      ->capture_default_str();
  auto* gpus = command->add_flag(
      "--gpus", options->has_gpus,
      "the GPUs that are visible, by the program blink-probe-gpus; MACHINE gpus: as NVML says");
  command
      ->add_flag("--through-host", options->is_through_host,
                 "routes through memory of the host, not those between GPUs")
      ->needs(gpus);
  add_output_option(*command, "--out,-o", options->out, "write the machine (JSON) here");
  add_table_folder(*command, options->files, {probe_table_names.begin(), probe_table_names.end()});
  command->callback([options, command] {
    options->may_replace = command->count("--force") > 0;
    run(*options);
  });
}

}  // namespace blink::tools
