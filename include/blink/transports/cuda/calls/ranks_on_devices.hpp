// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator_options.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/calls/rank_blocks.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The common part of communicators of devices, independent of what moves the data. It knows the
/// place of each rank and the memory that is held, and refuses invalid buffers and streams.
template <device_runtime Devices>
class ranks_on_devices {
 public:
  using driver_type = Devices;
  using stream = typename Devices::stream;
  using streams = std::vector<stream>;

  ranks_on_devices(ranks_on_devices const&) = delete;
  ranks_on_devices& operator=(ranks_on_devices const&) = delete;

  /// The number of ranks of all processes.
  [[nodiscard]] int rank_count() const { return static_cast<int>(where_.device_of.size()); }
  /// The number of ranks of this process, whose buffers calls take. They are consecutive, from
  /// `first_rank()` on.
  [[nodiscard]] int ranks_here() const { return where_.ranks_here; }
  /// The first rank of this process.
  [[nodiscard]] int first_rank() const { return where_.first_rank; }
  /// The number of the process that a rank is in.
  ///
  /// Pre: the rank exists.
  [[nodiscard]] int process_of(int rank) const { return where_.of_rank(rank).process; }
  /// The devices of this process without duplicates; calls take one stream for each of them, in
  /// this order.
  [[nodiscard]] std::vector<int> const& devices() const { return where_.devices; }
  [[nodiscard]] device_options const& options() const { return options_; }
  /// Shortens the limit of later waits for other processes, which may not arrive at the end of a
  /// failed communicator.
  void shorten_waits(std::chrono::nanoseconds to) {
    if (others_) others_->shorten_deadline(to);
  }
  /// The memory that is held on each device; see `to_text`.
  [[nodiscard]] device_memory_budget const& memory() const { return budget_; }

  /// Internal: throws if a pointer does not point into memory of the rank's device.
  void expect_place(std::string const& name, std::size_t rank, char const* which, void const* at) {
    if (!options_.checks_places) return;
    int const device = where_.device_of[rank];
    auto const place = driver_.place_of(at);
    bool const is_here = place.kind == memory_kind::managed ||
                         (place.kind == memory_kind::device && place.device == device);
    if (is_here) return;
    std::string const found = place.kind == memory_kind::device
                                  ? "memory of device " + std::to_string(place.device)
                              : place.kind == memory_kind::pinned_host ? "pinned memory of the host"
                                                                       : "memory of the host";
    throw precondition_error(name + " on rank " + std::to_string(rank) + ": the " + which + " is " +
                             found + ", expected memory of device " + std::to_string(device));
  }

  /// Internal: checks the buffers of the ranks of this process, and in whose memory they are.
  ///           Returns for each rank if input and output are in one place.
  ///
  /// use, buffers: by rank of this process
  /// Throws:       precondition_error for invalid buffers
  std::vector<bool> check_rank_buffers(collective kind, std::vector<detail::buffer_use> const& use,
                                       std::vector<detail::plain_buffers> const& buffers,
                                       std::size_t element_bytes, std::size_t alignment) {
    auto in_place = detail::check_rank_buffers(kind, {first_rank(), rank_count()}, use, buffers,
                                               element_bytes, alignment);
    std::string const name(to_text(kind));
    for (std::size_t k = 0; buffers[0].count > 0 && k < buffers.size(); ++k) {
      std::size_t const rank = static_cast<std::size_t>(first_rank()) + k;
      if (use[k].reads) expect_place(name, rank, "input", buffers[k].input);
      if (use[k].writes) expect_place(name, rank, "output", buffers[k].output);
    }
    return in_place;
  }

 protected:
  /// others:   the processes that the communicator spans; null: this process alone
  /// policies: hash of other parameters that are the same in all processes
  /// Throws:   precondition_error for options that are out of range and devices that do not exist,
  ///           on all processes; what `host_processes` throws.
  explicit ranks_on_devices(Devices& driver, device_options const& options,
                            std::unique_ptr<host_processes> others = nullptr,
                            std::uint64_t policies = 0)
      : driver_(driver),
        options_(options),
        others_(std::move(others)),
        where_(agree_on_places(policies)),
        budget_(options.memory_cap, options.on_memory),
        scratch_(static_cast<std::size_t>(where_.ranks_here)) {}
  /// A communicator of ranks whose places the caller already knows.
  ///
  /// Pre: `options` are valid, and `place` is made of its devices.
  ranks_on_devices(Devices& driver, device_options const& options, rank_placement place)
      : driver_(driver),
        options_(options),
        where_(std::move(place)),
        budget_(options.memory_cap, options.on_memory),
        scratch_(static_cast<std::size_t>(where_.ranks_here)) {}
  ~ranks_on_devices() = default;

  /// Never releases the memory allocated here, because kernels may still use it.
  void leak_memory() {
    for (auto& each : owned_) each.keep_for_ever();
  }

  void* allocate(int device, device_memory_use const& use, std::string const& what) {
    return owned_.emplace_back(driver_, budget_, device, use, what).get();
  }

  /// Returns the prepared form of a schedule; constructs it if it is not among `known`.
  ///
  /// layout: the fields that options do not set: if kernels access buffers of other ranks, and if
  ///         links are shaped
  /// more:   further arguments of the prepared form's constructor
  /// Throws: precondition_error for another number of ranks; what that constructor throws.
  template <class Prepared, class... More>
  Prepared& find_or_prepare(std::vector<std::unique_ptr<Prepared>>& known, schedule const& source,
                            connection_layout layout, More... more) {
    // The other processes also learn of the refusal, because they are at this step with a valid
    // schedule.
    if (source.rank_count != rank_count()) {
      agree(others_.get(), "prepare", [&] { expect_ranks(source, rank_count()); });
    }
    for (auto& each : known) {
      if (each->prepared().source() == source) return *each;
    }
    layout.window = options_.window;
    layout.slot_bytes = options_.slot_bytes;
    return *known.emplace_back(std::make_unique<Prepared>(driver_, where_, budget_, source, layout,
                                                          options_.costs, more...));
  }

  /// Checks the schedule, the buffers, and in whose memory these are.
  ///
  /// Returns: by rank of this process, the bytes of its input to copy before it is sent, because
  ///          other ranks write to the same memory.
  /// Throws:  precondition_error for an invalid call.
  [[nodiscard]] std::vector<std::size_t> check_call(
      prepared_schedule const& prepared, collective kind,
      std::vector<detail::plain_buffers> const& buffers, std::size_t element_bytes,
      std::size_t alignment) {
    prepared.expect_carries(kind);
    auto const use = use_of_ranks(prepared, kind);
    auto const in_place = check_rank_buffers(kind, use, buffers, element_bytes, alignment);
    std::size_t const count = buffers[0].count;
    prepared.expect_carries_blocks(kind, [count](std::size_t) { return count; });
    bool const keeps_input = sends_and_receives(kind) || prepared.source().is_one_shot;
    std::size_t const blocks = has_input_blocks(kind) ? static_cast<std::size_t>(rank_count()) : 1;
    std::vector<std::size_t> result(buffers.size(), 0);
    for (std::size_t rank = 0; rank < result.size(); ++rank) {
      if (keeps_input && in_place[rank]) result[rank] = count * blocks * element_bytes;
    }
    return result;
  }

  /// The same for a call with segments of any sizes.
  void check_call_of_blocks(prepared_schedule const& prepared, collective kind,
                            detail::unequal_blocks const& blocks,
                            std::vector<detail::plain_buffers> const& buffers,
                            std::size_t alignment) {
    prepared.expect_carries(kind);
    prepared.expect_carries_blocks(
        kind, [&](std::size_t rank) { return blocks.count_of(static_cast<int>(rank)); });
    auto const use = use_of_ranks(prepared, kind);
    auto const reach = detail::check_rank_blocks(kind, {first_rank(), rank_count()}, blocks, use,
                                                 buffers, alignment);
    std::string const name(to_text(kind));
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      std::size_t const rank = static_cast<std::size_t>(first_rank()) + k;
      if (use[k].reads && reach[k].input > 0) expect_place(name, rank, "input", buffers[k].input);
      if (use[k].writes && reach[k].output > 0) {
        expect_place(name, rank, "output", buffers[k].output);
      }
    }
  }

  [[nodiscard]] std::vector<detail::buffer_use> use_of_ranks(prepared_schedule const& prepared,
                                                             collective kind) const {
    std::vector<detail::buffer_use> result;
    for (int rank = 0; rank < ranks_here(); ++rank) {
      result.push_back(detail::use_of(prepared.tables().tasks(first_rank() + rank, kind)));
    }
    return result;
  }

  [[nodiscard]] streams const& expect_streams(streams const& on) {
    if (!on.empty() && on.size() != where_.devices.size()) {
      throw precondition_error("device_ranks: " + std::to_string(on.size()) +
                               " streams, expected one for each of " +
                               std::to_string(where_.devices.size()) + " devices, or none");
    }
    if (on.empty()) return default_streams_;
    for (auto const& one : on) {
      expects(
          driver_.capture(one) == driver_.capture(on[0]),
          "device_ranks: streams of a call are captured differently, expected one graph for all or "
          "none");
    }
    return on;
  }

  // Memory for copies stays until the end, because graphs may refer to it.
  [[nodiscard]] void* scratch_of(std::size_t rank, std::size_t bytes) {
    auto& own = scratch_[rank];
    if (bytes > own.bytes) {
      std::size_t const more = std::max(bytes, 2 * own.bytes);
      own.memory = allocate(where_.devices[position_of(rank)], device_memory_use{0, 0, more},
                            "a copy of the input in place");
      own.bytes = more;
    }
    return own.memory;
  }

  // Ranks of this process count from 0 here.
  [[nodiscard]] std::size_t position_of(std::size_t rank) const {
    return where_.position_of(first_rank() + static_cast<int>(rank));
  }

  /// The time to wait for streams with calls. With several processes it is less than the time that
  /// the others wait for this one.
  [[nodiscard]] std::chrono::nanoseconds time_limit() const {
    return others_ ? others_->deadline() / 2 : options_.deadline;
  }

  Devices& driver_;
  device_options options_;
  std::unique_ptr<host_processes> others_;  // null: all devices are of this process
  rank_placement where_;
  device_memory_budget budget_;

 private:
  struct scratch_memory {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };

  [[nodiscard]] rank_placement agree_on_places(std::uint64_t policies) {
    agree(others_.get(), "construction", [&] {
      validate(options_);
      expect_devices();
    });
    if (!others_) return rank_placement(options_.devices);
    struct device_list {
      std::uint64_t options = 0;
      int count = 0;
      std::array<int, device_call::most_ranks> devices{};
    };
    device_list own;
    own.options = hash(options_) + policies;
    own.count = static_cast<int>(options_.devices.size());
    std::copy(options_.devices.begin(), options_.devices.end(), own.devices.begin());
    std::vector<std::vector<int>> by_process;
    std::size_t ranks = 0;
    for (auto const& theirs : others_->gather("devices", own)) {
      if (theirs.options != own.options) {
        throw precondition_error(
            "device_options: window, slot_bytes, packet_slot_bytes, costs, protocols, checks_calls "
            "or "
            "the protocol chooser differ between processes, expected the same: those of " +
            others_->name(static_cast<int>(by_process.size())) + " and those of " +
            others_->name(others_->process()));
      }
      by_process.emplace_back(theirs.devices.begin(), theirs.devices.begin() + theirs.count);
      ranks += by_process.back().size();
    }
    if (ranks > device_call::most_ranks) {
      throw precondition_error("device_ranks: " + std::to_string(ranks) +
                               " ranks in all processes, expected at most " +
                               std::to_string(device_call::most_ranks));
    }
    return {by_process, others_->process()};
  }
  void expect_devices() {
    int const there = driver_.device_count();
    if constexpr (requires { driver_.why_none(); }) {
      if (there == 0) throw device_error("device_ranks: there is no device: " + driver_.why_none());
    }
    for (std::size_t rank = 0; rank < options_.devices.size(); ++rank) {
      int const device = options_.devices[rank];
      if (device >= 0 && device < there) continue;
      throw precondition_error("device_ranks: rank " + std::to_string(rank) + " is on device " +
                               std::to_string(device) + ", expected a number below " +
                               std::to_string(there));
    }
  }

  streams default_streams_ = streams(where_.devices.size());
  std::vector<device_allocation<Devices>> owned_;
  std::vector<scratch_memory> scratch_;  // by rank of this process
};

}}  // namespace blink::BLINK_ABI
