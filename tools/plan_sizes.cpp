// SPDX-License-Identifier: Apache-2.0
#include "plan_sizes.hpp"

#include <blink/core/detail/input_text.hpp>
#include <blink/planning/choose_tuning.hpp>
#include <blink/schedule/tuning_file.hpp>
#include <blink/simulation/correct_predictions.hpp>

#include "arguments.hpp"
#include "checked_plan.hpp"
#include "number_checks.hpp"
#include "progress.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdint>
#include <cstdio>
#include <utility>

namespace blink::tools {

cost_parameters cost_options::parameters() const {
  cost_parameters result;
  result.step_seconds = step_microseconds * 1e-6;
  result.start_seconds = start_microseconds * 1e-6;
  result.bytes_per_unit = unit_rate * 1e9;
  return result;
}

simulation_options cost_options::simulated() const {
  auto const costs = parameters();
  simulation_options result;
  result.start_seconds = costs.start_seconds;
  result.step_seconds = costs.step_seconds;
  result.bytes_per_unit = costs.bytes_per_unit;
  return result;
}

double cost_options::rate_of_unit(topology const& machine) const {
  return unit_rate > 0 ? unit_rate * 1e9 : bytes_per_second(machine.unit);
}

void add_cost_options(CLI::App& command, cost_options& options) {
  command
      .add_option("--step-us", options.step_microseconds,
                  "microseconds that a rank spends on each chunk and edge")
      ->check(number_from_0())
      ->capture_default_str();
  command.add_option("--start-us", options.start_microseconds, "microseconds to launch, once")
      ->check(number_from_0())
      ->capture_default_str();
  command
      .add_option("--unit-rate", options.unit_rate,
                  "GB/s that one unit of capacity stands for, for machines in \"links\"")
      ->check(positive_number());
}

void add_size_options(CLI::App& command, size_options& options) {
  command.add_option("--sizes", options.sizes,
                     "instead: the planner that is fastest by the cost model for each size of\n"
                     "the buffer, such as 8:1G, and where it changes");
  add_output_option(command, "--tuning", options.algorithms,
                    "write what runs here, for `read_tuning_file` and `blink perf --tuning`: the\n"
                    "plan, or with --sizes the fastest for each size");
  add_cost_options(command, options.cost);
}

std::string bytes_in_words(std::size_t bytes) {
  char const* units[] = {"", "K", "M", "G"};
  std::size_t unit = 0;
  for (; unit < 3 && bytes >= 1024 && bytes % 1024 == 0; ++unit) bytes /= 1024;
  return std::to_string(bytes) + units[unit];
}

void show_sizes(allocation const& place, plan_request const& request, size_options const& options,
                table_files const& files) {
  auto const& machine = place.machine;
  auto const range = read_sizes("--sizes", options.sizes);
  progress bar("planning by all planners");
  auto candidates = all_algorithms(machine, request, options.cost.parameters());
  for (auto& each : candidates.plans) each.plan = checked(place, std::move(each.plan)).plan;
  auto const first = static_cast<std::int64_t>(range.first);
  auto const last = static_cast<std::int64_t>(range.last);
  if (request.collective != collective::barrier) {  // which moves no data
    correct_predictions(machine, candidates, first, last, options.cost.simulated());
  }
  auto const changes = crossovers(candidates, first, last);
  bar.clear();
  std::vector<std::string> names;
  for (auto const& each : candidates.plans) names.push_back(name_of(each));
  auto const name = [&](std::size_t i) { return names[i].c_str(); };
  nlohmann::ordered_json rows = nlohmann::ordered_json::array();
  std::printf(
      "%s on %s, predicted with %g us a step and %g us to launch,\nsimulated where that "
      "differs\n\n",
      std::string(to_text(request.collective)).c_str(), detail::printable(machine.name).c_str(),
      options.cost.step_microseconds, options.cost.start_microseconds);
  std::printf("  %8s  %-16s %11s %10s %7s", "bytes", "fastest", "us", "GB/s", "/bound");
  for (std::size_t i = 0; i < candidates.plans.size(); ++i) std::printf(" %16s", name(i));
  std::printf("\n");
  for (auto const bytes : range.sizes()) {
    auto const used = candidate_for(changes, static_cast<std::int64_t>(bytes));
    auto const& winner = candidates.plans[used];
    double const least = seconds_for(winner, static_cast<double>(bytes));
    auto const& bounded = winner.is_one_shot ? candidates.plans.front().plan : winner.plan;
    double const rate = static_cast<double>(bytes) / least;
    // Converts the plan's rate to bytes per second. The unit's rate is known by now.
    double const unit = options.cost.rate_of_unit(machine);
    double const share =
        bounded.bound > rational(0) ? rate / (bounded.bound.to_double() * unit) : 0;
    std::printf("  %8s  %-16s %11.2f %10.4f %6.1f%%", bytes_in_words(bytes).c_str(), name(used),
                least * 1e6, rate * 1e-9, 100 * share);
    nlohmann::ordered_json all = nlohmann::ordered_json::object();
    for (auto const& each : candidates.plans) {
      double const seconds = seconds_for(each, static_cast<double>(bytes));
      std::printf(" %16.2f", seconds * 1e6);
      all[name_of(each)] = seconds * 1e6;
    }
    std::printf("\n");
    rows.push_back({{"bytes", bytes},
                    {"fastest", name(used)},
                    {"microseconds", least * 1e6},
                    {"gigabytes_per_second", rate * 1e-9},
                    {"share_of_bound", share},
                    {"all_microseconds", std::move(all)}});
  }
  nlohmann::ordered_json from = nlohmann::ordered_json::array();
  std::printf("\nfastest from size on:\n");
  for (auto const& change : changes) {
    std::printf("  %12lld  %s\n", static_cast<long long>(change.bytes), name(change.candidate));
    from.push_back({{"bytes", change.bytes}, {"planner", name(change.candidate)}});
  }
  if (!options.algorithms.empty()) {
    write_tuning_file(
        options.algorithms,
        {choose_tuning(machine, candidates, options.cost.rate_of_unit(machine), first, last)});
  }
  nlohmann::ordered_json refused = nlohmann::ordered_json::array();
  for (auto const& [planner, reason] : candidates.refused) {
    std::printf("no plan of %s: %s\n", planner.c_str(), reason.c_str());
    refused.push_back({{"planner", planner}, {"reason", reason}});
  }
  write_table_files(files, nlohmann::ordered_json{{"blink_sizes", 1},
                                                  {"collective", to_text(request.collective)},
                                                  {"machine", machine.name},
                                                  {"rows", std::move(rows)},
                                                  {"fastest_from", std::move(from)},
                                                  {"refused", std::move(refused)}});
}

}  // namespace blink::tools
