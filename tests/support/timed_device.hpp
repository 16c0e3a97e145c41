// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls of kernels with shaped links, in exactly the time that their messages take. One thread does
// the work of all blocks of a device. The clock jumps to the next arrival when no block can
// advance.

#include <blink/core/collective.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/calls/device_schedule.hpp>
#include <blink/transports/cuda/calls/device_tables.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/device_memory.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>

#include "collective_case.hpp"
#include "emulated_block.hpp"
#include "emulated_devices.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink_test {

/// A clock that changes only when it is set. For one thread.
struct set_clock {
  static inline std::uint64_t time = 0;
  [[nodiscard]] static std::uint64_t now() { return time; }
};

/// One device with all ranks of a schedule, and the time that calls take there. Moving data takes
/// no time, and each message arrives when it is due.
class timed_device {
 public:
  /// options: only window, slot_bytes and costs have an effect
  timed_device(blink::schedule const& source, blink::device_options const& options)
      : where_(std::vector<int>(static_cast<std::size_t>(source.rank_count), 0)),
        budget_(options.memory_cap),
        plan_(machine_, where_, budget_, source, layout_of(options), options.costs) {}

  /// Runs a call, and compares the results; empty if nothing is wrong.
  template <class T, class Reducer>
  std::string run(collective_case const& what, Reducer const& reduce) {
    auto const& source = plan_.prepared().source();
    std::vector<rank_buffers<T>> buffers;
    buffers.reserve(static_cast<std::size_t>(source.rank_count));
    blink::device_call call;
    for (int rank = 0; rank < source.rank_count; ++rank) {
      auto& mine = buffers.emplace_back(what, source.rank_count, rank);
      call.inputs[rank] = mine.input;
      call.outputs[rank] = mine.output;
    }
    auto const trees = plan_.trees_of_call<blink::scheduled_chunks>(
        what.kind, what.count, nullptr, blink::sizes_of<Reducer, T>(), blink::order_of<Reducer>, 0);
    blink::counter abort = 0;
    if (trees.size() <= blink::device_call::most_trees) {
      std::copy(trees.begin(), trees.end(), call.trees);
    }
    plan_.set_device(call, 0);
    call.more_trees = trees.size() <= blink::device_call::most_trees ? nullptr : trees.data();
    call.watch.abort = &abort;
    call.slot_bytes = plan_.prepared().tables().layout().slot_bytes;
    call.latency_nanoseconds = plan_.prepared().latency_nanoseconds();
    call.rank_count = static_cast<std::uint32_t>(source.rank_count);
    call.phases = blink::phases_of(what.kind);
    call.kind = what.kind;
    call.reduces = blink::has_reduce_phase(what.kind);
    auto const stuck = walk<T>(call, reduce);
    if (!stuck.empty()) return stuck;
    for (auto& mine : buffers) {
      auto const wrong = what_is_wrong(what, source, mine, reduce);
      if (!wrong.empty()) return "rank " + std::to_string(mine.rank) + ": " + wrong;
    }
    return "";
  }
  /// The time that the last call took.
  [[nodiscard]] std::uint64_t nanoseconds() const { return nanoseconds_; }
  /// The least time that each link needed for the bytes of the last call.
  [[nodiscard]] std::vector<std::uint64_t> least_nanoseconds() {
    auto const& rates = plan_.prepared().source().link_bytes_per_second;
    (void)plan_.edges();  // reads back the bytes that they carried
    auto const carried = plan_.prepared().link_bytes();
    std::vector<std::uint64_t> result;
    before_.resize(carried.size());
    for (std::size_t over = 0; over < carried.size(); ++over) {
      auto const bytes = static_cast<double>(carried[over] - before_[over]);
      result.push_back(static_cast<std::uint64_t>(bytes / rates[over] * 1e9));
    }
    before_ = carried;
    return result;
  }

 private:
  using kernel_transport = blink::shaped_peer_transport_with<set_clock>;
  template <class T>
  struct block {
    blink::block_share share;
    kernel_transport joins;
    blink::call_buffers<T> buffers;
  };

  [[nodiscard]] static blink::connection_layout layout_of(blink::device_options const& options) {
    blink::connection_layout layout;
    layout.is_shaped = true;
    layout.window = options.window;
    layout.slot_bytes = options.slot_bytes;
    return layout;
  }

  template <class T, class Reducer>
  std::string walk(blink::device_call const& call, Reducer const& reduce) {
    std::vector<block<T>> blocks;
    for (std::uint32_t number = 0;; ++number) {
      auto const share = blink::share_of_block(call, number);
      if (share.count == 0) break;
      int const rank = share.owner->rank;
      auto const joins = blink::link_of<kernel_transport>(call, rank);
      blink::set_call(blink::lone_thread{}, *share.tasks, call, false,
                      blink::sizes_of<Reducer, T>());
      blink::open_task(blink::lone_thread{}, joins, *share.tasks, sizeof(T));
      blocks.push_back(
          {share,
           joins,
           {static_cast<T const*>(call.inputs[rank]), static_cast<T*>(call.outputs[rank])}});
    }
    emulated_team lone(1);
    emulated_block const group(lone, 0);
    set_clock clock;
    std::uint64_t const begin = set_clock::time;
    for (bool is_open = true; is_open;) {
      is_open = false;
      bool moved = false;
      for (auto& one : blocks) {
        auto const round = blink::walk_round(group, one.joins, one.share.tasks, one.share.count,
                                             one.buffers, reduce, clock);
        is_open = is_open || round.is_open;
        moved = moved || round.moved;
      }
      if (moved || !is_open) continue;
      std::uint64_t const next = next_arrival(call);
      if (next == 0) return "no block can advance, and no message is in flight";
      set_clock::time = next;
    }
    for (auto& one : blocks) blink::close_task(blink::lone_thread{}, *one.share.tasks);
    nanoseconds_ = set_clock::time - begin;
    return "";
  }
  /// The time of the next arrival; 0: none.
  [[nodiscard]] std::uint64_t next_arrival(blink::device_call const& call) const {
    std::uint64_t next = 0;
    for (std::uint32_t connection = 0; connection < plan_.prepared().tables().connection_count();
         ++connection) {
      auto const& at = call.connections[connection];
      for (std::uint32_t slot = 0; slot < at.window; ++slot) {
        std::uint64_t const due = at.due[slot];
        if (due > set_clock::time && (next == 0 || due < next)) next = due;
      }
    }
    return next;
  }

  emulated_devices machine_{{}};
  blink::rank_placement where_;
  blink::device_memory_budget budget_;
  blink::device_schedule<emulated_devices> plan_;
  std::uint64_t nanoseconds_ = 0;
  std::vector<std::uint64_t> before_;  // bytes by link, before the last call
};

}  // namespace blink_test
