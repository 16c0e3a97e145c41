// SPDX-License-Identifier: Apache-2.0
#include "explain_machine.hpp"

#include <blink/core/error.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/device_tree.hpp>

#include "arguments.hpp"
#include "checked_plan.hpp"

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>

namespace blink::tools {
namespace {

constexpr std::size_t most_ranks = 64;  // of more, pairs and rings take long

void count_pairs(topology const& machine, machine_explanation& result) {
  std::set<link_kind> kinds;
  for (auto const& l : machine.links) kinds.insert(l.kind);
  if (kinds.empty()) return;
  result.fastest = *kinds.begin();
  result.paths = paths_between_ranks(machine);
  for (std::size_t a = 0; a < result.paths.size(); ++a) {
    for (std::size_t b = 0; b < a; ++b) {
      ++result.pairs;
      auto const& path = result.paths[a][b];
      result.pairs_without_fastest += !path || path->slowest != result.fastest;
    }
  }
}

/// Finds switches whose link to the processor is narrower than those of the ranks below together.
void find_shared_links(topology const& machine, machine_explanation& result) {
  device_tree const tree(machine);
  std::map<std::tuple<link_kind, std::int64_t, std::size_t>, std::size_t> alike;
  for (int n = 0; n < static_cast<int>(machine.nodes.size()); ++n) {
    if (tree.parent(n) < 0) continue;
    std::size_t ranks = 0;
    std::int64_t from_ranks = 0, up = 0;
    for (auto const& child : tree.children(n)) {
      if (machine.nodes[static_cast<std::size_t>(child.node)].kind != node_kind::rank) continue;
      ++ranks;
      from_ranks += tree.between(child.node, n, child.kind).first;
    }
    auto slowest = link_kind::unknown;
    for (auto const& to : tree.neighbours(n)) {
      if (to.node != tree.parent(n)) continue;
      up += tree.between(n, to.node, to.kind).first;
      slowest = std::max(slowest, to.kind);
    }
    if (ranks > 1 && up < from_ranks) ++alike[{slowest, up, ranks}];
  }
  for (auto const& [link, count] : alike) {
    auto const& [kind, capacity, ranks] = link;
    result.shared.push_back({ranks, count, kind, machine.in_units(capacity)});
  }
}

void find_rates(topology const& machine, machine_explanation& result) {
  constexpr std::size_t most_planned = 1024, most_links = 50'000;  // more take a minute
  if (machine.rank_positions().size() > most_planned || machine.links.size() > most_links) return;
  machine_choice choice;
  choice.machine = machine.name;
  try {
    auto const place = allocation_of(machine, choice, collective::all_reduce);
    plan_request request;
    request.budget.seconds = 5;
    auto const best = checked_plan(place, request).plan;
    if (best.rate == rational(0)) return;
    result.best = best.rate;
    result.is_best_exact = best.rate == best.bound;
    result.links = place.links;
    request.planner = planned_by::ring;
    if (machine.rank_positions().size() <= most_ranks) {
      result.ring = checked_plan(place, request).plan.rate;
    }
  } catch (error const&) {  // no plan: the sentence says nothing of rates
  }
}

std::string sentence_of(topology const& machine, machine_explanation const& found) {
  std::string text;
  auto const add = [&](std::string const& part) { text += (text.empty() ? "" : "; ") + part; };
  auto const groups = rank_groups(machine);
  if (groups.size() > 1)
    add(std::to_string(groups.size()) + " groups of ranks have no path to each other");
  if (found.pairs_without_fastest > 0 && found.pairs_without_fastest < found.pairs) {
    add(std::to_string(found.pairs_without_fastest) + " of " + std::to_string(found.pairs) +
        " pairs have no " + proper_name(found.fastest));
  }
  for (auto const& one : found.shared) {
    add(std::to_string(one.ranks) + " ranks share " +
        (one.switches == 1 ? "a" : "each of " + std::to_string(one.switches)) + " " +
        proper_name(one.kind) + (one.switches == 1 ? " link" : " links") + " of " +
        in_words(one.rate, machine.unit));
  }
  if (found.best) {
    add(std::string(found.is_best_exact ? "best all-reduce " : "all-reduce of at least ") +
        in_words(*found.best, machine.unit) +
        (found.links.empty() ? ""
                             : " over " + proper_name(read_link_kind(found.links)) + " alone") +
        (found.ring ? ", a ring gets " + in_words(*found.ring, machine.unit) : ""));
  }
  return text;
}

}  // namespace

std::string proper_name(link_kind kind) {
  switch (kind) {
    case link_kind::nvlink:
      return "NVLink";
    case link_kind::xgmi:
      return "XGMI";
    case link_kind::xelink:
      return "Xe Link";
    case link_kind::c2c:
      return "C2C";
    case link_kind::pcie:
      return "PCIe";
    default:
      return std::string(to_text(kind));
  }
}

machine_explanation explain(topology const& machine) {
  machine_explanation result;
  if (machine.rank_positions().size() < 2) {
    result.sentence = "one rank";
    return result;
  }
  if (machine.rank_positions().size() <= most_ranks) count_pairs(machine, result);
  find_shared_links(machine, result);
  find_rates(machine, result);
  result.sentence = sentence_of(machine, result);
  return result;
}

}  // namespace blink::tools
