// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/connections/wire.hpp>
#include <blink/running/connections/wire_tables.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/lane.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/cuda/calls/device_stall.hpp>
#include <blink/transports/cuda/calls/device_tables.hpp>
#include <blink/transports/cuda/calls/plan_blocks.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/cuda/runtime/reachable_memory.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A schedule with what its calls of one protocol need in the memory of devices: the lanes of a rank on its device,
/// a wire's slots and counters on the device of its receiver, which looks there most often.
///
/// Memory: as `wire_tables`, and three times the lanes of each rank; counted before it is allocated.
template <device_runtime Devices>
class device_schedule {
 public:
  /// others: null if all devices are of this process; else all processes make it together
  /// what:   it is, for errors
  /// Throws: precondition_error if `plan` is not a schedule, or if a tree joins ranks on devices that
  ///         do not reach each other; resource_error if the budget does not suffice; device_error;
  ///         what `host_processes` throws.
  device_schedule(Devices& driver, rank_placement const& where, device_memory_budget& budget,
                  schedule const& plan, wire_layout const& layout, pipeline_costs const& costs,
                  host_processes* others = nullptr, std::string const& what = "the schedule")
      : driver_(driver),
        where_(where),
        prepared_((agree_on(others, plan, layout, costs), plan), dealt_by_us(layout), costs) {
    agree(others, "prepare: devices", [&] { expect_reach(); });
    deal_out_wires();
    make_parts();
    std::vector<device_memory_use> use;
    for (auto const& part : parts_) {
      use.push_back({part.tables.image().size(), part.tables_at, 0});
    }
    memory_ = {driver, where, budget, others, use, what};
    agree(others, "prepare: wires", [&] {
      for (std::size_t k = 0; k < parts_.size(); ++k) {
        parts_[k].tables.make_image(prepared_.tables(), wires_of(k), tables_of(k));
      }
      restart();
    });
  }
  device_schedule(device_schedule const&) = delete;
  device_schedule& operator=(device_schedule const&) = delete;

  [[nodiscard]] prepared_schedule const& prepared() const { return prepared_; }

  /// Lanes by device and rank there.
  [[nodiscard]] std::vector<device_lanes> lanes(lane_phases phases) const {
    std::vector<device_lanes> result;
    for (auto const& part : parts_) {
      auto& here = result.emplace_back();
      here.device = part.device;
      for (auto const& rank : part.tables.ranks()) {
        here.of_rank.push_back(rank.lane_count[static_cast<std::size_t>(phases)]);
      }
    }
    return result;
  }

  /// Fills in what a call has along each tree, as far as it fits; the rest of `all` is put into the
  /// devices' memory by the caller.
  template <chunking Chunks>
  [[nodiscard]] std::vector<tree_call> trees_of_call(collective kind, std::size_t count,
                                                     block_range const* blocks,
                                                     element_sizes const& sizes,
                                                     order_promise order,
                                                     std::size_t chunk_bytes) const {
    auto const& plan = prepared_.source();
    std::vector<tree_call> result(plan.trees.size());
    for (std::size_t tree = 0; tree < result.size(); ++tree) {
      lane here;
      here.tree = static_cast<std::uint32_t>(tree);
      auto const block = blocks == nullptr ? prepared_.equal_block(here, kind, count)
                                           : blocks[block_number(plan, plan.trees[tree], kind)];
      prepared_.set_call(here, kind, block, sizes, order, &cut_by<Chunks>, chunk_bytes);
      result[tree] = {here.input_begin, here.output_begin, here.count,
                      here.chunk,       here.stride,       here.chunks};
    }
    return result;
  }

  /// Throws: precondition_error if lanes that share a block could wait for each other: packets of one
  ///         are sent before the next one is walked, so that none may wait for room.
  void expect_fit(collective kind, std::vector<tree_call> const& trees) const {
    auto const window = prepared_.tables().layout().window;
    for (std::size_t tree = 0; tree < trees.size(); ++tree) {
      if (trees[tree].chunks <= window) continue;
      throw precondition_error(
          std::string(to_text(kind)) + ": tree " + std::to_string(tree) + " carries " +
          std::to_string(trees[tree].chunks) + " chunks of " + std::to_string(trees[tree].chunk) +
          " elements as packets; lanes share blocks, so expected at most the window of " +
          std::to_string(window) + " (device_world_options::packet_slot_bytes)");
    }
  }

  /// Where kernels of a device find the tables. `position`: in `rank_placement::devices`.
  [[nodiscard]] device_tables::addresses tables(std::size_t position) const {
    return parts_[position].tables.where();
  }
  /// What differs from device to device.
  void set_device(device_call& call, std::size_t position) const {
    auto const& part = parts_[position];
    auto const where = part.tables.where();
    call.ranks_here = where.ranks;
    call.ranks_here_count = static_cast<std::uint32_t>(part.tables.ranks().size());
    call.wires = where.wires;
    call.states = where.states;
    call.more_trees = where.trees;
  }
  /// Where the trees of a call go that are too many for an argument; null if they are not.
  [[nodiscard]] tree_call* call_trees(std::size_t position) const {
    return parts_[position].tables.where().trees;
  }

  /// Begins anew: every wire as if no message had passed. Pre: no call is running.
  void restart() {
    // Packets are told by what slots held before, so that they begin empty; behind the counters.
    bool const has_packets = prepared_.tables().layout().has_packets;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      auto const& part = parts_[k];
      auto const& image = part.tables.image();
      driver_.clear(part.device, memory_.own(k), has_packets ? part.tables_at : part.counter_bytes);
      driver_.write(part.device, tables_of(k), image.data(), image.size());
    }
  }

  /// Somebody may still use the memory.
  void keep_memory_for_ever() { memory_.keep_memory_for_ever(); }

  /// How a call that failed has ended, by rank of this process. Pre: no call is running.
  struct failed_call {
    bool is_here = false;  ///< was it along this schedule?
    collective kind = collective::broadcast;
    std::vector<device_rank_report> ranks;
  };
  [[nodiscard]] failed_call find_failure() {
    failed_call result;
    std::vector<std::vector<std::byte>> images;
    std::vector<bool> gave_up(parts_.size(), false);
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      auto const& image = images.emplace_back(read_back(k));
      for (auto const& state : parts_[k].tables.states_in(image)) {
        if (state.result == status::ok) continue;
        result.is_here = true;
        result.kind = state.kind;
        gave_up[k] = gave_up[k] || state.result == status::timed_out;
      }
    }
    if (!result.is_here) return result;
    auto const list = static_cast<std::size_t>(phases_of(result.kind));
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      for (std::size_t number = 0; number < parts_[k].tables.ranks().size(); ++number) {
        auto const here = parts_[k].tables.rank_in(images[k], number);
        auto const lanes = prepared_.tables().lanes(here.rank, result.kind);
        auto& report = result.ranks.emplace_back();
        report.rank = here.rank;
        report.has_lanes = lanes.count > 0;
        report.calls = here.calls[list];
        report.gave_up = gave_up[k];
        report.where = find_stall(result.kind, lanes.first, lanes.count);
      }
    }
    return result;
  }

  /// Brings what calls changed into the tables of `prepared()`. Pre: no call is running.
  void read_back() {
    for (std::size_t k = 0; k < parts_.size(); ++k) (void)read_back(k);
  }
  /// What each edge carried so far. Pre: no call is running.
  [[nodiscard]] std::vector<edge_report> edges() {
    read_back();
    return prepared_.edges();
  }

 private:
  /// What is on one device.
  struct device_part {
    int device = 0;
    device_tables tables;
    std::size_t counter_bytes = 0;
    std::size_t tables_at = 0;  // of its memory: behind counters and slots
  };
  /// Where the receiver of a wire has it, in the memory of its place.
  struct wire_offsets {
    std::size_t counters = 0;
    std::size_t slots = 0;
  };

  // Tables that are dealt out of memory that nobody has: what counts is which wires have slots. Where
  // those are is decided here.
  [[nodiscard]] static wire_layout dealt_by_us(wire_layout layout) {
    layout.ranks_share = reinterpret_cast<void*>(std::uintptr_t{128});
    return layout;
  }

  static void agree_on(host_processes* others, schedule const& plan, wire_layout const& layout,
                       pipeline_costs const& costs) {
    if (others == nullptr) return;
    others->agree("prepare", [&] { validate(plan); });
    std::uint64_t const own = fingerprint(plan, layout, costs);
    auto const all = others->gather("prepare: schedule", own);
    for (std::size_t process = 0; process < all.size(); ++process) {
      if (all[process] == own) continue;
      throw precondition_error("prepare: " + others->name(static_cast<int>(process)) +
                               " prepares another schedule than " +
                               others->name(others->process()));
    }
  }

  // Devices of other processes: `wires_of` finds out.
  void expect_reach() const {
    for (auto const& wire : prepared_.tables().places()) {
      auto const& a = where_.of_rank(wire.from);
      auto const& b = where_.of_rank(wire.to);
      if (&a == &b || !where_.is_here(a) || !where_.is_here(b)) continue;
      for (auto const& [from, to] :
           {std::pair(a.device, b.device), std::pair(b.device, a.device)}) {
        if (driver_.reach(from, to)) continue;
        refuse(wire, "device " + std::to_string(from) + " does not reach the memory of device " +
                         std::to_string(to) + " (peer access is refused)");
      }
    }
  }
  [[noreturn]] void refuse(wire_place const& wire, std::string const& why) const {
    throw precondition_error("the schedule: tree " + std::to_string(wire.tree) + " joins " +
                             where_.name(wire.from) + " and " + where_.name(wire.to) + ", and " +
                             why);
  }

  // Counters first, so that they can be cleared together. Every process finds the same.
  void deal_out_wires() {
    auto const& tables = prepared_.tables();
    std::vector<std::size_t> counters(where_.places.size(), 0);
    wires_.resize(tables.wire_count());
    auto const place_of = [&](std::uint32_t number) {
      return static_cast<std::size_t>(
          where_.place_of[static_cast<std::size_t>(tables.wires()[number].receiver)]);
    };
    for (std::uint32_t number = 0; number < tables.wire_count(); ++number) {
      auto& used = counters[place_of(number)];
      wires_[number].counters = used;
      used += sizeof(wire_counters);
    }
    auto slots = counters;
    for (std::uint32_t number = 0; number < tables.wire_count(); ++number) {
      auto& used = slots[place_of(number)];
      wires_[number].slots = used;
      if (tables.wires()[number].slots == nullptr) continue;
      used += tables.layout().window * tables.layout().slot_bytes;
    }
    counter_bytes_ = std::move(counters);
    wire_bytes_ = std::move(slots);
  }

  void make_parts() {
    for (std::size_t position = 0; position < where_.devices.size(); ++position) {
      auto const& here = where_.here(position);
      std::size_t const place = static_cast<std::size_t>(where_.first_place) + position;
      parts_.push_back({here.device,
                        device_tables(prepared_.tables(), here.ranks, prepared_.source()),
                        counter_bytes_[place], wire_bytes_[place]});
    }
  }

  // The wires as kernels of one device see them.
  [[nodiscard]] std::vector<shared_wire> wires_of(std::size_t position) const {
    auto const& tables = prepared_.tables();
    std::vector<shared_wire> result;
    for (std::uint32_t number = 0; number < tables.wire_count(); ++number) {
      auto& wire = result.emplace_back(tables.wires()[number]);
      auto const place =
          static_cast<std::size_t>(where_.place_of[static_cast<std::size_t>(wire.receiver)]);
      std::byte* const memory = memory_.seen(position, place);
      bool const is_sender = &where_.of_rank(wire.sender) == &where_.here(position);
      if (memory == nullptr && is_sender) {
        refuse(tables.places()[number],
               "its memory cannot be opened: " + memory_.refusal(position, place));
      }
      bool const has_slots = wire.slots != nullptr && memory != nullptr;
      wire.use(memory == nullptr
                   ? nullptr
                   : reinterpret_cast<wire_counters*>(memory + wires_[number].counters));
      wire.slots = has_slots ? memory + wires_[number].slots : nullptr;
    }
    return result;
  }
  [[nodiscard]] std::byte* tables_of(std::size_t position) const {
    return memory_.own(position) + parts_[position].tables_at;
  }

  // Brings what calls changed into the host's tables. Returns: the tables of the device
  std::vector<std::byte> read_back(std::size_t position) {
    auto const& part = parts_[position];
    std::vector<std::byte> image(part.tables.image().size());
    driver_.read(part.device, image.data(), tables_of(position), image.size());
    part.tables.read_back(prepared_.tables(), image);
    return image;
  }

  Devices& driver_;
  rank_placement const& where_;
  prepared_schedule prepared_;
  std::vector<device_part> parts_;  // by device of this process
  std::vector<wire_offsets> wires_;
  std::vector<std::size_t> counter_bytes_, wire_bytes_;  // by place
  reachable_memory<Devices> memory_;                     // counters, slots, tables
};

}}  // namespace blink::BLINK_ABI
