// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/planning/forest.hpp>
#include <blink/rational.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <climits>
#include <cstddef>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI::detail {

/// Finds routes between ranks of a machine: fewest links first, then the widest narrowest link,
/// then the lowest node positions, so that equal machines give equal routes. Ranks on the way
/// forward.
class router {
 public:
  explicit router(topology const& machine) : machine_(&machine) {
    for (auto const& l : machine.links) {
      capacity_[{id(l.tail), id(l.head)}] += machine.in_units(l.capacity);
    }
  }

  /// By (from, to) node ids, parallel links added up.
  [[nodiscard]] std::map<std::pair<int, int>, rational> const& capacities() const {
    return capacity_;
  }

  /// Throws: planning_error if no way leads there.
  [[nodiscard]] tree_edge operator()(int from, int to) const {
    struct label {
      int hops = -1;
      rational width;
      int before = -1;
    };
    std::map<int, label> reached;
    reached[from] = {0, rational(0), -1};
    std::vector<int> layer{from};
    while (!layer.empty() && !reached.contains(to)) {
      std::map<int, label> next;
      for (int const at : layer) {
        auto const here = reached.at(at);
        for (auto entry = capacity_.lower_bound({at, INT_MIN});
             entry != capacity_.end() && entry->first.first == at; ++entry) {
          int const head = entry->first.second;
          if (reached.contains(head)) continue;
          auto const width = here.hops == 0 ? entry->second : std::min(here.width, entry->second);
          auto& l = next[head];
          if (l.hops < 0 || width > l.width) l = {here.hops + 1, width, at};
        }
      }
      layer.clear();
      for (auto const& [node, l] : next) {
        reached.emplace(node, l);
        layer.push_back(node);
      }
    }
    if (!reached.contains(to)) {
      throw planning_error("no way leads from rank " + std::to_string(from) + " to rank " +
                           std::to_string(to));
    }
    tree_edge result{from, to, {}};
    for (int at = to; at != -1; at = reached.at(at).before) result.path.push_back(at);
    std::reverse(result.path.begin(), result.path.end());
    return result;
  }

 private:
  [[nodiscard]] int id(int position) const {
    return machine_->nodes[static_cast<std::size_t>(position)].id;
  }
  topology const* machine_;
  std::map<std::pair<int, int>, rational> capacity_;
};

}  // namespace blink::inline BLINK_ABI::detail
