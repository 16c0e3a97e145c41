// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/arborescence_packing.hpp>
#include <blink/packing/detail/common_denominator.hpp>
#include <blink/rational.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

// From approximate loads of an optimal joint packing to exact trees: the loads of in-trees and of
// out-trees are guessed as fractions with a small common denominator; by Edmonds' theorem each of
// the two then splits into whole trees, which are paired by root.

namespace blink::inline BLINK_ABI::detail {

/// How an optimal joint packing loads the edges.
struct joint_loads {
  std::vector<double> in;   ///< by edge, of the in-trees
  std::vector<double> out;  ///< by edge, of the out-trees
};

/// The same in exact numbers: whole trees in units of 1 / `denominator`.
struct exact_joint_loads {
  std::int64_t denominator = 1;
  std::vector<std::int64_t> in;      ///< by edge
  std::vector<std::int64_t> out;     ///< by edge
  std::vector<root_demand> demands;  ///< trees wanted by root, of each kind
};

/// Guesses the exact loads, and checks that they fit and that the trees add up to `rate`.
[[nodiscard]] inline std::optional<exact_joint_loads> exact_loads(
    joint_loads const& loads, arc_list const& graph, std::vector<std::int64_t> const& capacity,
    rational const& rate, std::int64_t largest_denominator) {
  auto values = loads.in;
  values.insert(values.end(), loads.out.begin(), loads.out.end());
  auto const denominator = common_denominator(values, rate.denominator(), largest_denominator);
  if (!denominator) return std::nullopt;
  exact_joint_loads result{*denominator, {}, {}, {}};
  auto const scale = static_cast<double>(*denominator);
  auto const whole = (rate * *denominator).numerator();
  // A tree enters each vertex but its root, so what does not enter starts there.
  std::vector<std::int64_t> starting(static_cast<std::size_t>(graph.vertex_count), whole);
  auto ending = starting;
  for (std::size_t e = 0; e < capacity.size(); ++e) {
    result.in.push_back(std::llround(loads.in[e] * scale));
    result.out.push_back(std::llround(loads.out[e] * scale));
    if (result.in[e] + result.out[e] > rational(capacity[e]) * *denominator) return std::nullopt;
    starting[static_cast<std::size_t>(graph.arcs[e].head)] -= result.out[e];
    ending[static_cast<std::size_t>(graph.arcs[e].tail)] -= result.in[e];
  }
  std::int64_t sum = 0;
  for (int v = 0; v < graph.vertex_count; ++v) {
    auto const count = starting[static_cast<std::size_t>(v)];
    if (count < 0 || count != ending[static_cast<std::size_t>(v)]) return std::nullopt;
    if (count > 0) result.demands.push_back({v, count});
    sum += count;
  }
  if (sum != whole) return std::nullopt;
  return result;
}

/// An in-tree and an out-tree with the same root.
struct tree_pair {
  int root = 0;
  std::int64_t multiplicity = 0;
  std::vector<int> in_edges;   ///< leaves first
  std::vector<int> out_edges;  ///< root first
};

/// Packs whole in-trees and out-trees and pairs them by root, the heavy with the heavy. Nothing if
/// the loads are not those of trees.
[[nodiscard]] inline std::optional<std::vector<tree_pair>> pack_pairs(
    arc_list const& graph, exact_joint_loads const& loads) {
  auto reversed = graph;
  for (auto& a : reversed.arcs) std::swap(a.tail, a.head);
  std::vector<packed_arborescence> in, out;
  try {
    in = pack_arborescences(reversed, loads.in, loads.demands);
    out = pack_arborescences(graph, loads.out, loads.demands);
  } catch (planning_error const&) {  // the guess was wrong
    return std::nullopt;
  }
  auto const order = [](packed_arborescence const& a, packed_arborescence const& b) {
    return a.root != b.root ? a.root < b.root : a.multiplicity > b.multiplicity;
  };
  std::sort(in.begin(), in.end(), order);
  std::sort(out.begin(), out.end(), order);
  std::vector<tree_pair> result;
  for (std::size_t i = 0, o = 0; i < in.size() && o < out.size();) {
    auto const count = std::min(in[i].multiplicity, out[o].multiplicity);
    result.push_back({in[i].root, count, in[i].edges, out[o].edges});
    std::reverse(result.back().in_edges.begin(), result.back().in_edges.end());
    in[i].multiplicity -= count;
    out[o].multiplicity -= count;
    if (in[i].multiplicity == 0) ++i;
    if (out[o].multiplicity == 0) ++o;
  }
  return result;
}

}  // namespace blink::inline BLINK_ABI::detail
