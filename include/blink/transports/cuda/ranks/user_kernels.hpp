// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/calls/call_validation.hpp>
#include <blink/transports/cuda/channels/channel_launch.hpp>
#include <blink/transports/cuda/channels/channel_layout.hpp>
#include <blink/transports/cuda/channels/device_channels.hpp>
#include <blink/transports/cuda/ranks/device_report.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The user's own kernels on a communicator of devices, which call collectives while they run: the
/// channels of their calls, and their launches.
///
/// Ranks: derives from this, and has `launcher_`, `enter(call_id)` and `throw_if_failed()`
template <class Ranks, device_runtime Devices>
class user_kernels : public call_validation<Ranks, Devices> {
 public:
  using typename call_validation<Ranks, Devices>::streams;

  /// Allocates the channels in which the user's kernels call a collective along `schedule`. All
  /// processes call it together. The communicator owns the channels until its end. Shaped links are
  /// not supported.
  ///
  /// Protocol: how connections carry data. Packets suit small calls: the share of each tree must
  ///           fit into its window.
  /// Throws:   precondition_error if the schedule does not carry the collective, has another number
  ///           of ranks, or joins devices that do not reach each other; for options that are out of
  ///           range or differ between processes; resource_error if it needs more than the cap.
  template <class T, connection_protocol Protocol = whole_chunks>
  [[nodiscard]] prepared_channels<Devices, T, Protocol> prepare_channels(
      schedule const& source, channel_options const& wanted) {
    static_assert(detail::is_element<T>,
                  "blink: elements must be trivially copyable and not const");
    static_assert(!Ranks::transport_type::is_shaped, "blink: shaped links do not support channels");
    agree(this->others_.get(), "prepare_channels",
          [&] { expect_ranks(source, this->rank_count()); });
    channel_elements const elements{sizeof(T), std::is_same_v<Protocol, small_packets>};
    auto& made = channels_.emplace_back(std::make_unique<device_channels<Devices>>(
        this->driver_, this->where_, this->budget_, source, wanted, elements, this->options_,
        this->others_.get(), channels_.size()));
    return prepared_channels<Devices, T, Protocol>(*made);
  }

  /// Launches a user's kernel on all devices; its blocks call the collective of the channels. The
  /// launch is part of the order of calls and may be captured. Like a call it ends by the deadline
  /// and by `abort`.
  ///
  /// kernels: by rank of this process. All threads of each block call `kernel(group, channels,
  ///          block)` with `rank_channels<T, Protocol>`. The members of a rank's kernel are its
  ///          arguments.
  /// on:      one stream for each device, or none for the default ones
  /// Throws:  precondition_error if not all blocks run at once on a device, or the kernels of its
  ///          ranks do not fit into an argument; collective_error if an earlier call has failed;
  ///          device_error.
  template <class Kernel, class T, connection_protocol Protocol>
  void launch(prepared_channels<Devices, T, Protocol> const& channels,
              std::vector<Kernel> const& kernels, kernel_shape const& shape,
              streams const& on = {}) {
    self().throw_if_failed();
    auto& own = channels.get();
    expects(std::any_of(channels_.begin(), channels_.end(),
                        [&](auto const& each) { return each.get() == &own; }),
            "launch: channels of another communicator, expected those of this one");
    auto const& all = this->expect_streams(on);
    using work = channel_work<Kernel, T, Protocol>;
    kernel_launch<Devices, work> const ready(this->driver_, this->where_, this->options_, kernels,
                                             shape);
    self().enter(description_of_call<work>(own, shape), all);
    auto& launcher = self().launcher_;
    launcher.run(
        all, [](std::size_t) { return true; }, [] {},
        [&](std::size_t k) {
          auto table = own.table(k);
          table.watch = launcher.watch(k);
          ready.launch(k, table, all[k]);
        });
  }

 protected:
  using call_validation<Ranks, Devices>::call_validation;
  ~user_kernels() = default;

  [[nodiscard]] bool has_channels() const { return !channels_.empty(); }
  /// Pre: no kernel is running.
  void restart_channels() {
    for (auto& each : channels_) each->restart();
  }
  /// Never releases the memory, because kernels may still use it.
  void keep_channels_for_ever() {
    for (auto& each : channels_) each->leak_memory();
  }
  /// Adds a failure of a call in a channel to the report, if there is one. Returns the error if the
  /// cause is that a rank's call was refused.
  ///
  /// Pre: no kernel is running.
  [[nodiscard]] std::optional<collective_error> report_channels(device_process_report& report) {
    for (auto& each : channels_) {
      auto const failed = each->find_failure();
      if (!failed.refusal.empty()) {
        return collective_error(failed.refusal, failed.rank, -1, -1, -1);
      }
      if (!failed.is_here) continue;
      report.set(each->identity(), each->options().kind, failed.ranks, failed.channel);
    }
    return std::nullopt;
  }

 private:
  [[nodiscard]] Ranks& self() { return static_cast<Ranks&>(*this); }

  std::vector<std::unique_ptr<device_channels<Devices>>> channels_;
};

}}  // namespace blink::BLINK_ABI
