// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/choose_plan.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/simulation/simulate.hpp>

#include "arguments.hpp"
#include "checked_plan.hpp"
#include "commands.hpp"
#include "plan_sizes.hpp"
#include <CLI/CLI.hpp>

#include <algorithm>
#include <cstdio>
#include <iterator>
#include <memory>
#include <string>
#include <vector>

namespace blink::tools {
namespace {

struct simulate_options : machine_choice {
  std::string plan;
  std::string collective = "all_reduce";
  std::string root = "best";
  std::string planner = "exact";
  std::string sizes = "8:1G";
  std::string chunk;
  std::size_t window = simulation_options{}.window;
  bool one_shot = false;
  cost_options cost;
};

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
  plan_request request;
  request.collective = read_collective(options.collective);
  if (options.one_shot) {
    if (request.collective != collective::all_reduce) {
      throw input_error("--one-shot: found " + options.collective + ", expected all_reduce");
    }
    request.collective = collective::reduce_scatter;
  }
  auto const place = read_allocation(options, request.collective);
  request.root = read_root(options.root);
  request.planner = options.planner;
  return {place.machine, checked_plan(place, request).plan};
}

void run_simulate(simulate_options const& options) {
  auto const range = read_sizes("--sizes", options.sizes);
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
  auto settings = options.cost.simulated();
  settings.window = options.window;
  auto const rate_of_buffer = options.one_shot ? p.rate / rational(std::ssize(p.ranks)) : p.rate;
  std::printf("%s on %s by %s: %zu trees, rate %s\n\n",
              options.one_shot ? "all_reduce" : planned.c_str(),
              detail::printable(machine.name).c_str(), name_of(candidate).c_str(), p.trees.size(),
              in_words(rate_of_buffer, p.unit).c_str());
  std::printf("  %8s %10s %9s %12s %10s %7s %12s\n", "bytes", "chunk", "messages", "us", "GB/s",
              "/rate", "predicted us");
  double const unit =
      parameters.bytes_per_unit > 0 ? parameters.bytes_per_unit : bytes_per_second(machine.unit);
  for (auto const size : range.sizes()) {
    auto const bytes = static_cast<double>(size);
    double const moved = planned_bytes(candidate, bytes);
    auto const predicted = predict(candidate.cost, moved);
    auto chunks = predicted.chunk_bytes;
    if (!options.chunk.empty()) {
      auto const given = read_bytes("--chunk", options.chunk);
      if (given == 0) throw input_error("--chunk " + options.chunk + ": expected at least 1 byte");
      std::fill(chunks.begin(), chunks.end(), static_cast<double>(given));
    }
    auto const result = simulate(machine, p, moved, chunks, settings);
    double const rate = bytes / result.seconds;
    double const largest = chunks.empty() ? 0 : *std::max_element(chunks.begin(), chunks.end());
    std::printf("  %8s %10.0f %9lld %12.2f %10.4f %6.1f%% %12.2f\n", bytes_in_words(size).c_str(),
                largest, static_cast<long long>(result.messages), result.seconds * 1e6, rate * 1e-9,
                p.trees.empty() ? 0 : 100 * rate / (rate_of_buffer.to_double() * unit),
                predicted.seconds * 1e6);
  }
}

}  // namespace

void add_simulate_command(CLI::App& app) {
  auto options = std::make_shared<simulate_options>();
  auto* command = app.add_subcommand("simulate",
                                     "Simulate a plan on a machine, chunk by chunk, without moving "
                                     "data. Links serve messages\nin order. Shows the time beside "
                                     "the prediction of the cost model.");
  add_machine_options(*command, *options, "that take part")->required();
  command->add_option("--plan", options->plan, "run this plan file instead of planning");
  command->add_option("--collective,-c", options->collective, "collective to plan")
      ->capture_default_str();
  command->add_option("--root", options->root, "id of the root, or best")->capture_default_str();
  command->add_option("--planner,-p", options->planner, "name of a planner, as for blink plan")
      ->capture_default_str();
  command->add_option("--links", options->links, "kind of link to use, all, or auto")
      ->capture_default_str();
  command->add_option("--sizes", options->sizes, "bytes of the buffer, doubling")
      ->capture_default_str();
  command->add_option("--chunk", options->chunk,
                      "bytes of the largest chunk, such as 64K; default: by the cost model");
  command->add_flag(
      "--one-shot", options->one_shot,
      "all_reduce in one step: each tree of a reduce_scatter carries the whole buffer");
  command->add_option("--window", options->window, "chunks in flight on a tree edge; 0: any number")
      ->capture_default_str();
  for (auto const* const other :
       {"--collective", "--root", "--planner", "--links", "--ranks"}) {  // the plan fixes them
    command->get_option("--plan")->excludes(command->get_option(other));
  }
  add_cost_options(*command, options->cost);
  command->callback([options] { run_simulate(*options); });
}

}  // namespace blink::tools
