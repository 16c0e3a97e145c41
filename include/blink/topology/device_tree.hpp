// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/detail/node_labels.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The trees from processors over PCIe switches to GPUs and adapters, one for each processor, and
/// the links beside them: NVLink and the like, C2C, and those between processors.
///
/// The machine lives as long as this.
class device_tree {
 public:
  /// Capacities one way and back, in steps of the machine.
  using capacities = std::pair<std::int64_t, std::int64_t>;
  struct neighbour {
    int node;
    link_kind kind;
  };
  /// The smaller end of a link, the larger and the kind.
  using ends = std::tuple<int, int, link_kind>;
  [[nodiscard]] static ends ends_of(int a, int b, link_kind kind) {
    return {std::min(a, b), std::max(a, b), kind};
  }

  /// Time: O((N + L) log N) for N nodes and L links.
  explicit device_tree(topology const& machine)
      : machine_(machine),
        neighbours_(machine.nodes.size()),
        parents_(machine.nodes.size(), -1),
        children_(machine.nodes.size()) {
    for (auto const& l : machine.links) {
      auto& both = between_[ends_of(l.tail, l.head, l.kind)];
      (l.tail <= l.head ? both.first : both.second) += l.capacity;
    }
    for (auto const& [which, both] : between_) {
      auto const [a, b, kind] = which;
      neighbours_[index(a)].push_back({b, kind});
      neighbours_[index(b)].push_back({a, kind});
    }
    std::vector<bool> is_done(machine.nodes.size(), false);
    for (int n = 0; n < static_cast<int>(machine.nodes.size()); ++n) {
      if (is_done[index(n)] || is_star(n)) continue;
      auto const part = part_of(n);
      for (int const each : part) is_done[index(each)] = true;
      hang(root_of(part));
    }
  }

  /// Parallel links count together.
  [[nodiscard]] std::map<ends, capacities> const& links() const { return between_; }
  /// Capacities from `a` to `b` and back; 0 where there is no link.
  [[nodiscard]] capacities between(int a, int b, link_kind kind) const {
    auto const found = between_.find(ends_of(a, b, kind));
    if (found == between_.end()) return {0, 0};
    auto const [forth, back] = found->second;
    return a <= b ? capacities(forth, back) : capacities(back, forth);
  }
  [[nodiscard]] std::vector<neighbour> const& neighbours(int n) const {
    return neighbours_[index(n)];
  }
  /// The roots: processors, and nodes that no tree joins with others.
  [[nodiscard]] std::vector<int> const& roots() const { return roots_; }
  /// -1 for roots and stars
  [[nodiscard]] int parent(int n) const { return parents_[index(n)]; }
  /// The nodes below, with the kind of the link.
  [[nodiscard]] std::vector<neighbour> const& children(int n) const { return children_[index(n)]; }

  /// True for a switch that NVLinks and the like join to ranks alone: an NVSwitch.
  [[nodiscard]] bool is_star(int n) const {
    auto const& all = neighbours_[index(n)];
    return !is_rank(n) && !all.empty() && std::all_of(all.begin(), all.end(), [&](auto const& to) {
      return is_beside(to.kind) && to.kind != link_kind::socket && is_rank(to.node);
    });
  }
  /// True for a link of a kind that trees have. A part of a card hangs from the card alone.
  [[nodiscard]] bool is_in_tree(int a, int b, link_kind kind) const {
    auto const hangs = [&](int n, int from) {
      return is_rank(n) && neighbours_[index(n)].size() == 1 && !is_rank(from) && !is_star(from);
    };
    bool const is_in_server = machine_.nodes[index(a)].server == machine_.nodes[index(b)].server;
    return is_in_server && (!is_beside(kind) || hangs(a, b) || hangs(b, a));
  }

 private:
  static std::size_t index(int n) { return static_cast<std::size_t>(n); }
  [[nodiscard]] bool is_rank(int n) const {
    return machine_.nodes[index(n)].kind == node_kind::rank;
  }
  static bool is_beside(link_kind kind) {
    return kind == link_kind::nvlink || kind == link_kind::xgmi || kind == link_kind::xelink ||
           kind == link_kind::c2c || kind == link_kind::socket || kind == link_kind::unknown;
  }

  /// The nodes that tree links join with `n`.
  [[nodiscard]] std::set<int> part_of(int n) const {
    std::set<int> result{n};
    std::vector<int> next{n};
    while (!next.empty()) {
      int const here = next.back();
      next.pop_back();
      for (auto const& to : neighbours_[index(here)]) {
        if (is_in_tree(here, to.node, to.kind) && result.insert(to.node).second) {
          next.push_back(to.node);
        }
      }
    }
    return result;
  }

  /// The processor of a part: a switch that a socket link ends at, else one that is called so, else
  /// the one whose farthest device is nearest.
  ///
  /// In a tree, the farthest node from any node is an end of a longest path. In a part with cycles
  /// two ends that are far apart stand for all nodes.
  [[nodiscard]] int root_of(std::set<int> const& part) const {
    int const first = *part.begin();
    std::map<int, int> from_one_end, from_other_end;
    int best = first;
    std::pair<int, int> best_cost{3, 0};
    for (int const n : part) {
      if (is_rank(n)) continue;
      auto const& all = neighbours_[index(n)];
      bool const has_socket = std::any_of(
          all.begin(), all.end(), [](auto const& to) { return to.kind == link_kind::socket; });
      std::pair<int, int> cost{has_socket                                                   ? 0
                               : detail::is_processor_label(machine_.nodes[index(n)].label) ? 1
                                                                                            : 2,
                               0};
      if (cost.first == 2 && cost < best_cost) {
        if (from_one_end.empty()) {
          from_one_end = distances_from(farthest(distances_from(first)));
          from_other_end = distances_from(farthest(from_one_end));
        }
        cost.second = std::max(from_one_end.at(n), from_other_end.at(n));
      }
      if (cost >= best_cost) continue;
      best = n;
      best_cost = cost;
    }
    return best;
  }
  /// The tree links between a node and each of its part.
  [[nodiscard]] std::map<int, int> distances_from(int root) const {
    std::map<int, int> result{{root, 0}};
    std::vector<int> order{root};
    for (std::size_t k = 0; k < order.size(); ++k) {
      int const n = order[k];
      for (auto const& to : neighbours_[index(n)]) {
        if (!is_in_tree(n, to.node, to.kind)) continue;
        if (result.emplace(to.node, result.at(n) + 1).second) order.push_back(to.node);
      }
    }
    return result;
  }
  [[nodiscard]] static int farthest(std::map<int, int> const& distances) {
    return std::max_element(distances.begin(), distances.end(),
                            [](auto const& a, auto const& b) { return a.second < b.second; })
        ->first;
  }

  /// Sets the parents of all nodes below a root, level by level.
  void hang(int root) {
    roots_.push_back(root);
    std::set<int> seen{root};
    std::vector<int> level{root};
    while (!level.empty()) {
      std::vector<int> next;
      for (int const n : level) {
        for (auto const& to : neighbours_[index(n)]) {
          if (!is_in_tree(n, to.node, to.kind) || !seen.insert(to.node).second) continue;
          parents_[index(to.node)] = n;
          children_[index(n)].push_back(to);
          next.push_back(to.node);
        }
      }
      level = std::move(next);
    }
  }

  topology const& machine_;
  std::map<ends, capacities> between_;
  std::vector<std::vector<neighbour>> neighbours_;
  std::vector<int> roots_;
  std::vector<int> parents_;
  std::vector<std::vector<neighbour>> children_;
};

}}  // namespace blink::BLINK_ABI
