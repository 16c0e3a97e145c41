// SPDX-License-Identifier: Apache-2.0
#include "plan_groups.hpp"

#include <blink/planning/check/check_groups.hpp>
#include <blink/planning/constraints/restricted_machine.hpp>
#include <blink/planning/plan/groups_file.hpp>
#include <blink/planning/plan_groups.hpp>

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
                        work_budget const& budget, bool compare, bool all) {
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
  for (std::size_t g = 0; g < groups.size(); ++g) {
    auto const& p = found.plans[g];
    if (g == most_groups && !all) {
      std::printf("  and %zu more (--all shows each)\n", groups.size() - g);
      break;
    }
    int highest = 0;
    for (auto const& t : p.trees) highest = std::max(highest, height(t));
    std::printf("  %5zu  %-14s %12s %7zu %7d", g, std::string(to_text(p.collective)).c_str(),
                p.rate.to_text().c_str(), p.trees.size(), highest);
    if (compare) {
      auto const alone = plan_groups(place.machine, {groups[g]}, budget);
      std::printf(" %12s", alone.plans[0].rate.to_text().c_str());
    }
    std::printf("  %s\n", in_words(p.ranks).c_str());
  }
  link_amounts capacity;
  for (auto const& [ends, steps] : detail::capacities_by_ids(place.machine)) {
    capacity.emplace(ends, place.machine.in_units(steps));
  }
  print_loads(capacity, report.load, all);
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
