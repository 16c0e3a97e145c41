// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>

#include "arguments.hpp"
#include "commands.hpp"
#include "recorded_calls.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

using nlohmann::json;

std::vector<std::string> what_is_missing(calls_of_ranks const& calls, std::size_t count,
                                         std::size_t failed) {
  std::vector<std::string> result;
  if (failed > 0) result.push_back(std::to_string(failed) + " calls failed");
  for (auto const& [rank, all] : calls) {
    if (all.size() > count) {
      result.push_back("rank " + std::to_string(rank) + " ended " +
                       std::to_string(all.size() - count) + " calls more than others");
    }
  }
  return result;
}

/// Writes one trace of all ranks, for chrome://tracing and Perfetto. The clocks of hosts are moved,
/// so that all leave the first call together.
void write_trace(std::string const& name, calls_of_ranks const& calls) {
  std::map<std::string, double> first_end;  // by host, of the first call
  for (auto const& [rank, all] : calls) {
    auto& end = first_end[all[0].host];
    end = std::max(end, all[0].begin + all[0].time);
  }
  std::map<std::string, int> number;
  for (auto const& [host, end] : first_end) number.emplace(host, static_cast<int>(number.size()));
  auto const zero = first_end.begin()->second;
  auto events = json::array();
  for (auto const& [host, k] : number) {
    events.push_back(
        {{"name", "process_name"}, {"ph", "M"}, {"pid", k}, {"args", {{"name", "host " + host}}}});
  }
  for (auto const& [rank, all] : calls) {
    auto const& host = all[0].host;
    events.push_back({{"name", "thread_name"},
                      {"ph", "M"},
                      {"pid", number[host]},
                      {"tid", rank},
                      {"args", {{"name", "rank " + std::to_string(rank)}}}});
    for (auto const& call : all) {
      events.push_back({{"name", call.collective},
                        {"ph", "X"},
                        {"pid", number[host]},
                        {"tid", rank},
                        {"ts", call.begin - first_end[host] + zero},
                        {"dur", call.time},
                        {"args", call.all}});
    }
  }
  blink::detail::write_text(name, json{{"traceEvents", std::move(events)}}.dump() + "\n");
}

struct report_options {
  std::vector<std::string> files;
  std::string trace;
};

void run_report(report_options const& options) {
  auto const calls = read_records(options.files);
  auto const ranks = calls.size();
  std::size_t count = SIZE_MAX, failed = 0;
  for (auto const& [rank, all] : calls) count = std::min(count, all.size());
  struct sums {
    std::size_t calls = 0;
    double time = 0, peers = 0, receive = 0, send = 0;
  };
  std::map<std::string, sums> of_collective;
  for (std::size_t k = 0; k < count; ++k) {
    bool is_ok = true;
    for (auto const& [rank, all] : calls) {
      auto const& call = all[k];
      is_ok = is_ok && call.is_ok;
      auto& sum = of_collective[call.collective];
      ++sum.calls;
      sum.time += call.time;
      sum.peers += call.for_peers;
      sum.receive += call.to_receive;
      sum.send += call.to_send;
    }
    failed += is_ok ? 0 : 1;
  }
  std::printf("%zu calls of %zu ranks\n\n  %-16s %8s %12s %8s %8s %8s %8s\n", count, ranks, "",
              "calls", "mean", "peers", "receive", "send", "moving");
  for (auto const& [name, sum] : of_collective) {
    auto const share = [&](double part) { return sum.time > 0 ? 100 * part / sum.time : 0; };
    std::printf("  %-16s %8zu %12s %7.1f%% %7.1f%% %7.1f%% %7.1f%%\n",
                blink::detail::printable(name).c_str(), sum.calls / ranks,
                duration_in_words(sum.time / static_cast<double>(sum.calls)).c_str(),
                share(sum.peers), share(sum.receive), share(sum.send),
                share(sum.time - sum.peers - sum.receive - sum.send));
  }
  auto const used = links_of(calls, count);
  print_links(used);

  auto verdict = what_is_missing(calls, count, failed);
  if (!used.links.empty()) verdict.push_back(use_in_words(used));
  for (auto const& late : late_in_words(calls, count)) verdict.push_back(late);
  if (auto const shared = sharing_in_words(calls, count); !shared.empty()) {
    verdict.push_back(shared);
  }
  std::string line;
  for (auto const& part : verdict) line += (line.empty() ? "" : "; ") + part;
  std::printf("\n%s\n", line.c_str());
  if (!options.trace.empty()) write_trace(options.trace, calls);
}

}  // namespace

void add_report_command(CLI::App& app) {
  auto options = std::make_shared<report_options>();
  auto* command = app.add_subcommand(
      "report",
      "Say what records of calls show: times by cause, bytes on each link, late ranks, ranks that\n"
      "shared a core. Programs of `blink run` write them with "
      "BLINK_RECORD_FILE=calls.%h.%p.jsonl,\n"
      "others if they call record_calls_as_environment_says(), as blink perf does.");
  command->add_option("FILE", options->files, "records of all ranks of one communicator")
      ->required();
  add_output_option(*command, "--trace", options->trace,
                    "also write one trace of all ranks, for Perfetto");
  command->callback([options] { run_report(*options); });
}

}  // namespace blink::tools
