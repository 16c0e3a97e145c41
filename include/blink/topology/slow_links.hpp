// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/cluster_flows.hpp>
#include <blink/topology/measured_rates.hpp>
#include <blink/topology/rank_paths.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A link of a described machine whose rate is another one than described.
struct link_difference {
  int from = 0, to = 0;  ///< ids of nodes
  double described = 0;  ///< bytes per second
  double measured = 0;   ///< the best that passed
};

namespace detail {

/// The described rates of all links in bytes per second, by positions. Parallel links together.
using described_rates = std::map<std::pair<int, int>, double>;
[[nodiscard]] inline described_rates described_rates_of(topology const& machine,
                                                        double bytes_per_unit) {
  described_rates result;
  for (auto const& l : machine.links) {
    result[{l.tail, l.head}] += machine.in_units(l.capacity).to_double() * bytes_per_unit;
  }
  return result;
}

/// The rates that passed over the links of a described machine.
class passed_rates {
 public:
  passed_rates(topology const& machine, double bytes_per_unit, double tolerance)
      : machine_(machine),
        paths_(paths_between_ranks(machine)),
        tolerance_(tolerance),
        described_(described_rates_of(machine, bytes_per_unit)) {}

  [[nodiscard]] std::size_t ranks() const { return paths_.size(); }

  /// Takes in the rate of some flows at once, for the links that all of them cross. Flows without a
  /// described path are left out.
  void add(message_flows const& flows, double rate) {
    if (rate <= 0) return;
    std::map<ends, std::size_t> uses;
    std::size_t count = 0;
    for (auto const& [a, b] : flows) {
      auto const& path = paths_[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)];
      if (!path) continue;
      ++count;
      for (std::size_t k = 0; k + 1 < path->nodes.size(); ++k) {
        ++uses[{path->nodes[k], path->nodes[k + 1]}];
      }
    }
    // The rate of all flows at which a link is full, if each has the same part of it.
    auto const full_at = [&](ends const& hop, std::size_t times) {
      return described_.at(hop) * static_cast<double>(count) / static_cast<double>(times);
    };
    observation seen{rate, 0, {}};
    for (auto const& [hop, times] : uses) {
      double const here = full_at(hop, times);
      seen.expected = seen.expected == 0 ? here : std::min(seen.expected, here);
    }
    for (auto const& [hop, times] : uses) {
      if (times < count) continue;
      most_[hop] = std::max(most_[hop], rate);
      if (full_at(hop, times) <= seen.expected * (1 + tolerance_)) seen.narrowest.push_back(hop);
    }
    if (rate < (1 - tolerance_) * seen.expected) too_slow_.push_back(std::move(seen));
  }

  [[nodiscard]] std::vector<link_difference> slow() const {
    std::set<ends> named;
    for (auto const& seen : too_slow_) {
      for (auto const& hop : seen.narrowest) {
        if (most_.at(hop) <= (1 + tolerance_) * seen.rate) named.insert(hop);
      }
    }
    std::vector<link_difference> result;
    for (auto const& hop : named) {
      auto const id = [&](int node) { return machine_.nodes[static_cast<std::size_t>(node)].id; };
      result.push_back({id(hop.first), id(hop.second), described_.at(hop), most_.at(hop)});
    }
    return result;
  }

 private:
  using ends = std::pair<int, int>;  // positions
  struct observation {
    double rate, expected;        // bytes per second
    std::vector<ends> narrowest;  // links that allow no more than was expected
  };

  topology const& machine_;
  std::vector<std::vector<std::optional<rank_path>>> paths_;
  double tolerance_;
  described_rates described_;
  std::map<ends, double> most_;  // the best that passed
  std::vector<observation> too_slow_;
};

}  // namespace detail

/// The links of a described machine that are slower than described, by more than `tolerance`.
///
/// A pair may be slower than its path (`paths_between_ranks`). Then the narrowest link of the path
/// counts as slow, unless another pair was faster over it. Parallel links count together. No pair
/// fills the uplink of a rack or a pod: links that all messages of a cluster cross count in the
/// same way by the rate of the cluster.
///
/// bytes_per_unit: the bytes per second of one unit of capacity, 1e9 for GB/s
/// Pre:    the machine's ranks are those of `rates`, in their order
/// Time:   as `paths_between_ranks`.
/// Throws: precondition_error for another number of ranks.
[[nodiscard]] inline std::vector<link_difference> slow_links(topology const& machine,
                                                             measured_rates const& rates,
                                                             double bytes_per_unit,
                                                             double tolerance = 0.2) {
  detail::passed_rates passed(machine, bytes_per_unit, tolerance);
  expects(passed.ranks() == rates.ranks(),
          "slow_links: the machine has other ranks than those measured, expected the same");
  for (int a = 0; a < static_cast<int>(rates.ranks()); ++a) {
    for (int b = 0; b < static_cast<int>(rates.ranks()); ++b) {
      if (a == b) continue;
      passed.add({{a, b}}, rates.alone[static_cast<std::size_t>(a)][static_cast<std::size_t>(b)]);
    }
  }
  detail::cluster_flows const flows(rates);
  for (std::size_t level = 0; level < rates.levels.size(); ++level) {
    auto const& here = rates.levels[level];
    for (std::size_t c = 0; c < here.clusters(); ++c) {
      auto const& own = flows.hosts(level, c);
      // Flows of all other hosts show the links that this cluster cannot avoid.
      passed.add(flows.outside(own, rates.levels.size(), true), here.out[c]);
      passed.add(flows.outside(own, rates.levels.size(), false), here.in[c]);
    }
  }
  return passed.slow();
}

/// The direct links between two ranks that are faster than described, by more than `tolerance`.
/// Parallel links count together.
///
/// bytes_per_unit, Pre, Time, Throws: as `slow_links`
[[nodiscard]] inline std::vector<link_difference> fast_links(topology const& machine,
                                                             measured_rates const& rates,
                                                             double bytes_per_unit,
                                                             double tolerance = 0.2) {
  auto const positions = machine.rank_positions();
  expects(positions.size() == rates.ranks(),
          "fast_links: the machine has other ranks than those measured, expected the same");
  auto const described = detail::described_rates_of(machine, bytes_per_unit);
  std::vector<link_difference> result;
  for (std::size_t a = 0; a < positions.size(); ++a) {
    for (std::size_t b = 0; b < positions.size(); ++b) {
      auto const found = described.find({positions[a], positions[b]});
      auto const measured = rates.alone[a][b];
      if (found == described.end() || measured <= (1 + tolerance) * found->second) continue;
      auto const id = [&](std::size_t rank) {
        return machine.nodes[static_cast<std::size_t>(positions[rank])].id;
      };
      result.push_back({id(a), id(b), found->second, measured});
    }
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
