// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/transports/cuda/calls/completion_tracker.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/calls/device_order.hpp>
#include <blink/transports/cuda/calls/plan_blocks.hpp>
#include <blink/transports/cuda/kernels/call_watch.hpp>
#include <blink/transports/cuda/runtime/abort_flags.hpp>
#include <blink/transports/cuda/runtime/device_allocation.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <optional>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Launches the kernels of a communicator, whose blocks wait for those of other devices: all
/// kernels or none, in the order of `device_order`. Ends all kernels if one has failed.
template <polled_runtime Devices>
class device_launcher {
 public:
  using streams = std::vector<typename Devices::stream>;  // one for each device of this process

  /// Called by all processes together.
  ///
  /// others: null if all devices are of this process
  /// Throws: precondition_error, on all processes, if a device has no cooperative launches; what
  ///         `abort_flags` throws.
  device_launcher(Devices& driver, rank_placement const& where, device_memory_budget& budget,
                  device_options const& options, host_processes* others)
      : driver_(driver),
        where_(where),
        options_(options),
        others_(others),
        flags_((agree(others, "construction: devices", [&] { expect_cooperation(); }), driver),
               where, budget, others),
        calls_(driver, where.devices),
        pinned_(driver, sizeof(counter)),
        failed_(reinterpret_cast<counter*>(pinned_.get())) {
    publish(*failed_, 0);
  }
  device_launcher(device_launcher const&) = delete;
  device_launcher& operator=(device_launcher const&) = delete;
  /// Never releases the memory, because kernels may still use it.
  void leak_memory() {
    flags_.leak_memory();
    pinned_.keep_for_ever();
  }

  // --- launches ---

  /// Chooses blocks that all run at once; see `plan_blocks`.
  template <class Capacity>
  [[nodiscard]] block_plan assign_blocks(std::vector<device_tasks> const& tasks,
                                         Capacity const& capacity) const {
    std::vector<std::uint32_t> allowed{512, 256, 128};
    if (options_.threads != 0) allowed = {options_.threads};
    return plan_blocks(tasks, allowed, capacity);
  }
  /// The flags and the deadline for kernels of a device of this process, by position in
  /// `rank_placement::devices`.
  [[nodiscard]] call_watch watch(std::size_t position) const {
    auto result = flags_.watch(position);
    result.failed = failed_;
    result.deadline_nanoseconds = static_cast<std::uint64_t>(options_.deadline.count());
    return result;
  }
  /// Makes a call on the devices for which `takes_part(position)`. If a launch is refused, the
  /// kernels launched before it are ended, because they would wait for the missing ones.
  ///
  /// before: puts the inputs of the kernels into the streams
  /// launch: `launch(position)` puts the kernel of a device into its stream
  template <class TakesPart, class Before, class Launch>
  void run(streams const& on, TakesPart const& takes_part, Before const& before,
           Launch const& launch) {
    typename device_order<Devices>::turn turn(driver_.order(), driver_, where_.devices);
    auto const each = [&](auto const& use) {
      for (std::size_t k = 0; k < on.size(); ++k) {
        if (takes_part(k)) use(k);
      }
    };
    each([&](std::size_t k) { turn.begin(where_.devices[k], on[k]); });
    auto const add = [&] { each([&](std::size_t k) { calls_.add(k, on[k]); }); };
    try {
      before();
      each(launch);
      add();
    } catch (std::exception const& failure) {
      try {
        add();
      } catch (device_error const&) {  // a device that is lost runs nothing
      }
      abort({own_name() + ": " + failure.what(), -1, -1, -1, -1});
      throw;
    }
    each([&](std::size_t k) { turn.end(where_.devices[k], on[k]); });
  }

  // --- failures ---

  /// True if a call has failed. Does not wait for running calls.
  [[nodiscard]] bool has_failed() const {
    return observe(*failed_) != 0 || (others_ != nullptr && others_->has_failed());
  }
  [[nodiscard]] std::string own_name() const { return "process " + std::to_string(where_.process); }
  /// Reports the failure to all processes, and ends all kernels that this process reaches.
  void abort(collective_error const& why) {
    if (others_ != nullptr) others_->fail(why);
    flags_.raise();
    publish(*failed_, 1);
  }
  /// Waits after a failure until the kernels of this process that have begun have ended.
  ///
  /// limit: for the user's own kernels, which may run long before their next call
  void let_end(std::chrono::nanoseconds limit) {
    flags_.raise();  // not all kernels reach all others
    // A kernel that has not begun may never begin.
    for (int const device : where_.devices) driver_.let_end(device);
    (void)poll_until(std::chrono::steady_clock::now() + limit, [&] { return calls_.are_over(); });
  }
  /// See `completion_tracker::are_over`.
  [[nodiscard]] bool are_over() const { return calls_.are_over(); }
  /// See `completion_tracker::settle`.
  [[nodiscard]] std::optional<std::size_t> settle(std::chrono::nanoseconds limit) {
    return calls_.settle(limit);
  }
  /// Resets the flags.
  ///
  /// Pre: no kernel is running.
  void restart() {
    flags_.clear();
    publish(*failed_, 0);
  }

 private:
  void expect_cooperation() const {
    for (int const device : where_.devices) {
      auto const properties = driver_.properties(device);
      if (properties.launches_cooperatively) continue;
      throw precondition_error("device_ranks: device " + std::to_string(device) + " (" +
                               properties.name + ") has no cooperative launches");
    }
    expects(where_.devices.size() == 1 || !driver_.launches_block(),
            "device_ranks: CUDA_LAUNCH_BLOCKING is set, expected asynchronous launches for several "
            "devices");
  }

  Devices& driver_;
  rank_placement const& where_;
  device_options const& options_;
  host_processes* others_;
  abort_flags<Devices> flags_;
  completion_tracker<Devices> calls_;
  pinned_allocation<Devices> pinned_;
  counter* failed_;  // in this memory
};

}}  // namespace blink::BLINK_ABI
