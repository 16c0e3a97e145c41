// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/slot_turns.hpp>
#include <blink/running/connections/wire.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/transports/host/failure_tellers.hpp>
#include <blink/transports/host/link_parts.hpp>
#include <blink/transports/host/world_state.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Ranks of one process that hand each other copies through slots: a model for processes and
/// machines that do not reach each other's memory.
class slot_link {
 public:
  static constexpr bool reaches = false;
  static constexpr bool is_shaped = false;
  static constexpr bool shares_memory = true;

  slot_link() = default;
  explicit slot_link(link_parts const& parts)
      : parts_(parts), wires_(parts.plan->tables().wires()) {}

  [[nodiscard]] int rank() const { return parts_.rank; }
  [[nodiscard]] int rank_count() const { return parts_.world->rank_count(); }
  [[nodiscard]] std::size_t slot_bytes() const { return parts_.plan->tables().layout().slot_bytes; }
  [[nodiscard]] bool is_present(int peer) const {
    return parts_.seen[peer] == parts_.call || finds_present(peer);
  }
  [[nodiscard]] bool is_aborted() const { return parts_.world->is_aborted(parts_.rank); }

  [[nodiscard]] bool has_room(std::uint32_t wire, std::uint64_t message) const {
    return message < observe(*wires_[wire].taken) + wires_[wire].window;
  }
  /// halvings: messages take the 2^halvings parts of a slot in turn, see `slot_turns.hpp`
  [[nodiscard]] std::byte* outbox(std::uint32_t wire, std::uint64_t message,
                                  std::uint32_t halvings = 0) const {
    auto const& at = wires_[wire];
    std::uint64_t const turn = message / at.window & ((std::uint64_t{1} << halvings) - 1);
    return at.slots + message % at.window * at.slot_bytes +
           turn * part_of_slot(at.slot_bytes, halvings);
  }
  void post(std::uint32_t wire, std::uint64_t message, std::size_t) const {
    publish(*wires_[wire].posted, message + 1);
    parts_.world->ring(wires_[wire].receiver);
  }
  [[nodiscard]] bool has_arrived(std::uint32_t wire, std::uint64_t message) const {
    return message < observe(*wires_[wire].posted);
  }
  [[nodiscard]] std::byte const* inbox(std::uint32_t wire, std::uint64_t message,
                                       std::uint32_t halvings = 0) const {
    return outbox(wire, message, halvings);
  }
  void take(std::uint32_t wire, std::uint64_t message) const {
    publish(*wires_[wire].taken, message + 1);
    parts_.world->ring(wires_[wire].sender);
  }
  [[nodiscard]] bool was_taken(std::uint32_t wire, std::uint64_t message) const {
    return message < observe(*wires_[wire].taken);
  }

 protected:
  [[nodiscard]] link_parts const& parts() const { return parts_; }
  [[nodiscard]] std::uint64_t latency_nanoseconds() const {
    return parts_.plan->latency_nanoseconds();
  }
  [[nodiscard]] shared_wire& wire_at(std::uint32_t wire) const { return wires_[wire]; }

 private:
  // Once for each peer and call: also compares what the two called.
  [[nodiscard]] bool finds_present(int peer) const {
    auto& world = *parts_.world;
    if (!world.has_entered(peer, parts_.call)) return false;
    if (!world.call_the_same(parts_.rank, peer, parts_.call)) {
      parts_.tell->unlike(world, parts_.rank, peer, parts_.call);
      return false;
    }
    parts_.seen[peer] = parts_.call;
    return true;
  }

  link_parts parts_;
  shared_wire* wires_ = nullptr;
};
BLINK_MODELS(transport<slot_link> && !reaching_transport<slot_link>);

/// Ranks that read and write each other's buffers: nothing is copied on the way. Threads of one
/// process, or processes whose buffers lie in the memory that they share.
class direct_link : public slot_link {
 public:
  static constexpr bool reaches = true;
  static constexpr bool presence_offers_input = true;
  using slot_link::slot_link;

  [[nodiscard]] void const* input_of(int peer) const {
    return parts().world->input_of(peer, parts().call);
  }
  [[nodiscard]] void* output_of(int peer) const {
    return parts().world->output_of(peer, parts().call);
  }
};
BLINK_MODELS(reaching_transport<direct_link>);

}}  // namespace blink::BLINK_ABI
