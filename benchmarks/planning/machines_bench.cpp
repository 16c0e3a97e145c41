// SPDX-License-Identifier: Apache-2.0
// Whole plans with certificate on known machines, and how their time grows with the machine: cpu
// time of one thread, trees, height, rate over bound.
//
//   machines_bench                    prints the rows by Google Benchmark.
//   machines_bench --report FILE      also writes one JSON, with fitted exponents and memory.
//   machines_bench --table FILE       prints the tables of docs/results/planner_table.md from it.
#include <blink/planning/make_plan.hpp>

#include "planning/all_reduce_gain.hpp"
#include "planning/machine_rows.hpp"
#include <benchmark/benchmark.h>
#include <nlohmann/json.hpp>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace {

using namespace blink;
using nlohmann::json;

std::string title(bench::machine_row const& row) {
  return row.family + "/" + std::string(to_text(row.request.collective)) + "/" + row.machine.name;
}

/// Peak resident memory of a process of its own that makes the plan once, in MiB.
double peak_mebibytes(bench::machine_row const& row) {
  std::fflush(nullptr);
  pid_t const child = fork();
  if (child == 0) {
    auto const p = make_plan(row.machine, row.request);
    _exit(p.trees.empty() ? 1 : 0);
  }
  int status = 0;
  rusage used{};
  if (child < 0 || wait4(child, &status, 0, &used) != child || status != 0) return -1;
  return static_cast<double>(used.ru_maxrss) / 1024;
}

void measure(benchmark::State& state, bench::machine_row const& row) {
  plan p;
  for (auto _ : state) p = make_plan(row.machine, row.request);
  int highest = 0;
  for (auto const& t : p.trees) highest = std::max(highest, height(t));
  state.counters["ranks"] = static_cast<double>(p.ranks.size());
  state.counters["trees"] = static_cast<double>(p.trees.size());
  state.counters["height"] = highest;
  state.counters["rate"] = p.rate.to_double();
  state.counters["rate_over_bound"] = ratio(p.rate, p.bound);
  if (p.ranks.size() >= 512) state.counters["peak_mib"] = peak_mebibytes(row);
}

/// Keeps the medians of what it prints.
class collecting_reporter : public benchmark::ConsoleReporter {
 public:
  void ReportRuns(std::vector<Run> const& runs) override {
    ConsoleReporter::ReportRuns(runs);
    for (auto const& run : runs) {
      if (run.aggregate_name != "median") continue;
      json row{{"cpu_ms", run.GetAdjustedCPUTime()}};
      for (auto const& [name, counter] : run.counters) row[name] = counter.value;
      medians[run.run_name.function_name] = std::move(row);
    }
  }

  std::map<std::string, json> medians;
};

/// The exponent x of time ~ N^x that fits best, by least squares of the logarithms.
double fitted_exponent(std::vector<std::pair<double, double>> const& points) {
  double n = 0, sx = 0, sy = 0, sxx = 0, sxy = 0;
  for (auto const& [ranks, time] : points) {
    double const x = std::log(ranks), y = std::log(time);
    n += 1, sx += x, sy += y, sxx += x * x, sxy += x * y;
  }
  return (n * sxy - sx * sy) / (n * sxx - sx * sx);
}

json report(std::vector<bench::machine_row> const& rows,
            std::map<std::string, json> const& medians) {
  json result{{"unit", "cpu_ms: median cpu time of one thread, whole plan with certificate"},
              {"rows", json::array()},
              {"growth", json::array()}};
  std::map<std::pair<std::string, std::string>, std::vector<std::pair<double, double>>> families;
  for (auto const& row : rows) {
    auto const found = medians.find(title(row));
    if (found == medians.end()) continue;  // left out by a filter
    auto entry = found->second;
    auto const kind = std::string(to_text(row.request.collective));
    entry["family"] = row.family;
    entry["machine"] = row.machine.name;
    entry["collective"] = kind;
    if (row.goal_ms > 0) entry["goal_ms"] = row.goal_ms;
    if (row.other.seconds > 0) entry["forestcoll_s"] = row.other.seconds;
    if (row.other.trees > 0) entry["forestcoll_trees"] = row.other.trees;
    if (row.other.height > 0) entry["forestcoll_height"] = row.other.height;
    if (row.family != "known") {
      families[{row.family, kind}].emplace_back(entry["ranks"], entry["cpu_ms"]);
    }
    result["rows"].push_back(std::move(entry));
  }
  for (auto const& [family, points] : families) {
    if (points.size() < 3 || points.front().first == points.back().first) continue;
    result["growth"].push_back({{"family", family.first},
                                {"collective", family.second},
                                {"from_ranks", points.front().first},
                                {"to_ranks", points.back().first},
                                {"last_s", points.back().second / 1000},
                                {"exponent", fitted_exponent(points)}});
  }
  auto const compared = bench::compare_all_reduces();
  for (auto const& m : compared.means) {
    result["all_reduce"].push_back({{"machine", m.machines},
                                    {"joint_over_two_phase", m.over_two_phase},
                                    {"joint_over_overlapped", m.over_overlapped},
                                    {"most_over_two_phase", m.most_over_two_phase},
                                    {"most_over_overlapped", m.most_over_overlapped}});
  }
  for (auto const& m : compared.machines) {
    result["all_reduce"].push_back({{"machine", m.machine},
                                    {"joint", m.joint},
                                    {"joint_over_two_phase", m.joint / m.two_phase},
                                    {"joint_over_overlapped", m.joint / m.overlapped}});
  }
  return result;
}

/// A number as text, or a dash.
std::string cell(json const& row, char const* name, char const* format) {
  if (!row.contains(name)) return "-";
  char text[32];
  std::snprintf(text, sizeof text, format, row[name].get<double>());
  return text;
}

void print_tables(json const& all) {
  for (auto const kind : {"all_gather", "all_reduce", "broadcast"}) {
    std::printf("\n### %s\n\n", kind);
    std::printf(
        "| machine (ranks) | time, ms | goal, ms | trees | height | rate / bound | "
        "ForestColl: s | trees | height |\n| --- |%s\n",
        " ---: | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (auto const& row : all["rows"]) {
      if (row["collective"] != kind || row["family"] != "known") continue;
      std::printf("| %s (%s) | %s | %s | %s | %s | %s | %s | %s | %s |\n",
                  row["machine"].get<std::string>().c_str(), cell(row, "ranks", "%.0f").c_str(),
                  cell(row, "cpu_ms", "%.3g").c_str(), cell(row, "goal_ms", "%.0f").c_str(),
                  cell(row, "trees", "%.0f").c_str(), cell(row, "height", "%.0f").c_str(),
                  cell(row, "rate_over_bound", "%.4g").c_str(),
                  cell(row, "forestcoll_s", "%.3g").c_str(),
                  cell(row, "forestcoll_trees", "%.0f").c_str(),
                  cell(row, "forestcoll_height", "%.0f").c_str());
    }
  }
  std::printf(
      "\n### All-reduce against reduce-scatter and all-gather\n\n"
      "| machine | joint over two phases | at most | joint over both overlapped | at most |\n"
      "| --- | ---: | ---: | ---: | ---: |\n");
  for (auto const& row : all["all_reduce"]) {
    std::printf("| %s | %s | %s | %s | %s |\n", row["machine"].get<std::string>().c_str(),
                cell(row, "joint_over_two_phase", "%.2f").c_str(),
                cell(row, "most_over_two_phase", "%.2f").c_str(),
                cell(row, "joint_over_overlapped", "%.2f").c_str(),
                cell(row, "most_over_overlapped", "%.2f").c_str());
  }
  std::printf(
      "\n### Growth\n\n| machines | collective | ranks | time at the most, s | time ~ ranks to the "
      "power of |\n| --- | --- | ---: | ---: | ---: |\n");
  for (auto const& row : all["growth"]) {
    std::printf("| %s | %s | %s to %s | %s | %s |\n", row["family"].get<std::string>().c_str(),
                row["collective"].get<std::string>().c_str(),
                cell(row, "from_ranks", "%.0f").c_str(), cell(row, "to_ranks", "%.0f").c_str(),
                cell(row, "last_s", "%.2g").c_str(), cell(row, "exponent", "%.2f").c_str());
  }
  for (auto const& row : all["rows"]) {
    if (!row.contains("peak_mib") || row["family"] != "known") continue;
    std::printf("\nPeak memory of %s on %s: %s MiB.\n",
                row["collective"].get<std::string>().c_str(),
                row["machine"].get<std::string>().c_str(), cell(row, "peak_mib", "%.0f").c_str());
  }
}

}  // namespace

int main(int argc, char** argv) {
  std::string report_file;
  for (int i = 1; i + 1 < argc; ++i) {
    if (argv[i] == std::string_view("--table")) {
      std::ifstream file(argv[i + 1]);
      print_tables(json::parse(file));
      return 0;
    }
    if (argv[i] == std::string_view("--report")) {
      report_file = argv[i + 1];
      std::rotate(argv + i, argv + i + 2, argv + argc);
      argc -= 2;
    }
  }
  auto const rows = bench::machine_rows();
  for (auto const& row : rows) {
    benchmark::RegisterBenchmark(title(row).c_str(),
                                 [&row](benchmark::State& state) { measure(state, row); })
        ->Unit(benchmark::kMillisecond)
        ->MinTime(0.02)
        ->Repetitions(3)
        ->ReportAggregatesOnly();
  }
  benchmark::Initialize(&argc, argv);
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  collecting_reporter reporter;
  benchmark::RunSpecifiedBenchmarks(&reporter);
  if (report_file.empty()) return 0;
  std::ofstream file(report_file);
  file << report(rows, reporter.medians).dump(1) << "\n";
  if (!file.flush()) {
    std::fprintf(stderr, "machines_bench: cannot write %s\n", report_file.c_str());
    return 1;
  }
}
