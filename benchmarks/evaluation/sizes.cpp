// SPDX-License-Identifier: Apache-2.0
#include <blink/collectives/chunk_autotuner.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/simulation/simulate.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>

#include "../planning/plan_checked.hpp"
#include "parts.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

// One switch over sizes, and the search for a chunk size.

namespace blink::bench {
namespace {

std::string bytes_in_words(std::int64_t bytes) {
  char const* const units[]{"B", "KiB", "MiB", "GiB"};
  std::size_t unit = 0;
  for (; unit < 3 && bytes >= 1024; ++unit) bytes /= 1024;
  return std::to_string(bytes) + " " + units[unit];
}

/// Predicted and simulated microseconds of one plan.
struct plan_times {
  double predicted = 0;
  double simulated = 0;
};

plan_times times_of(topology const& machine, plan const& planned, double bytes) {
  auto const predicted = predict(cost_of(machine, planned), bytes);
  return {predicted.seconds * 1e6,
          simulate(machine, planned, bytes, predicted.chunk_bytes).seconds * 1e6};
}

/// The largest ratio of a baseline's time to that of one-hop trees, and the size where it is.
struct largest_gain {
  double ratio = 0;
  std::string size;
};

/// Appends rows for one collective on a DGX-2. Returns the gains beside the ring, and beside the
/// faster of ring and double tree.
std::pair<largest_gain, largest_gain> add_switch_rows(table& shown, collective kind) {
  auto const machine = machines::dgx2();
  std::vector<plan> plans;
  for (auto const* planner : {planned_by::one_hop, planned_by::ring, planned_by::double_tree}) {
    plans.push_back(plan_checked(machine, {kind, 0, planner}));
  }
  largest_gain beside_ring, beside_both;
  for (std::int64_t bytes = 1024; bytes <= std::int64_t{1} << 30; bytes *= 4) {
    std::vector<plan_times> times;
    for (auto const& each : plans) {
      times.push_back(times_of(machine, each, static_cast<double>(bytes)));
    }
    std::vector<cell> row{label(std::string(to_text(kind))), label(bytes_in_words(bytes))};
    for (auto const& each : times) {
      row.push_back(number(each.predicted, 1));
      row.push_back(number(each.simulated, 1));
    }
    double const ring = times[1].simulated / times[0].simulated;
    double const both = std::min(times[1].simulated, times[2].simulated) / times[0].simulated;
    row.push_back(number(ring, 2));
    row.push_back(number(both, 2));
    shown.rows.push_back(std::move(row));
    if (ring > beside_ring.ratio) beside_ring = {ring, bytes_in_words(bytes)};
    if (both > beside_both.ratio) beside_both = {both, bytes_in_words(bytes)};
  }
  return {beside_ring, beside_both};
}

}  // namespace

part_result switch_part() {
  part_result result{"DGX-2 over sizes",
                     "16 GPUs behind one switch, 150 GB/s a port, 2 us for each step and 5 us to "
                     "start. One-hop trees send each rank's part to all others at once. NCCL of "
                     "2019 has a ring and double binary trees. Times in us.",
                     {{"dgx2",
                       "One-hop trees beside a ring and a double binary tree, us",
                       {{"collective"},
                        {"bytes"},
                        {"one-hop", origin::computed},
                        {"one-hop", origin::simulated},
                        {"ring", origin::computed},
                        {"ring", origin::simulated},
                        {"double tree", origin::computed},
                        {"double tree", origin::simulated},
                        {"gain over ring", origin::simulated},
                        {"gain over the faster", origin::simulated}},
                       {}}},
                     {}};
  auto const [ring, both] = add_switch_rows(result.tables[0], collective::all_reduce);
  (void)add_switch_rows(result.tables[0], collective::broadcast);
  std::string const where = "all-reduce of " + ring.size +
                            " beside the ring; beside the faster of ring and double tree " +
                            number(both.ratio, 2).text + ", at " + both.size;
  for (auto const& [claim, claimed] : {std::pair{"rate", 3.5}, std::pair{"latency", 3.32}}) {
    result.findings.push_back(
        {std::string("Blink: ") + claim + " on DGX-2, up to", number(claimed, 2, origin::recalled),
         number(ring.ratio, 2, origin::simulated), verdict_of(ring.ratio, claimed), where});
  }
  return result;
}

part_result chunks_part() {
  part_result result{
      "The search for a chunk size",
      "`chunk_autotuner` doubles the chunk while the simulated rate grows, then shrinks it in "
      "equal steps while that helps, and keeps the best. One iteration is one simulated call. The "
      "scan tries sizes that grow by an eighth. Both take one size for all trees. The cost model "
      "takes one for each tree, of which the largest is shown.",
      {{"chunk_course",
        "Broadcast of 500 MB to 8 GPUs of a DGX-1V: chunk and rate by iteration",
        {{"iteration"}, {"chunk, KiB", origin::simulated}, {"GB/s", origin::simulated}},
        {}},
       {"chunk_search",
        "The chunk that each way finds, and its rate",
        {{"machine"},
         {"collective"},
         {"MB"},
         {"iterations", origin::simulated},
         {"KiB by search", origin::simulated},
         {"GB/s by search", origin::simulated},
         {"KiB by cost model", origin::computed},
         {"GB/s by cost model", origin::simulated},
         {"KiB by scan", origin::simulated},
         {"GB/s by scan", origin::simulated},
         {"search of scan, %", origin::simulated}},
        {}}},
      {}};
  auto const dgx1v = machines::dgx1v();
  struct searched {
    std::string name;
    topology machine;
    collective kind;
  };
  std::vector<searched> const all{
      {"DGX-1V, 8 GPUs", dgx1v, collective::broadcast},
      {"DGX-1V, 8 GPUs", dgx1v, collective::all_reduce},
      {"DGX-1V, GPUs 0 to 3", subset(dgx1v, {0, 1, 2, 3}), collective::broadcast},
      {"DGX-1V, GPUs 0 to 3", subset(dgx1v, {0, 1, 2, 3}), collective::all_reduce},
      {"DGX-2", machines::dgx2(), collective::all_reduce},
  };
  for (auto const& each : all) {
    auto const planned = plan_checked(each.machine, {each.kind, {}, planned_by::exact});
    for (double const bytes : {50e6, 500e6}) {
      bool const is_shown = &each == all.data() && bytes == 500e6;
      auto const rate = [&](double chunk) {
        return bytes / simulate(each.machine, planned, bytes, chunk).seconds * 1e-9;
      };
      chunk_autotuner_options options;
      options.samples = 1;  // a simulation has no noise
      chunk_autotuner tuner(options);
      int iterations = 0;
      for (; !tuner.settled(); ++iterations) {
        auto const chunk = static_cast<double>(tuner.bytes());
        double const now = rate(chunk);
        tuner.report(now);
        if (!is_shown) continue;
        result.tables[0].rows.push_back(
            {number(iterations + 1, 0), number(chunk / 1024, 1), number(now, 1)});
      }
      auto const found = static_cast<double>(tuner.bytes());
      auto const predicted = predict(cost_of(each.machine, planned), bytes).chunk_bytes;
      double const by_model =
          bytes / simulate(each.machine, planned, bytes, predicted).seconds * 1e-9;
      double scanned = 0, best = 0;
      for (double chunk = 16 << 10; chunk <= 16 << 20; chunk *= 1.125) {
        double const now = rate(chunk);
        if (now > best) std::tie(best, scanned) = std::pair(now, chunk);
      }
      result.tables[1].rows.push_back(
          {label(each.name), label(std::string(to_text(each.kind))), number(bytes * 1e-6, 0),
           number(iterations, 0), number(found / 1024, 0), number(rate(found), 1),
           number(*std::ranges::max_element(predicted) / 1024, 0), number(by_model, 1),
           number(scanned / 1024, 0), number(best, 1), number(100 * rate(found) / best, 1)});
    }
  }
  return result;
}

}  // namespace blink::bench
