// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/message_times.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/patience.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Wires that are as slow as the physical links they stand for, so that a machine can be tried on another
/// one.
///
/// The sender stamps each message with the time of its arrival (`stamp_message` has the rule) and goes
/// on; the receiver waits for that time. Both are on one host, whose clock they look at.
///
/// Link: hands on copies, and has `wire_at(wire)`, whose memory for times both ends share, and
///       `latency_nanoseconds()`
template <transport Link>
class shaped : public Link {
  static_assert(!reaching_transport<Link>, "blink: what peers read directly is not delayed");

 public:
  static constexpr bool is_shaped = true;
  using Link::Link;

  void post(std::uint32_t wire, std::uint64_t message, std::size_t bytes) const {
    stamp_message(this->wire_at(wire), message, bytes, host_patience::now(),
                  this->latency_nanoseconds());
    Link::post(wire, message, bytes);
  }
  [[nodiscard]] bool has_arrived(std::uint32_t wire, std::uint64_t message) const {
    return Link::has_arrived(wire, message) &&
           is_due(this->wire_at(wire), message, host_patience::now());
  }
};

}}  // namespace blink::BLINK_ABI
