// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/topology/measured_rates.hpp>
#include <blink/transports/cuda/runtime/device_meter.hpp>
#include <blink/transports/cuda/runtime/probe_links.hpp>

#include <algorithm>
#include <cstddef>
#include <sstream>
#include <string>
#include <vector>

// What GPUs move between each other, as text for `blink probe --gpus`. It needs no compiler for
// GPUs, so that tests run it on emulated devices.

namespace blink::tools {

/// A number, or a list of numbers and lists, as JSON.
template <class T>
[[nodiscard]] std::string json_of(T const& what) {
  if constexpr (requires { what.begin(); }) {
    std::string result = "[";
    for (auto const& each : what) result += (result.size() > 1 ? "," : "") + json_of(each);
    return result + "]";
  } else {
    std::ostringstream result;
    result.precision(6);
    result << what;
    return result.str();
  }
}

[[nodiscard]] inline std::string json_of_rates(measured_rates const& rates) {
  std::string levels;
  for (auto const& each : rates.levels) {
    levels += (levels.empty() ? "" : ",") + std::string("{\"cluster_of\":") +
              json_of(each.cluster_of) + ",\"out\":" + json_of(each.out) +
              ",\"in\":" + json_of(each.in) + ",\"between\":" + json_of(each.between) + "}";
  }
  return "{\"alone\":" + json_of(rates.alone) + ",\"start_up\":" + json_of(rates.start_up) +
         ",\"between\":" + json_of(rates.between) + ",\"loaded\":" + json_of(rates.loaded) +
         ",\"out\":" + json_of(rates.out) + ",\"in\":" + json_of(rates.in) + ",\"levels\":[" +
         levels + "]}";
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
  std::string ids;
  for (int device = 0; device < driver.device_count(); ++device) {
    devices.push_back(device);
    ids += (device > 0 ? ",\"" : "\"") + bus_id(device) + "\"";
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
  return "{\"gpu_probe\":1,\"bus_ids\":[" + ids + "],\"bytes\":" + std::to_string(options.bytes) +
         ",\"refused\":" + json_of(refused) + ",\"lost\":" + json_of(lost) +
         ",\"peer\":" + json_of_rates(peer) + ",\"host\":" + json_of_rates(host) + "}\n";
}

}  // namespace blink::tools
