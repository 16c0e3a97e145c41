// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Removes flow that runs in circles.
inline void remove_circles(arc_list const& graph, std::vector<double>& flow) {
  auto const n = static_cast<std::size_t>(graph.vertex_count);
  auto const& arcs = graph.arcs;
  std::vector<std::vector<std::size_t>> out(n);
  for (std::size_t e = 0; e < flow.size(); ++e) {
    if (flow[e] > 0) out[static_cast<std::size_t>(arcs[e].tail)].push_back(e);
  }
  std::vector<std::size_t> path;         // edges
  std::vector<std::size_t> place(n, 0);  // on the path, plus 1
  std::vector<bool> is_done(n);
  for (std::size_t start = 0; start < n; ++start) {
    std::size_t at = start;
    if (is_done[at]) continue;
    place[at] = 1;
    for (;;) {
      while (!out[at].empty() && !(flow[out[at].back()] > 0)) out[at].pop_back();
      if (out[at].empty() || is_done[static_cast<std::size_t>(arcs[out[at].back()].head)]) {
        if (!out[at].empty()) {
          out[at].pop_back();
          continue;
        }
        is_done[at] = true;
        place[at] = 0;
        if (path.empty()) break;
        at = static_cast<std::size_t>(arcs[path.back()].tail);
        path.pop_back();
        out[at].pop_back();
        continue;
      }
      std::size_t const e = out[at].back();
      auto const head = static_cast<std::size_t>(arcs[e].head);
      path.push_back(e);
      if (place[head] == 0) {
        place[head] = path.size() + 1;
        at = head;
        continue;
      }
      std::size_t const first = place[head] - 1;
      double least = std::numeric_limits<double>::infinity();
      for (std::size_t i = first; i < path.size(); ++i) least = std::min(least, flow[path[i]]);
      std::size_t cut = path.size();
      for (std::size_t i = path.size(); i-- > first;) {
        flow[path[i]] -= least;
        if (!(flow[path[i]] > 0)) {
          flow[path[i]] = 0;
          cut = i;
        }
      }
      for (std::size_t i = cut + 1; i < path.size(); ++i) {
        place[static_cast<std::size_t>(arcs[path[i]].tail)] = 0;
      }
      at = static_cast<std::size_t>(arcs[path[cut]].tail);
      path.resize(cut);
    }
  }
}

/// Splits what each vertex passes on in whole parts among the edges into it, the vertices at the
/// ends of routes first. So the parts are conserved. Nothing if parts arrive nowhere.
[[nodiscard]] inline std::optional<std::vector<std::int64_t>> whole_flow(arc_list const& graph,
                                                                         flow_source const& from,
                                                                         std::vector<double> flow,
                                                                         std::int64_t parts,
                                                                         double least) {
  auto const n = static_cast<std::size_t>(graph.vertex_count);
  remove_circles(graph, flow);
  std::vector<std::vector<std::size_t>> into(n);
  std::vector<std::size_t> leaving(n, 0);
  for (std::size_t e = 0; e < flow.size(); ++e) {
    if (!(flow[e] > 0)) continue;
    into[static_cast<std::size_t>(graph.arcs[e].head)].push_back(e);
    ++leaving[static_cast<std::size_t>(graph.arcs[e].tail)];
  }
  std::vector<std::int64_t> result(flow.size(), 0), passes(n, 0);
  for (int const sink : from.sinks) passes[static_cast<std::size_t>(sink)] = parts;
  std::vector<std::size_t> open;
  for (std::size_t v = 0; v < n; ++v) {
    if (leaving[v] == 0 && !into[v].empty()) open.push_back(v);
  }
  while (!open.empty()) {
    std::size_t const v = open.back();
    open.pop_back();
    if (into[v].empty() && passes[v] > 0) return std::nullopt;  // flow below 1e-12 was dropped
    double all = 0, kept = 0, passed = 0;
    for (std::size_t const e : into[v]) all += flow[e];
    for (std::size_t const e : into[v]) kept += flow[e] < least * all ? 0 : flow[e];
    std::int64_t given = 0;
    for (std::size_t const e : into[v]) {
      passed += flow[e] < least * all ? 0 : flow[e];
      auto const until =
          std::llround(std::min(1.0, passed / kept) * static_cast<double>(passes[v]));
      result[e] = until - given;
      given = until;
      auto const tail = static_cast<std::size_t>(graph.arcs[e].tail);
      passes[tail] += result[e];
      if (--leaving[tail] == 0 && static_cast<int>(tail) != from.vertex) {
        open.push_back(tail);
      }
    }
  }
  return result;
}

/// Flows by source and edge, by which each sink receives 1, in whole parts and over few routes: at
/// each vertex, edges that bring little of what arrives are left out, as long as at least the share
/// `enough` of the rate remains. Nothing if the parts are too coarse.
[[nodiscard]] inline std::optional<whole_flows> few_flows(
    flow_problem const& problem, std::vector<std::vector<double>> const& flows, double enough) {
  auto const rounded = [&](std::int64_t parts, double least) -> std::optional<whole_flows> {
    whole_flows result{parts, {}};
    for (std::size_t s = 0; s < flows.size(); ++s) {
      auto flow = whole_flow(problem.graph, problem.sources[s], flows[s], parts, least);
      if (!flow) return std::nullopt;
      result.flow.push_back(*std::move(flow));
    }
    return result;
  };
  for (auto const parts : {fine_parts, coarse_parts}) {  // the first may exceed 61 bits
    auto best = rounded(parts, 1e-6);
    auto const most = best ? rate_of(problem, *best) : std::nullopt;
    if (!most) continue;
    for (double const least : {0.02, 0.01, 0.005, 0.002, 0.001}) {
      auto fewer = rounded(parts, least);
      auto const now = fewer ? rate_of(problem, *fewer) : std::nullopt;
      if (!now) continue;
      if (*now >= *most) return fewer;
      if (enough < 1 && now->to_double() >= enough * most->to_double()) return fewer;
    }
    return best;
  }
  return std::nullopt;
}

}}}  // namespace blink::BLINK_ABI::detail
