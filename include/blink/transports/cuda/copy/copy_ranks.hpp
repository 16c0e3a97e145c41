// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/calls/call_validation.hpp>
#include <blink/transports/cuda/calls/completion_tracker.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/calls/device_order.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/copy/copy_call.hpp>
#include <blink/transports/cuda/copy/copy_schedule.hpp>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/kernels/step_tasks.hpp>
#include <blink/transports/cuda/runtime/device_handles.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Ranks that are devices of this process, whose copy engines carry the chunks. No kernel waits for
/// another one, and only combining occupies multiprocessors. It suits large buffers best, above all
/// buffers that are only copied, because each chunk costs a few calls of the driver in each step.
///
/// Chunks are copies in streams, one stream for each pair of devices and direction. Trees of a
/// stream take turns, chunk by chunk, so that they share a link fairly. Streams wait for each other
/// by events. A small kernel combines elements, in one stream for each rank.
///
/// The copies are ordered with the streams of a call: they follow earlier work there, and later
/// work follows them. Calls of one communicator follow each other. They may be captured into
/// graphs.
///
/// Source: G. Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020,
///         section 4: code generation with CUDA streams.
template <polled_runtime Devices>
class basic_copy_ranks : public call_validation<basic_copy_ranks<Devices>, Devices> {
  using ranks = call_validation<basic_copy_ranks, Devices>;
  friend ranks;

 public:
  using prepared_type = copy_schedule<Devices>;
  using typename ranks::stream;
  using typename ranks::streams;

  /// Throws: precondition_error for options that are out of range and devices that do not exist;
  ///         device_error.
  basic_copy_ranks(Devices& driver, device_options const& options)
      : ranks(driver, options), calls_(driver, where_.devices) {
    for (int const device : where_.devices) begins_.emplace_back(driver_, device);
    for (int const device : where_.device_of) combining_.emplace_back(driver_, device);
  }
  /// Waits for the running calls, for at most the deadline (without a limit if calls were
  /// captured). If a call cannot end because its stream is held up, the memory that it may still
  /// use is never released.
  ~basic_copy_ranks() {
    try {
      if (!calls_.settle(this->time_limit())) return;
      this->leak_memory();
      for (auto& source : prepared_) source->leak_memory();
    } catch (device_error const&) {  // a device that is lost copies nothing
    }
  }

  /// See `basic_device_ranks::prepare`.
  prepared_type& prepare(schedule const& source) {
    return this->find_or_prepare(prepared_, source, connection_layout{});
  }

  /// Waits until the work in these streams is done. `on` has one stream for each device, or none
  /// for the default ones. There is no deadline: copies wait only for streams, and other work in
  /// the streams may take any time. A stream that is held up holds up the others. To wait with a
  /// limit, record events in the streams and poll them.
  ///
  /// Throws: device_error if the driver reports an error, for instance of a failed copy.
  void wait(streams const& on = {}) {
    auto const& all = this->expect_streams(on);
    for (std::size_t k = 0; k < all.size(); ++k) driver_.synchronize(where_.devices[k], all[k]);
  }

 private:
  using present_call = copy_call<prepared_type>;
  using ranks::driver_;
  using ranks::options_;
  using ranks::where_;

  /// A stream of the communicator, with an event for its end.
  struct own_stream {
    int device;
    device_stream<Devices> queue;
    device_event<Devices> end;
    bool is_in_call = false;

    own_stream(Devices& driver, int on) : device(on), queue(driver, on), end(driver, on) {}
  };

  // Before its first work in a call, a stream of the communicator waits for the streams of the
  // call.
  own_stream& in_call(own_stream& each) {
    if (!each.is_in_call) {
      each.is_in_call = true;
      used_.push_back(&each);
      for (auto const& begin : begins_) wait_for(each, begin.get());
    }
    return each;
  }
  // The stream of all copies from one device to another.
  own_stream& link(int from, int to) {
    auto found = links_.find({from, to});
    if (found == links_.end()) {
      (void)driver_.reach(from, to);  // without peer access copies go through the host
      found = links_.try_emplace({from, to}, driver_, from).first;
    }
    return in_call(found->second);
  }
  own_stream& combining(int rank) { return in_call(combining_[static_cast<std::size_t>(rank)]); }
  void wait_for(own_stream const& on, typename Devices::event const& which) {
    driver_.wait(on.device, on.queue.get(), which);
  }
  void record(own_stream const& on, typename Devices::event const& which) {
    driver_.record(on.device, which, on.queue.get());
  }
  [[nodiscard]] static std::uint64_t window_of(present_call const& now) {
    return now.along->prepared().tables().layout().window;
  }
  [[nodiscard]] int device_of(int rank) const {
    return where_.device_of[static_cast<std::size_t>(rank)];
  }

  // Sends a chunk over one connection after `complete` has happened.
  void send(present_call const& now, placed_task const& from, endpoint const& end,
            std::uint64_t chunk, void const* source, typename Devices::event const* complete) {
    int const device = device_of(from.rank);
    int const to = device_of(end.peer);
    auto& over = link(device, to);
    if (complete != nullptr) wait_for(over, *complete);
    if (!now.is_delivered(end.connection) && chunk >= window_of(now)) {
      wait_for(over, now.along->consumed(end.connection, chunk));
    }
    std::size_t const bytes = now.bytes(*from.here, end, chunk);
    if (bytes > 0) {
      driver_.copy_between(to, now.destination(end.connection, chunk), device, source, bytes,
                           over.queue.get());
    }
    record(over, now.along->arrived(end.connection, chunk));
  }

  void copy_chunk(present_call const& now, placed_task const& at, std::uint64_t chunk) {
    auto const& here = *at.here;
    endpoint const* const in = here.in_count > 0 ? here.in : nullptr;
    void const* const source = now.leaves_from(at, chunk);
    auto const arrived =
        in == nullptr ? typename Devices::event{} : now.along->arrived(in->connection, chunk);
    auto const* const complete = in == nullptr ? nullptr : &arrived;
    if (here.writes_output && in == nullptr && source != now.output(here, at.rank, chunk)) {
      int const device = device_of(at.rank);
      std::size_t const bytes =
          static_cast<std::size_t>(chunk_count(here, chunk)) * now.sizes.value;
      if (bytes > 0) {
        driver_.copy_between(device, now.output(here, at.rank, chunk), device, source, bytes,
                             link(device, device).queue.get());
      }
    }
    for (std::uint32_t k = 0; k < here.out_count; ++k) {
      send(now, at, here.out[k], chunk, source, complete);
    }
    if (in == nullptr || now.is_delivered(in->connection)) return;
    // a task that forwards from a slot frees it when all copies are done
    auto& own = combining(at.rank);
    for (std::uint32_t k = 0; k < here.out_count; ++k) {
      wait_for(own, now.along->arrived(here.out[k].connection, chunk));
    }
    record(own, now.along->consumed(in->connection, chunk));
  }

  template <class T, class Reducer>
  void combine_chunk(present_call const& now, placed_task const& at, std::uint64_t chunk,
                     Reducer const& reduce) {
    auto const& here = *at.here;
    auto& own = combining(at.rank);
    copy_step const step = now.combining(at, chunk);
    for (std::uint32_t k = 0; k < here.in_count; ++k) {
      wait_for(own, now.along->arrived(here.in[k].connection, chunk));
    }
    if (!here.writes_output && chunk >= window_of(now)) {
      wait_for(own, now.along->arrived(here.out[0].connection, chunk));
    }
    if (chunk_count(here, chunk) > 0) {
      driver_.template combine<T>(own.device, step, reduce, own.queue.get());
    }
    for (std::uint32_t k = 0; k < here.in_count; ++k) {
      record(own, now.along->consumed(here.in[k].connection, chunk));
    }
    if (here.out_count == 0) return;
    auto const ready = now.along->ready(here.out[0].connection, chunk);
    record(own, ready);
    for (std::uint32_t k = 0; k < here.out_count; ++k) {
      send(now, at, here.out[k], chunk, now.leaves_from(at, chunk), &ready);
    }
  }

  template <chunking Chunks, class T, class Reducer>
  void enqueue(prepared_type& prepared, collective kind,
               std::vector<detail::plain_buffers> const& buffers, detail::call_size const& size,
               std::vector<std::size_t> const& copied, Reducer const& reduce, streams const& on) {
    static_assert(!detail::carries_epilogue<Reducer>,
                  "blink: copy engines deliver results and run no epilogue; use device_ranks");
    auto const& all = this->expect_streams(on);
    present_call now;
    now.along = &prepared;
    now.buffers = buffers;
    auto const tasks = tasks_in_order(prepared.prepared().tables(), this->rank_count(), kind);
    now.template set<Chunks, T, Reducer>(tasks, kind, size);
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      if (copied[rank] > 0) now.buffers[rank].input = this->scratch_of(rank, copied[rank]);
    }

    try {
      put_steps<T>(now, tasks, buffers, copied, reduce, all);
    } catch (...) {
      calls_.lose_track();
      throw;
    }
  }

  template <class T, class Reducer>
  void put_steps(present_call const& now, std::vector<placed_task> const& tasks,
                 std::vector<detail::plain_buffers> const& buffers,
                 std::vector<std::size_t> const& copied, Reducer const& reduce,
                 streams const& all) {
    for (auto* const own : used_) own->is_in_call = false;  // the last call may have thrown
    used_.clear();
    typename device_order<Devices>::turn turn(driver_.order(), driver_, where_.devices);
    for (std::size_t k = 0; k < all.size(); ++k) turn.begin(where_.devices[k], all[k]);
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      if (copied[rank] == 0) continue;
      std::size_t const k = this->position_of(rank);
      driver_.copy(where_.devices[k], const_cast<void*>(now.buffers[rank].input),
                   buffers[rank].input, copied[rank], all[k]);
    }
    for (std::size_t k = 0; k < all.size(); ++k) {
      driver_.record(where_.devices[k], begins_[k].get(), all[k]);
    }
    std::uint64_t most_chunks = 0;
    for (auto const& at : tasks) most_chunks = std::max(most_chunks, at.here->chunks);
    // Chunk by chunk, so that trees take turns on the links.
    for (std::uint64_t chunk = 0; chunk < most_chunks; ++chunk) {
      for (auto const& at : tasks) {
        if (chunk >= at.here->chunks) continue;
        if (present_call::is_copy(*at.here)) {
          copy_chunk(now, at, chunk);
        } else {
          combine_chunk<T>(now, at, chunk, reduce);
        }
      }
    }
    for (auto* const own : used_) {
      record(*own, own->end.get());
      for (std::size_t k = 0; k < all.size(); ++k) {
        driver_.wait(where_.devices[k], all[k], own->end.get());
      }
    }
    for (std::size_t k = 0; k < all.size(); ++k) {
      calls_.add(k, all[k]);
      turn.end(where_.devices[k], all[k]);
    }
  }

  completion_tracker<Devices> calls_;
  std::vector<device_event<Devices>> begins_;  // by device
  std::vector<own_stream> combining_;          // by rank
  std::map<std::pair<int, int>, own_stream> links_;
  std::vector<own_stream*> used_;  // by the present call
  std::vector<std::unique_ptr<prepared_type>> prepared_;
};

}}  // namespace blink::BLINK_ABI
