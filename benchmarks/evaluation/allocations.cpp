// SPDX-License-Identifier: Apache-2.0
#include "allocations.hpp"

#include "parts.hpp"

#include <cstddef>
#include <string>
#include <vector>

namespace blink::bench {
namespace {

std::string machine_name(bool volta) {
  return volta ? "DGX-1V" : "DGX-1P";
}

table class_table(std::vector<allocation_rates> const& all, bool volta, collective kind) {
  auto const of = std::string(to_text(kind));
  table result{
      std::string(volta ? "dgx1v_" : "dgx1p_") + of,
      "Allocations of a " + machine_name(volta) + ", " + of + ", GB/s; ratios to a ring library",
      {{"GPUs"},
       {"trees", origin::computed},
       {"trees", origin::simulated},
       {"rings", origin::computed},
       {"rings", origin::simulated}},
      {}};
  for (auto const hop : pcie_hops) {
    auto const name = "ratio at " + std::to_string(hop) + " GB/s";
    result.columns.push_back({name, origin::computed});
    result.columns.push_back({name, origin::simulated});
  }
  for (auto const& each : all) {
    if (each.is_volta() != volta) continue;
    auto const& rates = kind == collective::broadcast ? each.broadcast : each.all_reduce;
    std::vector<cell> row{label(each.name.substr(2)), number(rates.trees.computed, 1),
                          number(rates.trees.simulated, 1)};
    row.push_back(rates.rings ? number(rates.rings->computed, 1) : absent());
    row.push_back(rates.rings ? number(rates.rings->simulated, 1) : absent());
    for (std::size_t hop = 0; hop < pcie_hops.size(); ++hop) {
      auto const ratio = rates.speed_up(hop);
      row.push_back(number(ratio.computed, 2));
      row.push_back(number(ratio.simulated, 2));
    }
    result.rows.push_back(std::move(row));
  }
  return result;
}

table summary_table(std::vector<allocation_rates> const& all) {
  table result{"allocations",
               "Speed-up of trees over a ring library, over all allocations",
               {{"PCIe hop, GB/s"},
                {"machine"},
                {"allocations"},
                {"collective"},
                {"largest", origin::computed},
                {"largest", origin::simulated},
                {"geometric mean", origin::computed},
                {"geometric mean", origin::simulated},
                {"without rings", origin::computed}},
               {}};
  for (std::size_t hop = 0; hop < pcie_hops.size(); ++hop) {
    for (bool const volta : {true, false}) {
      int count = 0, without = 0;
      for (auto const& each : all) {
        if (each.is_volta() != volta) continue;
        ++count;
        without += each.all_reduce.rings ? 0 : 1;
      }
      for (auto const kind : {collective::broadcast, collective::all_reduce}) {
        auto const sum = summarise(all, volta, kind, hop);
        result.rows.push_back({label(std::to_string(pcie_hops[hop])), label(machine_name(volta)),
                               number(count, 0), label(std::string(to_text(kind))),
                               number(sum.computed.most, 2), number(sum.simulated.most, 2),
                               number(sum.computed.mean, 2), number(sum.simulated.mean, 2),
                               number(without, 0)});
      }
    }
  }
  return result;
}

/// A claim about speed-ups over a ring library, beside ours at the slowest and the fastest hop.
finding speed_up_finding(std::vector<allocation_rates> const& all, std::string claim, bool volta,
                         collective kind, bool of_mean, cell theirs) {
  auto const at = [&](std::size_t hop) {
    auto const sum = summarise(all, volta, kind, hop).simulated;
    return of_mean ? sum.mean : sum.most;
  };
  double const most = at(0), middle = at(1), least = at(pcie_hops.size() - 1);
  double const claimed = theirs.value.value();
  finding result{std::move(claim), std::move(theirs), number(middle, 2, origin::simulated),
                 verdict_of(middle, claimed), ""};
  result.why = "over PCIe hops of 8 GB/s; " + number(most, 2).text + " at 6 and " +
               number(least, 2).text + " at 10 GB/s";
  if (result.verdict == "missed" && most >= claimed) result.why += ", so met at 6 GB/s";
  return result;
}

}  // namespace

part_result allocations_part() {
  auto const all = evaluate_allocations();
  part_result result{
      "Allocations of a DGX-1",
      "Each class of connected allocations of 3 to 8 GPUs, numbered as nvidia-smi does. Links have "
      "their measured rates: 22.9 GB/s an NVLink of the DGX-1V, 18.5 GB/s one of the DGX-1P. A "
      "ring library takes as many disjoint rings of NVLinks as fit. Where none closes it takes one "
      "ring whose slowest hop is PCIe, at 6, 8 or 10 GB/s. Simulations move 1 GiB, with the cost "
      "model's chunks and 2 us for each step.",
      {summary_table(all)},
      {}};
  for (bool const volta : {true, false}) {
    for (auto const kind : {collective::broadcast, collective::all_reduce}) {
      result.tables.push_back(class_table(all, volta, kind));
    }
  }
  auto const recalled = [](double value) { return number(value, 1, origin::recalled); };
  auto const add = [&](std::string claim, bool volta, collective kind, bool of_mean, cell theirs) {
    result.findings.push_back(
        speed_up_finding(all, std::move(claim), volta, kind, of_mean, std::move(theirs)));
  };
  add("Blink: model synchronisation, up to", true, collective::all_reduce, false,
      number(8, 1, origin::published));
  add("Blink: all-reduce on DGX-1V, mean", true, collective::all_reduce, true, recalled(2));
  add("Blink: broadcast on DGX-1V, up to", true, collective::broadcast, false, recalled(6));
  add("Blink: broadcast on DGX-1V, mean", true, collective::broadcast, true, recalled(2));
  add("Blink: broadcast on DGX-1P, up to", false, collective::broadcast, false, recalled(3));
  add("Blink: broadcast on DGX-1P, mean", false, collective::broadcast, true, recalled(1.6));
  return result;
}

}  // namespace blink::bench
