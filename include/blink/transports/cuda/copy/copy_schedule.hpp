// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/kernels/step_tasks.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_handles.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Returns the tasks of all ranks in topological order: each task comes after its sources.
///
/// Time: O(tasks + connections).
[[nodiscard]] inline std::vector<placed_task> tasks_in_order(connection_tables const& tables,
                                                             int rank_count, collective kind) {
  std::vector<placed_task> all;
  // by connection: position in `all`
  std::vector<std::size_t> receiver(tables.connection_count(), 0);
  for (int rank = 0; rank < rank_count; ++rank) {
    auto const tasks = tables.tasks(rank, kind);
    for (std::size_t k = 0; k < tasks.count; ++k) {
      for (std::uint32_t end = 0; end < tasks.first[k].in_count; ++end) {
        receiver[tasks.first[k].in[end].connection] = all.size();
      }
      all.push_back({tasks.first + k, rank});
    }
  }
  std::vector<std::uint32_t> missing;
  std::vector<std::size_t> ready;
  for (auto const& each : all) {
    if (each.here->in_count == 0) ready.push_back(missing.size());
    missing.push_back(each.here->in_count);
  }
  std::vector<placed_task> result;
  for (std::size_t next = 0; next < ready.size(); ++next) {  // `ready` grows meanwhile
    auto const& placed = result.emplace_back(all[ready[next]]);
    for (std::uint32_t end = 0; end < placed.here->out_count; ++end) {
      std::size_t const to = receiver[placed.here->out[end].connection];
      if (--missing[to] == 0) ready.push_back(to);
    }
  }
  return result;
}

/// A schedule for copy engines: slots for chunks that cannot go directly to their final place, and
/// the events by which streams wait for each other.
template <device_runtime Devices>
class copy_schedule {
 public:
  /// Throws: precondition_error if `source` is no schedule, or a rank has more children than one
  ///         kernel combines; resource_error if the budget does not suffice; device_error.
  copy_schedule(Devices& driver, rank_placement const& where, device_memory_budget& budget,
                schedule const& source, connection_layout const& layout,
                pipeline_costs const& costs)
      : prepared_(source, detail::without_slots(layout), costs) {
    auto const& tables = prepared_.tables();
    std::map<int, std::size_t> bytes;
    std::size_t const slots = tables.layout().window * tables.layout().slot_bytes;
    for (auto const& place : tables.places()) {
      bytes[where.device_of[static_cast<std::size_t>(place.from)]] +=
          slots;  // before the chunk leaves
      bytes[where.device_of[static_cast<std::size_t>(place.to)]] += slots;  // where it arrives
    }
    detail::expect_few_sources(prepared_);
    std::map<int, std::byte*> next;
    for (auto const& [device, sum] : bytes) {
      device_memory_use const use{0, sum, 0};
      next[device] = memory_.emplace_back(driver, budget, device, use, "the schedule").get();
    }
    for (auto const& place : tables.places()) {
      auto& from = next[where.device_of[static_cast<std::size_t>(place.from)]];
      outboxes_.push_back(from);
      from += slots;
      auto& to = next[where.device_of[static_cast<std::size_t>(place.to)]];
      inboxes_.push_back(to);
      to += slots;
    }
    // One event for each message in flight.
    for (std::size_t k = 0; k < tables.places().size() * tables.layout().window; ++k) {
      auto const& place = tables.places()[k / tables.layout().window];
      int const device = where.device_of[static_cast<std::size_t>(place.from)];
      ready_.emplace_back(driver, device);
      arrived_.emplace_back(driver, device);
      int const receiver = where.device_of[static_cast<std::size_t>(place.to)];
      taken_.emplace_back(driver, receiver);
    }
  }
  copy_schedule(copy_schedule const&) = delete;
  copy_schedule& operator=(copy_schedule const&) = delete;

  [[nodiscard]] prepared_schedule& prepared() { return prepared_; }
  [[nodiscard]] prepared_schedule const& prepared() const { return prepared_; }

  /// The slot of a chunk at the sender.
  [[nodiscard]] std::byte* outbox(std::uint32_t connection, std::uint64_t chunk) const {
    return outboxes_[connection] + slot_of(chunk) * prepared_.tables().layout().slot_bytes;
  }
  /// The slot of a chunk at the receiver.
  [[nodiscard]] std::byte* inbox(std::uint32_t connection, std::uint64_t chunk) const {
    return inboxes_[connection] + slot_of(chunk) * prepared_.tables().layout().slot_bytes;
  }
  /// Event: the chunk is complete at the sender.
  [[nodiscard]] typename Devices::event ready(std::uint32_t connection, std::uint64_t chunk) const {
    return ready_[connection * prepared_.tables().layout().window + slot_of(chunk)].get();
  }
  /// Event: the chunk has been copied to the receiver.
  [[nodiscard]] typename Devices::event arrived(std::uint32_t connection,
                                                std::uint64_t chunk) const {
    return arrived_[connection * prepared_.tables().layout().window + slot_of(chunk)].get();
  }
  /// Event: the receiver no longer needs the chunk.
  [[nodiscard]] typename Devices::event consumed(std::uint32_t connection,
                                                 std::uint64_t chunk) const {
    return taken_[connection * prepared_.tables().layout().window + slot_of(chunk)].get();
  }
  /// Never releases the slots, because copies may still use them.
  void leak_memory() {
    for (auto& each : memory_) each.keep_for_ever();
  }

 private:
  [[nodiscard]] std::size_t slot_of(std::uint64_t chunk) const {
    return static_cast<std::size_t>(chunk % prepared_.tables().layout().window);
  }
  prepared_schedule prepared_;
  std::vector<device_allocation<Devices>> memory_;
  std::vector<std::byte*> outboxes_, inboxes_;                  // by connection
  std::vector<device_event<Devices>> ready_, arrived_, taken_;  // by connection and slot
};

}}  // namespace blink::BLINK_ABI
