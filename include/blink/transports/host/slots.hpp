// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/slot_rotation.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/shared_state.hpp>
#include <blink/transports/host/transport_parts.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// A transport between ranks that share memory and pass copies through slots. It also models
/// processes and machines that do not reach each other's memory.
class slot_transport {
 public:
  static constexpr char const* name = "slots";  ///< in tuning tables
  static constexpr bool reaches = false;
  static constexpr bool is_shaped = false;
  static constexpr bool shares_memory = true;

  slot_transport() = default;
  explicit slot_transport(transport_parts const& parts)
      : parts_(parts), connections_(parts.prepared->tables().connections()) {}

  [[nodiscard]] int rank() const { return parts_.rank; }
  [[nodiscard]] int rank_count() const { return parts_.state->rank_count(); }
  [[nodiscard]] std::size_t slot_bytes() const {
    return parts_.prepared->tables().layout().slot_bytes;
  }
  [[nodiscard]] bool is_present(int peer) const {
    return parts_.seen[peer] == parts_.call || finds_present(peer);
  }
  [[nodiscard]] bool is_aborted() const { return parts_.state->is_aborted(parts_.rank); }

  [[nodiscard]] bool has_credit(std::uint32_t connection, std::uint64_t message) const {
    return connections_[connection].has_credit(message);
  }
  /// slot_subdivision: see `place_in_slots`
  [[nodiscard]] std::byte* outbox(std::uint32_t connection, std::uint64_t message,
                                  std::uint32_t slot_subdivision = 0) const {
    return place_in_slots(connections_[connection], message, slot_subdivision);
  }
  void post(std::uint32_t connection, std::uint64_t message, std::size_t) const {
    connections_[connection].post(message);
    parts_.state->ring(connections_[connection].receiver);
  }
  [[nodiscard]] bool has_arrived(std::uint32_t connection, std::uint64_t message) const {
    return connections_[connection].has_arrived(message);
  }
  [[nodiscard]] std::byte const* inbox(std::uint32_t connection, std::uint64_t message,
                                       std::uint32_t slot_subdivision = 0) const {
    return outbox(connection, message, slot_subdivision);
  }
  void consume(std::uint32_t connection, std::uint64_t message) const {
    connections_[connection].consume(message);
    parts_.state->ring(connections_[connection].sender);
  }
  [[nodiscard]] bool consumed(std::uint32_t connection, std::uint64_t message) const {
    return connections_[connection].has_consumed(message);
  }

 protected:
  [[nodiscard]] transport_parts const& parts() const { return parts_; }
  [[nodiscard]] std::uint64_t latency_nanoseconds() const {
    return parts_.prepared->latency_nanoseconds();
  }
  [[nodiscard]] shared_connection& connection_at(std::uint32_t connection) const {
    return connections_[connection];
  }

 private:
  // Called once for each peer and call. It also compares the calls of the two ranks.
  [[nodiscard]] bool finds_present(int peer) const {
    auto& state = *parts_.state;
    if (!state.has_entered(peer, parts_.call)) return false;
    if (!state.call_the_same(parts_.rank, peer, parts_.call)) {
      parts_.own->report_other_call(peer);
      return false;
    }
    parts_.seen[peer] = parts_.call;
    return true;
  }

  transport_parts parts_;
  shared_connection* connections_ = nullptr;
};
BLINK_MODELS(transport<slot_transport> && !reaching_transport<slot_transport>);

/// A transport between ranks that read and write each other's buffers, without a copy in between:
/// threads of one process, or processes whose buffers are in the memory that they share.
class direct_transport : public slot_transport {
 public:
  static constexpr char const* name = "direct memory";
  static constexpr bool reaches = true;
  static constexpr bool presence_offers_input = true;
  using slot_transport::slot_transport;

  [[nodiscard]] void const* input_of(int peer) const {
    return parts().state->input_of(peer, parts().call);
  }
  [[nodiscard]] void* output_of(int peer) const {
    return parts().state->output_of(peer, parts().call);
  }
};
BLINK_MODELS(reaching_transport<direct_transport>);

}}  // namespace blink::BLINK_ABI
