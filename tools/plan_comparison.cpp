// SPDX-License-Identifier: Apache-2.0
#include "plan_comparison.hpp"

#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/planners/planners.hpp>

#include "checked_plan.hpp"
#include "progress.hpp"
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace blink::tools {
namespace {

/// The share of the bound that a plan reaches; nothing without a bound.
std::optional<double> reached_share(plan const& p) {
  if (p.bound <= rational(0)) return std::nullopt;
  return ratio(p.rate, p.bound);
}

/// The row of a planner for --json and --csv, without what it gets.
nlohmann::ordered_json row_of(std::string const& planner, std::string const& unit) {
  return {{"planner", planner},        {"rate", nullptr},
          {"exact_rate", nullptr},     {"unit", unit},
          {"share_of_bound", nullptr}, {"trees", nullptr},
          {"height", nullptr},         {"chosen_times_as_fast", nullptr},
          {"refused", nullptr}};
}

}  // namespace

int max_height(plan const& p) {
  int result = 0;
  for (auto const& t : p.trees) result = std::max(result, height(t));
  return result;
}

void show_comparison(allocation const& place, plan const& chosen, work_budget const& budget,
                     bool all, table_files const& files) {
  constexpr std::size_t most_ranks = 64;  // more take the ring longer than the plan
  if (!all && chosen.ranks.size() > most_ranks) {
    std::printf("\n  (--compare shows other planners)\n");
    return;
  }
  progress bar("planning");
  auto rows = nlohmann::ordered_json::array();
  if (!chosen.trees.empty()) {
    std::printf("\n  %-26s %12s %11s %7s %7s  %s\n", "planner", "rate", "rate/bound", "trees",
                "height", "");
  }
  for (auto const& [name, about] : all_planners()) {
    if (chosen.trees.empty()) break;  // one rank
    if (!all && name != planned_by::ring && name != chosen.planner) continue;
    bar.name("planning by " + name);
    plan_request request{chosen.collective, chosen.trees.front().root, name};
    request.budget = budget;
    auto row = row_of(name, chosen.unit);
    try {
      auto const p = name == chosen.planner ? chosen : checked_plan(place, request).plan;
      if (is_substitute(p, name)) throw planning_error("spent the budget (--time, --memory)");
      auto const gain = ratio(chosen.rate, p.rate);
      bar.clear();
      std::printf("  %-26s %12s %10.1f%% %7zu %7d  ", name.c_str(), p.rate.to_text().c_str(),
                  100 * reached_share(p).value_or(0), p.trees.size(), max_height(p));
      std::printf(name == chosen.planner ? "\n" : "(%s is %.2f times as fast)\n",
                  chosen.planner.c_str(), gain);
      add_exact(row, "rate", p.rate);
      if (auto const share = reached_share(p)) row["share_of_bound"] = *share;
      row["trees"] = p.trees.size();
      row["height"] = max_height(p);
      row["chosen_times_as_fast"] = gain;
    } catch (error const& reason) {
      bar.clear();
      std::printf("  %-26s %12s  %s\n", name.c_str(), "-",
                  detail::printable(reason.what()).c_str());
      row["refused"] = reason.what();
    }
    rows.push_back(std::move(row));
  }
  if (!all) return;
  write_table_files(files, nlohmann::ordered_json{{"blink_comparison", 1},
                                                  {"collective", to_text(chosen.collective)},
                                                  {"machine", place.machine.name},
                                                  {"ranks", chosen.ranks},
                                                  {"chosen", chosen.planner},
                                                  {"rows", std::move(rows)}});
}

}  // namespace blink::tools
