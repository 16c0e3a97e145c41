// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/max_flow.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/route.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The edges of a tree over ranks, (parent, child) by node id, parents before children.
using tree_hops = std::vector<std::pair<int, int>>;

/// The edges of a chain of ranks from its root on.
[[nodiscard]] inline tree_hops chain_of(std::vector<int> const& ids) {
  tree_hops result;
  for (std::size_t i = 0; i + 1 < ids.size(); ++i) result.emplace_back(ids[i], ids[i + 1]);
  return result;
}

/// The edges in an order in which parents come before children.
[[nodiscard]] inline tree_hops from_root(tree_hops const& hops, int root) {
  std::multimap<int, int> children(hops.begin(), hops.end());
  tree_hops result;
  std::vector<int> open{root};
  for (std::size_t i = 0; i < open.size(); ++i) {
    auto const [first, last] = children.equal_range(open[i]);
    for (auto child = first; child != last; ++child) {
      result.push_back(*child);
      open.push_back(child->second);
    }
  }
  return result;
}

/// The load of one unit of a group on a link, by link (from, to) and group.
using group_loads = std::map<std::pair<int, int>, std::map<int, rational>>;

inline void add_load(group_loads& load, tree_edge const& edge, int group, rational const& amount) {
  for (std::size_t i = 0; i + 1 < edge.path.size(); ++i) {
    load[{edge.path[i], edge.path[i + 1]}][group] += amount;
  }
}

/// The number of units of each group, by max-min fair rates.
///
/// All groups grow at the same pace until a link is full. The groups on that link stop, and the
/// other groups grow on.
///
/// Source: Bertsekas, Gallager, "Data networks", 1992, section 6.5.2 (progressive filling).
/// Time:   O(groups * entries of `load`).
/// Throws: overflow_error if a rate leaves 64 bits.
[[nodiscard]] inline std::map<int, rational> fair_paces(group_loads const& load,
                                                        router const& route) {
  std::map<int, rational> stopped;  // with their paces
  std::set<int> growing;
  for (auto const& [ends, groups] : load) {
    for (auto const& [group, amount] : groups) growing.insert(group);
  }
  while (!growing.empty()) {
    std::optional<rational> pace;  // at which the next link is full
    std::set<int> full;            // the groups on it
    for (auto const& [ends, groups] : load) {
      rational room = route.capacity(ends.first, ends.second);
      rational growth;
      for (auto const& [group, amount] : groups) {
        if (growing.contains(group)) {
          growth += amount;
        } else {
          room -= amount * stopped.at(group);
        }
      }
      if (growth == rational(0)) continue;
      auto const full_at = room / growth;
      if (pace && full_at > *pace) continue;
      if (!pace || full_at < *pace) full.clear();
      pace = full_at;
      for (auto const& [group, amount] : groups) {
        if (growing.contains(group)) full.insert(group);
      }
    }
    for (int const group : full) {
      growing.erase(group);
      stopped[group] = *pace;
    }
  }
  return stopped;
}

/// Collects trees whose shape does not depend on the links. Routes their edges over the machine,
/// adds up the loads, and finds the weights at which links are full.
class routed_forest {
 public:
  routed_forest(topology const& machine, plan_request const& request)
      : result_(empty_plan(machine, request)), route_(machine) {}

  [[nodiscard]] std::vector<int> const& ranks() const { return result_.ranks; }
  [[nodiscard]] router& route() { return route_; }

  /// Adds a tree with the phases that the collective has, each over the same hops.
  ///
  /// share: the weight in proportion to the other trees of the group. Trees of one group keep their
  ///        proportions. Each group grows as far as the links allow.
  void add(int root, tree_hops const& hops, rational const& share = 1, int group = 0) {
    tree t{root, share, {}, {}};
    if (has_reduce_phase(result_.collective)) {
      for (auto hop = hops.rbegin(); hop != hops.rend(); ++hop) {
        t.reduce.push_back(route_(hop->second, hop->first));
      }
    }
    if (has_broadcast_phase(result_.collective)) {
      for (auto const& [parent, child] : hops) t.broadcast.push_back(route_(parent, child));
    }
    add(std::move(t), group);
  }

  /// Adds a tree that has its routes; its weight is its share.
  void add(tree t, int group = 0) {
    result_.trees.push_back(std::move(t));
    group_.push_back(group);
  }

  /// The plan. Groups have `fair_paces`; all have the same pace if those fractions get too long.
  ///
  /// Time:   O(edges * path length * log links), and see `fair_paces`.
  /// Throws: overflow_error if a weight leaves 64 bits.
  [[nodiscard]] plan finish() && {
    std::map<int, rational> pace;
    try {
      pace = paces();
    } catch (overflow_error const&) {
      std::fill(group_.begin(), group_.end(), 0);  // simpler weights
      pace = paces();
    }
    for (std::size_t i = 0; i < result_.trees.size(); ++i) {
      auto& weight = result_.trees[i].weight;
      weight *= pace.at(group_[i]);
      result_.rate += weight;
    }
    std::erase_if(result_.trees, [](tree const& t) { return t.weight == rational(0); });
    return std::move(result_);
  }

 private:
  /// The factors from shares to weights, by group.
  [[nodiscard]] std::map<int, rational> paces() const {
    group_loads load;
    for (std::size_t i = 0; i < result_.trees.size(); ++i) {
      auto const& t = result_.trees[i];
      for (auto const* phase : {&t.reduce, &t.broadcast}) {
        for (auto const& edge : *phase) add_load(load, edge, group_[i], t.weight);
      }
    }
    return fair_paces(load, route_);
  }

  plan result_;
  router route_;
  std::vector<int> group_;  ///< by tree
};

/// A root of a broadcast, its rate in capacity steps of the machine, and the cut that bounds it.
struct root_choice {
  int root = 0;  ///< position of the node
  std::int64_t rate = 0;
  std::vector<bool> source_side;  ///< by position of the nodes
};

/// The root of the request, or the root with the highest rate (the first of equals).
///
/// A cut bounds the rate of every root inside it. So the cut of a maximum flow that is not above
/// the best rate leaves out all ranks on its larger source side. On machines of equal servers, two
/// or three roots are evaluated.
///
/// Time:   O(N) maximum flows for N ranks for each root that no cut leaves out.
/// Throws: planning_error if the root does not reach all ranks.
[[nodiscard]] inline root_choice best_root(topology const& machine, plan_request const& request) {
  auto const everyone = machine.rank_positions();
  auto const capacity = detail::capacities_of(machine);
  auto const plain = to_arc_list(machine);
  auto const seen_from = [&](int root) {
    auto cut = rooted_connectivity(plain, capacity, root, everyone);
    return root_choice{root, cut.value, std::move(cut.source_side)};
  };
  auto best = seen_from(request.root ? machine.position_of(*request.root) : everyone.front());
  if (!request.root) {
    auto network = to_flow_network(plain, capacity);
    std::vector<bool> is_left_out(machine.nodes.size());
    // True if no flow from the root is at most the best rate. Leaves out what the flows' cuts hold.
    auto const is_better = [&](int root) {
      for (int const to : everyone) {
        if (to == root || network.run(root, to, best.rate + 1) > best.rate) continue;
        auto const beyond = network.sink_side();
        for (std::size_t v = 0; v < beyond.size(); ++v) {
          if (!beyond[v]) is_left_out[v] = true;
        }
        return false;
      }
      return true;
    };
    for (int const root : everyone) {
      if (is_left_out[static_cast<std::size_t>(root)] || !is_better(root)) continue;
      best = seen_from(root);
      (void)is_better(root);  // by its own rate: leaves out what its cut holds
    }
  }
  if (best.rate == 0) {
    auto const id = std::to_string(machine.nodes[static_cast<std::size_t>(best.root)].id);
    throw planning_error("no route leads from " + (request.root ? "rank " + id : "any rank") +
                         " to every other rank (or back, in a reduce)");
  }
  return best;
}

}}}  // namespace blink::BLINK_ABI::detail
