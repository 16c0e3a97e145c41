// SPDX-License-Identifier: Apache-2.0
#include "plan_hints.hpp"

#include <blink/planning/constraints/plan_fixed_trees.hpp>
#include <blink/planning/constraints/read_hints.hpp>
#include <blink/planning/constraints/restricted_plan.hpp>

#include "arguments.hpp"
#include "number_checks.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <cstdio>
#include <utility>

namespace blink::tools {

plan_constraints hint_options::options() const {
  plan_constraints result;
  if (!file.empty()) result = read_hints_file(file);
  if (max_trees > 0) result.max_trees = max_trees;
  if (max_height > 0) result.max_height = max_height;
  if (trees_per_root > 0) result.trees_per_root = trees_per_root;
  if (!weight_unit.empty()) {
    result.weight_unit = rational::from_text(weight_unit);
    if (!result.weight_unit) {
      throw input_error("--weight-unit " + weight_unit + ": expected a number such as 25 or 25/3");
    }
  }
  return result;
}

void add_hint_options(CLI::App& command, hint_options& options) {
  command.add_option("--hints", options.file,
                     "restrict the plan as this JSON file says: limits on trees and heights,\n"
                     "forbidden and required links, switches, shares, symmetries");
  command.add_option("--max-trees", options.max_trees, "the largest number of trees in all")
      ->check(positive_number());
  command.add_option("--max-height", options.max_height, "no tree higher than this")
      ->check(positive_number());
  command.add_option("--weight-unit", options.weight_unit,
                     "weights are multiples of this, such as 25 or 25/3");
  command
      .add_option("--trees-per-root", options.trees_per_root,
                  "all_gather, reduce_scatter: this many trees of equal weight at each rank")
      ->check(positive_number());
  command
      .add_option("--frontier", options.frontier,
                  "instead: the rate with 1, 2, ... up to this many trees a root, where it grows")
      ->check(positive_number());
}

plan_and_report plan_with_hints(allocation const& place, plan_request const& request,
                                table_files const& files) {
  auto const result = make_restricted_plan(place.machine, request);
  auto planned = checked(place, result.plan);
  auto rows = nlohmann::ordered_json::array();
  std::printf("  %-40s %16s %9s %20s\n", "restriction", "rate", "cost", "at most");
  for (std::size_t i = 0; i < result.steps.size(); ++i) {
    auto const& step = result.steps[i];
    auto const before = result.steps[i == 0 ? 0 : i - 1].rate;
    double const cost = before > rational(0) ? 1 - ratio(step.rate, before) : 0;
    std::printf("  %-40s %16s %8.1f%% %20s\n", step.restriction.c_str(),
                step.rate.to_text().c_str(), 100 * cost, step.bound.to_text().c_str());
    nlohmann::ordered_json row{{"restriction", step.restriction}};
    add_exact(row, "rate", step.rate);
    row["unit"] = place.machine.unit;
    row["share_lost"] = cost;
    add_exact(row, "bound", step.bound);
    rows.push_back(std::move(row));
  }
  std::printf("\n");
  write_table_files(files, nlohmann::ordered_json{{"blink_restrictions", 1},
                                                  {"collective", to_text(request.collective)},
                                                  {"machine", place.machine.name},
                                                  {"ranks", planned.plan.ranks},
                                                  {"rows", std::move(rows)}});
  return planned;
}

void show_frontier(topology const& machine, plan_request const& request, int most,
                   table_files const& files) {
  if (!has_equal_roots(request.collective)) {
    throw input_error("--frontier: is for all_gather and reduce_scatter, not for " +
                      std::string(to_text(request.collective)));
  }
  auto const bound = within_budget(request.budget, "the bound", [&] {
    return prove_bound(machine, request.collective, 0).bound;
  });
  std::printf("%s on %s, bound %s\n\n  %14s %20s %11s\n",
              std::string(to_text(request.collective)).c_str(),
              detail::printable(machine.name).c_str(), in_words(bound, machine.unit).c_str(),
              "trees per root", "rate", "rate/bound");
  auto const points = within_budget(request.budget, "the frontier",
                                    [&] { return tree_count_frontier(machine, request, most); });
  auto rows = nlohmann::ordered_json::array();
  for (auto const& point : points) {
    double const share = ratio(point.rate, bound);
    std::printf("  %14lld %20s %10.1f%%\n", static_cast<long long>(point.trees_per_root),
                point.rate.to_text().c_str(), 100 * share);
    nlohmann::ordered_json row{{"trees_per_root", point.trees_per_root}};
    add_exact(row, "rate", point.rate);
    row["unit"] = machine.unit;
    row["share_of_bound"] = share;
    rows.push_back(std::move(row));
  }
  nlohmann::ordered_json document{{"blink_frontier", 1},
                                  {"collective", to_text(request.collective)},
                                  {"machine", machine.name},
                                  {"unit", machine.unit}};
  add_exact(document, "bound", bound);
  document["rows"] = std::move(rows);
  write_table_files(files, document);
}

}  // namespace blink::tools
