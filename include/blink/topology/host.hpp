// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/host_probe.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

struct host_options {
  std::optional<rational> copy_rate;                ///< GB/s of one core; measured if not given
  double probe_seconds = 0.2;                       ///< the measurement ends within about this time
  std::size_t probe_bytes = std::size_t{32} << 20;  ///< copied at a time; more than a core's caches
  std::string system_folder = "/sys/devices/system/node";  ///< where Linux describes NUMA nodes
};

/// The computer that runs this program (Linux): cores are ranks, NUMA memories are relays.
///
/// Rank i is the i-th core that this process may use (its affinity mask); its label is Linux's
/// number. A core has a link to and from the memory of its NUMA node with the rate of a copy by one
/// core, rounded down to 0.1 GB/s; two memories have links of that rate divided by their distance
/// in the firmware's table, where the own memory has 10. What all cores together get out of one
/// memory is not limited: relays have no capacity of their own.
///
/// Time:   options.probe_seconds, or none if the rate is given.
/// Post:   `validate` accepts the machine, and all ranks are connected.
/// Throws: input_error if Linux does not tell the cores; precondition_error if options.copy_rate is
///         below 0.1.
[[nodiscard]] topology this_machine(host_options const& options = {});

inline topology this_machine(host_options const& options) {
  constexpr std::int64_t steps_per_unit = 10;
  auto const cores = detail::usable_cores();
  auto const folders = detail::numa_nodes(options.system_folder);
  double const rate = options.copy_rate
                          ? options.copy_rate->to_double()
                          : detail::copy_rate(options.probe_bytes, options.probe_seconds);
  auto const steps = static_cast<std::int64_t>(std::floor(rate * steps_per_unit + 1e-6));
  expects(steps > 0 || !options.copy_rate, "this_machine: copy_rate below 0.1 GB/s");
  auto const own = std::max(steps, std::int64_t{1});

  topology machine;
  machine.name = "host";
  machine.steps_per_unit = steps_per_unit;
  for (int const core : cores) {
    machine.nodes.push_back({static_cast<int>(machine.nodes.size()), node_kind::rank,
                             "core" + std::to_string(core), 0});
  }
  auto const add_duplex = [&](int a, int b, std::int64_t capacity, link_kind kind) {
    machine.links.push_back({a, b, capacity, 0, kind});
    machine.links.push_back({b, a, capacity, 0, kind});
  };
  // A memory for each NUMA node that has one of the cores; cores that no node claims have the first.
  std::map<std::size_t, int> memory;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    std::size_t home = 0;
    while (home < folders.size() && !folders[home].cores.contains(cores[i])) ++home;
    if (home == folders.size()) home = 0;
    auto const [at, is_new] = memory.emplace(home, static_cast<int>(machine.nodes.size()));
    if (is_new) {
      machine.nodes.push_back(
          {at->second, node_kind::relay, "memory" + std::to_string(folders[home].number), 0});
    }
    add_duplex(static_cast<int>(i), at->second, own, link_kind::memory);
  }
  for (auto a = memory.begin(); a != memory.end(); ++a) {
    for (auto b = std::next(a); b != memory.end(); ++b) {
      auto const distance = detail::distance_between(folders, a->first, b->first);
      add_duplex(a->second, b->second, std::max<std::int64_t>(own * 10 / distance, 1),
                 link_kind::socket);
    }
  }
  validate(machine);
  return machine;
}

}}  // namespace blink::BLINK_ABI
