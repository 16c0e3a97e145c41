// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/check/detail/dead_ends.hpp>
#include <blink/planning/check/detail/view_index.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan_difference.hpp>
#include <blink/planning/plan/plan_file.hpp>
#include <blink/topology/subset.hpp>

#include "report_data.hpp"

#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <variant>

namespace blink::tools {
namespace {

/// The label of a node with its id.
std::string node_in_words(topology const& machine, int id) {
  int const at = machine.position_of(id);
  auto const text = std::to_string(id);
  if (at < 0) return text;
  auto const& label = machine.nodes[static_cast<std::size_t>(at)].label;
  return label.empty() || label == text ? text : label + " (" + text + ")";
}

std::string edges_in_words(std::vector<tree_edge> const& edges) {
  std::string result;
  for (auto const& edge : edges) {
    result += result.empty() ? "" : ", ";
    for (std::size_t i = 0; i < edge.path.size(); ++i) {
      result += (i == 0 ? "" : "→") + std::to_string(edge.path[i]);
    }
  }
  return result;
}

/// The plan's edges fit a page of 2 MB, also where each is named twice.
bool has_few_edges(plan const& p) {
  constexpr std::size_t most_edges = 20'000;
  std::size_t edges = 0;
  for (auto const& t : p.trees) edges += t.reduce.size() + t.broadcast.size();
  return edges <= most_edges;
}

void add_trees(report_json& report, topology const& machine, plan const& p) {
  bool const has_edges = has_few_edges(p);
  auto rows = report_json::array();
  for (std::size_t i = 0; i < p.trees.size(); ++i) {
    auto const& t = p.trees[i];
    rows.push_back({i + 1, node_in_words(machine, t.root), t.weight.to_double(), t.weight.to_text(),
                    p.rate > rational(0) ? 100 * ratio(t.weight, p.rate) : 0, height(t),
                    has_edges ? edges_in_words(t.reduce) : "",
                    has_edges ? edges_in_words(t.broadcast) : ""});
  }
  add_table(
      report, "trees", "Trees",
      "Each tree carries its share of the buffer. Data of a reduce moves to the root, data of "
      "a broadcast away from it.",
      {{"tree"},
       {"root"},
       {"weight", p.unit, true},
       {"exact weight", p.unit},
       {"share", "%"},
       {"height", "edges"},
       {"edges towards the root"},
       {"edges from the root"}},
      std::move(rows));
}

void add_loads(report_json& report, topology const& machine, plan_and_report const& planned) {
  auto rows = report_json::array();
  auto const view = detail::member_view(machine, planned.plan);
  for (auto const& [ends, capacity] : view.capacity) {
    auto const found = planned.report.load.find(ends);
    auto const load = found == planned.report.load.end() ? rational(0) : found->second;
    rows.push_back({ends.first, ends.second, node_in_words(machine, ends.first),
                    node_in_words(machine, ends.second), load.to_double(), capacity.to_double(),
                    100 * ratio(load, capacity)});
  }
  std::stable_sort(rows.begin(), rows.end(), [](auto const& a, auto const& b) {
    return a[6].template get<double>() > b[6].template get<double>();
  });
  add_table(
      report, "loads", "Load of each link beside its capacity",
      "The load is the sum of the weights of the trees that cross the link, in one direction.",
      {{"from"},
       {"to"},
       {"from node"},
       {"to node"},
       {"load", planned.plan.unit, true, "capacity"},
       {"capacity", planned.plan.unit},
       {"use", "%"}},
      std::move(rows));
}

/// The proof of a bound as a factor and a sum over links.
struct written_proof {
  std::string rule;
  rational factor = 1;
  std::vector<std::pair<std::pair<int, int>, rational>> prices;  ///< by link; of a cut all 1
};

rational share_of_side(plan const& p, std::set<int> const& side, bool inside) {
  rational part, all;
  for (std::size_t i = 0; i < p.ranks.size(); ++i) {
    rational const share = p.shares.empty() ? 1 : p.shares[i];
    all += share;
    if (side.contains(p.ranks[i]) == inside) part += share;
  }
  return part == rational(0) ? rational(0) : all / part;
}

written_proof proof_of_cut(plan const& p, detail::plan_view const& view,
                           cut_certificate const& cut) {
  written_proof result;
  std::set<int> const side(cut.nodes.begin(), cut.nodes.end());
  for (auto const& [ends, capacity] : view.capacity) {
    if (side.contains(ends.first) && !side.contains(ends.second)) {
      result.prices.emplace_back(ends, 1);
    }
  }
  switch (p.collective) {
    case collective::all_gather:
      result.factor = share_of_side(p, side, true);
      result.rule = "The data of the ranks in the set leaves it over these links.";
      break;
    case collective::reduce_scatter:
      result.factor = share_of_side(p, side, false);
      result.rule = "The results of the ranks outside the set need data that leaves it.";
      break;
    default:
      result.rule = is_point_to_point(p.collective)
                        ? "Data from senders in the set to receivers outside crosses these links."
                        : "All of the buffer leaves the set over these links.";
  }
  return result;
}

written_proof proof_of(topology const& machine, plan const& p, rational const& bound) {
  auto view = detail::member_view(machine, p);
  detail::view_index const index(view);
  for (auto const& end : detail::find_dead_ends(index)) view.nodes.erase(index.id(end.node));
  std::erase_if(view.capacity, [&](auto const& link) {
    return !view.nodes.contains(link.first.first) || !view.nodes.contains(link.first.second);
  });
  written_proof result;
  rational sum;
  if (auto const* cut = std::get_if<cut_certificate>(&p.proof)) {
    result = proof_of_cut(p, view, *cut);
  } else if (auto const* partition = std::get_if<partition_certificate>(&p.proof)) {
    std::map<int, std::size_t> part;
    for (std::size_t i = 0; i < partition->parts.size(); ++i) {
      for (int const id : partition->parts[i]) part[id] = i;
    }
    for (auto const& [ends, capacity] : view.capacity) {
      if (part.at(ends.first) != part.at(ends.second)) result.prices.emplace_back(ends, 1);
    }
    result.factor = rational(1, 2 * (static_cast<std::int64_t>(partition->parts.size()) - 1));
    result.rule =
        "Each tree of a reduce and each of a broadcast crosses between the parts once less than "
        "there are parts.";
  } else if (auto const* prices = std::get_if<price_certificate>(&p.proof)) {
    for (auto const& each : prices->prices) {
      result.prices.emplace_back(std::pair(each.from, each.to), each.price);
    }
    result.rule =
        "At these prices every way to serve the collective costs at least 1, so capacities times "
        "prices bound the rate.";
  }
  if (!is_point_to_point(p.collective)) return result;
  // The number of pairs, or of ranks, is in the bound that the checker computed.
  for (auto const& [ends, price] : result.prices) sum += price * view.capacity.at(ends);
  if (sum > rational(0)) result.factor = bound / sum;
  return result;
}

/// The nodes of a cut or the parts of a partition, which the drawing shows.
report_json sides_of(certificate const& proof) {
  if (auto const* cut = std::get_if<cut_certificate>(&proof))
    return report_json::array({cut->nodes});
  if (auto const* all = std::get_if<partition_certificate>(&proof)) return all->parts;
  return report_json::array();
}

void add_proof(report_json& report, topology const& machine, plan_and_report const& planned) {
  auto const& p = planned.plan;
  if (!planned.report.bound) return;
  auto const proof = proof_of(machine, p, *planned.report.bound);
  auto const view = detail::member_view(machine, p);
  auto rows = report_json::array();
  rational sum;
  for (auto const& [ends, price] : proof.prices) {
    auto const capacity = view.capacity.at(ends);
    sum += price * capacity;
    rows.push_back({ends.first, ends.second, node_in_words(machine, ends.first),
                    node_in_words(machine, ends.second), capacity.to_double(), price.to_double(),
                    price.to_text(), (price * capacity).to_double()});
  }
  report["proof"] = {{"kind", detail::proof_as_json(p.proof).at("kind")},
                     {"text", "The bound is proven by " + in_words(p.proof) + ". " + proof.rule},
                     {"sides", sides_of(p.proof)},
                     {"sum", sum.to_double()},
                     {"factor", proof.factor.to_double()},
                     {"exact_factor", proof.factor.to_text()},
                     {"bound", (sum * proof.factor).to_double()},
                     {"exact_bound", (sum * proof.factor).to_text()}};
  add_table(report, "proof", "Links of the proof",
            "Capacity times price, summed up and times the factor " + proof.factor.to_text() +
                ", is the bound " + in_words(sum * proof.factor, p.unit) + ".",
            {{"from"},
             {"to"},
             {"from node"},
             {"to node"},
             {"capacity", p.unit},
             {"price"},
             {"exact price"},
             {"capacity times price", p.unit, true}},
            std::move(rows));
}

/// Trees of a difference, as numbers from 1 on.
report_json pairs_of_trees(std::vector<std::pair<std::size_t, std::size_t>> const& pairs,
                           char const* what) {
  auto rows = report_json::array();
  for (auto const& [old, now] : pairs) rows.push_back({old + 1, now + 1, what});
  return rows;
}

}  // namespace

plan_and_ring beside_ring(allocation const& place, plan_and_report planned) {
  constexpr std::size_t most_ranks = 64;  // of more, the ring takes longer than the plan
  plan_and_ring result{std::move(planned), {}};
  auto const& p = result.planned.plan;
  if (p.trees.empty() || !has_spanning_trees(p.collective) || p.ranks.size() > most_ranks) {
    return result;
  }
  plan_request request{p.collective, {}, planned_by::ring};
  if (has_one_root(p.collective)) request.root = p.trees.front().root;
  try {
    result.ring = checked_plan(place, request).plan;
  } catch (planning_error const&) {  // libraries of rings fall back to PCIe then
    request.planner = planned_by::pcie_ring;
    try {
      result.ring = checked_plan({subset(place.whole, p.ranks), {}, place.whole}, request).plan;
    } catch (error const&) {  // no ring
    }
  }
  return result;
}

void describe_plan(report_json& report, allocation const& place, plan_and_ring const& plans) {
  auto const& p = plans.planned.plan;
  auto const& machine = place.whole;
  if (has_few_edges(p)) {
    report["plan"] = report_json::parse(write_plan(p));
  } else {
    report["remarks"].push_back("the plan has too many edges for a page, blink plan writes them");
  }
  auto rows = report_json::array();
  auto const row = [&](char const* what, report_json value, std::string const& unit = {},
                       std::string const& exact = {}) {
    rows.push_back({what, std::move(value), unit, exact});
  };
  auto const amount = [&](char const* what, rational const& value) {
    row(what, value.to_double(), p.unit, value.to_text());
  };
  row("collective", std::string(to_text(p.collective)));
  row("ranks", p.ranks.size());
  row("links", p.links.empty() ? "all" : p.links + " only");
  row("planner", p.planner);
  row("trees", p.trees.size());
  amount("rate", p.rate);
  if (plans.planned.report.bound) {
    amount("bound", *plans.planned.report.bound);
    row("rate of bound", 100 * ratio(p.rate, *plans.planned.report.bound), "%");
  }
  if (plans.ring) {
    amount("rate of the best ring", plans.ring->rate);
    row("planner of the ring", plans.ring->planner);
    row("speed-up over the ring", ratio(p.rate, plans.ring->rate));
  }
  add_table(report, "summary", "Summary", "The plan in numbers.",
            {{"quantity"}, {"value"}, {"unit"}, {"exact"}}, std::move(rows));
  add_trees(report, machine, p);
  if (!p.trees.empty()) add_loads(report, machine, plans.planned);
  add_proof(report, machine, plans.planned);
}

void describe_difference(report_json& report, plan_and_report const& before,
                         plan_and_report const& after, topology const& machine) {
  auto const found = difference(before.plan, after.plan);
  auto const& unit = after.plan.unit;
  auto rates = report_json::array();
  auto const change = [](rational const& a, rational const& b) {
    return a > rational(0) ? report_json(100 * (ratio(b, a) - 1)) : report_json(nullptr);
  };
  auto const row = [&](char const* what, rational const& a, rational const& b) {
    rates.push_back({what, a.to_double(), b.to_double(), change(a, b)});
  };
  auto const count = [](auto const& all) {
    return rational(static_cast<std::int64_t>(all.size()));
  };
  row("rate", found.rate_before, found.rate_after);
  row("bound", before.plan.bound, after.plan.bound);
  row("trees", count(before.plan.trees), count(after.plan.trees));
  row("ranks", count(before.plan.ranks), count(after.plan.ranks));
  add_table(report, "difference", "From the plan before to this one",
            "Rate and bound are in " + unit + ".",
            {{"quantity"}, {"before"}, {"after"}, {"change", "%"}}, std::move(rates));
  auto trees = pairs_of_trees(found.kept, "kept");
  for (auto const& more : {pairs_of_trees(found.reweighted, "other weight"),
                           pairs_of_trees(found.changed, "other edges")}) {
    trees.insert(trees.end(), more.begin(), more.end());
  }
  for (auto const old : found.dropped) trees.push_back({old + 1, nullptr, "dropped"});
  for (auto const now : found.added) trees.push_back({nullptr, now + 1, "added"});
  add_table(report, "difference_trees", "Trees that stayed, changed, went and came",
            "Trees are named by their numbers in the two plans.",
            {{"tree before"}, {"tree after"}, {"change"}}, std::move(trees));
  std::map<std::pair<int, int>, std::pair<rational, rational>> loads;
  for (auto const& [ends, load] : before.report.load) loads[ends].first = load;
  for (auto const& [ends, load] : after.report.load) loads[ends].second = load;
  auto rows = report_json::array();
  for (auto const& [ends, both] : loads) {
    auto const& [a, b] = both;
    if (a == b) continue;
    rows.push_back({node_in_words(machine, ends.first), node_in_words(machine, ends.second),
                    a.to_double(), b.to_double(), (b - a).to_double()});
  }
  add_table(report, "difference_loads", "Links whose load changed",
            rows.empty() ? "No link carries another load." : "In one direction of each link.",
            {{"from"}, {"to"}, {"before", unit}, {"after", unit}, {"change", unit}},
            std::move(rows));
}

}  // namespace blink::tools
