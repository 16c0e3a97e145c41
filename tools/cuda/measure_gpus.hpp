// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/topology/measured_rates.hpp>
#include <blink/transports/cuda/runtime/device_meter.hpp>
#include <blink/transports/cuda/runtime/probe_links.hpp>

#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

// What GPUs move between each other, as text for `blink probe --gpus`. It needs no compiler for
// GPUs, so that tests run it on emulated devices.

namespace blink::tools {

[[nodiscard]] inline nlohmann::ordered_json as_json(measured_rates const& rates) {
  auto levels = nlohmann::ordered_json::array();
  for (auto const& each : rates.levels) {
    levels.push_back({{"cluster_of", each.cluster_of},
                      {"out", each.out},
                      {"in", each.in},
                      {"between", each.between}});
  }
  return {{"alone", rates.alone},   {"start_up", rates.start_up}, {"between", rates.between},
          {"loaded", rates.loaded}, {"out", rates.out},           {"in", rates.in},
          {"levels", levels}};
}

/// Measures all devices: which pairs have access to each other, then what both kinds of routes
/// move, each in half of the time.
///
/// bus_id: of a device, such as "0000:06:00.0"
/// Returns: an object of JSON with `gpu_probe` (format 1), `bus_ids`, `bytes`, `refused` and `lost`
///          (pairs of positions), and the rates `peer` and `host`
/// Throws:  device_error, also without a device.
template <polled_runtime Devices, class BusId>
[[nodiscard]] std::string measure_gpus(Devices& driver, device_probe_options options,
                                       BusId const& bus_id) {
  std::vector<int> devices;
  std::vector<std::string> ids;
  for (int device = 0; device < driver.device_count(); ++device) {
    devices.push_back(device);
    ids.push_back(bus_id(device));
  }
  if (devices.empty()) throw device_error("no GPU is visible, expected one or more");
  constexpr std::size_t most_tested = std::size_t{1} << 20;  // bytes
  std::vector<std::vector<int>> refused, lost;
  for (auto const& each : probe_links(driver, devices, {std::min(options.bytes, most_tested), 1})) {
    if (!each.reaches) {
      refused.push_back({each.from, each.to});
    } else if (!each.arrives) {
      lost.push_back({each.from, each.to});
    }
  }
  options.seconds /= 2;
  auto const peer = probe_devices(driver, devices, device_route::peer, options);
  auto const host = probe_devices(driver, devices, device_route::host, options);
  nlohmann::ordered_json const all{
      {"gpu_probe", 1}, {"bus_ids", ids},        {"bytes", options.bytes}, {"refused", refused},
      {"lost", lost},   {"peer", as_json(peer)}, {"host", as_json(host)}};
  return all.dump() + "\n";
}

}  // namespace blink::tools
