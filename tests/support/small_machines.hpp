// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

// Machines for tests, made without the library's own builders.

namespace blink::test {

/// A machine of n ranks (ids 0 … n-1) with direct links: matrix[i][j] is the capacity from i to j,
/// 0 for no link.
inline topology direct_machine(std::vector<std::vector<std::int64_t>> const& matrix) {
  topology machine;
  machine.name = "direct";
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    machine.nodes.push_back({static_cast<int>(i), node_kind::rank, "gpu" + std::to_string(i), 0});
    for (std::size_t j = 0; j < matrix.size(); ++j) {
      if (matrix[i][j] > 0) {
        machine.links.push_back(
            {static_cast<int>(i), static_cast<int>(j), matrix[i][j], 0, link_kind::nvlink});
      }
    }
  }
  return machine;
}

/// A machine of n ranks (ids 0 … n-1) behind one switch (id n), with ports of equal capacity.
inline topology star_machine(int n, std::int64_t port) {
  topology machine;
  machine.name = "star";
  for (int i = 0; i < n; ++i) {
    machine.nodes.push_back({i, node_kind::rank, "gpu" + std::to_string(i), 0});
    machine.links.push_back({i, n, port, 0, link_kind::nvlink});
    machine.links.push_back({n, i, port, 0, link_kind::nvlink});
  }
  machine.nodes.push_back({n, node_kind::switch_node, "switch", 0});
  return machine;
}

/// NVLinks between the GPUs of a DGX-1V, in nvidia-smi's numbering, times the rate of one link.
inline std::vector<std::vector<std::int64_t>> dgx1v_matrix(std::int64_t per_link) {
  std::vector<std::vector<std::int64_t>> matrix{{0, 1, 1, 2, 2, 0, 0, 0}, {1, 0, 2, 1, 0, 2, 0, 0},
                                                {1, 2, 0, 2, 0, 0, 1, 0}, {2, 1, 2, 0, 0, 0, 0, 1},
                                                {2, 0, 0, 0, 0, 1, 1, 2}, {0, 2, 0, 0, 1, 0, 2, 1},
                                                {0, 0, 1, 0, 1, 2, 0, 2}, {0, 0, 0, 1, 2, 1, 2, 0}};
  for (auto& row : matrix) {
    for (auto& entry : row) entry *= per_link;
  }
  return matrix;
}

/// NVLinks between the GPUs of a DGX-1P: the pairs of the DGX-1V with one link each.
inline std::vector<std::vector<std::int64_t>> dgx1p_matrix(std::int64_t per_link) {
  auto matrix = dgx1v_matrix(per_link);
  for (auto& row : matrix) {
    for (auto& entry : row) entry = entry > 0 ? per_link : 0;
  }
  return matrix;
}

/// The rows and columns of a matrix for the bits of `chosen`.
inline std::vector<std::vector<std::int64_t>> part_of(
    std::vector<std::vector<std::int64_t>> const& matrix, unsigned chosen) {
  std::vector<std::vector<std::int64_t>> result;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    if ((chosen >> i & 1U) == 0) continue;
    result.emplace_back();
    for (std::size_t j = 0; j < matrix.size(); ++j) {
      if ((chosen >> j & 1U) != 0) result.back().push_back(matrix[i][j]);
    }
  }
  return result;
}

/// Servers of 8 ranks behind one switch, each rank with a NIC. Each of `rails` networks joins NICs
/// of the same numbers in all servers: with 8 rails each NIC has its own.
///
/// lost:  NICs that are joined to no network: server and number
/// inner: the capacity of a rank's link to its switch; that of a NIC is 1
inline topology rail_servers(int servers, int rails,
                             std::vector<std::pair<int, int>> const& lost = {},
                             std::int64_t inner = 12) {
  constexpr int ranks = 8;
  topology machine;
  machine.name = "rails";
  auto const add = [&](node_kind kind, int server) {
    int const id = static_cast<int>(machine.nodes.size());
    machine.nodes.push_back({id, kind, "", server});
    return id;
  };
  auto const join = [&](int a, int b, std::int64_t capacity, link_kind kind) {
    machine.links.push_back({a, b, capacity, 0, kind});
    machine.links.push_back({b, a, capacity, 0, kind});
  };
  std::vector<int> networks;
  for (int server = 0; server < servers; ++server) {
    std::vector<int> own;
    for (int k = 0; k < ranks; ++k) own.push_back(add(node_kind::rank, server));
    int const box = add(node_kind::switch_node, server);
    for (int const rank : own) join(rank, box, inner, link_kind::nvlink);
    for (int k = 0; k < ranks; ++k) {
      int const nic = add(node_kind::switch_node, server);
      join(own[static_cast<std::size_t>(k)], nic, 1, link_kind::pcie);
      machine.nodes.back().label = "nic" + std::to_string(k);
    }
  }
  for (int r = 0; r < rails; ++r) networks.push_back(add(node_kind::switch_node, -1));
  for (int server = 0; server < servers; ++server) {
    for (int k = 0; k < ranks; ++k) {
      if (std::find(lost.begin(), lost.end(), std::pair(server, k)) != lost.end()) continue;
      int const nic = server * (2 * ranks + 1) + ranks + 1 + k;
      join(nic, networks[static_cast<std::size_t>(k * rails / ranks)], 1, link_kind::network);
    }
  }
  return machine;
}

}  // namespace blink::test
