// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/connection_place.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/kernels/step_tasks.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/nccl/transfer_rounds.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A schedule for sends and receives. The ranks of this process have slots for chunks to combine
/// after arrival, for chunks that are only forwarded, and for partial results to send. Chunks that
/// arrive at their final place need no slot.
///
/// Memory: at most two slots at the receiver of a connection and one at its sender, if these ranks
///         are of this process. The length of the buffers does not matter. A connection without
///         slots takes a few bytes.
template <device_runtime Devices>
class nccl_schedule {
 public:
  /// Throws: precondition_error if `source` is no schedule, or a rank has more children than one
  ///         kernel combines; resource_error if the budget does not suffice; device_error.
  nccl_schedule(Devices& driver, rank_placement const& where, device_memory_budget& budget,
                schedule const& source, connection_layout const& layout,
                pipeline_costs const& costs)
      : prepared_(source, detail::without_slots(layout), costs),
        first_rank_(where.first_rank),
        ranks_here_(where.ranks_here) {
    detail::expect_few_sources(prepared_);
    for (auto const& tree : source.trees) {
      heights_.push_back(tree.reduce_parent.empty()
                             ? 0
                             : static_cast<std::uint64_t>(tree_height(tree.reduce_parent)));
    }
    auto const& places = prepared_.tables().places();
    std::map<int, std::size_t> bytes;
    for (auto const& place : places) {
      if (is_here(place.from)) bytes[device_of(where, place.from)] += bytes_of(slots_before(place));
      if (is_here(place.to)) bytes[device_of(where, place.to)] += bytes_of(slots_behind(place));
    }
    std::map<int, std::byte*> next;
    for (auto const& [device, sum] : bytes) {
      device_memory_use const use{0, sum, 0};
      auto& block = memory_.emplace_back(driver, budget, device, use, "the schedule");
      driver.clear(device, block.get(), sum);  // meaningless bytes are also sent from there
      next[device] = block.get();
    }
    for (auto const& place : places) {
      auto const deal = [&](int rank, std::uint32_t slots) -> slot_range {
        if (!is_here(rank)) return {};
        auto& at = next[device_of(where, rank)];
        slot_range const result{at, slots};
        at += bytes_of(slots);
        return result;
      };
      outboxes_.push_back(deal(place.from, slots_before(place)));
      inboxes_.push_back(deal(place.to, slots_behind(place)));
    }
  }
  nccl_schedule(nccl_schedule const&) = delete;
  nccl_schedule& operator=(nccl_schedule const&) = delete;

  [[nodiscard]] prepared_schedule& prepared() { return prepared_; }
  [[nodiscard]] prepared_schedule const& prepared() const { return prepared_; }

  /// The address of a chunk before it is sent.
  ///
  /// Pre: the sender is of this process.
  [[nodiscard]] std::byte* outbox(std::uint32_t connection, std::uint64_t chunk) const {
    return slot(outboxes_[connection], chunk);
  }
  /// The address at which a chunk arrives that is then used or forwarded.
  ///
  /// Pre: the receiver is of this process.
  [[nodiscard]] std::byte* inbox(std::uint32_t connection, std::uint64_t chunk) const {
    return slot(inboxes_[connection], chunk);
  }

  /// The tasks of the ranks of this process, and the rounds in which they begin.
  ///
  /// Time: O(tasks * depth).
  [[nodiscard]] std::vector<timed_task> tasks(collective kind) const {
    std::vector<timed_task> result;
    for (int rank = first_rank_; rank < first_rank_ + ranks_here_; ++rank) {
      auto const own = prepared_.tables().tasks(rank, kind);
      for (std::size_t k = 0; k < own.count; ++k) {
        auto& here = own.first[k];
        std::uint64_t const height = has_reduce_phase(kind) ? heights_[here.tree] : 0;
        auto const& tree = prepared_.source().trees[here.tree];
        result.push_back({{&here, rank}, first_round(tree, here, rank, height)});
      }
    }
    return result;
  }

  /// The first rank of this process.
  [[nodiscard]] int first_rank() const { return first_rank_; }
  /// True if a rank is of this process.
  [[nodiscard]] bool is_here(int rank) const {
    return rank >= first_rank_ && rank < first_rank_ + ranks_here_;
  }
  /// Never releases the slots, because kernels may still use them.
  void leak_memory() {
    for (auto& each : memory_) each.keep_for_ever();
  }

 private:
  static constexpr std::size_t line = 128;
  struct slot_range {
    std::byte* first = nullptr;
    std::uint32_t count = 0;
  };

  [[nodiscard]] static int device_of(rank_placement const& where, int rank) {
    return where.device_of[static_cast<std::size_t>(rank)];
  }
  [[nodiscard]] static std::uint32_t slots_behind(connection_place const& place) {
    if (place.is_reduce) return 1;
    return place.receiver_keeps ? 0 : 2;
  }
  [[nodiscard]] std::uint32_t slots_before(connection_place const& place) const {
    if (place.is_reduce) return 1;
    bool const reduces = !prepared_.source().trees[place.tree].reduce_parent.empty();
    return reduces && place.sender_is_source && !place.sender_keeps ? 1 : 0;
  }
  /// A connection without slots has a place for messages without elements.
  [[nodiscard]] std::size_t bytes_of(std::uint32_t slots) const {
    return slots == 0 ? line : slots * prepared_.tables().layout().slot_bytes;
  }
  [[nodiscard]] std::byte* slot(slot_range const& range, std::uint64_t chunk) const {
    if (range.count == 0) return range.first;
    return range.first + chunk % range.count * prepared_.tables().layout().slot_bytes;
  }

  prepared_schedule prepared_;
  int first_rank_;
  int ranks_here_;
  std::vector<std::uint64_t> heights_;  // by tree, of the phase towards the root
  std::vector<device_allocation<Devices>> memory_;
  std::vector<slot_range> outboxes_, inboxes_;  // by connection
};

}}  // namespace blink::BLINK_ABI
