// SPDX-License-Identifier: Apache-2.0
#include <blink/core/rational.hpp>
#include <blink/packing/trees/few_trees.hpp>
#include <blink/packing/trees/multiplicative_weights.hpp>
#include <blink/packing/trees/reduce_height.hpp>
#include <blink/packing/trees/tree_oracle.hpp>
#include <blink/planning/plan/plan.hpp>

#include "../planning/plan_checked.hpp"
#include "allocations.hpp"
#include "parts.hpp"

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

// Trees before and after minimisation, as the planner `blink` makes them.

namespace blink::bench {
namespace {

constexpr double epsilons[]{0.5, 0.3, 0.2, 0.1, 0.05};

template <class Oracle>
void add_rows(table& shown, std::string const& what, Oracle oracle,
              std::vector<std::int64_t> const& capacity, double optimum) {
  for (double const epsilon : epsilons) {
    auto const packed = multiplicative_weights(oracle, capacity, {.epsilon = epsilon});
    std::vector<std::vector<int>> candidates;
    for (auto const& t : packed.trees) candidates.push_back(t.edges);
    auto const few = few_trees(oracle, candidates, capacity, packed.bound, packed.prices);
    double minimised = 0;
    for (auto const& t : few.trees) minimised += t.weight.to_double();
    shown.rows.push_back(
        {label(what), number(epsilon, 2), number(static_cast<double>(packed.iterations), 0),
         number(static_cast<double>(packed.trees.size()), 0), number(packed.rate, 3),
         number(100 * packed.rate / optimum, 1), number(static_cast<double>(few.trees.size()), 0),
         number(minimised, 3), number(100 * minimised / optimum, 1)});
  }
}

table packing_table() {
  table result{"minimisation",
               "Multiplicative weights on whole machines, rates in links; then few trees",
               {{"machine and collective"},
                {"epsilon"},
                {"oracle calls", origin::computed},
                {"trees", origin::computed},
                {"rate", origin::computed},
                {"% of the optimum", origin::computed},
                {"trees minimised", origin::computed},
                {"rate minimised", origin::computed},
                {"% of the optimum minimised", origin::computed}},
               {}};
  struct machine {
    char const* name;
    test::capacity_matrix matrix;
  };
  for (auto const& each :
       {machine{"DGX-1V", test::dgx1v_matrix(1)}, machine{"DGX-1P", test::dgx1p_matrix(1)}}) {
    auto const optimum = [&](collective kind) {
      return plan_checked(test::direct_machine(each.matrix), {kind, {}, planned_by::exact})
          .rate.to_double();
    };
    test::matrix_graph const directed(each.matrix, true);
    add_rows(result, std::string(each.name) + ", broadcast from GPU 0",
             arborescence_oracle(directed.graph, 0, directed.capacities), directed.capacities,
             optimum(collective::broadcast));
    test::matrix_graph const undirected(each.matrix, false);
    add_rows(result, std::string(each.name) + ", all-reduce",
             spanning_tree_oracle(undirected.graph, undirected.capacities), undirected.capacities,
             optimum(collective::all_reduce));
  }
  return result;
}

/// Trees of the planners `blink` and `exact` on all allocations.
table allocation_table() {
  table result{"minimised_allocations",
               "Plans on all allocations of 3 to 8 GPUs",
               {{"machine"},
                {"collective"},
                {"planner"},
                {"most trees", origin::computed},
                {"greatest height", origin::computed},
                {"least % of the optimum", origin::computed},
                {"allocations at the optimum", origin::computed}},
               {}};
  for (char const generation : {'V', 'P'}) {
    for (auto const kind : {collective::broadcast, collective::all_reduce}) {
      for (auto const* planner : {planned_by::blink, planned_by::exact}) {
        std::size_t trees = 0;
        int highest = 0, at_optimum = 0;
        double least = 1;
        for (auto const& each : test::dgx1_classes()) {
          if (each.name.front() != generation) continue;
          auto const planned = plan_checked(allocation_machine(each), {kind, {}, planner});
          trees = std::max(trees, planned.trees.size());
          highest = std::max(highest, highest_of(planned));
          least = std::min(least, (planned.rate / planned.bound).to_double());
          at_optimum += planned.rate == planned.bound ? 1 : 0;
        }
        result.rows.push_back({label(std::string("DGX-1") + generation),
                               label(std::string(to_text(kind))), label(planner),
                               number(static_cast<double>(trees), 0), number(highest, 0),
                               number(100 * least, 1), number(at_optimum, 0)});
      }
    }
  }
  return result;
}

}  // namespace

part_result minimisation_part() {
  part_result result{"Trees before and after minimisation",
                     "Multiplicative weights pack many trees of small weights. An integer program "
                     "then chooses few of them, with simple weights and at least 95 % of the "
                     "optimum. The planner `exact` needs neither. The number of trees before "
                     "minimisation depends on how equal prices are ordered.",
                     {packing_table(), allocation_table()},
                     {}};
  double before = 0, after = 0, minimised = 0;
  for (auto const& row : result.tables[0].rows) {
    if (row[0].text != "DGX-1V, broadcast from GPU 0" || row[1].text != "0.10") continue;
    before = row[3].value.value();
    after = row[6].value.value();
    minimised = row[7].value.value();
  }
  result.findings.push_back({"Blink: trees of a DGX-1V broadcast before minimisation",
                             number(181, 0, origin::recalled), number(before, 0, origin::computed),
                             "not comparable",
                             "depends on how equal prices are ordered, and on epsilon, here 0.1"});
  result.findings.push_back({"Blink: trees of a DGX-1V broadcast after minimisation",
                             number(6, 0, origin::recalled), number(after, 0, origin::computed),
                             after <= 6 ? "met" : "missed",
                             "at a rate of " + number(minimised, 2).text + " links"});
  return result;
}

}  // namespace blink::bench
