// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/canonical_search.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A machine without its numbering.
struct canonical_form {
  std::string key;         ///< equal for two machines exactly if they are isomorphic
  std::vector<int> order;  ///< positions of the nodes in canonical order
  bool is_exact = true;    ///< false: the limit was hit, isomorphic machines may differ in the key
  std::int64_t steps = 0;  ///< refinements that were made
};

/// Finds a numbering of the machine that does not depend on the given one, and writes the machine
/// in it. Plans for one machine serve another with the same key: node `order[i]` of the one is node
/// `order[i]` of the other.
///
/// Two machines are isomorphic if a renumbering of the nodes keeps kinds of nodes and, between each
/// two nodes, the links with their kinds and capacities in the same unit. Names, ids, boxes and
/// latencies do not matter.
///
/// Source: B. D. McKay, "Practical graph isomorphism", Congressus Numerantium 30, 1981;
///         B. D. McKay and A. Piperno, "Practical graph isomorphism, II", J. Symbolic Computation
///         60, 2014.
/// Time:   O(s V E log V) for s steps; s is 1 without symmetry, at most O(V^2) on stars, meshes and
///         complete graphs, exponential on graphs made for that: then `step_limit` ends the search.
/// Pre:    the machine passes `validate`; step_limit > 0.
/// Post:   renumbering the machine by `order` gives `key`.
/// Throws: input_error from `validate`, precondition_error for the limit.
[[nodiscard]] inline canonical_form canonical(topology const& machine,
                                              std::int64_t step_limit = 1'000'000) {
  expects(step_limit > 0, "canonical: step_limit must be positive");
  validate(machine);
  auto const n = machine.nodes.size();

  // What stands between two nodes, as text; texts are numbered in their own order.
  std::map<std::pair<int, int>, std::vector<std::string>> links;
  for (auto const& link : machine.links) {
    links[{link.tail, link.head}].push_back(std::string(to_text(link.kind)) + " " +
                                            machine.in_units(link.capacity).to_text());
  }
  std::map<std::pair<int, int>, std::string> between;
  std::set<std::string> texts;
  for (auto& [ends, parallel] : links) {
    std::sort(parallel.begin(), parallel.end());
    std::string text;
    for (auto const& one : parallel) text += (text.empty() ? "" : " + ") + one;
    between[ends] = *texts.insert(text).first;
  }
  std::map<std::string, int> number;
  for (auto const& text : texts) number.emplace(text, static_cast<int>(number.size()) + 1);

  detail::labelled_digraph graph{std::vector<int>(n), {}};
  graph.neighbours.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const& node = machine.nodes[i];
    graph.labels[i] = static_cast<int>(node.kind) + (node.copies ? 2 : 0) + (node.reduces ? 4 : 0);
  }
  for (auto const& [ends, text] : between) {
    auto const [tail, head] = ends;
    auto const back = between.find({head, tail});
    int const out = number[text];
    int const in = back == between.end() ? 0 : number[back->second];
    graph.neighbours[static_cast<std::size_t>(tail)].push_back({head, out, in});
    if (in == 0) graph.neighbours[static_cast<std::size_t>(head)].push_back({tail, 0, out});
  }

  detail::canonical_search const search(graph, step_limit);
  canonical_form result{{}, search.order(), search.is_complete(), search.steps()};
  std::vector<int> place(n);
  for (std::size_t i = 0; i < n; ++i) {
    place[static_cast<std::size_t>(result.order[i])] = static_cast<int>(i);
  }
  std::map<std::pair<int, int>, std::string> renumbered;
  for (auto const& [ends, text] : between) {
    renumbered[{place[static_cast<std::size_t>(ends.first)],
                place[static_cast<std::size_t>(ends.second)]}] = text;
  }
  result.key = std::to_string(machine.rank_positions().size()) + " ranks of " + std::to_string(n) +
               " nodes, " + machine.unit;
  for (std::size_t i = 0; i < n; ++i) {
    auto const& node = machine.nodes[static_cast<std::size_t>(result.order[i])];
    if (!node.copies && !node.reduces) continue;
    result.key += "; " + std::to_string(i) + (node.copies ? " copies" : "") +
                  (node.reduces ? " reduces" : "");
  }
  for (auto const& [ends, text] : renumbered) {
    result.key +=
        "; " + std::to_string(ends.first) + ">" + std::to_string(ends.second) + " " + text;
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
