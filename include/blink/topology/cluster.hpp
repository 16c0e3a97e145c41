// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/host_list.hpp>
#include <blink/topology/detail/machine_joiner.hpp>
#include <blink/topology/nic_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

// Machines of the servers of a cluster, whose network is a tree of switches.

namespace blink { inline namespace BLINK_ABI {

/// A switch of the network of a cluster.
struct cluster_switch {
  std::string name;
  int parent = -1;                           ///< position of the switch above; -1 for none
  std::optional<std::int64_t> link_speed{};  ///< of its links up together, in a unit left open
};

/// A computer of a cluster.
struct cluster_node {
  std::string name;
  int leaf = 0;  ///< position of its switch
};

/// The network of a cluster: switches in trees, and nodes at any of them.
struct cluster_tree {
  std::string name;
  std::vector<cluster_switch> switches;
  std::vector<cluster_node> nodes;   ///< in the order of the file
  std::vector<std::string> remarks;  ///< what a reader assumed, and what looks wrong; for people
};

/// Nodes of a cluster and the machine that each of them is.
struct node_type {
  std::string nodes;  ///< a host list ("gpu[0-63]"); empty for all nodes that no other type names
  topology machine;
};

/// Choices for the machine of a cluster.
struct cluster_options {
  nic_options nics{};
  /// Ratio of the rate below a switch with nodes to that of its links up without LinkSpeed.
  rational oversubscription = 1;
  /// GB/s of one direction for each unit of LinkSpeed. Slurm leaves the unit open: here Gb/s.
  rational link_speed_unit{1, 8};
  /// Makes one switch of each switch whose links up carry all that is below it, and the one above.
  /// Plans have the same rates, and there are fewer nodes.
  bool merges_non_blocking = true;
};

/// The machine of all GPUs of a cluster.
///
/// - Servers follow each other in the order of `tree.nodes`, with ranks and ids as by `join`.
/// - The NICs of a node are at its switch.
/// - The links up of a switch have its LinkSpeed. Without one they carry what is below, divided by
///   the oversubscription if nodes are at the switch. Remarks say so.
/// - A LinkSpeed of 0 or 1, which is Slurm's value for none, is not stated.
/// - Switches without nodes below are left out. Trees that nothing joins stay apart.
///
/// Time:   O(nodes + links) of the result, and O(V E) for each type of node.
/// Post:   `validate` accepts the result.
/// Throws: input_error for a node without a type, and a type without nodes. Also for too many
///         ranks, a node whose machine has a network of its own, NICs as in `join`, and options
///         that are not positive.
[[nodiscard]] topology cluster_of(cluster_tree const& tree, std::vector<node_type> const& types,
                                  cluster_options const& options = {});

namespace detail {

/// Finds the machine of each node of a cluster.
///
/// Throws: input_error as `cluster_of`.
[[nodiscard]] inline std::vector<topology const*> machines_of_nodes(
    cluster_tree const& tree, std::vector<node_type> const& types) {
  node_type const* others = nullptr;
  std::unordered_map<std::string, node_type const*> by_name;
  auto const fail = [&](std::string const& what) {
    throw input_error("cluster '" + tree.name + "': " + what);
  };
  for (auto const& type : types) {
    if (type.nodes.empty() && others != nullptr) {
      fail("two machines for all other nodes, expected one");
    }
    if (type.nodes.empty()) others = &type;
    for (auto& name : host_list_reader(type.nodes, most_joined_ranks).read()) {
      auto const [entry, is_new] = by_name.emplace(std::move(name), &type);
      if (!is_new) fail("two machines for node " + in_quotes(entry->first) + ", expected one");
    }
  }
  std::vector<topology const*> result;
  for (auto const& node : tree.nodes) {
    auto const named = by_name.find(node.name);
    auto const* const type = named == by_name.end() ? others : named->second;
    if (type == nullptr) {
      fail("no machine for node " + in_quotes(node.name) + ", expected a description of each node");
    }
    result.push_back(&type->machine);
    if (named != by_name.end()) by_name.erase(named);
  }
  if (!by_name.empty()) {
    auto const first = std::ranges::min_element(
        by_name, {}, [](auto const& entry) -> std::string const& { return entry.first; });
    fail("a machine for " + in_quotes(first->first) +
         ", which is no node, expected nodes such as " +
         in_quotes(tree.nodes.empty() ? "" : tree.nodes.front().name));
  }
  return result;
}

/// Makes the switches of a cluster and links them to what is below.
class cluster_network_builder {
 public:
  cluster_network_builder(cluster_tree const& tree, cluster_options const& options,
                          machine_joiner& joiner)
      : tree_(tree), options_(options), joiner_(joiner), state_(tree.switches.size()) {}

  void build() {
    expect_servers_only();
    auto const ports =
        joiner_.ports(options_.nics, "--nic-rate GB/s for one NIC, GB/s/gpu for one at each GPU");
    for (std::size_t m = 0; m < tree_.nodes.size(); ++m) {
      auto& leaf = state_[index(tree_.nodes[m].leaf)];
      leaf.has_nodes = true;
      for (int s = 0; s < joiner_.parts(m).server_count; ++s) {
        for (auto const& port : ports[index(joiner_.first_server(m) + s)]) {
          leaf.up += port.out;
          leaf.down += port.in;
        }
      }
    }
    set_links_up();
    add_switches();
    for (std::size_t m = 0; m < tree_.nodes.size(); ++m) {
      for (int s = 0; s < joiner_.parts(m).server_count; ++s) {
        for (auto const& port : ports[index(joiner_.first_server(m) + s)]) {
          joiner_.add_links(port.node, state_[index(tree_.nodes[m].leaf)].node, port.out, port.in);
        }
      }
    }
    remark_assumptions();
  }

 private:
  struct switch_state {
    rational up, down;            // what is below can send and receive
    rational link_up, link_down;  // of its links up
    int children = 0;             // whose turn has not come
    bool has_nodes = false;
    bool is_merged = false;  // with the switch above
    int node = -1;           // of the result
  };

  static std::size_t index(int at) { return static_cast<std::size_t>(at); }

  void expect_servers_only() const {
    for (std::size_t m = 0; m < joiner_.machine_count(); ++m) {
      if (joiner_.parts(m).networks.empty()) continue;
      throw input_error("machine '" + joiner_.machine(m).name + "' of node " +
                        in_quotes(tree_.nodes[m].name) +
                        ": has a network of its own, expected a server");
    }
  }

  /// From the leaves to the roots.
  void set_links_up() {
    for (auto const& s : tree_.switches) {
      if (s.parent >= 0) ++state_[index(s.parent)].children;
    }
    for (std::size_t s = 0; s < state_.size(); ++s) {
      if (state_[s].children == 0) order_.push_back(static_cast<int>(s));
    }
    for (std::size_t i = 0; i < order_.size(); ++i) {
      auto const& s = tree_.switches[index(order_[i])];
      if (s.parent < 0) continue;
      set_link_up(s, state_[index(order_[i])]);
      if (--state_[index(s.parent)].children == 0) order_.push_back(s.parent);
    }
    if (order_.size() < state_.size()) {
      throw input_error("cluster '" + tree_.name + "': its switches form a cycle, expected trees");
    }
  }

  void set_link_up(cluster_switch const& s, switch_state& here) {
    if (here.up == rational(0)) return;
    constexpr std::int64_t slurms_default = 1;
    if (s.link_speed.value_or(0) > slurms_default) {
      here.link_up = here.link_down = options_.link_speed_unit * *s.link_speed;
      has_link_speed_ = true;
    } else {
      auto const ratio = here.has_nodes ? options_.oversubscription : rational(1);
      here.link_up = here.up / ratio;
      here.link_down = here.down / ratio;
      has_assumed_ = true;
    }
    bool const is_non_blocking = here.link_up >= here.up && here.link_down >= here.down;
    here.is_merged = options_.merges_non_blocking && is_non_blocking;
    auto& above = state_[index(s.parent)];
    above.up += std::min(here.up, here.link_up);
    above.down += std::min(here.down, here.link_down);
  }

  void add_switches() {
    for (std::size_t s = 0; s < state_.size(); ++s) {
      auto& here = state_[s];
      if (here.up == rational(0) || here.is_merged) continue;
      here.node = joiner_.add_switch(tree_.switches[s].name, -1);
      if (tree_.switches[s].parent < 0) ++root_count_;
    }
    for (std::size_t i = order_.size(); i-- > 0;) {  // from the roots to the leaves
      auto& here = state_[index(order_[i])];
      int const parent = tree_.switches[index(order_[i])].parent;
      if (here.up == rational(0) || parent < 0) continue;
      if (here.is_merged) {
        here.node = state_[index(parent)].node;
        ++merged_count_;
      } else {
        joiner_.add_links(here.node, state_[index(parent)].node, here.link_up, here.link_down);
      }
    }
  }

  void remark_assumptions() {
    for (auto const& text : tree_.remarks) joiner_.remark(text);
    if (has_link_speed_) {
      joiner_.remark("LinkSpeed counts as " + options_.link_speed_unit.to_text() +
                     " GB/s for each unit, of all links up of a switch together: Slurm leaves open "
                     "what it means");
    }
    if (has_assumed_) {
      auto const& ratio = options_.oversubscription;
      joiner_.remark("links up of switches without LinkSpeed carry all that is below" +
                     (ratio == rational(1)
                          ? std::string()
                          : ", or " + (rational(1) / ratio).to_text() + " of it above nodes") +
                     ": the file states no rates");
    }
    if (merged_count_ > 0) {
      joiner_.remark(std::to_string(merged_count_) +
                     " switches that carry all that is below are one with the switch above");
    }
    if (root_count_ > 1) {
      joiner_.remark("nothing joins " + std::to_string(root_count_) +
                     " trees of switches: plans are for ranks of one of them");
    }
  }

  cluster_tree const& tree_;
  cluster_options const& options_;
  machine_joiner& joiner_;
  std::vector<switch_state> state_;  // by switch
  std::vector<int> order_;           // children before parents
  bool has_link_speed_ = false, has_assumed_ = false;
  int merged_count_ = 0, root_count_ = 0;
};

}  // namespace detail

inline topology cluster_of(cluster_tree const& tree, std::vector<node_type> const& types,
                           cluster_options const& options) {
  if (options.oversubscription <= rational(0) || options.link_speed_unit <= rational(0)) {
    throw input_error("cluster '" + tree.name + "': an oversubscription of " +
                      options.oversubscription.to_text() + " and a LinkSpeed unit of " +
                      options.link_speed_unit.to_text() + ", expected positive numbers");
  }
  detail::machine_joiner joiner(detail::machines_of_nodes(tree, types));
  try {
    detail::cluster_network_builder(tree, options, joiner).build();
  } catch (overflow_error const&) {
    throw input_error("cluster '" + tree.name +
                      "': rates of switches exceed 64 bits, expected coarser ones");
  }
  return joiner.build(tree.name);
}

}}  // namespace blink::BLINK_ABI
