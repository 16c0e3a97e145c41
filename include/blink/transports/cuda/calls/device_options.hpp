// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Options of a communicator of devices.
struct device_options {
  /// by rank of this process; a device that is listed several times has several ranks
  std::vector<int> devices;
  std::uint32_t window = 4;                       ///< slots of a connection: chunks in flight
  std::size_t slot_bytes = std::size_t{1} << 18;  ///< the largest chunk
  /// the longest time without progress
  std::chrono::nanoseconds deadline = std::chrono::seconds(30);
  std::uint32_t threads = 0;                      ///< of a block; 0: the largest number for which
                                                  ///< all blocks run at once
  std::size_t memory_cap = std::size_t{1} << 30;  ///< bytes on each device
  bool checks_places = true;  ///< true: each call asks the driver in whose memory its buffers are
  bool checks_calls = true;   ///< true: each call is compared with those of other processes
  /// Costs for choosing chunks that the schedule leaves open. Estimates until they are measured.
  pipeline_costs costs{4e-6, 2e10, 0};
  std::size_t packet_slot_bytes = std::size_t{1}
                                  << 13;  ///< of connections of packets; half of it is data
  /// Costs for choosing between chunks and packets. Estimates until they are measured.
  protocol_costs protocols{};
  /// Called before each allocation on a device; may throw to refuse it.
  memory_listener on_memory{};
};

/// Returns a hash of the options that are the same in all processes of a communicator.
[[nodiscard]] inline std::uint64_t hash(device_options const& options) {
  detail::hash all;
  for (std::uint64_t const number :
       {std::uint64_t{options.window}, std::uint64_t{options.slot_bytes},
        std::uint64_t{options.packet_slot_bytes}, std::uint64_t{options.checks_calls}}) {
    all.add(number);
  }
  for (double const cost : {options.costs.chunk_seconds, options.costs.bytes_per_second,
                            options.costs.latency_seconds, options.protocols.chunk_seconds,
                            options.protocols.packet_seconds, options.protocols.bytes_per_second}) {
    all.add(cost);
  }
  return all.value();
}

/// Throws: precondition_error if an option is out of range.
inline void validate(device_options const& options) {
  expects(!options.devices.empty(),
          "device_options: devices is empty, expected the device of at least one rank");
  if (options.devices.size() > device_call::most_ranks) {
    throw precondition_error("device_options: " + std::to_string(options.devices.size()) +
                             " ranks, expected at most " + std::to_string(device_call::most_ranks));
  }
  expects(options.window >= 1, "device_options: window out of range, expected >= 1");
  expects(options.slot_bytes >= 1, "device_options: slot_bytes out of range, expected >= 1");
  expects(options.packet_slot_bytes >= 1,
          "device_options: packet_slot_bytes out of range, expected >= 1");
  for (double const cost : {options.protocols.chunk_seconds, options.protocols.packet_seconds}) {
    expects(cost >= 0, "device_options: seconds of protocols out of range, expected >= 0");
  }
  expects(options.protocols.bytes_per_second > 0,
          "device_options: bytes_per_second of protocols out of range, expected > 0");
  expects(options.costs.chunk_seconds >= 0 && options.costs.bytes_per_second > 0 &&
              options.costs.latency_seconds >= 0 && options.costs.latency_seconds < 1e6,
          "device_options: costs out of range, expected chunk_seconds >= 0, bytes_per_second > 0, "
          "0 <= latency_seconds < 10^6");
  expects(options.deadline.count() > 0, "device_options: deadline out of range, expected > 0");
  expects(options.threads % 32 == 0 && options.threads <= 512,
          "device_options: threads out of range, expected a multiple of 32, at most 512");
}

}}  // namespace blink::BLINK_ABI
