// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/running/walk/tree_task.hpp>
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

/// A schedule with what its calls of one protocol need in the memory of devices. Tasks of a rank
/// are on its device. Slots and counters of a connection are on the device of its receiver, which
/// reads them most often.
///
/// Memory: as `connection_tables`, and three times the tasks of each rank; counted before it is
///         allocated.
template <device_runtime Devices>
class device_schedule {
 public:
  /// others: null if all devices are of this process; otherwise all processes construct it together
  /// what:   the name of the schedule, for errors
  /// Throws: precondition_error if `source` is no schedule, or if a tree joins ranks on devices
  ///         that do not reach each other; resource_error if the budget does not suffice;
  ///         device_error; what `host_processes` throws.
  device_schedule(Devices& driver, rank_placement const& where, device_memory_budget& budget,
                  schedule const& source, connection_layout const& layout,
                  pipeline_costs const& costs, host_processes* others = nullptr,
                  std::string const& what = "the schedule")
      : driver_(driver),
        where_(where),
        prepared_((agree_on(others, source, layout, costs), source), dealt_by_us(layout), costs) {
    agree(others, "prepare: devices", [&] { expect_reach(); });
    deal_out_connections();
    make_parts();
    std::vector<device_memory_use> use;
    for (auto const& part : parts_) {
      use.push_back({part.tables.image().size(), part.tables_at, 0});
    }
    memory_ = {driver, where, budget, others, use, what};
    agree(others, "prepare: connections", [&] {
      for (std::size_t k = 0; k < parts_.size(); ++k) {
        parts_[k].tables.make_image(prepared_.tables(), connections_of(k), tables_of(k));
      }
      restart();
    });
  }
  device_schedule(device_schedule const&) = delete;
  device_schedule& operator=(device_schedule const&) = delete;

  /// The schedule with its tables in memory of the host; the devices have their own copies.
  [[nodiscard]] prepared_schedule const& prepared() const { return prepared_; }

  /// Tasks by device, and by rank on the device.
  [[nodiscard]] std::vector<device_tasks> tasks(task_phases phases) const {
    std::vector<device_tasks> result;
    for (auto const& part : parts_) {
      auto& here = result.emplace_back();
      here.device = part.device;
      for (auto const& rank : part.tables.ranks()) {
        auto const list = static_cast<std::size_t>(phases);
        here.of_rank.push_back(rank.task_count[list]);
        here.waiting.push_back(rank.task_count[list] - rank.moving_count[list]);
      }
    }
    return result;
  }

  /// Returns the parameters of a call along each tree. If they are too many for the argument of a
  /// kernel, the caller puts them into the memory of the devices.
  template <chunking Chunks>
  [[nodiscard]] std::vector<tree_call> trees_of_call(collective kind, std::size_t count,
                                                     block_range const* blocks,
                                                     element_sizes const& sizes,
                                                     order_promise order,
                                                     std::size_t chunk_bytes) const {
    auto const& source = prepared_.source();
    std::vector<tree_call> result(source.trees.size());
    for (std::size_t tree = 0; tree < result.size(); ++tree) {
      tree_task here;
      here.tree = static_cast<std::uint32_t>(tree);
      auto const block = blocks == nullptr ? prepared_.equal_block(here, kind, count)
                                           : blocks[block_number(source, source.trees[tree], kind)];
      prepared_.set_call(here, kind, block, sizes, order, &cut_by<Chunks>, chunk_bytes);
      result[tree] = {here.input_begin, here.output_begin, here.count,
                      here.chunk,       here.stride,       here.chunks};
    }
    return result;
  }

  /// Throws: precondition_error if tasks that share a block could wait for each other. A block
  ///         sends all packets of a task before it walks the next one, so no task may wait for a
  ///         credit.
  void expect_fit(collective kind, std::vector<tree_call> const& trees) const {
    auto const window = prepared_.tables().layout().window;
    for (std::size_t tree = 0; tree < trees.size(); ++tree) {
      if (trees[tree].chunks <= window) continue;
      throw precondition_error(
          std::string(to_text(kind)) + ": tree " + std::to_string(tree) + " carries " +
          std::to_string(trees[tree].chunks) + " chunks of " + std::to_string(trees[tree].chunk) +
          " elements as packets; tasks share blocks, so expected at most the window of " +
          std::to_string(window) + " (device_options::packet_slot_bytes)");
    }
  }

  /// The addresses of the tables for kernels of a device; `position` is in
  /// `rank_placement::devices`.
  [[nodiscard]] device_tables::addresses tables(std::size_t position) const {
    return parts_[position].tables.where();
  }
  /// Sets the fields of a call that differ from device to device.
  void set_device(device_call& call, std::size_t position) const {
    auto const& part = parts_[position];
    auto const where = part.tables.where();
    call.ranks_here = where.ranks;
    call.ranks_here_count = static_cast<std::uint32_t>(part.tables.ranks().size());
    call.connections = where.connections;
    call.states = where.states;
    call.more_trees = where.trees;
  }
  /// Memory for the trees of a call that are too many for an argument; null if they fit into an
  /// argument.
  [[nodiscard]] tree_call* call_trees(std::size_t position) const {
    return parts_[position].tables.where().trees;
  }

  /// Resets every connection to its state before the first message.
  ///
  /// Pre: no call is running.
  void restart() {
    // A packet is detected by its difference from the slot's old content, so slots begin empty.
    // They follow the counters.
    bool const has_packets = prepared_.tables().layout().has_packets;
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      auto const& part = parts_[k];
      auto const& image = part.tables.image();
      driver_.clear(part.device, memory_.own(k), has_packets ? part.tables_at : part.counter_bytes);
      driver_.write(part.device, tables_of(k), image.data(), image.size());
    }
  }

  /// Never releases the memory, because kernels may still use it.
  void leak_memory() { memory_.leak_memory(); }

  /// The end of a failed call, by rank of this process.
  struct failed_call {
    bool is_here = false;  ///< true if the call was along this schedule
    collective kind = collective::broadcast;
    std::vector<device_rank_report> ranks;
  };
  /// Returns the failed call along this schedule, if there is one. Pre: no call is running.
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
        auto const tasks = prepared_.tables().tasks(here.rank, result.kind);
        auto& report = result.ranks.emplace_back();
        report.rank = here.rank;
        report.has_tasks = tasks.count > 0;
        report.calls = here.calls[list];
        report.gave_up = gave_up[k];
        report.where = find_stall(result.kind, tasks.first, tasks.count);
      }
    }
    return result;
  }

  /// Copies what calls have changed into the tables of `prepared()`.
  ///
  /// Pre: no call is running.
  void read_back() {
    for (std::size_t k = 0; k < parts_.size(); ++k) (void)read_back(k);
  }
  /// Returns the traffic of each edge so far.
  ///
  /// Pre: no call is running.
  [[nodiscard]] std::vector<edge_report> edges() {
    read_back();
    return prepared_.edges();
  }

 private:
  /// The tables of one device.
  struct device_part {
    int device = 0;
    device_tables tables;
    std::size_t counter_bytes = 0;
    std::size_t tables_at = 0;  // offset in its memory, behind counters and slots
  };
  /// The offsets of a connection in the memory of its receiver's place.
  struct connection_offsets {
    std::size_t counters = 0;
    std::size_t slots = 0;
  };

  // The address is fake: it only makes the tables give slots to the connections that need them.
  // This class decides where the slots are.
  [[nodiscard]] static connection_layout dealt_by_us(connection_layout layout) {
    layout.ranks_share = reinterpret_cast<void*>(std::uintptr_t{128});
    return layout;
  }

  static void agree_on(host_processes* others, schedule const& source,
                       connection_layout const& layout, pipeline_costs const& costs) {
    if (others == nullptr) return;
    others->agree("prepare", [&] { validate(source); });
    std::uint64_t const own = hash(source, layout, costs);
    auto const all = others->gather("prepare: schedule", own);
    for (std::size_t process = 0; process < all.size(); ++process) {
      if (all[process] == own) continue;
      throw precondition_error("prepare: " + others->name(static_cast<int>(process)) +
                               " prepares another schedule than " +
                               others->name(others->process()));
    }
  }

  // Checks devices of this process only; `connections_of` checks those of other processes.
  void expect_reach() const {
    for (auto const& connection : prepared_.tables().places()) {
      auto const& a = where_.of_rank(connection.from);
      auto const& b = where_.of_rank(connection.to);
      if (&a == &b || !where_.is_here(a) || !where_.is_here(b)) continue;
      for (auto const& [from, to] :
           {std::pair(a.device, b.device), std::pair(b.device, a.device)}) {
        if (driver_.reach(from, to)) continue;
        refuse(connection, "device " + std::to_string(from) +
                               " does not reach the memory of device " + std::to_string(to) +
                               " (peer access is refused)");
      }
    }
  }
  [[noreturn]] void refuse(connection_place const& connection, std::string const& why) const {
    throw precondition_error("the schedule: tree " + std::to_string(connection.tree) + " joins " +
                             where_.name(connection.from) + " and " + where_.name(connection.to) +
                             ", and " + why);
  }

  // Counters come first, so that they can be cleared together. Every process computes the same
  // offsets.
  void deal_out_connections() {
    auto const& tables = prepared_.tables();
    std::vector<std::size_t> counters(where_.places.size(), 0);
    connections_.resize(tables.connection_count());
    auto const place_of = [&](std::uint32_t number) {
      return static_cast<std::size_t>(
          where_.place_of[static_cast<std::size_t>(tables.connections()[number].receiver)]);
    };
    for (std::uint32_t number = 0; number < tables.connection_count(); ++number) {
      auto& used = counters[place_of(number)];
      connections_[number].counters = used;
      used += sizeof(connection_counters);
    }
    auto slots = counters;
    for (std::uint32_t number = 0; number < tables.connection_count(); ++number) {
      auto& used = slots[place_of(number)];
      connections_[number].slots = used;
      if (tables.connections()[number].slots == nullptr) continue;
      used += tables.layout().window * tables.layout().slot_bytes;
    }
    counter_bytes_ = std::move(counters);
    connection_bytes_ = std::move(slots);
  }

  void make_parts() {
    for (std::size_t position = 0; position < where_.devices.size(); ++position) {
      auto const& here = where_.here(position);
      std::size_t const place = static_cast<std::size_t>(where_.first_place) + position;
      parts_.push_back({here.device,
                        device_tables(prepared_.tables(), here.ranks, prepared_.source()),
                        counter_bytes_[place], connection_bytes_[place]});
    }
  }

  // The connections with the addresses that kernels of one device use.
  [[nodiscard]] std::vector<shared_connection> connections_of(std::size_t position) const {
    auto const& tables = prepared_.tables();
    std::vector<shared_connection> result;
    for (std::uint32_t number = 0; number < tables.connection_count(); ++number) {
      auto& connection = result.emplace_back(tables.connections()[number]);
      auto const place =
          static_cast<std::size_t>(where_.place_of[static_cast<std::size_t>(connection.receiver)]);
      std::byte* const memory = memory_.seen(position, place);
      bool const is_sender = &where_.of_rank(connection.sender) == &where_.here(position);
      if (memory == nullptr && is_sender) {
        refuse(tables.places()[number],
               "its memory cannot be opened: " + memory_.refusal(position, place));
      }
      bool const has_slots = connection.slots != nullptr && memory != nullptr;
      connection.use(memory == nullptr ? nullptr
                                       : reinterpret_cast<connection_counters*>(
                                             memory + connections_[number].counters));
      connection.slots = has_slots ? memory + connections_[number].slots : nullptr;
    }
    return result;
  }
  [[nodiscard]] std::byte* tables_of(std::size_t position) const {
    return memory_.own(position) + parts_[position].tables_at;
  }

  // Copies what calls have changed into the host's tables. Returns the tables of the device.
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
  std::vector<connection_offsets> connections_;
  std::vector<std::size_t> counter_bytes_, connection_bytes_;  // by place
  reachable_memory<Devices> memory_;                           // counters, slots, tables
};

}}  // namespace blink::BLINK_ABI
