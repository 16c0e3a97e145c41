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

/// The role of a node in a collective.
enum class node_kind : std::uint8_t {
  rank,         ///< has data and takes part: a GPU, a thread, a process
  switch_node,  ///< forwards only: an NVSwitch, a PCIe switch, a CPU socket, a NIC, a network
};

/// The technology of a link: after `unknown` from fast to slow. A plan may use one kind only.
enum class link_kind : std::uint8_t {
  unknown,
  nvlink,
  xgmi,
  xelink,
  c2c,
  pcie,
  socket,
  network,
  memory
};

/// The name of a link kind, in lower case.
[[nodiscard]] constexpr std::string_view to_text(link_kind kind) {
  constexpr std::string_view names[] = {"unknown", "nvlink", "xgmi",    "xelink", "c2c",
                                        "pcie",    "socket", "network", "memory"};
  return names[static_cast<std::size_t>(kind)];
}

/// The link kind of this name.
///
/// Throws: input_error that lists the names, for any other text.
[[nodiscard]] inline link_kind read_link_kind(std::string_view text) {
  std::string known;
  for (auto kind = link_kind::unknown; kind <= link_kind::memory;
       kind = static_cast<link_kind>(static_cast<int>(kind) + 1)) {
    if (to_text(kind) == text) return kind;
    known += (known.empty() ? "" : ", ") + std::string(to_text(kind));
  }
  throw input_error("unknown link kind '" + std::string(text) + "', expected one of " + known);
}

/// A vertex of a machine: a rank or a switch.
struct node {
  int id = 0;  ///< the name in the machine description, which `subset` keeps; not the position
  node_kind kind = node_kind::rank;
  std::string label;     ///< for people: "gpu0", "nvswitch"
  int server = 0;        ///< the number of its server; -1 for none (a network switch)
  bool copies = false;   ///< a switch that forwards what it receives to several nodes (multicast)
  bool reduces = false;  ///< a switch that adds up what it receives (NVLS, SHARP)
  /// By which drivers and programs know the device, such as "GPU-8932f937-…". Empty: not known.
  std::vector<std::string> uuids{};
  std::string bus_id{};  ///< of its PCI device, such as "0000:06:00.0"; empty: not known
};

/// An edge of a machine, in one direction.
struct link {
  int tail = 0;               ///< position in `topology::nodes`
  int head = 0;               ///< position in `topology::nodes`
  std::int64_t capacity = 0;  ///< in 1/`topology::steps_per_unit` of `topology::unit`, > 0
  double latency_seconds = 0;
  link_kind kind = link_kind::unknown;
};

/// A machine: nodes, and links between them with integer capacities.
///
/// Readers fill in the fields, and `validate` checks them. A machine models the graph concepts of
/// `graph/concepts.hpp`; its edges are the links in order. With `topology/boost_graph.hpp` it is
/// also a graph of Boost.Graph. Parallel links are allowed and stay separate.
struct topology {
  std::string name;
  std::string unit = "GB/s";        ///< of the capacity of one direction
  std::int64_t steps_per_unit = 1;  ///< 2 if capacities count half units: 25 is 12.5 GB/s
  std::vector<struct node> nodes;
  std::vector<struct link> links;
  std::vector<std::string> remarks;  ///< what a reader assumed, and what looks wrong; for people

  friend std::size_t num_vertices(topology const& machine) { return machine.nodes.size(); }
  friend std::size_t num_edges(topology const& machine) { return machine.links.size(); }
  friend auto edges(topology const& machine) {
    return std::pair(machine.links.begin(), machine.links.end());
  }
  friend int source(struct link const& edge, topology const&) { return edge.tail; }
  friend int target(struct link const& edge, topology const&) { return edge.head; }

  /// A capacity or a sum of capacities in `unit`.
  [[nodiscard]] rational in_units(rational const& steps) const { return steps / steps_per_unit; }

  /// Positions of the ranks, in the order of `nodes`. Schedules and communicators number the ranks
  /// 0 … N-1 in this order.
  [[nodiscard]] std::vector<int> rank_positions() const {
    std::vector<int> result;
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].kind == node_kind::rank) result.push_back(static_cast<int>(i));
    }
    return result;
  }

  /// Position of the node with this id; -1 if there is none.
  [[nodiscard]] int position_of(int id) const {
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      if (nodes[i].id == id) return static_cast<int>(i);
    }
    return -1;
  }
};

/// Checks that a machine is well formed.
///
/// Post:   `steps_per_unit` is positive. There is a rank, and ids differ. Only switches copy or
///         reduce. Each link joins two different nodes. Capacities are positive, and their sum has
///         at most 62 bits. Latencies are not negative.
/// Throws: input_error that names the first fault.
void validate(topology const& machine);

inline void validate(topology const& machine) {
  auto const fail = [&](std::string const& what) {
    throw input_error("machine '" + machine.name + "': " + what);
  };
  if (machine.steps_per_unit <= 0) {
    fail("steps_per_unit is " + std::to_string(machine.steps_per_unit) +
         ", expected a positive number");
  }
  bool has_rank = false;
  std::unordered_set<int> ids;
  for (auto const& n : machine.nodes) {
    has_rank = has_rank || n.kind == node_kind::rank;
    if (!ids.insert(n.id).second) {
      fail("two nodes have the id " + std::to_string(n.id) + ", expected different ids");
    }
    if (n.kind == node_kind::rank && (n.copies || n.reduces)) {
      fail("node " + std::to_string(n.id) + " is a rank that " + (n.copies ? "copies" : "reduces") +
           ", expected only switches to do so");
    }
  }
  if (!has_rank) fail("no rank (GPU) found, expected at least one");
  auto const count = static_cast<int>(machine.nodes.size());
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < machine.links.size(); ++i) {
    auto const& l = machine.links[i];
    auto const where = "link " + std::to_string(i) + ": ";
    if (l.tail < 0 || l.tail >= count || l.head < 0 || l.head >= count) {
      fail(where + "an end is not a node, expected positions of nodes");
    }
    if (l.tail == l.head) fail(where + "joins a node with itself, expected two nodes");
    if (l.capacity <= 0) {
      fail(where + "capacity " + std::to_string(l.capacity) + ", expected a positive number");
    }
    if (!(l.latency_seconds >= 0)) fail(where + "a negative latency, expected 0 or more");
    if (l.capacity > (std::int64_t{1} << 62) - sum) {
      fail("the capacities sum to more than 62 bits, expected smaller ones");
    }
    sum += l.capacity;
  }
}

}}  // namespace blink::BLINK_ABI
