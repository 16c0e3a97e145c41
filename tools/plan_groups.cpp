// SPDX-License-Identifier: Apache-2.0
#include "plan_groups.hpp"

#include <blink/planning/check/check_groups.hpp>
#include <blink/planning/constraints/restricted_machine.hpp>
#include <blink/planning/plan/groups_file.hpp>
#include <blink/planning/plan_groups.hpp>

#include "plan_comparison.hpp"
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <map>
#include <optional>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

constexpr std::size_t most_groups = 64;  // of more than this many, the rest are not shown

void print_levels(groups_plan const& groups) {
  for (std::size_t k = 0; k < groups.levels.size(); ++k) {
    auto const& level = groups.levels[k];
    auto const unit = groups.plans[level.groups.front()].unit;
    std::printf("%-12s groups %s at %s\n", ("level " + std::to_string(k)).c_str(),
                in_runs(level.groups, 2).c_str(), in_words(level.rate, unit).c_str());
    std::printf("bound        %s, rate/bound %s%s\n", in_words(level.bound, unit).c_str(),
                share_of_bound(level.rate, level.bound).c_str(),
                k == 0 ? ": no plan gives each group more"
                       : ": none gives each of these and of later groups more");
    std::printf("certificate  %s\n", in_words(level.proof).c_str());
  }
}

/// Prints the row of a group, as --json has it.
void print_group(nlohmann::ordered_json const& row) {
  auto const text = [&](char const* key) { return row.at(key).get<std::string>(); };
  std::printf("  %5zu  %-14s %12s %7zu %7d", row.at("group").get<std::size_t>(),
              text("collective").c_str(), text("exact_rate").c_str(),
              row.at("trees").get<std::size_t>(), row.at("height").get<int>());
  if (row.contains("rate_alone")) std::printf(" %12s", text("exact_rate_alone").c_str());
  std::printf("  %s\n", in_words(row.at("ranks").get<std::vector<int>>()).c_str());
}

/// The rate and the bound of each level of groups, for --json.
nlohmann::ordered_json levels_of(groups_plan const& groups) {
  auto result = nlohmann::ordered_json::array();
  for (auto const& level : groups.levels) {
    nlohmann::ordered_json one{{"groups", level.groups}};
    add_exact(one, "rate", level.rate);
    add_exact(one, "bound", level.bound);
    one["unit"] = groups.plans[level.groups.front()].unit;
    result.push_back(std::move(one));
  }
  return result;
}

}  // namespace

std::vector<group_request> read_groups_option(std::string const& text, topology const& machine,
                                              collective other) {
  std::vector<int> ranks;
  for (int const at : machine.rank_positions()) {
    ranks.push_back(machine.nodes[static_cast<std::size_t>(at)].id);
  }
  std::vector<group_request> result;
  for (std::string const way : {"of=", "across="}) {
    if (text.rfind(way, 0) != 0) continue;
    auto const number = read_ids("--groups", text.substr(way.size()));
    auto const n = number.size() == 1 && number[0] > 0 ? static_cast<std::size_t>(number[0]) : 0;
    if (n == 0 || ranks.size() % n != 0) {
      throw input_error("--groups " + text + ": expected a number that divides the " +
                        std::to_string(ranks.size()) + " ranks");
    }
    result.assign(way == "of=" ? ranks.size() / n : n, {other, {}, {}});
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      result[way == "of=" ? i / n : i % n].ranks.push_back(ranks[i]);
    }
    return result;
  }
  for (std::size_t from = 0; from <= text.size();) {
    auto const to = std::min(text.find('/', from), text.size());
    auto part = text.substr(from, to - from);
    group_request group{other, {}, {}};
    if (auto const colon = part.find(':'); colon != std::string::npos) {
      group.collective = read_collective(part.substr(0, colon));
      part.erase(0, colon + 1);
    }
    if (part.empty()) {
      throw input_error("--groups " + text + ": group " + std::to_string(result.size()) +
                        " is empty, expected ranks such as 0-3");
    }
    group.ranks = read_ids("--groups", part);
    result.push_back(std::move(group));
    from = to + 1;
  }
  return result;
}

groups_plan show_groups(allocation const& place, std::vector<group_request> const& groups,
                        work_budget const& budget, bool compare, bool all,
                        table_files const& files) {
  auto found = plan_groups(place.machine, groups, budget);
  for (auto& p : found.plans) p.links = place.links;
  auto const report = check_groups(place.whole, found);
  if (!report) {
    throw std::runtime_error("the plans of the groups do not pass the checker: " + *report.fault);
  }
  std::printf("groups       %zu, at the same time\n", groups.size());
  std::printf("machine      %s%s\n", detail::printable(place.machine.name).c_str(),
              place.links.empty() ? "" : (", links: " + place.links + " only").c_str());
  if (!found.forwarding_ranks.empty()) {
    std::printf("forwarding   ranks %s, in no group\n", in_words(found.forwarding_ranks).c_str());
  }
  print_levels(found);
  std::printf("\n  %5s  %-14s %12s %7s %7s", "group", "collective", "rate", "trees", "height");
  if (compare) std::printf(" %12s", "alone");
  std::printf("  %s\n", "ranks");
  auto rows = nlohmann::ordered_json::array();
  for (std::size_t g = 0; g < groups.size(); ++g) {
    bool const is_shown = g < most_groups || all;
    if (!is_shown && !files.are_requested()) break;
    auto const& p = found.plans[g];
    nlohmann::ordered_json row{{"group", g}, {"collective", to_text(p.collective)}};
    add_exact(row, "rate", p.rate);
    row["unit"] = p.unit;
    row["trees"] = p.trees.size();
    row["height"] = max_height(p);
    if (compare) {
      add_exact(row, "rate_alone", plan_groups(place.machine, {groups[g]}, budget).plans[0].rate);
    }
    row["ranks"] = p.ranks;
    if (is_shown) print_group(row);
    rows.push_back(std::move(row));
  }
  if (groups.size() > most_groups && !all) {
    std::printf("  and %zu more (--all shows each)\n", groups.size() - most_groups);
  }
  link_amounts capacity;
  for (auto const& [ends, steps] : detail::capacities_by_ids(place.machine)) {
    capacity.emplace(ends, place.machine.in_units(steps));
  }
  print_loads(capacity, report.load, all);
  write_table_files(files, nlohmann::ordered_json{{"blink_group_rates", 1},
                                                  {"machine", place.machine.name},
                                                  {"levels", levels_of(found)},
                                                  {"rows", std::move(rows)}});
  return found;
}

bool is_groups_text(std::string_view text) {
  return text.find("\"blink_groups\"") != std::string_view::npos;
}

void check_groups_file(topology const& machine, std::string const& file) {
  auto const groups = read_groups_file(file);
  auto const report = check_groups(machine, groups);
  if (!report) throw input_error(file + ": " + *report.fault);
  std::printf("%s: sound\n", file.c_str());
  std::printf("groups       %zu of %s\n", groups.plans.size(),
              detail::printable(machine.name).c_str());
  print_levels(groups);
}

}  // namespace blink::tools
