// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/topology.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Machines that need no file. Capacities of real machines are in GB/s of one direction. GPU i of
// server b has the id b * (GPUs of a server) + i. Links of regular graphs have capacity 1.

namespace blink { inline namespace BLINK_ABI { namespace machines {

/// The largest number of ranks of a built-in machine. Builders throw input_error above it.
inline constexpr std::int64_t most_ranks = 4096;

namespace detail {

inline std::string server_prefix(int server, int servers) {
  return servers > 1 ? "b" + std::to_string(server) + "." : "";
}

inline int checked_ranks(std::vector<int> const& extents, int least, std::string const& what) {
  std::int64_t ranks = 1;
  for (int const extent : extents) {
    if (extent < least) {
      throw input_error(what + ": found " + std::to_string(extent) + ", expected " +
                        std::to_string(least) + " or more");
    }
    ranks *= extent;
    if (ranks > most_ranks) {
      throw input_error(what + ": more than " + std::to_string(most_ranks) +
                        " ranks, expected fewer");
    }
  }
  return static_cast<int>(ranks);
}

inline void add_ranks(topology& machine, int server, int servers, int count) {
  for (int i = 0; i < count; ++i) {
    machine.nodes.push_back({static_cast<int>(machine.nodes.size()), node_kind::rank,
                             server_prefix(server, servers) + "gpu" + std::to_string(i), server});
  }
}
inline int add_switch(topology& machine, std::string label, int server) {
  auto const id = static_cast<int>(machine.nodes.size());
  machine.nodes.push_back({id, node_kind::switch_node, std::move(label), server});
  return id;
}
inline void add_duplex(topology& machine, int a, int b, std::int64_t capacity, link_kind kind) {
  machine.links.push_back({a, b, capacity, 0, kind});
  machine.links.push_back({b, a, capacity, 0, kind});
}

inline topology named(std::string name) {
  topology machine;
  machine.name = std::move(name);
  return machine;
}
inline std::string boxes_name(std::string name, int servers) {
  return servers > 1 ? name + ":" + std::to_string(servers) : name;
}

/// The hybrid cube mesh of the DGX-1: the number of NVLinks of each pair, numbered as by
/// `nvidia-smi`.
inline constexpr std::array<std::array<std::int8_t, 8>, 8> dgx1_links{{{0, 1, 1, 2, 2, 0, 0, 0},
                                                                       {1, 0, 2, 1, 0, 2, 0, 0},
                                                                       {1, 2, 0, 2, 0, 0, 1, 0},
                                                                       {2, 1, 2, 0, 0, 0, 0, 1},
                                                                       {2, 0, 0, 0, 0, 1, 1, 2},
                                                                       {0, 2, 0, 0, 1, 0, 2, 1},
                                                                       {0, 0, 1, 0, 1, 2, 0, 2},
                                                                       {0, 0, 0, 1, 2, 1, 2, 0}}};

inline topology dgx1(std::string name, std::int64_t per_link, bool doubled) {
  auto machine = named(std::move(name));
  add_ranks(machine, 0, 1, 8);
  for (int i = 0; i < 8; ++i) {
    for (int j = i + 1; j < 8; ++j) {
      int const count = dgx1_links[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)];
      if (count == 0) continue;
      add_duplex(machine, i, j, per_link * (doubled ? count : 1), link_kind::nvlink);
    }
  }
  return machine;
}

/// Servers with one NVSwitch each. `port` is the capacity of a GPU's links to it, in GB/s.
inline topology switched_servers(std::string name, int servers, int gpus, std::int64_t port) {
  checked_ranks({servers, gpus}, 1, name);
  auto machine = named(std::move(name));
  for (int b = 0; b < servers; ++b) add_ranks(machine, b, servers, gpus);
  for (int b = 0; b < servers; ++b) {
    int const nvswitch = add_switch(machine, server_prefix(b, servers) + "nvswitch", b);
    for (int i = 0; i < gpus; ++i) {
      add_duplex(machine, b * gpus + i, nvswitch, port, link_kind::nvlink);
    }
  }
  return machine;
}

/// Joins every rank of several servers to one network switch.
inline void add_network(topology& machine, int ranks, std::int64_t port) {
  int const network = add_switch(machine, "network", -1);
  for (int i = 0; i < ranks; ++i) add_duplex(machine, i, network, port, link_kind::network);
}

/// A grid of any dimension. The last extent varies fastest. `wrap` closes each line to a ring.
inline topology grid(std::string name, std::vector<int> const& extents, bool wrap) {
  int const ranks = checked_ranks(extents, 1, name);
  auto machine = named(std::move(name));
  machine.unit = "links";
  add_ranks(machine, 0, 1, ranks);
  for (int at = 0; at < ranks; ++at) {
    int stride = ranks;
    for (int const extent : extents) {
      stride /= extent;
      int const here = at / stride % extent;
      if (here + 1 < extent) add_duplex(machine, at, at + stride, 1, link_kind::unknown);
      if (wrap && here == 0 && extent > 2) {  // with two, both neighbours are the same node
        add_duplex(machine, at, at + stride * (extent - 1), 1, link_kind::unknown);
      }
    }
  }
  return machine;
}

inline std::string dimensions(std::vector<int> const& extents) {
  std::string result;
  for (int const extent : extents) result += (result.empty() ? "" : "x") + std::to_string(extent);
  return result;
}

}  // namespace detail

/// 8 P100. Each pair of the hybrid cube mesh has one NVLink 1 of 20 GB/s.
[[nodiscard]] inline topology dgx1p() {
  return detail::dgx1("dgx1p", 20, false);
}

/// 8 V100. Each pair of the hybrid cube mesh has one or two NVLinks 2 of 25 GB/s.
[[nodiscard]] inline topology dgx1v() {
  return detail::dgx1("dgx1v", 25, true);
}

/// The DGX-1V with its PCIe tree beside the NVLinks. A switch serves two GPUs, a socket two
/// switches.
///
/// PCIe 3 x16 has 12 GB/s. The link between the sockets has 6 GB/s, NCCL's value for Broadwell.
[[nodiscard]] inline topology dgx1v_pcie() {
  auto machine = detail::dgx1("dgx1v_pcie", 25, true);
  constexpr std::int64_t pcie_x16 = 12;
  int sockets[2];
  for (int s = 0; s < 2; ++s) {
    sockets[s] = detail::add_switch(machine, "socket" + std::to_string(s), 0);
    for (int pair = 2 * s; pair < 2 * s + 2; ++pair) {
      int const pcie = detail::add_switch(machine, "pcie" + std::to_string(pair), 0);
      detail::add_duplex(machine, pcie, sockets[s], pcie_x16, link_kind::pcie);
      detail::add_duplex(machine, 2 * pair, pcie, pcie_x16, link_kind::pcie);
      detail::add_duplex(machine, 2 * pair + 1, pcie, pcie_x16, link_kind::pcie);
    }
  }
  detail::add_duplex(machine, sockets[0], sockets[1], 6, link_kind::socket);
  return machine;
}

/// 16 V100. Each has six NVLinks 2 of 25 GB/s into NVSwitch.
[[nodiscard]] inline topology dgx2() {
  return detail::switched_servers("dgx2", 1, 16, 150);
}

/// Servers of 8 A100 behind NVSwitch, 300 GB/s for each GPU.
///
/// With several servers each GPU has a NIC of 25 GB/s. Even NICs are at one network switch and odd
/// NICs at another (two rails).
[[nodiscard]] inline topology dgx_a100(int servers = 1) {
  auto machine = detail::switched_servers(detail::boxes_name("dgx_a100", servers), servers, 8, 300);
  if (servers == 1) return machine;
  std::vector<int> nics;
  for (int i = 0; i < 8 * servers; ++i) {
    nics.push_back(detail::add_switch(
        machine, detail::server_prefix(i / 8, servers) + "nic" + std::to_string(i % 8), i / 8));
  }
  int const even = detail::add_switch(machine, "network0", -1);
  int const odd = detail::add_switch(machine, "network1", -1);
  for (int i = 0; i < 8 * servers; ++i) {
    int const nic = nics[static_cast<std::size_t>(i)];
    detail::add_duplex(machine, i, nic, 25, link_kind::network);
    detail::add_duplex(machine, nic, i % 2 == 0 ? even : odd, 25, link_kind::network);
  }
  return machine;
}

/// Servers of 8 H100 behind NVSwitch, 450 GB/s for each GPU. With several servers each GPU has
/// 50 GB/s into one network.
[[nodiscard]] inline topology dgx_h100(int servers = 1) {
  auto machine = detail::switched_servers(detail::boxes_name("dgx_h100", servers), servers, 8, 450);
  if (servers > 1) detail::add_network(machine, 8 * servers, 50);
  return machine;
}

/// 8 H200 behind NVSwitch, 450 GB/s for each GPU.
[[nodiscard]] inline topology hgx_h200() {
  return detail::switched_servers("hgx_h200", 1, 8, 450);
}

/// 72 GPUs of a GB200 rack behind one NVSwitch domain, 900 GB/s for each GPU.
[[nodiscard]] inline topology nvl72() {
  return detail::switched_servers("nvl72", 1, 72, 900);
}

/// Servers of 16 MI250 dies, with Infinity Fabric links of 50 GB/s in bundles of 1, 2 and 4. With
/// several servers each die has 16 GB/s into one network.
[[nodiscard]] inline topology mi250(int servers = 1) {
  struct bundle {
    std::int8_t a, b, links;
  };
  constexpr bundle bundles[] = {
      {0, 1, 4},   {2, 3, 4},  {4, 5, 4},  {6, 7, 4},   {8, 9, 4},   {10, 11, 4}, {12, 13, 4},
      {14, 15, 4}, {0, 4, 2},  {3, 7, 2},  {8, 12, 2},  {11, 15, 2}, {0, 8, 1},   {1, 5, 1},
      {1, 9, 1},   {1, 10, 1}, {2, 6, 1},  {2, 9, 1},   {2, 10, 1},  {3, 11, 1},  {4, 6, 1},
      {5, 6, 1},   {5, 7, 1},  {9, 13, 1}, {10, 14, 1}, {12, 14, 1}, {13, 14, 1}, {13, 15, 1}};
  detail::checked_ranks({servers, 16}, 1, "mi250");
  auto machine = detail::named(detail::boxes_name("mi250", servers));
  for (int b = 0; b < servers; ++b) detail::add_ranks(machine, b, servers, 16);
  for (int b = 0; b < servers; ++b) {
    for (auto const& each : bundles) {
      detail::add_duplex(machine, 16 * b + each.a, 16 * b + each.b, 50 * each.links,
                         link_kind::xgmi);
    }
  }
  if (servers > 1) detail::add_network(machine, 16 * servers, 16);
  return machine;
}

/// n ranks in a closed ring of full-duplex links. Two ranks have one link.
[[nodiscard]] inline topology ring(int n) {
  return detail::grid("ring:" + std::to_string(n), {n}, true);
}

/// n ranks in a row, neighbours joined by full-duplex links.
[[nodiscard]] inline topology line(int n) {
  return detail::grid("line:" + std::to_string(n), {n}, false);
}

/// A grid of any number of dimensions. The last extent varies fastest.
[[nodiscard]] inline topology mesh(std::vector<int> const& extents) {
  return detail::grid("mesh:" + detail::dimensions(extents), extents, false);
}
[[nodiscard]] inline topology mesh(int rows, int columns) {
  return mesh(std::vector<int>{rows, columns});
}

/// A mesh whose lines are closed to rings. An extent of 2 has one link, not two.
[[nodiscard]] inline topology torus(std::vector<int> const& extents) {
  return detail::grid("torus:" + detail::dimensions(extents), extents, true);
}
[[nodiscard]] inline topology torus(int rows, int columns) {
  return torus(std::vector<int>{rows, columns});
}
[[nodiscard]] inline topology torus(int planes, int rows, int columns) {
  return torus(std::vector<int>{planes, rows, columns});
}

/// 2^d ranks. Two ranks whose numbers differ in one bit have a link.
///
/// Throws: input_error for more than 12 dimensions.
[[nodiscard]] inline topology hypercube(int d) {
  if (d < 0 || d > 12) {
    throw input_error("hypercube: found " + std::to_string(d) + ", expected 0 to 12 dimensions");
  }
  return detail::grid("hypercube:" + std::to_string(d),
                      std::vector<int>(static_cast<std::size_t>(d), 2), false);
}

/// n ranks with a link between each pair.
[[nodiscard]] inline topology fully_connected(int n) {
  detail::checked_ranks({n, n}, 1, "fully_connected");
  auto machine = detail::named("fully_connected:" + std::to_string(n));
  machine.unit = "links";
  detail::add_ranks(machine, 0, 1, n);
  for (int i = 0; i < n; ++i) {
    for (int j = i + 1; j < n; ++j) detail::add_duplex(machine, i, j, 1, link_kind::unknown);
  }
  return machine;
}

}}}  // namespace blink::BLINK_ABI::machines
