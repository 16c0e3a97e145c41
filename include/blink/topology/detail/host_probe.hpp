// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <sched.h>

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <memory>
#include <optional>
#include <set>
#include <sstream>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

// What Linux says about cores and memories, and how fast one core copies.

namespace blink { inline namespace BLINK_ABI { namespace detail {

struct numa_node {
  int number = 0;
  std::set<int> cores;
  std::vector<int> distance;  ///< to each node, in the order of their numbers; may be empty
};

/// "0-3,8" as a set; nothing for text of another form. Linux has fewer than `most` cores.
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
  for (int room = 1024; room <= 1 << 20; room *= 2) {  // grows until the kernel's mask fits
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
  throw input_error("sched_getaffinity: no answer, expected the cores of this process");
}

/// The NUMA nodes that the folder describes, by number; at least one, which may be empty.
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

/// Positions a and b in `nodes`; 20, the usual value for a neighbour, where the table is missing.
inline int distance_between(std::vector<numa_node> const& nodes, std::size_t a, std::size_t b) {
  auto const& row = nodes[a].distance;
  return row.size() == nodes.size() && row[b] >= 10 ? row[b] : 20;
}

/// GB/s that this thread copies from memory to memory: the median of copies of `bytes`, at least
/// three, until `seconds` have passed.
inline double copy_rate(std::size_t bytes, double seconds) {
  using clock = std::chrono::steady_clock;
  auto const since = [](clock::time_point start) {
    return std::chrono::duration<double>(clock::now() - start).count();
  };
  expects(bytes > 0, "copy_rate: nothing to copy");
  auto const from = std::make_unique<std::byte[]>(bytes);  // zeros: the pages exist
  auto const to = std::make_unique<std::byte[]>(bytes);
  std::vector<double> samples;
  auto const start = clock::now();
  while (samples.size() < 3 || since(start) < seconds) {
    from[samples.size() % bytes] = static_cast<std::byte>(samples.size());
    auto const begin = clock::now();
    std::memcpy(to.get(), from.get(), bytes);
    samples.push_back(std::max(since(begin), 1e-9));
    // The copy is used, so it is made.
    expects(to[(samples.size() - 1) % bytes] == static_cast<std::byte>(samples.size() - 1),
            "copy_rate: the copy differs");
  }
  auto const middle = samples.begin() + static_cast<std::ptrdiff_t>(samples.size() / 2);
  std::nth_element(samples.begin(), middle, samples.end());
  return static_cast<double>(bytes) / *middle * 1e-9;
}

}}}  // namespace blink::BLINK_ABI::detail
