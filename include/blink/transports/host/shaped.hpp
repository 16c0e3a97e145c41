// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/message_times.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/host_wait.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Connections that are as slow as the physical links they represent, so that one machine can
/// imitate another.
///
/// The sender stamps each message with the time of its arrival (`stamp_message`) and continues. The
/// receiver waits for that time. Both are on one host and read its clock.
///
/// Transport: passes on copies. It has `latency_nanoseconds()`, and `connection_at(connection)` in
///            memory that both ends share.
template <transport Transport>
class shaped : public Transport {
  static_assert(!reaching_transport<Transport>,
                "blink: peers read these buffers directly, expected a transport that copies");

 public:
  static constexpr char const* name = "shaped links";
  static constexpr bool is_shaped = true;
  using Transport::Transport;

  void post(std::uint32_t connection, std::uint64_t message, std::size_t bytes) const {
    stamp_message(this->connection_at(connection), message, bytes, host_wait::now(),
                  this->latency_nanoseconds());
    Transport::post(connection, message, bytes);
  }
  [[nodiscard]] bool has_arrived(std::uint32_t connection, std::uint64_t message) const {
    return Transport::has_arrived(connection, message) &&
           is_due(this->connection_at(connection), message, host_wait::now());
  }
};

}}  // namespace blink::BLINK_ABI
