// SPDX-License-Identifier: Apache-2.0
#include "plan_repair.hpp"

#include <blink/planning/plan/plan_file.hpp>
#include <blink/planning/repair_plan.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/readers/read_machine.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include "arguments.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {
namespace {

void print_links(char const* what, std::vector<std::pair<int, int>> const& links) {
  if (links.empty()) return;
  std::printf("%s", what);
  for (auto const& [from, to] : links) std::printf(" %d->%d", from, to);
  std::printf("\n");
}

std::string positions(std::vector<std::pair<std::size_t, std::size_t>> const& pairs) {
  std::string text;
  for (auto const& [before, after] : pairs) {
    text += " " + std::to_string(before) + (before == after ? "" : "=" + std::to_string(after));
  }
  return text;
}
void print_trees(plan_difference const& d) {
  std::printf("trees        %zu kept, %zu with another weight, %zu changed, %zu new, %zu dropped\n",
              d.kept.size(), d.reweighted.size(), d.changed.size(), d.added.size(),
              d.dropped.size());
  constexpr std::size_t most_listed = 64;  // more are no help to a reader
  if (std::max(d.kept.size() + d.reweighted.size() + d.changed.size(), d.added.size()) >
      most_listed) {
    return;
  }
  std::printf("  old=new    kept:%s; weight:%s; changed:%s\n", positions(d.kept).c_str(),
              positions(d.reweighted).c_str(), positions(d.changed).c_str());
  std::printf("             new: %s; dropped: %s\n", in_runs(d.added, 3).c_str(),
              in_runs(d.dropped, 3).c_str());
}

/// The links that the options name, else those of the old plan. If these no longer join all ranks,
/// another kind that does, or all.
machine_choice with_links_of(topology const& whole, plan const& old, machine_choice choice) {
  if (choice.links != "auto" || old.links.empty()) {
    if (choice.links == "auto") choice.links = "all";
    return choice;
  }
  choice.links = old.links;
  if (rank_groups(part_of(whole, choice).machine).size() < 2) return choice;
  choice.links = "auto";
  auto const now = part_of(whole, choice).links;
  if (now.empty()) choice.links = "all";
  std::printf("links        %s links no longer join all ranks, repaired with %s links\n",
              old.links.c_str(), now.empty() ? "all" : now.c_str());
  return choice;
}

}  // namespace

repaired show_repair(machine_choice choice, std::string const& old_file,
                     work_budget const& budget) {
  auto const old = read_plan_file(old_file);
  auto whole = choice.read();
  auto& ids = choice.ranks;
  if (ids.empty()) {
    for (auto const* nodes : {&old.ranks, &old.forwarding_ranks}) {
      for (int const id : *nodes) {
        if (whole.position_of(id) >= 0) ids += (ids.empty() ? "" : ",") + std::to_string(id);
      }
    }
  }
  if (ids.empty())
    throw input_error(old_file + ": no rank of the plan is in machine " + choice.machine);
  auto place = allocation_of(whole, with_links_of(whole, old, std::move(choice)), old.collective);
  auto const result = repair_plan(place.machine, old, budget);
  auto planned = checked(place, result.plan);
  auto const& d = result.difference;
  std::printf("repaired     %s: %s%s\n", old_file.c_str(), to_text(result.algorithm),
              result.reason.empty() ? "" : (" (" + result.reason + ")").c_str());
  std::printf("rate before  %s\n", in_words(d.rate_before, old.unit).c_str());
  std::printf("rate after   %s\n", in_words(d.rate_after, old.unit).c_str());
  if (!d.ranks_lost.empty()) std::printf("ranks lost   %s\n", in_words(d.ranks_lost).c_str());
  if (!d.ranks_added.empty()) std::printf("ranks added  %s\n", in_words(d.ranks_added).c_str());
  print_trees(d);
  print_links("links left  ", d.links_left);
  print_links("links taken ", d.links_taken);
  std::printf("\n");
  return {std::move(place), std::move(planned)};
}

detour find_detour(topology const& machine, plan const& old, int from, int to) {
  auto ids = old.ranks;
  ids.insert(ids.end(), old.forwarding_ranks.begin(), old.forwarding_ranks.end());
  auto part = subset(machine, ids);
  if (!old.links.empty()) part = only_links(part, read_link_kind(old.links));
  std::erase_if(part.links, [&](link const& l) {
    return part.nodes[static_cast<std::size_t>(l.tail)].id == from &&
           part.nodes[static_cast<std::size_t>(l.head)].id == to;
  });
  auto made = repair_plan(part, old);
  return {std::move(part), std::move(made.plan), to_text(made.algorithm)};
}

}  // namespace blink::tools
