// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/interop/program_load.hpp>
#include <blink/planning/plan/detail/route.hpp>
#include <blink/topology/readers/read_nccl_graph.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The load of an all-reduce along NCCL's rings on a machine's links.
///
/// Each channel moves an equal part of the buffer: around a ring of N GPUs, 2 (N-1)/N of the part
/// over each of its N hops. Hops have the routes of `load_of` for programs. GPUs are those with the
/// labels "gpu" and `dev`, or else the ranks in order.
///
/// Pre:    the graph is of rings: `pattern` is 4.
/// Throws: input_error for a GPU that the machine lacks, a channel that is no ring of all ranks, or
///         a graph of other patterns; planning_error if two GPUs have no route.
[[nodiscard]] inline program_load load_of(topology const& machine, nccl_graph const& graph) {
  constexpr int rings = 4;
  if (graph.pattern != rings || graph.channels.empty()) {
    throw input_error("graph " + std::to_string(graph.id) + " has pattern " +
                      std::to_string(graph.pattern) + " and " +
                      std::to_string(graph.channels.size()) + " channels, expected rings (4)");
  }
  auto const positions = machine.rank_positions();
  std::map<std::int64_t, int> by_label;  // node id by dev
  bool has_labels = true;
  for (std::size_t i = 0; i < positions.size(); ++i) {
    auto const& n = machine.nodes[static_cast<std::size_t>(positions[i])];
    auto const number = n.label.starts_with("gpu") ? rational::from_text(n.label.substr(3))
                                                   : std::optional<rational>();
    has_labels = has_labels && number && number->denominator() == 1 &&
                 by_label.emplace(number->numerator(), n.id).second;
  }
  auto const id_of = [&](std::int64_t dev) {
    if (has_labels && by_label.contains(dev)) return by_label.at(dev);
    if (has_labels || dev < 0 || dev >= std::ssize(positions)) {
      throw input_error("GPU " + std::to_string(dev) + " of the graph is not in machine '" +
                        machine.name + "'");
    }
    return machine.nodes[static_cast<std::size_t>(positions[static_cast<std::size_t>(dev)])].id;
  };
  program_load result(machine);
  auto const ranks = std::ssize(positions);
  detail::router route(machine);
  for (auto const& channel : graph.channels) {
    if (std::ssize(channel.gpus) != ranks || ranks < 2) {
      throw input_error("a ring of " + std::to_string(channel.gpus.size()) +
                        " GPUs, expected all ranks of machine '" + machine.name + "', " +
                        std::to_string(ranks));
    }
    auto const part = rational(2 * (ranks - 1), ranks) / std::ssize(graph.channels);
    for (std::size_t i = 0; i < channel.gpus.size(); ++i) {
      int const from = id_of(channel.gpus[i]);
      int const to = id_of(channel.gpus[(i + 1) % channel.gpus.size()]);
      auto const hop = route(from, to);
      for (std::size_t k = 0; k + 1 < hop.path.size(); ++k) {
        result.part[{hop.path[k], hop.path[k + 1]}] += part;
      }
    }
  }
  result.find_rate();
  return result;
}

}}  // namespace blink::BLINK_ABI
