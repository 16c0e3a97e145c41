// SPDX-License-Identifier: Apache-2.0
#include <blink/collectives/tune.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/schedule/tuning_table.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/threads.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "machine_load.hpp"
#include "progress.hpp"
#include "table_files.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

struct tune_options {
  std::string collectives = "all_reduce";
  int rank_count = 0;
  int root = 0;
  std::string begin = "8";
  std::string end = "32M";
  int calls = tuning_options{}.calls;
  std::string out;
  table_files files;
};

std::string algorithm_in_words(tuning_range const& range, tuning_table const& table) {
  auto const& name = table.algorithms[range.algorithm].name;
  if (range.chunk_bytes == 0) return name;
  return name + " in chunks of " + std::to_string(range.chunk_bytes);
}

/// Prints the samples of a collective, and adds them to the rows of --json and --csv.
void print(tuning_result const& found, int ranks, char const* joined,
           nlohmann::ordered_json& rows) {
  auto const& table = found.table;
  std::printf("# blink tune: %s, %d ranks as %s, lower quartile of microseconds\n",
              std::string(to_text(table.collective)).c_str(), ranks, joined);
  std::printf("# %10s", "bytes");
  for (auto const& algorithm : table.algorithms) std::printf(" %10s", algorithm.name.c_str());
  std::printf(" %18s  %s\n", "own chunks", "chosen");
  for (std::size_t first = 0; first < found.samples.size();) {
    std::size_t const bytes = found.samples[first].bytes;
    std::vector<double> seconds(table.algorithms.size(), 0);
    std::string chunks = "-";
    for (; first < found.samples.size() && found.samples[first].bytes == bytes; ++first) {
      auto const& sample = found.samples[first];
      if (sample.chunk_bytes == 0) {
        seconds[sample.algorithm] = sample.seconds;
      } else {
        char text[64];
        std::snprintf(text, sizeof(text), "%.1f (%zu)", sample.seconds * 1e6, sample.chunk_bytes);
        chunks = text;
      }
    }
    nlohmann::ordered_json row{
        {"collective", to_text(table.collective)}, {"ranks", ranks}, {"bytes", bytes}};
    std::printf("  %10zu", bytes);
    for (std::size_t i = 0; i < seconds.size(); ++i) {
      auto const each = seconds[i] * 1e6;
      each > 0 ? std::printf(" %10.2f", each) : std::printf(" %10s", "-");
      row["microseconds"][table.algorithms[i].name] =
          each > 0 ? nlohmann::ordered_json(each) : nlohmann::ordered_json(nullptr);
    }
    row["chosen"] = algorithm_in_words(range_of(table, bytes), table);
    rows.push_back(std::move(row));
    std::printf(" %18s  %s\n", chunks.c_str(),
                algorithm_in_words(range_of(table, bytes), table).c_str());
  }
  for (auto const& range : table.ranges) {
    std::printf("# from %zu bytes on: %s\n", range.from_bytes,
                algorithm_in_words(range, table).c_str());
  }
  std::fflush(stdout);
}

std::vector<collective> read_collectives(std::string const& text) {
  std::vector<collective> result;
  std::size_t begin = 0;
  for (;;) {
    auto const end = text.find(',', begin);
    auto const kind = read_collective(text.substr(begin, end - begin));
    if (!moves_data(kind) || kind == collective::permute) {
      throw input_error("--collective " + std::string(to_text(kind)) +
                        ": it has one algorithm, expected a collective with several");
    }
    if (std::find(result.begin(), result.end(), kind) != result.end()) {
      throw input_error("--collective " + std::string(to_text(kind)) +
                        ": found twice, expected once");
    }
    result.push_back(kind);
    if (end == std::string::npos) return result;
    begin = end + 1;
  }
}

/// Measures the tables. Called on every rank; rank 0 prints and keeps them.
template <communicator Comm>
void tune_all(Comm& comm, std::vector<collective> const& kinds, tune_options const& options,
              char const* joined) {
  tuning_options search;
  search.first_bytes = read_bytes("-b", options.begin);
  search.last_bytes = read_bytes("-e", options.end);
  search.calls = options.calls;
  std::vector<tuning_table> tables;
  auto rows = nlohmann::ordered_json::array();
  std::optional<progress> bar;
  if (comm.rank() == 0) bar.emplace("measuring", kinds.size());
  machine_load const load;
  double used = -machine_load::own_seconds();
  for (auto const kind : kinds) {
    if (bar) bar->name("measuring " + std::string(to_text(kind)));
    auto found =
        tune(comm, kind, default_algorithms(kind, comm.rank_count(), options.root), search);
    found.table.transport =
        detail::name_of_transport<typename std::remove_cvref_t<decltype(comm)>::transport_type>();
    if (bar) {
      bar->step();
      bar->clear();
      print(found, comm.rank_count(), joined, rows);
    }
    tables.push_back(std::move(found.table));
  }
  used += machine_load::own_seconds();
  constexpr bool are_processes =
      std::is_same_v<std::remove_cvref_t<Comm>, direct_process_communicator>;
  if constexpr (are_processes) {
    auto const each = comm.template allocate<double>(1);
    each[0] = used;
    all_reduce(comm, each.data(), each.data(), 1);
    used = each[0];
  }
  if (comm.rank() != 0) return;
  double const others = load.cores_of_others(used);
  bool const is_busy = machine_load::is_busy(comm.rank_count(), others);
  if (is_busy) {
    std::printf(
        "# other programs used %.1f cores: the tables are marked, and BLINK_TUNING leaves "
        "them out\n",
        others);
  }
  for (auto& table : tables) table.is_doubtful = is_busy;
  write_table_files(
      options.files,
      nlohmann::ordered_json{
          {"blink_tune", 1}, {"is_busy", is_busy}, {"cores_of_others", others}, {"rows", rows}});
  if (options.out.empty()) return;
  write_tuning_file(options.out, tables);
}

void run_tune(tune_options const& options) {
  auto const kinds = read_collectives(options.collectives);
  if (read_bytes("-b", options.begin) < 1 ||
      read_bytes("-b", options.begin) > read_bytes("-e", options.end)) {
    throw input_error("-b " + options.begin + ": expected at least 1 byte and at most -e " +
                      options.end);
  }
  bool const is_launched = std::getenv("BLINK_RANK") != nullptr;
  if (is_launched && options.rank_count > 0) {
    throw input_error("-g: found under `blink run`, expected the ranks that it started");
  }
  int const threads = options.rank_count > 0
                          ? options.rank_count
                          : static_cast<int>(std::max(2U, std::thread::hardware_concurrency()));
  int const ranks = is_launched ? read_process_environment().rank_count : threads;
  if (options.root >= ranks) {
    throw input_error("--root " + std::to_string(options.root) +
                      ": expected one of the ranks 0 to " + std::to_string(ranks - 1));
  }
  if (is_launched) {
    direct_process_communicator comm;
    tune_all(comm, kinds, options, "processes that read each other's buffers");
  } else {
    thread_ranks all_threads(ranks);
    all_threads.run([&](auto& comm) { tune_all(comm, kinds, options, "threads"); });
  }
}

}  // namespace

void add_tune_command(CLI::App& app) {
  auto options = std::make_shared<tune_options>();
  auto* command = app.add_subcommand(
      "tune",
      "Measure the algorithms of a collective among threads of this machine, "
      "or among processes under\n"
      "`blink run`, and print the fastest one for each size. The written table is for\n"
      "`read_tuning_file` and `blink perf --tuning`.");
  command
      ->add_option("--collective,-c", options->collectives,
                   "one or several, such as all_reduce,broadcast")
      ->capture_default_str();
  command->add_option("-g", options->rank_count, "ranks; default: one for each core, at least 2")
      ->check(CLI::Range(1, 256));
  command->add_option("--root", options->root, "of a broadcast, reduce, gather or scatter")
      ->check(CLI::Range(0, 255))
      ->capture_default_str();
  command->add_option("-b,--begin", options->begin, "smallest size in bytes")
      ->capture_default_str();
  command->add_option("-e,--end", options->end, "largest size")->capture_default_str();
  command
      ->add_option("-n,--calls", options->calls,
                   "calls for each algorithm and size; their lower quartile counts")
      ->check(CLI::Range(1, 100000))
      ->capture_default_str();
  add_output_option(*command, "--out,-o", options->out, "write the tables to this file");
  add_table_files(*command, options->files);
  command->callback([options] { run_tune(*options); });
}

}  // namespace blink::tools
