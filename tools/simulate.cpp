// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/simulation/simulate_call.hpp>

#include "arguments.hpp"
#include "checked_plan.hpp"
#include "commands.hpp"
#include "plan_repair.hpp"
#include "plan_sizes.hpp"
#include "progress.hpp"
#include "simulated_trouble.hpp"
#include "table_files.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <iterator>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

struct simulate_options : plan_choice {
  std::string plan;
  std::string sizes = "8:1G";
  std::string chunk;
  std::size_t window = simulation_options{}.window;
  bool one_shot = false;
  bool repairs = false;
  std::string events;
  cost_options cost;
  trouble_options trouble;
  table_files files;
};

/// The text of --chunk for the chunks of the runtime.
constexpr char const* runtime_chunks = "runtime";

/// A plan and the machine on which to simulate it.
struct simulated {
  topology machine;
  plan planned;
};

simulated read_simulated(simulate_options const& options) {
  if (!options.plan.empty()) {
    simulated result{read_part(options.on_all_links()).machine, read_plan_file(options.plan)};
    auto const report = check_plan(result.machine, result.planned);
    if (!report) throw input_error(options.plan + ": " + *report.fault);
    return result;
  }
  auto request = options.request();
  if (options.one_shot) {
    if (request.collective != collective::all_reduce) {
      throw input_error("--one-shot: found " + options.collective + ", expected all_reduce");
    }
    request.collective = collective::reduce_scatter;
  }
  auto const place = read_allocation(options, request.collective);
  return {place.machine, checked_plan(place, request).plan};
}

/// One run, and the largest chunk of it.
struct simulated_size {
  simulation_result result;
  double largest_chunk = 0;
};

/// Runs the plan with chunks of the cost model, of one size, or of the runtime.
///
/// chunks: of the cost model, by tree
simulated_size run_size(simulate_options const& options, topology const& machine, plan const& p,
                        std::size_t size, double moved, std::vector<double> chunks,
                        simulation_options const& settings) {
  auto const largest = [](std::vector<double> const& all) {
    return all.empty() ? 0 : *std::ranges::max_element(all);
  };
  if (options.chunk != runtime_chunks) {
    if (!options.chunk.empty()) {
      auto const given = read_bytes("--chunk", options.chunk);
      if (given == 0) throw input_error("--chunk " + options.chunk + ": expected at least 1 byte");
      std::ranges::fill(chunks, static_cast<double>(given));
    }
    return {simulate(machine, p, moved, chunks, settings), largest(chunks)};
  }
  simulated_call call;
  if (size % sizeof(float) != 0) {
    throw input_error("--chunk runtime: found " + std::to_string(size) +
                      " bytes, expected whole elements of 4 bytes");
  }
  constexpr std::size_t most = std::numeric_limits<std::uint32_t>::max();
  if (options.window == 0 || options.window > most) {
    throw input_error("--window " + std::to_string(options.window) + ": expected 1 to " +
                      std::to_string(most) + " with --chunk runtime");
  }
  call.count = size / sizeof(float);
  call.is_one_shot = options.one_shot;
  call.layout.window = static_cast<std::uint32_t>(options.window);
  return {simulate_call(machine, p, call, settings),
          largest_chunk_bytes(machine, p, call, settings.bytes_per_unit)};
}

/// The same run along a plan that takes over when a link has lost a chunk.
struct taken_over {
  link_failure lost;
  detour by;
  simulated_size run;
};

/// Repeats the whole call along the repaired plan, after the chunk was lost.
taken_over take_over(topology const& machine, plan const& p, link_failure const& lost,
                     std::size_t size, double moved, simulate_options const& options,
                     simulation_options settings) {
  auto by = [&] {
    try {
      return find_detour(machine, p, lost.from, lost.to);
    } catch (planning_error const& none) {
      throw planning_error(std::string(lost.what()) + "; no plan takes over: " + none.what());
    }
  }();
  std::vector<link_change> left;
  for (auto change : settings.link_changes) {
    if (change.from == lost.from && change.to == lost.to) continue;
    change.seconds = std::max(0.0, change.seconds - lost.seconds);
    // A change that has happened replaces earlier ones of its link.
    std::erase_if(left, [&](link_change const& other) {
      return other.from == change.from && other.to == change.to && change.seconds == 0;
    });
    left.push_back(change);
  }
  settings.link_changes = std::move(left);
  for (auto& each : settings.slow_ranks) {
    each.late_seconds = std::max(0.0, each.late_seconds - lost.seconds);
  }
  auto const chunks =
      predict(cost_of(by.machine, by.plan, options.cost.parameters()), moved).chunk_bytes;
  auto run = run_size(options, by.machine, by.plan, size, moved, chunks, settings);
  return {lost, std::move(by), std::move(run)};
}

nlohmann::json events_of(plan const& p, topology const& machine, std::size_t bytes,
                         simulation_result const& result) {
  auto crossings = nlohmann::json::array();
  for (auto const& c : result.crossings) {
    crossings.push_back({{"tree", c.tree},
                         {"phase", c.is_reduce ? "reduce" : "broadcast"},
                         {"chunk", c.chunk},
                         {"edge", {c.edge_from, c.edge_to}},
                         {"link", {c.link_from, c.link_to}},
                         {"begin_us", c.begin * 1e6},
                         {"end_us", c.end * 1e6},
                         {"bytes", c.bytes}});
  }
  auto combinations = nlohmann::json::array();
  for (auto const& c : result.combinations) {
    combinations.push_back({{"tree", c.tree},
                            {"chunk", c.chunk},
                            {"rank", c.rank},
                            {"from", c.from},
                            {"begin_us", c.begin * 1e6},
                            {"end_us", c.end * 1e6}});
  }
  return {{"blink_events", 1},      {"machine", machine.name},
          {"planner", p.planner},   {"collective", to_text(p.collective)},
          {"bytes", bytes},         {"microseconds", result.seconds * 1e6},
          {"crossings", crossings}, {"combinations", combinations}};
}

/// Prints the row of a size, and returns it for --json and --csv.
///
/// over:      nothing: the plan ran to its end
/// full:      bytes per second at the rate of the plan; 0: it has none
/// predicted: seconds by the cost model
nlohmann::json show_size(std::size_t size, simulated_size const& run,
                         std::optional<taken_over> const& over, double full, double predicted) {
  double const rate = static_cast<double>(size) / run.result.seconds;
  double const share = full > 0 ? rate / full : 0;
  std::printf("  %8s %10.0f %9lld %12.2f %10.4f %6.1f%% %12.2f\n", bytes_in_words(size).c_str(),
              run.largest_chunk, static_cast<long long>(run.result.messages),
              run.result.seconds * 1e6, rate * 1e-9, 100 * share, predicted * 1e6);
  nlohmann::json row{{"bytes", size},
                     {"chunk_bytes", run.largest_chunk},
                     {"messages", run.result.messages},
                     {"microseconds", run.result.seconds * 1e6},
                     {"gigabytes_per_second", rate * 1e-9},
                     {"share_of_rate", share},
                     {"predicted_microseconds", predicted * 1e6}};
  double const before = over ? over->lost.seconds : 0;
  for (auto const& [node, end] : run.result.end_seconds) {
    row["end_microseconds"][std::to_string(node)] = (before + end) * 1e6;
  }
  if (!over) return row;
  auto const& lost = over->lost;
  std::printf(
      "           link %d -> %d lost chunk %zu of tree %zu at %.2f us; a plan takes over: %s\n",
      lost.from, lost.to, lost.chunk, lost.tree, lost.seconds * 1e6, over->by.algorithm.c_str());
  row["lost"] = {{"link", std::to_string(lost.from) + "-" + std::to_string(lost.to)},
                 {"tree", lost.tree},
                 {"chunk", lost.chunk},
                 {"microseconds", lost.seconds * 1e6}};
  row["taken_over_by"] = over->by.algorithm;
  return row;
}

void run_simulate(simulate_options const& options) {
  auto const range = read_sizes("--sizes", options.sizes);
  if (!options.events.empty() && range.first != range.last) {
    throw input_error("--events: found sizes from " + bytes_in_words(range.first) + " to " +
                      bytes_in_words(range.last) + ", expected one, as in --sizes 1M");
  }
  auto settings = options.cost.simulated();
  settings.window = options.window;
  settings.records_events = !options.events.empty();
  options.trouble.apply(settings);
  progress bar("planning");
  auto const [machine, p] = read_simulated(options);
  auto const planned = std::string(to_text(p.collective));
  if (p.collective == collective::barrier) {
    throw input_error("simulate: a barrier moves no data, expected another collective");
  }
  if (options.one_shot && p.collective != collective::reduce_scatter) {
    throw input_error(options.plan + ": plans " + planned +
                      ", expected reduce_scatter for --one-shot");
  }
  auto const parameters = options.cost.parameters();
  plan_candidate const candidate{p, cost_of(machine, p, parameters), options.one_shot};
  auto const rate_of_buffer = options.one_shot ? p.rate / rational(std::ssize(p.ranks)) : p.rate;
  std::string const simulated_collective = options.one_shot ? "all_reduce" : planned;
  bar.clear();
  std::printf("%s on %s by %s: %zu trees, rate %s\n", simulated_collective.c_str(),
              detail::printable(machine.name).c_str(), name_of(candidate).c_str(), p.trees.size(),
              in_words(rate_of_buffer, p.unit).c_str());
  if (auto const trouble = options.trouble.in_words(); !trouble.empty()) {
    std::printf("%s\n", trouble.c_str());
  }
  std::printf("\n  %8s %10s %9s %12s %10s %7s %12s\n", "bytes", "chunk", "messages", "us", "GB/s",
              "/rate", "predicted us");
  double const unit = options.cost.rate_of_unit(machine);
  auto rows = nlohmann::json::array();
  nlohmann::json events;
  bar.begin("simulating", range.sizes().size());
  for (auto const size : range.sizes()) {
    double const moved = planned_bytes(candidate, static_cast<double>(size));
    auto const predicted = predict(candidate.cost, moved);
    std::optional<taken_over> over;
    simulated_size run;
    try {
      run = run_size(options, machine, p, size, moved, predicted.chunk_bytes, settings);
    } catch (link_failure const& lost) {
      if (!options.repairs) throw;
      over = take_over(machine, p, lost, size, moved, options, settings);
      run = over->run;
      run.result.seconds += lost.seconds;
    }
    bar.step();
    bar.clear();
    double const full = p.trees.empty() ? 0 : rate_of_buffer.to_double() * unit;
    rows.push_back(show_size(size, run, over, full, predicted.seconds));
    if (!options.events.empty()) events = events_of(p, machine, size, run.result);
  }
  bar.clear();
  write_table_files(options.files, nlohmann::json{{"blink_simulation", 1},
                                                  {"collective", simulated_collective},
                                                  {"machine", machine.name},
                                                  {"planner", name_of(candidate)},
                                                  {"trees", p.trees.size()},
                                                  {"sharing", options.trouble.sharing},
                                                  {"trouble", options.trouble.in_words()},
                                                  {"rows", std::move(rows)}});
  if (!options.events.empty()) detail::write_text(options.events, json_text(events, -1) + "\n");
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  auto options = std::make_shared<simulate_options>();
  auto* command = app.add_subcommand("simulate",
                                     "Simulate a plan on a machine, chunk by chunk, without moving "
                                     "data. Links carry chunks\nin order, or at fair rates. Shows "
                                     "the time beside the prediction of the cost model.");
  add_machine_options(*command, *options, "that take part")->required();
  command->add_option("--plan", options->plan, "run this plan file instead of planning");
  add_plan_options(*command, *options);
  command->add_option("--sizes", options->sizes, "bytes of the buffer, doubling")
      ->capture_default_str();
  command->add_option(
      "--chunk", options->chunk,
      "bytes of the largest chunk, such as 64K; runtime: as ranks cut elements of 4\n"
      "bytes; default: by the cost model");
  command->add_flag(
      "--one-shot", options->one_shot,
      "all_reduce in one step: each tree of a reduce_scatter carries the whole buffer");
  command->add_option("--window", options->window, "chunks in flight on a tree edge; 0: any number")
      ->capture_default_str();
  add_trouble_options(*command, options->trouble);
  auto* const repairs = command->add_flag(
      "--repair", options->repairs,
      "if a link fails, the whole call runs again along the repaired plan, which takes\n"
      "no time to find");
  repairs->needs(command->get_option("--degrade"));
  add_table_files(*command, options->files);
  add_output_option(*command, "--events", options->events,
                    "write begin and end of each chunk on each link, for one size, as JSON")
      ->excludes(repairs);
  repairs->excludes(command->get_option("--one-shot"));
  for (auto const* const other :
       {"--collective", "--root", "--planner", "--links", "--ranks"}) {  // the plan fixes them
    command->get_option("--plan")->excludes(command->get_option(other));
  }
  add_cost_options(*command, options->cost);
  command->callback([options] { run_simulate(*options); });
}

}  // namespace blink::tools
