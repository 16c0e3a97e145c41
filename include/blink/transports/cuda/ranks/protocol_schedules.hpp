// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/running/walk/packet.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/schedule/pipeline.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/calls/device_schedule.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A schedule with what its calls need in the memory of devices, for each protocol that `Protocols`
/// may choose. A connection carries one protocol during its whole life, so each protocol has its
/// own connections.
///
/// Memory: as `device_schedule`, for each protocol. Packets always go through slots of
///         `packet_slot_bytes`, also where kernels reach buffers.
template <device_runtime Devices, protocol_chooser Protocols>
class protocol_schedules {
 public:
  static constexpr bool has_chunks = may_choose<Protocols, whole_chunks>;
  static constexpr bool has_packets = may_choose<Protocols, small_packets>;

  /// layout: of the connections of chunks
  /// others: null if all devices are of this process; otherwise all processes construct it together
  /// Throws: as `device_schedule`.
  protocol_schedules(Devices& driver, rank_placement const& where, device_memory_budget& budget,
                     schedule const& source, connection_layout const& layout,
                     pipeline_costs const& costs, host_processes* others,
                     std::size_t packet_slot_bytes) {
    if constexpr (has_chunks) chunks_.emplace(driver, where, budget, source, layout, costs, others);
    if constexpr (has_packets) {
      connection_layout own = layout;
      own.reaches = false;
      own.has_packets = true;
      own.slot_bytes = packet_slot_bytes;
      own.window = static_cast<std::uint32_t>(
          std::min<std::uint64_t>(layout.window, packets_of::most_window));
      packets_.emplace(driver, where, budget, source, own, costs, others);
    }
    for (auto const kind : prepared().carries()) {
      steps_[static_cast<std::size_t>(kind)] = steps_of(source, kind);
    }
  }

  /// The schedule as prepared for one of the protocols, for queries that do not depend on the
  /// protocol.
  [[nodiscard]] prepared_schedule const& prepared() const {
    if constexpr (has_chunks) return chunks_->prepared();
    if constexpr (!has_chunks) return packets_->prepared();
  }
  /// The schedule for this protocol.
  ///
  /// Pre: `Protocols` may choose it.
  template <connection_protocol Protocol>
  [[nodiscard]] device_schedule<Devices>& with() {
    static_assert(may_choose<Protocols, Protocol>);
    if constexpr (std::is_same_v<Protocol, small_packets>) return *packets_;
    if constexpr (!std::is_same_v<Protocol, small_packets>) return *chunks_;
  }
  /// Calls `use` with the schedule of each protocol.
  template <class Use>
  void each(Use const& use) {
    if (chunks_) use(*chunks_);
    if (packets_) use(*packets_);
  }

  /// True if the largest message of a call should go by packets. That requires that it fits into
  /// its window, because tasks may then share blocks.
  ///
  /// trees: of the call, for either protocol
  /// Pre:   the schedule carries the collective, and there are both protocols.
  [[nodiscard]] bool prefers_packets(Protocols const& choose, collective kind,
                                     std::vector<tree_call> const& trees,
                                     element_sizes const& sizes) const {
    std::uint64_t most = 0;
    for (auto const& tree : trees) most = std::max(most, tree.count);
    auto const& layout = packets_->prepared().tables().layout();
    std::size_t const room = packets_of::most_chunk_bytes(layout.slot_bytes, sizes);
    if (most > layout.window * (room / sizes.largest())) return false;
    auto const bytes = static_cast<std::size_t>(most) * sizes.largest();
    return choose(steps_[static_cast<std::size_t>(kind)], bytes) == protocol_choice::small_packets;
  }

  /// Resets every connection to its state before the first message.
  ///
  /// Pre: no call is running.
  void restart() {
    each([](auto& one) { one.restart(); });
  }

  /// Returns the traffic of each edge so far, as chunks and as packets. Waiting times are known
  /// only for chunks.
  ///
  /// Pre: no call is running.
  [[nodiscard]] std::vector<edge_report> edges() {
    std::vector<edge_report> result;
    each([&](auto& one) {
      auto const own = one.edges();
      if (result.empty()) {
        result = own;
        return;
      }
      for (std::size_t k = 0; k < own.size(); ++k) {
        result[k].bytes += own[k].bytes;
        result[k].chunks += own[k].chunks;
        result[k].sender_seconds += own[k].sender_seconds;
        result[k].receiver_seconds += own[k].receiver_seconds;
      }
    });
    return result;
  }

 private:
  std::optional<device_schedule<Devices>> chunks_, packets_;
  // by collective, of those that the schedule carries
  std::array<int, collective_names.size()> steps_{};
};

/// Returns a schedule with each tree repeated `ways` times, each with an equal part of the tree's
/// share. There are `ways` times as many tasks, so that more blocks move the data. One block does
/// not saturate a link between GPUs, or the memory of one.
///
/// Pre:  ways >= 1; the weights sum to less than 2^63.
/// Post: every link carries the same load as before; shares differ from those before only by
///       rounding to cache lines.
[[nodiscard]] inline schedule replicate_trees(schedule const& source, int ways) {
  expects(ways >= 1, "replicate_trees: ways is 0 or less, expected >= 1");
  schedule result = source;
  result.trees.clear();
  for (auto const& tree : source.trees) {
    for (int way = 0; way < ways; ++way) result.trees.push_back(tree);
  }
  validate(result);  // repeated weights may exceed the limit
  return result;
}

}}  // namespace blink::BLINK_ABI
