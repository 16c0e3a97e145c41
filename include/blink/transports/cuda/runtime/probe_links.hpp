// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/topology.hpp>
#include <blink/topology/without_routes.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_handles.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The access of one device to the memory of another one.
struct link_probe {
  int from = 0;  ///< rank: position in the list of devices
  int to = 0;
  bool reaches = false;  ///< true if the driver allows it
  bool arrives = false;  ///< true if data written by copies and by kernels was read back there
  double bytes_per_second = 0;  ///< of copies
};

/// The size and the number of the copies that `probe_links` makes.
struct link_probe_options {
  std::size_t bytes = std::size_t{16} << 20;  ///< of a copy
  int copies = 8;                             ///< number of timed copies
};

namespace detail {

// Different at each position and for each pair, so that old content is never mistaken for new.
inline std::vector<unsigned char> probe_pattern(std::size_t bytes, int from, int to) {
  std::vector<unsigned char> result(bytes);
  std::uint64_t state = 0x9e3779b97f4a7c15U * static_cast<std::uint64_t>(1 + from * 1000 + to);
  for (auto& each : result) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    each = static_cast<unsigned char>(state >> 56);
  }
  return result;
}

}  // namespace detail

/// Tests writes from each device into the memory of each other one, by its copy engine and by a
/// kernel; measures the rate of copies. Some machines let devices write to each other and lose the
/// data, for instance if an IOMMU is in between.
///
/// devices: without duplicates
/// Needs:   two buffers of `bytes` at a time.
/// Throws:  precondition_error for options out of range; device_error.
template <device_runtime Devices>
[[nodiscard]] std::vector<link_probe> probe_links(Devices& driver, std::vector<int> const& devices,
                                                  link_probe_options const& options = {}) {
  expects(options.bytes > 0 && options.copies > 0,
          "probe_links: options out of range, expected bytes > 0 and copies > 0");
  std::vector<link_probe> result;
  for (std::size_t from = 0; from < devices.size(); ++from) {
    for (std::size_t to = 0; to < devices.size(); ++to) {
      if (from == to) continue;
      int const here = devices[from], there = devices[to];
      link_probe probe;
      probe.from = static_cast<int>(from);
      probe.to = static_cast<int>(to);
      probe.reaches = driver.reach(here, there);
      if (probe.reaches) {
        device_allocation<Devices> const source(driver, here, options.bytes);
        device_allocation<Devices> const target(driver, there, options.bytes);
        device_stream<Devices> const own(driver, here);
        auto const stream = own.get();
        auto const pattern = detail::probe_pattern(options.bytes, probe.from, probe.to);
        driver.write(here, source.get(), pattern.data(), options.bytes);
        std::vector<unsigned char> found(options.bytes);
        auto const has_arrived = [&] {
          driver.synchronize(here, stream);
          driver.read(there, found.data(), target.get(), options.bytes);
          return found == pattern;
        };
        driver.clear(there, target.get(), options.bytes);
        driver.copy_between(there, target.get(), here, source.get(), options.bytes, stream);
        probe.arrives = has_arrived();
        driver.clear(there, target.get(), options.bytes);
        copy_step step;
        step.here.reads_input = true;
        step.here.count = step.here.chunk = step.here.stride = options.bytes;
        step.here.chunks = 1;
        step.here.out_count = 1;
        step.out.at = target.get();
        step.input = source.get();
        step.rank_count = 2;
        driver.template combine<unsigned char>(here, step, detail::no_reducer{}, stream);
        probe.arrives = has_arrived() && probe.arrives;
        auto const begin = std::chrono::steady_clock::now();
        for (int k = 0; k < options.copies; ++k) {
          driver.copy_between(there, target.get(), here, source.get(), options.bytes, stream);
        }
        driver.synchronize(here, stream);
        std::chrono::duration<double> const elapsed = std::chrono::steady_clock::now() - begin;
        probe.bytes_per_second =
            static_cast<double>(options.bytes) * options.copies / std::max(elapsed.count(), 1e-9);
      }
      result.push_back(probe);
    }
  }
  return result;
}

/// Returns the machine without the routes that lose data in one direction or both. One direction is
/// enough, because flags and credits go the other way. If such a route is a direct link, that link
/// is removed. If it leads over switches or processors, one of its links is removed: the one that
/// the fewest other routes use (see `without_routes`).
///
/// Copy engines go through memory of the host if the driver refuses a route (`reaches`). For copy
/// engines, leave such probes out.
///
/// probes: of the devices in the order of the machine's ranks
/// Throws: input_error if the remaining links do not join all ranks.
[[nodiscard]] inline topology without_false_links(topology const& machine,
                                                  std::vector<link_probe> const& probes) {
  std::vector<std::pair<int, int>> lost;
  std::string names;
  for (auto const& probe : probes) {
    if (probe.reaches && probe.arrives) continue;
    lost.emplace_back(probe.from, probe.to);
    names += " " + std::to_string(probe.from) + "-" + std::to_string(probe.to) +
             (probe.reaches ? "" : " (refused)");
  }
  auto result = without_routes(machine, lost);
  try {
    require_connected(result);
  } catch (input_error const& why) {
    throw input_error(std::string(why.what()) + ", without the routes that lose data:" + names);
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
