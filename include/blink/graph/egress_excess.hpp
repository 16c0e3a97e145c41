// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/flow_network.hpp>
#include <blink/graph/splitting_off.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <optional>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The total capacity into and out of a switch.
struct switch_balance {
  int switch_node = 0;
  std::int64_t in = 0;
  std::int64_t out = 0;
};

/// Returns the switches with more capacity out than in. Only these can prevent splitting off.
///
/// is_switch: by vertex
/// Post:      ascending by vertex.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] std::vector<switch_balance> unbalanced_switches(Graph const& graph,
                                                              Capacities const& capacities,
                                                              std::vector<bool> const& is_switch) {
  arc_list const& arcs = to_arc_list(graph);
  std::vector<switch_balance> all(static_cast<std::size_t>(arcs.vertex_count));
  for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
    all[static_cast<std::size_t>(arcs.arcs[e].tail)].out += capacities[e];
    all[static_cast<std::size_t>(arcs.arcs[e].head)].in += capacities[e];
  }
  std::vector<switch_balance> result;
  for (std::size_t v = 0; v < all.size(); ++v) {
    all[v].switch_node = static_cast<int>(v);
    if (is_switch[v] && all[v].out > all[v].in) result.push_back(all[v]);
  }
  return result;
}

namespace detail {

/// Lowers capacities out of switches as long as the supplies flow into every rank.
class egress_excess_remover {
 public:
  egress_excess_remover(arc_list const& arcs, std::vector<std::int64_t> capacity,
                        std::vector<bool> const& is_switch,
                        std::vector<root_supply> const& supplies)
      : arcs_(arcs),
        is_switch_(is_switch),
        capacity_(std::move(capacity)),
        supply_(is_switch.size(), 0),
        out_of_(is_switch.size()),
        network_(arcs.vertex_count + 1) {
    for (std::size_t e = 0; e < arcs.arcs.size(); ++e) {
      network_.add(arcs.arcs[e].tail, arcs.arcs[e].head, capacity_[e]);
      count(capacity_[e]);
      out_of_[static_cast<std::size_t>(arcs.arcs[e].tail)].push_back(e);
    }
    // Links to ranks come first, because lowering them unbalances no other switch.
    for (auto& out : out_of_) {
      std::ranges::sort(out, {}, [&](std::size_t e) {
        return std::pair(is_switch_[static_cast<std::size_t>(arcs_.arcs[e].head)], e);
      });
    }
    for (auto const& s : supplies) {
      network_.add(arcs.vertex_count, s.root, s.amount);
      supply_[static_cast<std::size_t>(s.root)] += s.amount;
      count(s.amount);
    }
    wanted_ = std::accumulate(supply_.begin(), supply_.end(), std::int64_t{0});
    for (std::size_t v = 0; v < is_switch.size(); ++v) {
      if (!is_switch[v]) ranks_.push_back(static_cast<int>(v));
    }
  }

  /// Returns the lowered capacities by edge, or nothing if the supplies need some egress excess.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> run() {
    limit_by_inflow();
    if (shortage() > 0) return std::nullopt;
    // Lowering a link out of one switch may lower another's inflow, so the switches take several
    // rounds. Capacities bound the number of rounds. A machine that needs more rounds than this has
    // a chain or circle of such switches.
    constexpr int most_rounds = 64;
    for (int round = 0; round < most_rounds; ++round) {
      auto const unbalanced = unbalanced_switches(arcs_, capacity_, is_switch_);
      if (unbalanced.empty()) return capacity_;
      for (auto const& each : unbalanced) {
        if (!relieve(each.switch_node)) return std::nullopt;
      }
    }
    return std::nullopt;
  }

 private:
  void count(std::int64_t amount) {
    constexpr std::int64_t limit = std::int64_t{1} << 61;
    if (amount > limit - sum_) {
      throw overflow_error(
          "remove_egress_excess: the sum of capacities and supplies exceeds 61 bits, expected "
          "less");
    }
    sum_ += amount;
  }

  void set(std::size_t e, std::int64_t capacity) {
    capacity_[e] = capacity;
    network_.set_capacity(static_cast<int>(e), capacity);
  }

  /// Limits each link out of a switch to the flow that all ranks together can bring to the switch.
  void limit_by_inflow() {
    detail::flow_network from_ranks(arcs_.vertex_count + 1);
    for (std::size_t e = 0; e < arcs_.arcs.size(); ++e) {
      from_ranks.add(arcs_.arcs[e].tail, arcs_.arcs[e].head, capacity_[e]);
    }
    for (int const rank : ranks_) from_ranks.add(arcs_.vertex_count, rank, sum_);
    for (std::size_t v = 0; v < is_switch_.size(); ++v) {
      if (!is_switch_[v] || out_of_[v].empty()) continue;
      auto const most = from_ranks.run(arcs_.vertex_count, static_cast<int>(v));
      for (auto const e : out_of_[v]) set(e, std::min(capacity_[e], most));
    }
  }

  /// The largest shortage of the flow into a rank, over all ranks.
  [[nodiscard]] std::int64_t shortage() {
    std::int64_t worst = 0;
    for (int const v : ranks_) {
      if (wanted_ == supply_[static_cast<std::size_t>(v)]) continue;
      worst = std::max(worst, wanted_ - network_.run(arcs_.vertex_count, v, wanted_));
    }
    return worst;
  }

  /// Removes the egress excess of a switch. Returns false if the supplies need some of it.
  bool relieve(int switch_node) {
    std::int64_t egress_excess = 0;
    for (std::size_t e = 0; e < arcs_.arcs.size(); ++e) {
      if (arcs_.arcs[e].tail == switch_node) egress_excess += capacity_[e];
      if (arcs_.arcs[e].head == switch_node) egress_excess -= capacity_[e];
    }
    for (auto const e : out_of_[static_cast<std::size_t>(switch_node)]) {
      auto const before = capacity_[e];
      auto const most = std::min(egress_excess, before);
      if (most <= 0) continue;
      set(e, before - most);
      // A cut loses as much as the link, so restoring the largest shortage is necessary and
      // sufficient.
      auto const needed = std::min(most, shortage());
      set(e, before - most + needed);
      egress_excess -= most - needed;
    }
    return egress_excess <= 0;
  }

  arc_list const& arcs_;
  std::vector<bool> const& is_switch_;
  std::vector<std::int64_t> capacity_;
  std::vector<std::int64_t> supply_;
  std::vector<std::vector<std::size_t>> out_of_;
  flow_network network_;  // the arcs of the graph, then those from the super source
  std::vector<int> ranks_;
  std::int64_t wanted_ = 0;
  std::int64_t sum_ = 0;
};

}  // namespace detail

/// Lowers capacities of links out of switches until no switch has more capacity out than in. The
/// supplies still flow into every rank, so `split_off_switches` succeeds for them. Only egress
/// excess is removed, and capacity that no rank can use.
///
/// Time:   O(rounds * (links out of unbalanced switches) * N) maximum flows for N ranks.
/// Pre:    as for `split_off_switches`.
/// Post:   capacities by edge, none above the given; nothing if the supplies need some egress
///         excess, as far as this order of links shows.
/// Throws: overflow_error if capacities and supplies exceed 61 bits.
template <directed_edge_list Graph, edge_weights<Graph> Capacities>
[[nodiscard]] std::optional<std::vector<std::int64_t>> remove_egress_excess(
    Graph const& graph, Capacities const& capacities, std::vector<bool> const& is_switch,
    std::vector<root_supply> const& supplies) {
  arc_list const& arcs = to_arc_list(graph);
  std::vector<std::int64_t> capacity(arcs.arcs.size());
  for (std::size_t e = 0; e < capacity.size(); ++e) capacity[e] = capacities[e];
  return detail::egress_excess_remover(arcs, std::move(capacity), is_switch, supplies).run();
}

}}  // namespace blink::BLINK_ABI
