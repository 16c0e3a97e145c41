// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/pipeline.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>

#include <chrono>
#include <cstddef>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Options of a communicator over NCCL.
struct nccl_options {
  std::size_t slot_bytes = std::size_t{1} << 20;  ///< the largest chunk
  /// the longest time without progress
  std::chrono::nanoseconds deadline = std::chrono::seconds(30);
  std::size_t memory_cap = std::size_t{1} << 30;  ///< bytes on each device
  bool checks_places = true;  ///< true: each call asks the driver in whose memory its buffers are
  /// Costs of a group, for choosing chunks that the schedule leaves open. Estimates until they are
  /// measured.
  pipeline_costs costs{2e-5, 2e10, 0};
  memory_listener on_memory{};  ///< as `device_options::on_memory`
};

/// Returns the options of communicators of devices that correspond to these.
[[nodiscard]] inline device_options device_options_of(nccl_options const& options,
                                                      std::vector<int> const& devices) {
  device_options result;
  result.devices = devices;
  result.slot_bytes = options.slot_bytes;
  result.deadline = options.deadline;
  result.memory_cap = options.memory_cap;
  result.checks_places = options.checks_places;
  result.costs = options.costs;
  result.on_memory = options.on_memory;
  return result;
}

/// Throws: precondition_error if an option is out of range.
inline void validate(nccl_options const& options) {
  expects(options.slot_bytes >= 1, "nccl_options: slot_bytes out of range, expected >= 1");
  expects(options.deadline.count() > 0, "nccl_options: deadline out of range, expected > 0");
  expects(options.costs.chunk_seconds >= 0 && options.costs.bytes_per_second > 0 &&
              options.costs.latency_seconds >= 0,
          "nccl_options: costs out of range, expected chunk_seconds >= 0, bytes_per_second > 0, "
          "latency_seconds >= 0");
}

}}  // namespace blink::BLINK_ABI
