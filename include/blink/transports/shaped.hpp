// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>
#include <blink/transports/message_times.hpp>
#include <blink/transports/patience.hpp>
#include <blink/transports/slots.hpp>
#include <blink/transports/world.hpp>

#include <cstddef>
#include <cstdint>

namespace blink::inline BLINK_ABI {

/// Threads joined by wires that are as slow as the physical links they stand for, so that a machine
/// can be tried on another one.
///
/// The sender stamps each message with the time of its arrival (`stamp_message` has the rule) and goes
/// on; the receiver waits for that time.
class shaped_link : public slot_link {
 public:
  static constexpr bool is_shaped = true;
  using slot_link::slot_link;

  void post(std::uint32_t wire, std::uint64_t message, std::size_t bytes) const {
    stamp_message(wire_at(wire), message, bytes, host_patience::now(),
                  parts().plan->latency_nanoseconds());
    slot_link::post(wire, message, bytes);
  }
  [[nodiscard]] bool has_arrived(std::uint32_t wire, std::uint64_t message) const {
    return slot_link::has_arrived(wire, message) &&
           is_due(wire_at(wire), message, host_patience::now());
  }
};
static_assert(transport<shaped_link> && !reaching_transport<shaped_link>);

/// A world whose ranks are threads and whose links have the rates that its schedules name.
using shaped_world = basic_world<shaped_link>;

}  // namespace blink::inline BLINK_ABI
