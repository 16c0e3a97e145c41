// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/topology.hpp>

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

// Cores and memories as Linux lists them, and the rate at which one core copies.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A NUMA node as Linux describes it.
struct numa_node {
  int number = 0;
  std::set<int> cores;
  std::vector<int> distance;  ///< to each node, in the order of numbers; empty if unknown
};

/// The cores of a list such as "0-3,8"; nothing for text of another form or for a core beyond
/// `most`, because Linux has fewer.
inline std::optional<std::set<int>> read_core_list(std::string_view text, int most = 1 << 16) {
  std::set<int> result;
  while (!text.empty() && (text.back() == '\n' || text.back() == ' ')) text.remove_suffix(1);
  while (!text.empty()) {
    int first = 0;
    auto parsed = std::from_chars(text.data(), text.data() + text.size(), first);
    if (parsed.ec != std::errc{} || first < 0) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    int last = first;
    if (text.starts_with('-')) {
      text.remove_prefix(1);
      parsed = std::from_chars(text.data(), text.data() + text.size(), last);
      if (parsed.ec != std::errc{} || last < first) return std::nullopt;
      text.remove_prefix(static_cast<std::size_t>(parsed.ptr - text.data()));
    }
    if (last >= most) return std::nullopt;
    for (int core = first; core <= last; ++core) result.insert(core);
    if (text.empty()) return result;
    if (!text.starts_with(',')) return std::nullopt;
    text.remove_prefix(1);
    if (text.empty()) return std::nullopt;
  }
  return result;
}

/// The cores that this process may use, in ascending order.
inline std::vector<int> usable_cores() {
  for (int room = 1024; room <= 1 << 20; room *= 2) {  // until the kernel's mask fits
    auto const free = [](cpu_set_t* set) { CPU_FREE(set); };
    std::unique_ptr<cpu_set_t, decltype(free)> const set(CPU_ALLOC(static_cast<std::size_t>(room)),
                                                         free);
    auto const bytes = CPU_ALLOC_SIZE(static_cast<std::size_t>(room));
    if (set == nullptr || sched_getaffinity(0, bytes, set.get()) != 0) continue;
    std::vector<int> result;
    for (int core = 0; core < room; ++core) {
      if (CPU_ISSET_S(static_cast<std::size_t>(core), bytes, set.get())) result.push_back(core);
    }
    if (!result.empty()) return result;
  }
  throw input_error("sched_getaffinity: failed, expected the cores of this process");
}

/// The NUMA nodes that the folder describes, by number. If it describes none, one without cores.
inline std::vector<numa_node> numa_nodes(std::string const& folder) {
  std::vector<numa_node> result;
  std::error_code fault;
  for (auto entry = std::filesystem::directory_iterator(folder, fault);
       !fault && entry != std::filesystem::directory_iterator(); entry.increment(fault)) {
    auto const name = entry->path().filename().string();
    if (!name.starts_with("node")) continue;
    numa_node node;
    auto const [end, failure] =
        std::from_chars(name.data() + 4, name.data() + name.size(), node.number);
    if (failure != std::errc{} || end != name.data() + name.size()) continue;
    std::string line;
    std::getline(std::ifstream(entry->path() / "cpulist") >> std::ws, line);
    if (auto cores = read_core_list(line)) node.cores = *std::move(cores);
    std::ifstream distances(entry->path() / "distance");
    for (int value = 0; distances >> value;) node.distance.push_back(value);
    result.push_back(std::move(node));
  }
  std::sort(result.begin(), result.end(),
            [](auto const& a, auto const& b) { return a.number < b.number; });
  if (result.empty()) result.emplace_back();
  return result;
}

/// The distance of the nodes at positions `a` and `b`. Without a table it is the usual value for
/// neighbours.
inline int distance_between(std::vector<numa_node> const& nodes, std::size_t a, std::size_t b) {
  auto const& row = nodes[a].distance;
  return row.size() == nodes.size() && row[b] >= 10 ? row[b] : 20;
}

/// The rate at which this thread copies from memory to memory, in GB/s. It is the median of copies
/// of `bytes`, made until `seconds` have passed, and of three at least.
inline double copy_rate(std::size_t bytes, double seconds) {
  using clock = std::chrono::steady_clock;
  auto const since = [](clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
  };
  expects(bytes > 0, "copy_rate: 0 bytes, expected a positive number");
  auto const from = std::make_unique<std::byte[]>(bytes);  // zeros, so that the pages exist
  auto const to = std::make_unique<std::byte[]>(bytes);
  std::vector<double> samples;
  auto const start = clock::now();
  while (samples.size() < 3 || since(start) < seconds) {
    from[samples.size() % bytes] = static_cast<std::byte>(samples.size());
    auto const begin = clock::now();
    std::memcpy(to.get(), from.get(), bytes);
    samples.push_back(std::max(since(begin), 1e-9));
    // The result is read, so that the compiler keeps the copy.
    expects(to[(samples.size() - 1) % bytes] == static_cast<std::byte>(samples.size() - 1),
            "copy_rate: the copy differs");
  }
  auto const middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return static_cast<double>(bytes) / *middle * 1e-9;
}

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// Choices for `this_machine`.
struct host_options {
  std::optional<rational> copy_rate;                ///< GB/s of one core; measured if absent
  double probe_seconds = 0.2;                       ///< duration of the measurement
  std::size_t probe_bytes = std::size_t{32} << 20;  ///< of one copy; larger than a core's caches
  std::string system_folder = "/sys/devices/system/node";  ///< Linux's NUMA nodes
};

/// The Linux computer that runs this program. Cores are ranks, NUMA memories are switches.
///
/// - Rank i is the i-th core in the affinity mask of this process. Its label has Linux's number.
/// - A core has links to and from the memory of its NUMA node. Their capacity is the copy rate of
///   one core, rounded down to a tenth of a GB/s.
/// - Two memories have links of that rate times 10 / distance. The distance is that of the
///   firmware's table, in which a memory has the distance 10 to itself.
/// - The joint rate of all cores of one memory is not limited, because switches have no capacity.
///
/// Time:   options.probe_seconds, or none if the rate is given.
/// Post:   `validate` accepts the machine, and all ranks are connected.
/// Throws: input_error if Linux does not list the cores; precondition_error if options.copy_rate is
///         below 0.1 GB/s.
[[nodiscard]] topology this_machine(host_options const& options = {});

inline topology this_machine(host_options const& options) {
  constexpr std::int64_t steps_per_unit = 10;
  auto const cores = detail::usable_cores();
  auto const folders = detail::numa_nodes(options.system_folder);
  double const rate = options.copy_rate
                          ? options.copy_rate->to_double()
                          : detail::copy_rate(options.probe_bytes, options.probe_seconds);
  auto const steps = static_cast<std::int64_t>(std::floor(rate * steps_per_unit + 1e-6));
  expects(steps > 0 || !options.copy_rate,
          "this_machine: a copy_rate below 0.1 GB/s, expected 0.1 or more");
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
  // A memory for each NUMA node with one of the cores. A core of no node uses the first one.
  std::map<std::size_t, int> memory;
  for (std::size_t i = 0; i < cores.size(); ++i) {
    std::size_t home = 0;
    while (home < folders.size() && !folders[home].cores.contains(cores[i])) ++home;
    if (home == folders.size()) home = 0;
    auto const [at, is_new] = memory.emplace(home, static_cast<int>(machine.nodes.size()));
    if (is_new) {
      machine.nodes.push_back(
          {at->second, node_kind::switch_node, "memory" + std::to_string(folders[home].number), 0});
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
