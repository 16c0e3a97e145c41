// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// What a node of a machine does in a collective.
enum class node_kind : std::uint8_t {
  rank,         ///< holds data and takes part: a GPU, a thread, a process
  switch_node,  ///< forwards only: an NVSwitch, a PCIe switch, a CPU socket, a NIC, a network
};

/// What a link is made of; planners may be told to use one kind only.
enum class link_kind : std::uint8_t { unknown, nvlink, xgmi, c2c, pcie, socket, network, memory };

[[nodiscard]] constexpr std::string_view to_text(link_kind kind) {
  constexpr std::string_view names[] = {"unknown", "nvlink", "xgmi",    "c2c",
                                        "pcie",    "socket", "network", "memory"};
  return names[static_cast<std::size_t>(kind)];
}

/// The link kind of this name. Throws input_error that lists the names for any other text.
[[nodiscard]] inline link_kind read_link_kind(std::string_view text) {
  std::string known;
  for (auto kind = link_kind::unknown; kind <= link_kind::memory;
       kind = static_cast<link_kind>(static_cast<int>(kind) + 1)) {
    if (to_text(kind) == text) return kind;
    known += (known.empty() ? "" : ", ") + std::string(to_text(kind));
  }
  throw input_error("unknown link kind '" + std::string(text) + "', expected one of " + known);
}

struct node {
  int id = 0;  ///< the name in the machine file; kept by `subset`, so it need not be the position
  node_kind kind = node_kind::rank;
  std::string label;     ///< for people: "gpu0", "nvswitch"
  int server = 0;        ///< the server that the node belongs to; -1 for none (a network switch)
  bool copies = false;   ///< a switch that sends what it receives out several ways (multicast)
  bool reduces = false;  ///< a switch that adds up what it receives (NVLS, SHARP)
};

/// One direction of a connection.
struct link {
  int tail = 0;               ///< position in `topology::nodes`
  int head = 0;               ///< position in `topology::nodes`
  std::int64_t capacity = 0;  ///< in 1/`topology::steps_per_unit` of `topology::unit`, > 0
  double latency_seconds = 0;
  link_kind kind = link_kind::unknown;
};

/// A machine: nodes, and links between them with integer capacities.
///
/// An aggregate whose fields readers fill in; `validate` says whether it makes sense. It is a graph
/// in the sense of `graph/concepts.hpp` (edges are the links in order), and of Boost.Graph with
/// `topology/boost_graph.hpp`. Parallel links are allowed and stay separate.
struct topology {
  std::string name;
  std::string unit = "GB/s";        ///< of one direction
  std::int64_t steps_per_unit = 1;  ///< 2 if capacities count half units (12.5 GB/s is 25)
  std::vector<struct node> nodes;
  std::vector<struct link> links;

  friend std::size_t num_vertices(topology const& machine) { return machine.nodes.size(); }
  friend std::size_t num_edges(topology const& machine) { return machine.links.size(); }
  friend auto edges(topology const& machine) {
    return std::pair(machine.links.begin(), machine.links.end());
  }
  friend int source(struct link const& edge, topology const&) { return edge.tail; }
  friend int target(struct link const& edge, topology const&) { return edge.head; }

  /// A capacity or a sum of capacities in `unit`.
  [[nodiscard]] rational in_units(rational const& steps) const { return steps / steps_per_unit; }

  /// Positions of the ranks, in the order of `nodes`. This order numbers the ranks 0 … N-1 in
  /// everything that runs.
  [[nodiscard]] std::vector<int> rank_positions() const {
    std::vector<int> result;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].kind == node_kind::rank) result.push_back(static_cast<int>(i));
    }
    return result;
  }

  /// Position of the node with this id, or -1.
  [[nodiscard]] int position_of(int id) const {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].id == id) return static_cast<int>(i);
    }
    return -1;
  }
};

/// Throws `input_error` naming the first fault: duplicate ids, a rank that is said to copy or reduce
/// as a switch does, ends outside the machine, a link from a node to itself, capacities that are not positive, sums of capacities beyond 62 bits, no
/// rank.
void validate(topology const& machine);

inline void validate(topology const& machine) {
  auto const fail = [&](std::string const& what) {
    throw input_error("machine '" + machine.name + "': " + what);
  };
  if (machine.steps_per_unit <= 0) fail("steps_per_unit must be positive");
  bool has_rank = false;
  std::unordered_set<int> ids;
  for (auto const& n : machine.nodes) {
    has_rank = has_rank || n.kind == node_kind::rank;
    if (!ids.insert(n.id).second) fail("two nodes have the id " + std::to_string(n.id));
    if (n.kind == node_kind::rank && (n.copies || n.reduces)) {
      fail("rank " + std::to_string(n.id) + (n.copies ? " copies" : " reduces") +
           " on the way, expected a switch");
    }
  }
  if (!has_rank) fail("no rank (GPU) found, expected at least one");
  auto const count = static_cast<int>(machine.nodes.size());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    auto const& l = machine.links[i];
    auto const where = "link " + std::to_string(i) + ": ";
    if (l.tail < 0 || l.tail >= count || l.head < 0 || l.head >= count) {
      fail(where + "an end is not a node of the machine");
    }
    if (l.tail == l.head) fail(where + "joins a node with itself");
    if (l.capacity <= 0) {
      fail(where + "capacity " + std::to_string(l.capacity) + ", expected a positive number");
    }
    if (!(l.latency_seconds >= 0)) fail(where + "latency must not be negative");
    if (l.capacity > (std::int64_t{1} << 62) - sum) fail("the capacities sum to more than 62 bits");
    sum += l.capacity;
  }
}

}}  // namespace blink::BLINK_ABI
