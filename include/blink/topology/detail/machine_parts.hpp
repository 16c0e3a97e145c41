// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/node_labels.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

// The servers of a machine, and the nodes where they meet a network.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A node where a server meets a network, such as a NIC.
struct network_port {
  int node = 0;           ///< position
  int server = 0;         ///< see `machine_parts`
  rational out, in;       ///< rate of each direction, in the machine's unit
  bool is_stated = true;  ///< false: the rates are those of its PCIe links
};

/// The servers of a machine, by numbers from 0 in the order of their first ranks.
struct machine_parts {
  int server_count = 0;
  std::vector<int> server_of;           ///< by node; -1 for none
  std::vector<std::vector<int>> ranks;  ///< positions, by server
  std::vector<int> processors;          ///< position of the first one, by server; -1 for none
  std::vector<network_port> ports;      ///< the NICs, in the order of nodes
  std::vector<int> networks;            ///< positions of the switches of the machine's own network
  bool has_levels = false;              ///< switches of its network are joined with each other
};

/// Finds the servers, NICs and networks of one machine.
class machine_parts_finder {
 public:
  explicit machine_parts_finder(topology const& machine)
      : machine_(machine), near_(machine.nodes.size()) {}

  [[nodiscard]] machine_parts find() {
    number_servers();
    for (auto const& l : machine_.links) {
      see(l, l.tail, l.head);
      see(l, l.head, l.tail);
    }
    complete_only_server();
    list_servers();
    find_networks();
    std::vector<bool> is_port(machine_.nodes.size());
    for (bool const by_name : {false, true}) {
      auto const found = is_port;  // a NIC beside one with a network link is its adapter
      for (std::size_t v = 0; v < is_port.size(); ++v) {
        if (!found[v] && is_nic(v, by_name, found)) is_port[v] = true;
      }
    }
    for (std::size_t v = 0; v < is_port.size(); ++v) {
      if (!is_port[v]) continue;
      parts_.ports.push_back({static_cast<int>(v), parts_.server_of[v],
                              machine_.in_units(near_[v].in), machine_.in_units(near_[v].out),
                              !near_[v].has_pcie});
    }
    return std::move(parts_);
  }

 private:
  struct surroundings {
    std::vector<int> neighbours{};  // the first few different ones
    bool leaves_server = false;
    bool has_network = false, has_unknown = false, has_pcie = false;
    bool has_inner_link = false;   // of a kind that no network has
    std::int64_t in = 0, out = 0;  // capacities of its links
  };

  [[nodiscard]] int server_of(int at) const {
    return parts_.server_of[static_cast<std::size_t>(at)];
  }

  void number_servers() {
    std::map<int, int> numbers;
    parts_.server_of.assign(machine_.nodes.size(), -1);
    for (auto const kind : {node_kind::rank, node_kind::switch_node}) {
      for (std::size_t v = 0; v < machine_.nodes.size(); ++v) {
        auto const& n = machine_.nodes[v];
        if (n.kind != kind || (n.server < 0 && kind == node_kind::switch_node)) continue;
        bool const is_alone = n.server < 0;  // a server by itself
        auto const known = is_alone ? numbers.end() : numbers.find(n.server);
        parts_.server_of[v] = known == numbers.end() ? parts_.server_count++ : known->second;
        if (!is_alone) numbers.emplace(n.server, parts_.server_of[v]);
      }
    }
  }

  /// Switches without a server that are no network belong to the only server.
  void complete_only_server() {
    if (parts_.server_count != 1) return;
    for (std::size_t v = 0; v < machine_.nodes.size(); ++v) {
      bool const is_outside = near_[v].has_network && !near_[v].has_inner_link;
      if (!is_outside || is_nic_label(machine_.nodes[v].label)) parts_.server_of[v] = 0;
    }
    for (auto& near : near_) near.leaves_server = false;
    for (auto const& l : machine_.links) {
      if (server_of(l.tail) == server_of(l.head)) continue;
      near_[static_cast<std::size_t>(l.tail)].leaves_server = true;
      near_[static_cast<std::size_t>(l.head)].leaves_server = true;
    }
  }

  void list_servers() {
    parts_.ranks.resize(static_cast<std::size_t>(parts_.server_count));
    parts_.processors.assign(parts_.ranks.size(), -1);
    for (std::size_t v = 0; v < machine_.nodes.size(); ++v) {
      if (parts_.server_of[v] < 0) continue;
      auto const server = static_cast<std::size_t>(parts_.server_of[v]);
      auto const& n = machine_.nodes[v];
      if (n.kind == node_kind::rank) {
        parts_.ranks[server].push_back(static_cast<int>(v));
      } else if (parts_.processors[server] < 0 && is_processor_label(n.label)) {
        parts_.processors[server] = static_cast<int>(v);
      }
    }
  }

  void see(link const& l, int at, int other) {
    auto& near = near_[static_cast<std::size_t>(at)];
    (l.head == at ? near.in : near.out) += l.capacity;
    near.has_network = near.has_network || l.kind == link_kind::network;
    near.has_unknown = near.has_unknown || l.kind == link_kind::unknown;
    near.has_pcie = near.has_pcie || l.kind == link_kind::pcie;
    near.has_inner_link =
        near.has_inner_link || (l.kind != link_kind::network && l.kind != link_kind::unknown);
    near.leaves_server = near.leaves_server || server_of(at) != server_of(other);
    constexpr std::size_t most = 64;  // a NIC has few neighbours
    if (near.neighbours.size() < most &&
        std::find(near.neighbours.begin(), near.neighbours.end(), other) == near.neighbours.end()) {
      near.neighbours.push_back(other);
    }
  }

  void find_networks() {
    std::vector<bool> is_network(machine_.nodes.size());
    for (std::size_t v = 0; v < machine_.nodes.size(); ++v) {
      is_network[v] = parts_.server_of[v] < 0 && !near_[v].has_inner_link &&
                      (near_[v].has_network || near_[v].has_unknown);
      if (is_network[v]) parts_.networks.push_back(static_cast<int>(v));
    }
    parts_.has_levels = std::ranges::any_of(machine_.links, [&](link const& l) {
      return is_network[static_cast<std::size_t>(l.tail)] &&
             is_network[static_cast<std::size_t>(l.head)];
    });
  }

  /// A NIC is a switch inside a server. It has a network link to a single node, or the name of one.
  [[nodiscard]] bool is_nic(std::size_t v, bool by_name, std::vector<bool> const& found) const {
    auto const& near = near_[v];
    if (machine_.nodes[v].kind != node_kind::switch_node || parts_.server_of[v] < 0 ||
        near.leaves_server || near.in == 0 || near.out == 0) {
      return false;
    }
    if (!by_name) return near.has_network && near.neighbours.size() == 1;
    return is_nic_label(machine_.nodes[v].label) &&
           std::ranges::none_of(near.neighbours,
                                [&](int at) { return found[static_cast<std::size_t>(at)]; });
  }

  topology const& machine_;
  std::vector<surroundings> near_;
  machine_parts parts_;
};

}}}  // namespace blink::BLINK_ABI::detail
