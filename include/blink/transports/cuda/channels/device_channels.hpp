// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/calls/device_schedule.hpp>
#include <blink/transports/cuda/calls/device_stall.hpp>
#include <blink/transports/cuda/calls/device_tables.hpp>
#include <blink/transports/cuda/channels/channel_call.hpp>
#include <blink/transports/cuda/channels/channel_layout.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Channels in the memory of devices: a schedule repeated for each channel, with separate
/// connections and tasks, and the state for calls from kernels.
///
/// Memory: as `device_schedule` for that many trees, with slots for chunks of the largest call; a
///         cache line for each rank and channel.
template <device_runtime Devices>
class device_channels {
 public:
  /// Called by all processes together.
  ///
  /// others: null if all devices are of this process
  /// number: of these channels in the communicator, equal in all processes
  /// Throws: precondition_error if the schedule does not carry the collective, and for options that
  ///         are out of range or differ between processes; resource_error if the budget does not
  ///         suffice; device_error; what `host_processes` throws.
  device_channels(Devices& driver, rank_placement const& where, device_memory_budget& budget,
                  schedule const& source, channel_options const& wanted,
                  channel_elements const& elements, device_options const& options,
                  host_processes* others, std::size_t number)
      : driver_(driver),
        where_(where),
        number_(number),
        elements_(elements),
        layout_(agreed_layout(source, wanted, elements, options, others)),
        connections_(driver, where, budget, layout_.repeated(), layout_.connections(),
                     options.costs, others, "channels") {
    agree(others, "channels: states", [&] {
      for (std::size_t k = 0; k < where.devices.size(); ++k) {
        device_memory_use const use{bytes_on(k), 0, 0};
        memory_.emplace_back(driver, budget, where.devices[k], use, "channels");
      }
      for (std::size_t k = 0; k < memory_.size(); ++k) write_tables(k);
    });
  }
  device_channels(device_channels const&) = delete;
  device_channels& operator=(device_channels const&) = delete;

  /// The number of these channels in the communicator, equal in all processes.
  [[nodiscard]] std::size_t number() const { return number_; }
  /// A hash that is equal in all processes and different for each object of a communicator.
  [[nodiscard]] std::uint64_t identity() const {
    detail::hash all;
    all.add(prepared().hash());
    all.add(number_);
    return all.value();
  }
  /// The options that the channels were made with.
  [[nodiscard]] channel_options const& options() const { return layout_.options(); }
  /// The elements that the channels were made for.
  [[nodiscard]] channel_elements const& elements() const { return elements_; }
  /// The prepared schedule of all channels together.
  [[nodiscard]] prepared_schedule const& prepared() const { return connections_.prepared(); }

  /// The table that kernels of a device receive, without `watch`; `position` is in
  /// `rank_placement::devices`.
  [[nodiscard]] channel_table table(std::size_t position) const {
    auto const there = connections_.tables(position);
    channel_table result;
    result.ranks = there.ranks;
    result.connections = there.connections;
    std::byte* const own = memory_[position].get();
    result.no_channel = reinterpret_cast<counter*>(own);
    result.states = reinterpret_cast<channel_state*>(own + states_at);
    result.trees = reinterpret_cast<channel_tree const*>(own + trees_at(position));
    result.slot_bytes = layout_.slot_bytes();
    result.most_count = options().most_count;
    result.element_bytes = elements_.bytes;
    result.tree_count = static_cast<std::uint32_t>(layout_.trees().size());
    result.channels = options().channels;
    result.rank_count = static_cast<std::uint32_t>(prepared().source().rank_count);
    result.phases = phases_of(options().kind);
    result.kind = options().kind;
    result.reduces = has_reduce_phase(options().kind);
    result.keeps_order = layout_.keeps_order();
    result.keeps_input = sends_and_receives(options().kind) || prepared().source().is_one_shot;
    return result;
  }

  /// Resets all channels.
  ///
  /// Pre: no kernel is running.
  void restart() {
    connections_.restart();
    for (std::size_t k = 0; k < memory_.size(); ++k) write_tables(k);
  }
  /// Never releases the memory, because kernels may still use it.
  void leak_memory() {
    connections_.leak_memory();
    for (auto& each : memory_) each.keep_for_ever();
  }

  /// The end of a failed call, by rank of this process.
  struct failed_call {
    bool is_here = false;
    std::string refusal{};  ///< the reason if a rank's call was refused
    int rank = -1;          ///< that rank; -1: unknown
    std::uint32_t channel = 0;
    std::vector<device_rank_report> ranks{};
  };
  /// Returns the failed call of a channel in which a rank reached the deadline, or otherwise of the
  /// first failed channel.
  ///
  /// Pre: no kernel is running.
  [[nodiscard]] failed_call find_failure() {
    failed_call result;
    auto const states = read_states(result);
    if (!result.refusal.empty()) return result;
    bool is_late = false;
    for (std::uint32_t channel = 0; channel < options().channels && !is_late; ++channel) {
      for (auto const& of_rank : states) {
        auto const& state = of_rank[channel];
        if (state.result == status::ok) continue;
        is_late = state.result == status::timed_out;
        if (result.is_here && !is_late) continue;
        result.is_here = true;
        result.channel = channel;
      }
    }
    if (!result.is_here) return result;
    connections_.read_back();
    for (std::size_t k = 0; k < states.size(); ++k) {
      int const rank = where_.first_rank + static_cast<int>(k);
      result.ranks.push_back(report_of(rank, result.channel, states[k][result.channel]));
    }
    return result;
  }

 private:
  static constexpr std::size_t states_at = 64;  // behind `no_channel`, which has its own line

  [[nodiscard]] static channel_layout agreed_layout(schedule const& source,
                                                    channel_options const& wanted,
                                                    channel_elements const& elements,
                                                    device_options const& options,
                                                    host_processes* others) {
    if (others != nullptr) {
      others->agree("channels", [&] { (void)channel_layout(source, wanted, elements, options); });
      detail::hash mine;
      for (std::uint64_t const number :
           {static_cast<std::uint64_t>(wanted.kind), std::uint64_t{wanted.most_count},
            std::uint64_t{wanted.channels}, std::uint64_t{elements.bytes},
            std::uint64_t{elements.has_packets}}) {
        mine.add(number);
      }
      for (auto const theirs : others->gather("channels: options", mine.value())) {
        expects(
            theirs == mine.value(),
            "prepare_channels: channel_options, element type or protocol differ between processes, "
            "expected the same");
      }
    }
    return channel_layout(source, wanted, elements, options);
  }

  [[nodiscard]] std::size_t states_on(std::size_t position) const {
    return where_.here(position).ranks.size() * options().channels;
  }
  [[nodiscard]] std::size_t trees_at(std::size_t position) const {
    return states_at + states_on(position) * sizeof(channel_state);
  }
  [[nodiscard]] std::size_t bytes_on(std::size_t position) const {
    return trees_at(position) + layout_.trees().size() * sizeof(channel_tree);
  }
  void write_tables(std::size_t position) {
    std::vector<std::byte> image(bytes_on(position));
    counter const none = 0;
    std::vector<channel_state> const states(states_on(position));
    auto const& trees = layout_.trees();
    std::memcpy(image.data(), &none, sizeof none);
    std::memcpy(image.data() + states_at, states.data(), states.size() * sizeof(channel_state));
    std::memcpy(image.data() + trees_at(position), trees.data(),
                trees.size() * sizeof(channel_tree));
    driver_.write(where_.devices[position], memory_[position].get(), image.data(), image.size());
  }

  // The states by rank of this process and channel. Records a refused call in `failed`.
  [[nodiscard]] std::vector<std::vector<channel_state>> read_states(failed_call& failed) {
    std::vector<std::vector<channel_state>> result(static_cast<std::size_t>(where_.ranks_here));
    for (std::size_t k = 0; k < memory_.size(); ++k) {
      std::vector<std::byte> image(trees_at(k));
      driver_.read(where_.devices[k], image.data(), memory_[k].get(), image.size());
      counter asked = 0;
      std::memcpy(&asked, image.data(), sizeof asked);
      if (asked != 0) {
        failed.is_here = true;
        failed.refusal = "a kernel on device " + std::to_string(where_.devices[k]) +
                         " has called channel " + std::to_string(asked - 1) + " of " +
                         std::to_string(options().channels);
      }
      auto const& ranks = where_.here(k).ranks;
      for (std::size_t number = 0; number < ranks.size(); ++number) {
        auto& states = result[static_cast<std::size_t>(ranks[number] - where_.first_rank)];
        states.resize(options().channels);
        std::memcpy(states.data(),
                    image.data() + states_at + number * states.size() * sizeof(channel_state),
                    states.size() * sizeof(channel_state));
        for (std::uint32_t channel = 0; channel < states.size(); ++channel) {
          if (states[channel].refusal == channel_refusal::none) continue;
          failed.is_here = true;
          failed.rank = ranks[number];
          failed.channel = channel;
          failed.refusal = where_.name(failed.rank) + ", " + std::string(to_text(options().kind)) +
                           " in channel " + std::to_string(channel) + ": " +
                           layout_.describe(states[channel]);
        }
      }
    }
    return result;
  }
  [[nodiscard]] device_rank_report report_of(int rank, std::uint32_t channel,
                                             channel_state const& state) const {
    auto const all = prepared().tables().tasks(rank, options().kind);
    std::size_t const tasks = all.count / options().channels;
    device_rank_report result;
    result.rank = rank;
    result.has_tasks = tasks > 0;
    result.gave_up = state.result == status::timed_out;
    result.is_inside = state.result != status::ok;
    result.calls = state.calls;
    result.count = state.count;
    result.where = find_stall(options().kind, all.first + channel * tasks, tasks);
    if (result.where.tree >= 0) {
      result.where.tree %= static_cast<int>(layout_.trees().size());
    }
    return result;
  }

  Devices& driver_;
  rank_placement const& where_;
  std::size_t number_;
  channel_elements elements_;
  channel_layout layout_;
  device_schedule<Devices> connections_;
  std::vector<device_allocation<Devices>> memory_;  // by device of this process: states, trees
};

/// Handle to channels that the communicator owns; see `basic_device_ranks::prepare_channels`.
template <device_runtime Devices, class T, connection_protocol Protocol>
class prepared_channels {
 public:
  explicit prepared_channels(device_channels<Devices>& all) : all_(&all) {}
  /// The channels themselves. They live as long as the communicator.
  [[nodiscard]] device_channels<Devices>& get() const { return *all_; }

 private:
  device_channels<Devices>* all_;
};

}}  // namespace blink::BLINK_ABI
