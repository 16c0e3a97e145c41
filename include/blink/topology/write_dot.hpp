// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/device_tree.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdio>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// A text in quotes of Graphviz.
inline std::string dot_text(std::string_view text) {
  std::string result = "\"";
  for (char const c : text) {
    if (c == '"' || c == '\\') result += '\\';
    result += static_cast<unsigned char>(c) < 0x20 ? '?' : c;
  }
  return result + '"';
}

}  // namespace detail

/// Writes a machine as a graph of Graphviz: a cluster for each server, an edge for each two nodes
/// and kind of link with its rate. Where the rates of both directions differ there are two edges.
///
/// Throws: input_error if `validate(machine)` does.
[[nodiscard]] inline std::string write_dot(topology const& machine) {
  validate(machine);
  std::string result =
      "digraph " + detail::dot_text(machine.name) + " {\n  layout=dot;\n  node [shape=box];\n";
  std::map<int, std::string> servers;
  for (auto const& n : machine.nodes) {
    bool const is_rank = n.kind == node_kind::rank;
    auto const label = n.label.empty() ? std::to_string(n.id) : n.label;
    servers[n.server] += "    n" + std::to_string(n.id) + " [label=" + detail::dot_text(label) +
                         (is_rank ? ", style=filled" : "") + "];\n";
  }
  for (auto const& [server, nodes] : servers) {
    if (server < 0) {
      result += nodes;
      continue;
    }
    auto const number = std::to_string(server);
    result += "  subgraph cluster_" + number + " {\n    label=\"server " + number + "\";\n" +
              nodes + "  }\n";
  }
  device_tree const tree(machine);
  auto const id = [&](int at) {
    return std::to_string(machine.nodes[static_cast<std::size_t>(at)].id);
  };
  for (auto const& [ends, both] : tree.links()) {
    auto const& [a, b, kind] = ends;
    auto const edge = [&](int from, int to, std::int64_t capacity, bool is_both) {
      if (capacity == 0) return;
      char rate[32];
      std::snprintf(rate, sizeof rate, "%.6g", machine.in_units(capacity).to_double());
      result += "  n" + id(from) + " -> n" + id(to) + " [label=\"" + rate + " " +
                std::string(to_text(kind)) + "\"" + (is_both ? ", dir=both" : "") + "];\n";
    };
    bool const is_both = both.first == both.second;
    edge(a, b, both.first, is_both);
    if (!is_both) edge(b, a, both.second, false);
  }
  return result + "}\n";
}

}}  // namespace blink::BLINK_ABI
