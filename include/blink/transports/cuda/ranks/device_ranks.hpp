// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/running/walk/packet.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/calls/call_order_check.hpp>
#include <blink/transports/cuda/calls/call_validation.hpp>
#include <blink/transports/cuda/calls/device_launcher.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/calls/device_schedule.hpp>
#include <blink/transports/cuda/calls/device_tables.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/p2p/piece_lists.hpp>
#include <blink/transports/cuda/ranks/device_report.hpp>
#include <blink/transports/cuda/ranks/pair_transfers.hpp>
#include <blink/transports/cuda/ranks/protocol_schedules.hpp>
#include <blink/transports/cuda/ranks/user_kernels.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/cuda/runtime/stream_ends.hpp>
#include <blink/transports/host/host_processes.hpp>
#include <blink/transports/host/host_rendezvous.hpp>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Ranks that are devices of this process, or of several processes of one host, joined by
/// `Transport`. Several ranks may share a device, as blocks of one kernel. One thread of the host
/// makes the calls of all ranks of a process.
///
/// Calls are asynchronous: they put kernels into streams and return. `wait`, `check` and the next
/// call report failures. A call without progress for the deadline ends by itself on all devices.
/// After that the communicator refuses calls until `recover`.
///
/// Several processes: each has a communicator, and calls take the buffers of its own ranks. All
/// processes make, prepare, recover and end their communicators together, and make the same calls
/// in the same order. A call does not wait for the calls of other processes. It is compared with
/// the calls that they have already made.
///
/// Calls may be captured into CUDA graphs and replayed, because state that changes from call to
/// call is in memory of the devices. All streams of a captured call belong to the same graph.
///
/// For several communicators see `device_order` and `call_order_check`. Only one thread of the host
/// uses a communicator at a time.
///
/// Protocols: how connections carry data. `modelled_protocol` chooses by the size of the message,
///            with the costs of the options. With `fixed_protocol` the kernels of the other
///            protocol are not compiled and their memory is not allocated. Shaped links carry whole
///            chunks only.
template <polled_runtime Devices, transport Transport,
          protocol_chooser Protocols = modelled_protocol>
class basic_device_ranks
    : public pair_transfers<basic_device_ranks<Devices, Transport, Protocols>, Devices> {
  using ranks = pair_transfers<basic_device_ranks, Devices>;
  friend ranks;
  friend user_kernels<basic_device_ranks, Devices>;
  friend call_validation<basic_device_ranks, Devices>;
  static_assert(!Transport::is_shaped || !may_choose<Protocols, small_packets>,
                "blink: packets carry no time of arrival; shaped links need "
                "fixed_protocol<whole_chunks>");

 public:
  using transport_type = Transport;
  using prepared_type = protocol_schedules<Devices, Protocols>;
  using typename ranks::stream;
  using typename ranks::streams;

  /// Throws: precondition_error for options that are out of range, for devices that do not exist or
  ///         lack a feature, and for shaped links between devices; resource_error, device_error.
  explicit basic_device_ranks(Devices& driver, device_options const& options)
      : basic_device_ranks(driver, options, std::unique_ptr<host_processes>()) {}

  /// A communicator of several processes. Ranks are numbered process by process.
  ///
  /// all:    the bootstrap through which the processes find each other; may end after construction
  /// Throws: as above, on all processes if one refuses; precondition_error if the processes are on
  ///         several hosts or have different options; collective_error if a process does not
  ///         arrive.
  template <process_bootstrap Bootstrap>
    requires sharing_runtime<Devices>
  basic_device_ranks(Devices& driver, device_options const& options, Bootstrap& all)
      : basic_device_ranks(driver, options,
                           std::make_unique<host_processes>(all, options.deadline)) {
    static_assert(
        !reaching_transport<Transport>,
        "blink: kernels do not reach buffers of other processes; use slot_peer_transport");
  }
  /// Waits for the calls that run, and for the communicators of the other processes to end. It
  /// waits for at most the deadline, or without a limit if calls were captured. Memory is never
  /// freed under a kernel. If a call cannot end because its stream is held up, the call is aborted.
  /// The memory that it may still use is then never released, on any process.
  ~basic_device_ranks() {
    try {
      if (!launcher_.settle(this->time_limit())) return;
      leak_memory();
      launcher_.abort(
          {launcher_.own_name() + " was destroyed while its streams were busy", -1, -1, -1, -1});
    } catch (device_error const&) {  // a device that is lost runs no kernels
    }
  }

  /// Allocates the memory for calls along `schedule`. The same schedule returns the same object
  /// again.
  ///
  /// Throws: precondition_error if it is no schedule, has another number of ranks, or joins devices
  ///         that do not reach each other; resource_error if it needs more than the cap.
  prepared_type& prepare(schedule const& source) {
    connection_layout layout;
    layout.reaches = reaching_transport<Transport>;
    layout.is_shaped = Transport::is_shaped;
    return this->find_or_prepare(prepared_, source, layout, others_.get(),
                                 options_.packet_slot_bytes);
  }

  /// Waits until the work in these streams is done. `on` has one stream for each device, or none
  /// for the default ones. There is no limit unless a call fails, because other work in the streams
  /// may take any time.
  ///
  /// Throws: collective_error if a call has failed, also while a stream is held up;
  ///         precondition_error for streams that are captured; device_error.
  ///
  /// After a failure all kernels that had begun have ended. The streams have also ended, unless
  /// that takes longer than a second or half of the deadline (a quarter with several processes).
  /// Work that is left in a stream then uses its buffers but moves nothing until `recover` has
  /// returned. The user's own kernels end at their next call of a collective; until then they are
  /// such work.
  void wait(streams const& on = {}) {
    waits_.set(this->expect_streams(on));
    auto const is_over = [&] { return waits_.are_reached(); };
    using clock = std::chrono::steady_clock;
    (void)poll_until(clock::time_point::max(), [&] { return is_over() || has_failed(); });
    try {
      check();
    } catch (collective_error const&) {
      (void)poll_until(clock::now() + grace(), is_over);
      throw;
    }
  }

  /// True if a call has failed. Does not wait for running calls.
  [[nodiscard]] bool has_failed() const { return launcher_.has_failed(); }
  /// Throws: collective_error if a call has failed, with the ranks that waited and their peers.
  void check() { throw_if_failed(); }

  /// True if no call runs or is in a stream of this process, except for calls of graphs. Does not
  /// wait. After `abort` the kernels that run end soon; a stream that is held up ends later.
  ///
  /// Throws: device_error.
  [[nodiscard]] bool is_idle() const { return launcher_.are_over(); }

  /// Ends the calls that run and those that are in streams, on all devices.
  void abort() {
    launcher_.abort({launcher_.own_name() + " was aborted by its owner", -1, -1, -1, -1});
  }

  /// Waits after a failure until no call runs, and resets the communicator. Work behind the failed
  /// call in the streams has moved nothing.
  ///
  /// Throws: collective_error if a process has died, has left, or does not arrive. Also if a call
  ///         here does not end before the deadline because its stream is held up; the other
  ///         processes throw precondition_error then. The limit is half of the deadline with other
  ///         processes, and none if calls were captured. After an exception nothing has changed,
  ///         and `recover` may be called again.
  void recover() {
    auto const settle = [&] {
      auto const open = launcher_.settle(this->time_limit());
      if (!open) return;
      double const seconds = std::chrono::duration<double>(this->time_limit()).count();
      throw collective_error("recover: a call on device " + std::to_string(where_.devices[*open]) +
                                 " has not ended: its stream is held up (waited " +
                                 std::to_string(seconds) + " s)",
                             -1, -1, -1, -1);
    };
    auto const restart = [&] {
      for (auto& source : prepared_) source->restart();
      this->restart_channels();
      if (pairs_) pairs_->restart();
      launcher_.restart();
      compared_.restart();
      failure_.reset();
    };
    if (others_) {
      others_->clear_failure(settle, restart);
    } else {
      settle();
      restart();
    }
  }

 private:
  using ranks::driver_;
  using ranks::options_;
  using ranks::others_;
  using ranks::pairs_;
  using ranks::where_;

  basic_device_ranks(Devices& driver, device_options const& options,
                     std::unique_ptr<host_processes> others)
      : ranks(driver, options, std::move(others), detail::hash_of_types<Protocols>()),
        launcher_((expect_one_clock(), driver), where_, this->budget_, options_, others_.get()),
        compared_(driver.order().counts(), others_.get(), where_.devices, options_.checks_calls),
        waits_(driver, where_.devices) {}

  // All processes reach the same result.
  void expect_one_clock() const {
    if (!Transport::is_shaped || where_.places.size() == 1) return;
    throw precondition_error(
        "device_ranks: shaped links expect all ranks on one device of one process, whose clock "
        "times their messages; " +
        where_.name(0) + " and " + where_.name(where_.places[1].ranks[0]) + " are not");
  }

  // Never releases the memory, because kernels may still use it.
  void leak_memory() {
    ranks::leak_memory();
    launcher_.leak_memory();
    if (pairs_) pairs_->leak_memory();
    for (auto& source : prepared_) {
      source->each([](auto& one) { one.leak_memory(); });
    }
    this->keep_channels_for_ever();
  }

  // Compares the call with those of other processes.
  void enter(call_description const& call_id, streams const& on) {
    if (!others_) return;
    auto const difference = compared_.enter(call_id, driver_.capture(on[0]).number != 0);
    if (!difference.empty()) launcher_.abort({difference, -1, -1, -1, -1, true});
    throw_if_failed();
  }

  // Runs the call over the connections of the protocol that suits its size. All processes choose
  // the same one.
  template <chunking Chunks, class T, class Reducer>
  void enqueue(prepared_type& prepared, collective kind,
               std::vector<detail::plain_buffers> const& buffers, detail::call_size const& size,
               std::vector<std::size_t> const& copied, Reducer const& reduce, streams const& on) {
    throw_if_failed();
    constexpr element_sizes sizes = sizes_of<Reducer, T>();
    constexpr bool fits_packets = packets_of::carries(sizes);
    static_assert(
        prepared_type::has_chunks || fits_packets,
        "blink: elements, or the data that the reducer sends, are too large for packets, and this "
        "communicator has no other protocol");
    // A reducer that promises the same bits for any length forbids that tree shares depend on the
    // protocol.
    constexpr bool may_change = fits_packets && order_of<Reducer> != order_promise::shape;
    auto const trees_of = [&]<class Protocol>(Protocol) {
      return prepared.template with<Protocol>().template trees_of_call<Chunks>(
          kind, size.count, size.blocks, sizes, order_of<Reducer>, size.chunk_bytes);
    };
    auto const run = [&]<class Protocol>(Protocol, std::vector<tree_call> const& trees) {
      auto& own = prepared.template with<Protocol>();
      auto const call_id = detail::description_of_call(
          own.prepared(), kind, size, detail::types_of_call<T, Reducer, Chunks, Protocol>,
          detail::common_state_of(reduce));
      enqueue_with<Protocol, T>(own, kind, buffers, trees, call_id, copied, reduce, on);
    };
    if constexpr (!prepared_type::has_packets || (prepared_type::has_chunks && !may_change)) {
      run(whole_chunks{}, trees_of(whole_chunks{}));
    } else if constexpr (!prepared_type::has_chunks) {
      run(small_packets{}, trees_of(small_packets{}));
    } else {
      auto const trees = trees_of(whole_chunks{});
      if (prepared.prefers_packets(choose_, kind, trees, sizes)) {
        run(small_packets{}, trees_of(small_packets{}));
      } else {
        run(whole_chunks{}, trees);
      }
    }
  }

  template <connection_protocol Protocol, class T, class Reducer>
  void enqueue_with(device_schedule<Devices>& prepared, collective kind,
                    std::vector<detail::plain_buffers> const& buffers,
                    std::vector<tree_call> const& trees, call_description const& call_id,
                    std::vector<std::size_t> const& copied, Reducer const& reduce,
                    streams const& on) {
    constexpr bool has_packets = std::is_same_v<Protocol, small_packets>;
    using kernel_transport = std::conditional_t<has_packets, slot_peer_transport, Transport>;
    detail::expect_runs(prepared.prepared(), sizes_of<Reducer, T>(),
                        detail::operands_on_device<Reducer>, this->rank_count(), "device_options");
    auto const& all = this->expect_streams(on);
    auto const phases = phases_of(kind);
    auto const blocks =
        launcher_.assign_blocks(prepared.tasks(phases), [&](int device, std::uint32_t threads) {
          load_put_list<tree_call>(driver_, device);
          return driver_.template blocks_at_once<kernel_transport, Protocol, T, Reducer>(device,
                                                                                         threads);
        });
    if (has_packets && blocks.tasks_per_block > 1) prepared.expect_fit(kind, trees);

    device_call call;
    std::vector<void*> copies(buffers.size(), nullptr);
    for (std::size_t k = 0; k < buffers.size(); ++k) {
      std::size_t const rank = static_cast<std::size_t>(this->first_rank()) + k;
      if (copied[k] > 0) copies[k] = this->scratch_of(k, copied[k]);
      call.inputs[rank] = copied[k] > 0 ? copies[k] : buffers[k].input;
      call.outputs[rank] = buffers[k].output;
    }
    if (trees.size() <= device_call::most_trees) {
      std::copy(trees.begin(), trees.end(), call.trees);
    }
    call.slot_bytes = prepared.prepared().tables().layout().slot_bytes;
    call.latency_nanoseconds = prepared.prepared().latency_nanoseconds();
    call.rank_count = static_cast<std::uint32_t>(this->rank_count());
    call.tasks_per_block = blocks.tasks_per_block;
    call.waits_apart = blocks.waits_apart;
    call.phases = phases;
    call.kind = kind;
    call.reduces = has_reduce_phase(kind);

    enter(call_id, all);

    auto const prepare = [&] {
      for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
        if (copied[rank] == 0) continue;
        std::size_t const k = this->position_of(rank);
        driver_.copy(where_.devices[k], copies[rank], buffers[rank].input, copied[rank], all[k]);
      }
      for (std::size_t k = 0; k < all.size(); ++k) {
        auto* const there = prepared.call_trees(k);
        if (there != nullptr) put_list(driver_, where_.devices[k], there, trees, all[k]);
      }
    };
    auto const launch = [&](std::size_t k) {
      if (blocks.blocks[k] == 0) return;
      prepared.set_device(call, k);
      call.watch = launcher_.watch(k);
      driver_.template launch<kernel_transport, Protocol, T>(where_.devices[k], blocks.blocks[k],
                                                             blocks.threads, call, reduce, all[k]);
    };
    launcher_.run(all, [](std::size_t) { return true; }, prepare, launch);
  }

  // The time within which streams must reach their end after a failure.
  [[nodiscard]] std::chrono::nanoseconds grace() const {
    return std::min<std::chrono::nanoseconds>(this->time_limit() / 2, std::chrono::seconds(1));
  }
  void throw_if_failed() {
    if (!has_failed()) return;
    if (!failure_) {
      launcher_.let_end(this->has_channels() ? grace() : std::chrono::nanoseconds(0));
      failure_ = find_cause();
    }
    throw collective_error(*failure_);
  }

  [[nodiscard]] collective_error find_cause() {
    if (auto const cause = pairs_ ? pairs_->find_failure() : std::nullopt) {
      others_->fail(*cause);
      return others_->failure();
    }
    device_process_report report;
    for (auto& source : prepared_) {
      source->each([&](auto& one) {
        auto const failed = one.find_failure();
        if (failed.is_here) report.set(one.prepared().hash(), failed.kind, failed.ranks);
      });
    }
    if (auto const refused = this->report_channels(report)) {
      if (!others_) return *refused;
      others_->fail(*refused);
      return others_->failure();
    }
    if (others_) return find_cause_among(*others_, where_, report);
    return describe_reports(where_, {report}, judge_reports(where_, {report}),
                            std::chrono::duration<double>(options_.deadline).count());
  }

  device_launcher<Devices> launcher_;
  call_order_check compared_;
  stream_ends<Devices> waits_;
  Protocols choose_ = chooser_with<Protocols>(options_.protocols);
  std::vector<std::unique_ptr<prepared_type>> prepared_;
  std::optional<collective_error> failure_;
};

}}  // namespace blink::BLINK_ABI
