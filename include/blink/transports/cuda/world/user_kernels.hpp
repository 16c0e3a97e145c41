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
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/world/device_report.hpp>
#include <blink/transports/host/host_processes.hpp>

#include <algorithm>
#include <cstddef>
#include <memory>
#include <optional>
#include <type_traits>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Kernels of the user's own on a communicator of devices, which call collectives while they go: the channels that
/// they call in, and their launches.
///
/// World: derives from this, and has `launcher_`, `enter(call_id)` and `throw_if_failed()`
template <class Ranks, device_runtime Devices>
class user_kernels : public call_validation<Ranks, Devices> {
 public:
  using typename call_validation<Ranks, Devices>::streams;

  /// Makes what kernels of the user's own need for calling a collective, along `schedule`; all processes do it together.
  /// It is the communicator's, until its end. Not over shaped links.
  ///
  /// Protocol: how connections carry data; packets for small calls: what a tree carries has to fit into its window
  /// Throws: precondition_error if the schedule does not carry it, is for another number of ranks, or joins devices
  ///         that do not reach each other, for options that are out of range or differ between processes;
  ///         resource_error if it is more than the cap.
  template <class T, connection_protocol Protocol = whole_chunks>
  [[nodiscard]] prepared_channels<Devices, T, Protocol> prepare_channels(
      schedule const& source, channel_options const& wanted) {
    static_assert(detail::is_element<T>, "blink: elements are trivially copyable and not const");
    static_assert(!Ranks::transport_type::is_shaped,
                  "blink: channels go at full speed; shaped links carry calls");
    agree(this->others_.get(), "prepare_channels",
          [&] { expect_ranks(source, this->rank_count()); });
    channel_elements const elements{sizeof(T), std::is_same_v<Protocol, small_packets>};
    auto& made = channels_.emplace_back(std::make_unique<device_channels<Devices>>(
        this->driver_, this->where_, this->budget_, source, wanted, elements, this->options_,
        this->others_.get(), channels_.size()));
    return prepared_channels<Devices, T, Protocol>(*made);
  }

  /// Launches a kernel of the user's own on all devices, whose blocks call the collective that the channels are for.
  /// It stands in the order of calls, may be captured, and ends by the deadline and by `abort`, as calls do.
  ///
  /// kernels: by rank of this process: `kernel(group, channels, block)` is called by all threads of each of its
  ///          blocks, with `rank_channels<T, Protocol>`; what a rank's kernel works on are its members
  /// on:      one for each device, or none for the default ones
  /// Throws:  precondition_error if not all blocks run at once on a device, or the kernels of its ranks do not fit into
  ///          an argument; collective_error if a call before has failed; device_error.
  template <class Kernel, class T, connection_protocol Protocol>
  void launch(prepared_channels<Devices, T, Protocol> const& channels,
              std::vector<Kernel> const& kernels, kernel_shape const& shape,
              streams const& on = {}) {
    self().throw_if_failed();
    auto& own = channels.get();
    expects(std::any_of(channels_.begin(), channels_.end(),
                        [&](auto const& each) { return each.get() == &own; }),
            "launch: channels of this communicator");
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
  /// Somebody may still use the memory.
  void keep_channels_for_ever() {
    for (auto& each : channels_) each->keep_memory_for_ever();
  }
  /// Notes in the report how a call in a channel has failed, if one has. Returns what a rank was refused, if that is why.
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
