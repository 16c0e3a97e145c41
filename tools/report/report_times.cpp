// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/planning/cost/cost_model.hpp>
#include <blink/simulation/simulate.hpp>

#include "report_data.hpp"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <map>
#include <utility>

namespace blink::tools {
namespace {

constexpr double most_crossings = 16'000;  // of the time line: its part of the page stays small

/// The number of links that a chunk of each tree crosses, all edges together.
std::vector<double> hops_of_trees(plan const& p) {
  std::vector<double> result;
  for (auto const& t : p.trees) {
    std::size_t hops = 0;
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& edge : *phase) hops += edge.path.size() - 1;
    }
    result.push_back(static_cast<double>(hops));
  }
  return result;
}

/// Chunks for which the time line has few enough crossings: doubled until that is so.
std::vector<double> chunks_to_show(plan const& p, double bytes, std::vector<double> chunks) {
  auto const hops = hops_of_trees(p);
  for (int doublings = 0; doublings < 64; ++doublings) {
    double crossings = 0;
    bool is_cut = false;
    for (std::size_t i = 0; i < chunks.size(); ++i) {
      double const parts =
          std::max(1.0, std::ceil(bytes * ratio(p.trees[i].weight, p.rate) / chunks[i]));
      crossings += parts * hops[i];
      is_cut = is_cut || parts > 1;
    }
    if (crossings <= most_crossings) return chunks;
    if (!is_cut) return {};
    for (auto& chunk : chunks) chunk *= 2;
  }
  return {};
}

void add_time_line(report_json& report, topology const& machine, plan const& p,
                   plan_report_settings const& settings) {
  auto const cost = cost_of(machine, p, settings.cost.parameters());
  auto const chunks = chunks_to_show(p, settings.bytes, predict(cost, settings.bytes).chunk_bytes);
  if (chunks.empty()) {
    report["remarks"].push_back("the time line has too many parts to show");
    return;
  }
  auto options = settings.cost.simulated();
  options.records_events = true;
  auto const run = simulate(machine, p, settings.bytes, chunks, options);
  std::map<std::pair<int, int>, std::size_t> number;
  auto links = report_json::array();
  auto events = report_json::array();
  auto const nanoseconds = [](double seconds) { return std::llround(seconds * 1e9); };
  for (auto const& each : run.crossings) {
    std::pair const ends(each.link_from, each.link_to);
    auto const [link, is_new] = number.emplace(ends, number.size());
    if (is_new) links.push_back({ends.first, ends.second});
    events.push_back({link->second, each.tree, each.is_reduce ? 1 : 0, each.chunk, each.edge_from,
                      each.edge_to, nanoseconds(each.begin), nanoseconds(each.end)});
  }
  report["time_line"] = {
      {"bytes", settings.bytes},
      {"bytes_in_words", bytes_in_words(static_cast<std::size_t>(settings.bytes))},
      {"nanoseconds", nanoseconds(run.seconds)},
      {"largest_chunk", *std::max_element(chunks.begin(), chunks.end())},
      {"messages", run.messages},
      {"links", std::move(links)},
      {"fields", {"link", "tree", "is_reduce", "chunk", "from", "to", "begin_ns", "end_ns"}},
      {"events", std::move(events)}};
}

/// The seconds of a plan for a size: simulated with the chunks of the cost model, or predicted
/// where that takes long.
double seconds_of(topology const& machine, plan const& p, plan_cost const& cost, double bytes,
                  simulation_options const& options) {
  constexpr double most_messages = 200'000;
  auto const predicted = predict(cost, bytes);
  if (count_messages(p, bytes, predicted.chunk_bytes) > most_messages) return predicted.seconds;
  return simulate(machine, p, bytes, predicted.chunk_bytes, options).seconds;
}

void add_sizes(report_json& report, topology const& machine, plan_and_ring const& plans,
               plan_report_settings const& settings, progress& bar) {
  auto const& p = plans.planned.plan;
  auto const options = settings.cost.simulated();
  auto const cost = cost_of(machine, p, settings.cost.parameters());
  std::optional<plan_cost> ring_cost;
  if (plans.ring) ring_cost = cost_of(machine, *plans.ring, settings.cost.parameters());
  auto rows = report_json::array();
  constexpr std::size_t first = 1024, last = std::size_t{1} << 30;
  std::size_t sizes = 0;
  for (auto bytes = first; bytes <= last; bytes *= 4) ++sizes;
  bar.begin("times by size", sizes);
  for (auto bytes = first; bytes <= last; bytes *= 4) {
    auto const size = static_cast<double>(bytes);
    double const own = seconds_of(machine, p, cost, size, options);
    report_json row{bytes_in_words(bytes), bytes, own * 1e6, size / own * 1e-9};
    if (ring_cost) {
      double const of_ring = seconds_of(machine, *plans.ring, *ring_cost, size, options);
      row.insert(row.end(), {of_ring * 1e6, size / of_ring * 1e-9, of_ring / own});
    }
    rows.push_back(std::move(row));
    bar.step();
  }
  std::vector<report_column> columns{{"size"}, {"bytes", "B"}, {"time", "us"}, {"rate", "GB/s"}};
  if (ring_cost) {
    columns.insert(
        columns.end(),
        {{"time of the ring", "us"}, {"rate of the ring", "GB/s"}, {"speed-up", "", true}});
  }
  add_table(report, "sizes", "Time by size of the buffer",
            ring_cost ? "Simulated, beside the best ring for the same collective."
                      : "Simulated. There is no ring to compare with.",
            columns, std::move(rows));
}

}  // namespace

void describe_times(report_json& report, allocation const& place, plan_and_ring const& plans,
                    plan_report_settings const& settings, progress& bar) {
  auto const& p = plans.planned.plan;
  if (p.trees.empty() || !moves_data(p.collective)) return;
  try {
    add_time_line(report, place.whole, p, settings);
    add_sizes(report, place.whole, plans, settings, bar);
  } catch (input_error const& reason) {  // a unit without a known rate
    report["remarks"].push_back(std::string("no times: ") + reason.what());
  }
}

}  // namespace blink::tools
