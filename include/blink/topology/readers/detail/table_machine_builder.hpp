// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A rate that a reader assumes, and the reason for it.
struct reasoned_rate {
  rational rate;
  std::string why;
};

/// A machine in the making from a table that names paths but few rates.
class table_machine_builder {
 public:
  /// given:  rates that are known
  /// assume: called for the other kinds, once for each
  table_machine_builder(assumed_rates given, std::function<reasoned_rate(link_kind)> assume)
      : rates_(std::move(given)), assume_(std::move(assume)) {}

  int add_gpu(std::string label) { return machine_.add_node(node_kind::rank, std::move(label), 0); }
  int add_switch(std::string label) {
    return machine_.add_node(node_kind::switch_node, std::move(label), 0);
  }
  /// links: how many of the kind's rate
  void add_both_ways(int a, int b, link_kind kind, rational const& links = 1) {
    machine_.add_both_ways(a, b, rate_of(kind) * links, kind);
  }
  void add_both_ways_at(rational const& rate, int a, int b, link_kind kind) {
    machine_.add_both_ways(a, b, rate, kind);
  }
  void remark(std::string text) { machine_.remark(std::move(text)); }
  /// For remarks of a reader.
  [[nodiscard]] machine_builder& machine() { return machine_; }

  /// Puts the branches of each set under one PCIe switch.
  ///
  /// sets: of devices
  /// top:  by device: the node at the top of its branch so far; -1 for a device that has none
  void raise(disjoint_sets& sets, std::vector<int>& top) {
    for (auto const& [set, members] : branches_of(sets, top)) {
      if (members.size() < 2) continue;
      int const above = add_switch("pcie switch" + std::to_string(switch_count_++));
      for (int const each : members) add_both_ways(each, above, link_kind::pcie);
      for (auto& each : top) {
        if (members.contains(each)) each = above;
      }
    }
  }

  /// Joins devices near the same processors.
  ///
  /// affinities: by device, as the table writes them
  static void join_by_affinity(disjoint_sets& sets,
                               std::vector<std::string_view> const& affinities) {
    std::map<std::string_view, int> first;
    for (std::size_t at = 0; at < affinities.size(); ++at) {
      auto const affinity = affinities[at];
      if (affinity.empty() || affinity == "N/A" || affinity == "NUMA") continue;
      int const device = static_cast<int>(at);
      sets.join(device, first.try_emplace(affinity, device).first->second);
    }
  }

  /// Puts the branches of each set at one processor, and joins all processors.
  void add_processors(disjoint_sets& sets, std::vector<int> const& top) {
    std::vector<int> processors;
    for (auto const& [set, members] : branches_of(sets, top)) {
      int const processor = add_switch("processor" + std::to_string(processors.size()));
      processors.push_back(processor);
      for (int const each : members) add_both_ways(each, processor, link_kind::pcie);
    }
    for (std::size_t i = 0; i < processors.size(); ++i) {
      for (std::size_t j = i + 1; j < processors.size(); ++j)
        add_both_ways(processors[i], processors[j], link_kind::socket);
    }
  }

  /// Throws: input_error as `machine_builder::build` and `named_after`.
  [[nodiscard]] topology build(std::string const& file) {
    return named_after(file, machine_.build(file));
  }

 private:
  /// The rate that is given, or one that is assumed from now on.
  [[nodiscard]] rational rate_of(link_kind kind) {
    if (auto const known = rates_.find(kind); known != rates_.end()) return known->second;
    auto const [rate, why] = assume_(kind);
    std::string const name(to_text(kind));
    machine_.remark(name + " counts as " + rate.to_text() + " GB/s, " + why +
                    ": the table says no rates (--link-rate " + name + "=GB/s)");
    return rates_[kind] = rate;
  }

  /// The tops of the branches of each set.
  [[nodiscard]] static std::map<int, std::set<int>> branches_of(disjoint_sets& sets,
                                                                std::vector<int> const& top) {
    std::map<int, std::set<int>> result;
    for (std::size_t at = 0; at < top.size(); ++at) {
      if (top[at] >= 0) result[sets.find(static_cast<int>(at))].insert(top[at]);
    }
    return result;
  }

  assumed_rates rates_;
  std::function<reasoned_rate(link_kind)> assume_;
  machine_builder machine_;
  int switch_count_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
