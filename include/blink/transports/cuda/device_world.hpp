// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/collective_error.hpp>
#include <blink/collectives/counter.hpp>
#include <blink/collectives/detail/collective_call.hpp>
#include <blink/collectives/order.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/cuda/device_call.hpp>
#include <blink/transports/cuda/device_order.hpp>
#include <blink/transports/cuda/device_ranks.hpp>
#include <blink/transports/cuda/device_runtime.hpp>
#include <blink/transports/cuda/device_schedule.hpp>
#include <blink/transports/cuda/device_stall.hpp>
#include <blink/transports/cuda/device_world_options.hpp>
#include <blink/transports/cuda/plan_blocks.hpp>
#include <blink/transports/cuda/rank_buffers.hpp>
#include <blink/transports/world_options.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI {

/// Ranks that are the devices of this process, or several ranks on one device as blocks of one
/// kernel; joined by `Link`. One thread of the host makes the calls of all of them.
///
/// Calls are asynchronous: they put kernels into streams and return. Whether they ended well is told
/// by `wait` and `check`, and by the next call. A call that cannot go on for the deadline ends by
/// itself on all devices; then the world refuses further calls until `recover`.
///
/// Calls may be captured into CUDA graphs and replayed: what changes from call to call is in the
/// memory of the devices. All streams of a call belong to the same graph then.
///
/// Several worlds: see `device_order`. A world is for one thread of the host at a time.
template <device_runtime Devices, transport Link>
class basic_device_world : public device_ranks<Devices> {
  using ranks = device_ranks<Devices>;

 public:
  using link_type = Link;
  using prepared_type = device_schedule<Devices>;
  using typename ranks::stream;
  using typename ranks::streams;

  /// Throws: precondition_error for options that are out of range, and devices that do not exist or
  ///         cannot do this; resource_error, device_error.
  explicit basic_device_world(Devices& driver, device_world_options const& options)
      : ranks(driver, options) {
    for (int const device : where_.devices) {
      auto const properties = driver_.properties(device);
      if (properties.launches_cooperatively) continue;
      throw precondition_error("device_world: device " + std::to_string(device) + " (" +
                               properties.name + ") has no cooperative launches");
    }
    expects(where_.devices.size() == 1 || !driver_.launches_block(),
            "device_world: several devices need launches that return at once, and "
            "CUDA_LAUNCH_BLOCKING is set");
    make_flags();
  }
  /// Waits for the calls that run: nothing is freed under a kernel.
  ~basic_device_world() {
    this->settle_at_the_end();
    driver_.release_pinned(failed_);
  }

  /// Allocates what calls along `plan` need; the same schedule again returns the same object.
  ///
  /// Throws: precondition_error if it is not a schedule, for another number of ranks, or joins
  ///         devices that do not reach each other; resource_error if it is more than the cap.
  prepared_type& prepare(schedule const& plan) {
    expect_ranks(plan, this->rank_count());
    for (auto& known : prepared_) {
      if (known->prepared().source() == plan) return *known;
    }
    wire_layout layout;
    layout.reaches = reaching_transport<Link>;
    layout.window = options_.window;
    layout.slot_bytes = options_.slot_bytes;
    return *prepared_.emplace_back(std::make_unique<prepared_type>(driver_, where_, this->budget_,
                                                                   plan, layout, options_.costs));
  }

  /// One call of all ranks; see `device_collectives.hpp` for functions with names.
  template <chunking Chunks, class T, reducer_for<T> Reducer>
  void call(prepared_type& plan, collective kind, std::vector<detail::plain_buffers> const& buffers,
            std::size_t chunk_bytes, Reducer const& reduce, streams const& on) {
    throw_if_failed();
    plan.prepared().expect_carries(kind);
    auto const use = this->use_of_ranks(plan.prepared(), kind);
    auto const in_place = detail::check_rank_buffers(kind, use, buffers, sizeof(T), alignof(T));
    std::size_t const count = buffers[0].count;
    if (options_.checks_places && count > 0) this->expect_places(kind, use, buffers);
    bool const keeps_input =
        detail::sends_and_receives(kind) || plan.prepared().source().is_one_shot;
    std::vector<std::size_t> copied(buffers.size(), 0);
    std::size_t const blocks = has_input_blocks(kind) ? buffers.size() : 1;
    for (std::size_t rank = 0; rank < copied.size(); ++rank) {
      if (keeps_input && in_place[rank]) copied[rank] = count * blocks * sizeof(T);
    }
    detail::call_size const size{.count = count, .chunk_bytes = chunk_bytes};
    enqueue<Chunks, T>(plan, kind, buffers, size, copied, reduce, on);
  }

  /// Internal: unequal flows, whose buffers the caller has checked.
  void move_blocks(prepared_type& plan, std::vector<detail::plain_buffers> const& buffers,
                   std::vector<block_range> const& blocks, streams const& on) {
    throw_if_failed();
    plan.prepared().expect_carries(collective::all_to_all);
    std::size_t bytes = 0;
    for (auto const& one : blocks) bytes += one.count;
    if (bytes == 0) return;
    detail::call_size const size{.count = bytes, .blocks = blocks.data()};
    std::vector<std::size_t> const nothing_copied(buffers.size(), 0);
    enqueue<scheduled_chunks, unsigned char>(plan, collective::all_to_all, buffers, size,
                                             nothing_copied, detail::no_reducer{}, on);
  }

  /// Waits until what is in these streams is done, one for each device, or in the default ones.
  ///
  /// Throws: collective_error if a call has failed.
  void wait(streams const& on = {}) {
    auto const& all = this->expect_streams(on);
    for (std::size_t k = 0; k < all.size(); ++k) driver_.synchronize(where_.devices[k], all[k]);
    check();
  }

  /// Has a call failed? Does not wait for calls that run.
  [[nodiscard]] bool has_failed() const { return observe(*failed_) != 0; }
  /// Throws: collective_error if a call has failed: who waited for whom.
  void check() { throw_if_failed(); }

  /// Ends the calls that run and those that are in streams, on all devices.
  void abort() {
    counter const one = 1;
    for (std::size_t k = 0; k < aborts_.size(); ++k) {
      driver_.write(where_.devices[k], aborts_[k], &one, sizeof one);
    }
    publish(*failed_, 1);
  }

  /// After a failure: waits until nothing runs, and begins anew. What was in the streams behind the
  /// call that failed has not moved anything.
  void recover() {
    this->settle();
    for (auto& plan : prepared_) plan->restart();
    for (std::size_t k = 0; k < aborts_.size(); ++k) {
      driver_.clear(where_.devices[k], aborts_[k], sizeof(counter));
    }
    failure_.reset();
    publish(*failed_, 0);
  }

 private:
  using ranks::driver_;
  using ranks::options_;
  using ranks::where_;

  // An abort flag on each device, and their list on each.
  void make_flags() {
    std::size_t const devices = where_.devices.size();
    for (int const device : where_.devices) {
      std::size_t const bytes = sizeof(wire_counters) + devices * sizeof(counter*);
      auto* const memory = static_cast<std::byte*>(
          this->allocate(device, device_memory_use{bytes, 0, 0}, "the communicator"));
      driver_.clear(device, memory, sizeof(wire_counters));
      aborts_.push_back(reinterpret_cast<counter*>(memory));
      abort_lists_.push_back(reinterpret_cast<counter**>(memory + sizeof(wire_counters)));
    }
    for (std::size_t k = 0; k < devices; ++k) {
      driver_.write(where_.devices[k], abort_lists_[k], aborts_.data(), devices * sizeof(counter*));
    }
    failed_ = static_cast<counter*>(driver_.allocate_pinned(sizeof(counter)));
    publish(*failed_, 0);
  }

  template <chunking Chunks, class T, class Reducer>
  void enqueue(prepared_type& plan, collective kind,
               std::vector<detail::plain_buffers> const& buffers, detail::call_size const& size,
               std::vector<std::size_t> const& copied, Reducer const& reduce, streams const& on) {
    constexpr element_sizes sizes = sizes_of<Reducer, T>();
    expects(plan.prepared().source().rank_count == this->rank_count(),
            "schedule: prepared for another number of ranks");
    expects(sizes.largest() <= plan.prepared().tables().layout().slot_bytes,
            "device_world_options: slot_bytes is less than the size of one element");
    if constexpr (!is_commutative<Reducer>) {
      expects(
          plan.prepared().keeps_order(),
          "a reducer that is not commutative needs a schedule that keeps the order of the ranks");
    }
    auto const& all = this->expect_streams(on);
    auto const phases = phases_of(kind);
    auto const blocks =
        plan_blocks(plan.lanes(phases), allowed_threads(), [&](int device, std::uint32_t threads) {
          return driver_.template blocks_at_once<Link, T, Reducer>(device, threads);
        });
    auto const trees = plan.template trees_of_call<Chunks>(kind, size.count, size.blocks, sizes,
                                                           order_of<Reducer>, size.chunk_bytes);

    device_call call;
    std::vector<void*> copies(buffers.size(), nullptr);
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      if (copied[rank] > 0) copies[rank] = this->scratch_of(rank, copied[rank]);
      call.inputs[rank] = copied[rank] > 0 ? copies[rank] : buffers[rank].input;
      call.outputs[rank] = buffers[rank].output;
    }
    if (trees.size() <= device_call::most_trees) {
      std::copy(trees.begin(), trees.end(), call.trees);
    }
    call.failed = failed_;
    call.deadline_nanoseconds = static_cast<std::uint64_t>(options_.deadline.count());
    call.slot_bytes = plan.prepared().tables().layout().slot_bytes;
    call.device_count = static_cast<std::uint32_t>(where_.devices.size());
    call.rank_count = static_cast<std::uint32_t>(this->rank_count());
    call.lanes_per_block = blocks.lanes_per_block;
    call.phases = phases;
    call.kind = kind;
    call.is_both = has_reduce_phase(kind) && has_broadcast_phase(kind);

    typename device_order<Devices>::turn turn(driver_.order(), driver_);
    for (std::size_t k = 0; k < all.size(); ++k) turn.begin(where_.devices[k], all[k]);
    for (std::size_t rank = 0; rank < buffers.size(); ++rank) {
      if (copied[rank] == 0) continue;
      std::size_t const k = this->position_of(rank);
      driver_.copy(where_.devices[k], copies[rank], buffers[rank].input, copied[rank], all[k]);
    }
    for (std::size_t k = 0; k < all.size(); ++k) put_trees(plan, k, trees, all[k]);
    try {
      for (std::size_t k = 0; k < all.size(); ++k) {
        plan.set_device(call, k);
        call.abort = aborts_[k];
        call.aborts = abort_lists_[k];
        if (blocks.blocks[k] == 0) continue;
        driver_.template launch<Link, T>(where_.devices[k], blocks.blocks[k], blocks.threads, call,
                                         reduce, all[k]);
      }
    } catch (...) {  // those that were launched would wait for the others
      abort();
      throw;
    }
    for (std::size_t k = 0; k < all.size(); ++k) turn.end(where_.devices[k], all[k]);
  }

  [[nodiscard]] std::vector<std::uint32_t> allowed_threads() const {
    if (options_.threads != 0) return {options_.threads};
    return {512, 256, 128};
  }

  void put_trees(prepared_type& plan, std::size_t position, std::vector<tree_call> const& trees,
                 stream const& on) {
    if (plan.call_trees(position) == nullptr) return;
    tree_batch batch;
    batch.all = plan.call_trees(position);
    for (std::size_t first = 0; first < trees.size(); first += batch.count) {
      batch.first = static_cast<std::uint32_t>(first);
      batch.count = std::min<std::uint32_t>(tree_batch::most_trees,
                                            static_cast<std::uint32_t>(trees.size() - first));
      std::copy_n(trees.begin() + static_cast<std::ptrdiff_t>(first), batch.count, batch.trees);
      driver_.put_trees(where_.devices[position], batch, on);
    }
  }

  void throw_if_failed() {
    if (!has_failed()) return;
    if (!failure_) {
      // What has not begun may never do so.
      for (int const device : where_.devices) driver_.let_end(device);
      double const seconds = static_cast<double>(options_.deadline.count()) * 1e-9;
      std::vector<device_rank_state> nobody;
      failure_ = describe_device_stall(collective::broadcast, nobody, seconds);
      for (auto& plan : prepared_) {
        auto const failed = plan->find_failure();
        if (failed.is_here) failure_ = describe_device_stall(failed.kind, failed.ranks, seconds);
      }
    }
    throw collective_error(*failure_);
  }

  std::vector<counter*> aborts_;  // by device
  std::vector<counter**> abort_lists_;
  counter* failed_ = nullptr;
  std::vector<std::unique_ptr<prepared_type>> prepared_;
  std::optional<collective_error> failure_;
};

}  // namespace blink::inline BLINK_ABI
