// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/detail/check_buffers.hpp>
#include <blink/collectives/detail/collective_call.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/cuda/device_allocation.hpp>
#include <blink/transports/cuda/device_memory.hpp>
#include <blink/transports/cuda/device_runtime.hpp>
#include <blink/transports/cuda/device_world_options.hpp>
#include <blink/transports/cuda/rank_buffers.hpp>
#include <blink/transports/cuda/rank_placement.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI {

/// What communicators of devices have in common, whatever moves the data: who is where, what memory
/// is held, which buffers and streams are refused.
template <device_runtime Devices>
class device_ranks {
 public:
  using driver_type = Devices;
  using stream = typename Devices::stream;
  using streams = std::vector<stream>;

  device_ranks(device_ranks const&) = delete;
  device_ranks& operator=(device_ranks const&) = delete;

  [[nodiscard]] int rank_count() const { return static_cast<int>(where_.device_of.size()); }
  /// Each device once; calls take a stream for each of them, in this order.
  [[nodiscard]] std::vector<int> const& devices() const { return where_.devices; }
  [[nodiscard]] device_world_options const& options() const { return options_; }
  /// What is held on each device; see `to_text`.
  [[nodiscard]] device_memory_budget const& memory() const { return budget_; }

  /// Internal: throws if a pointer does not lead to memory of the rank's device.
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

 protected:
  /// Throws: precondition_error for options that are out of range and devices that do not exist.
  device_ranks(Devices& driver, device_world_options const& options)
      : driver_(driver),
        options_((validate(options), options)),
        where_(options.devices),
        budget_(options.memory_cap),
        scratch_(options.devices.size()) {
    expect_devices();
  }
  ~device_ranks() = default;

  void* allocate(int device, device_memory_use const& use, std::string const& what) {
    budget_.take(device, use, what);
    return owned_.emplace_back(driver_, device, use.total()).get();
  }

  [[nodiscard]] std::vector<detail::buffer_use> use_of_ranks(prepared_schedule const& plan,
                                                             collective kind) const {
    std::vector<detail::buffer_use> result;
    for (int rank = 0; rank < rank_count(); ++rank) {
      result.push_back(detail::use_of(plan.tables().lanes(rank, kind)));
    }
    return result;
  }

  void expect_places(collective kind, std::vector<detail::buffer_use> const& use,
                     std::vector<detail::plain_buffers> const& buffers) {
    std::string const name(to_text(kind));
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      if (use[rank].reads) expect_place(name, rank, "input", buffers[rank].input);
      if (use[rank].writes) expect_place(name, rank, "output", buffers[rank].output);
    }
  }

  [[nodiscard]] streams const& expect_streams(streams const& on) {
    if (!on.empty() && on.size() != where_.devices.size()) {
      throw precondition_error("device_world: " + std::to_string(on.size()) +
                               " streams, expected one for each of " +
                               std::to_string(where_.devices.size()) + " devices, or none");
    }
    if (on.empty()) return default_streams_;
    for (auto const& one : on) {
      expects(driver_.capture(one) == driver_.capture(on[0]),
              "device_world: the streams of a call are captured into one graph, or none is");
    }
    return on;
  }

  // Memory for copies stays until the end: graphs may refer to it.
  [[nodiscard]] void* scratch_of(std::size_t rank, std::size_t bytes) {
    auto& own = scratch_[rank];
    if (bytes > own.bytes) {
      std::size_t const more = std::max(bytes, 2 * own.bytes);
      own.memory = allocate(where_.device_of[rank], device_memory_use{0, 0, more},
                            "a copy of the input in place");
      own.bytes = more;
    }
    return own.memory;
  }

  [[nodiscard]] std::size_t position_of(std::size_t rank) const {
    auto const found =
        std::find(where_.devices.begin(), where_.devices.end(), where_.device_of[rank]);
    return static_cast<std::size_t>(found - where_.devices.begin());
  }

  // Until nothing runs: a call ends by itself, at the latest when the deadline is over.
  void settle() {
    for (int const device : where_.devices) driver_.synchronize(device);
  }
  /// Nothing is freed under a kernel.
  void settle_at_the_end() {
    try {
      settle();
    } catch (device_error const&) {  // a device that is lost runs no kernels
    }
  }

  Devices& driver_;
  device_world_options options_;
  rank_placement where_;
  device_memory_budget budget_;

 private:
  struct scratch_memory {
    void* memory = nullptr;
    std::size_t bytes = 0;
  };

  void expect_devices() {
    int const there = driver_.device_count();
    for (std::size_t rank = 0; rank < where_.device_of.size(); ++rank) {
      int const device = where_.device_of[rank];
      if (device >= 0 && device < there) continue;
      throw precondition_error("device_world: rank " + std::to_string(rank) + " is on device " +
                               std::to_string(device) + ", there are " + std::to_string(there));
    }
  }

  streams default_streams_ = streams(where_.devices.size());
  std::vector<device_allocation<Devices>> owned_;
  std::vector<scratch_memory> scratch_;  // by rank
};

}  // namespace blink::inline BLINK_ABI
