// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/transports/cuda/kernels/block_work.hpp>
#include <blink/transports/cuda/kernels/call_watch.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The part of the buffer that a call moves along one tree: the fields of `tree_task` that are
/// equal on all its ranks.
struct tree_call {
  std::uint64_t input_begin = 0;
  std::uint64_t output_begin = 0;
  std::uint64_t count = 0;
  std::uint64_t chunk = 1;
  std::uint64_t stride = 1;
  std::uint64_t chunks = 0;
};

/// The phases of a call; the value is the number of a list of tasks.
enum class task_phases : std::uint32_t { reducing, spreading, both };

/// The tasks of one rank, in memory of its device.
struct device_rank {
  int rank = 0;
  tree_task* tasks[3] = {};  ///< by `task_phases`
  std::uint32_t task_count[3] = {};
  std::uint32_t moving_count[3] = {};  ///< the first tasks; the others only wait (`moves_data`)
  std::uint64_t calls[3] = {};         ///< begun so far; identifies ranks that do not enter a call
};

/// The end of a block's last failed call.
struct block_state {
  status result = status::ok;
  collective kind = collective::broadcast;
};

/// A call as the blocks of one device receive it. It is passed by value, so that each replay of a
/// CUDA graph does the same. The numbers of messages, which increase from call to call, are in the
/// tasks.
struct device_call {
  static constexpr int most_ranks = 64;
  static constexpr int most_trees = 40;  // together below the 4 KiB limit of arguments

  void const* inputs[most_ranks] = {};  ///< by rank
  void* outputs[most_ranks] = {};
  tree_call trees[most_trees] = {};       ///< by tree, if they fit
  tree_call const* more_trees = nullptr;  ///< by tree, in memory of the device, if they do not fit

  device_rank* ranks_here = nullptr;  ///< ranks of the device
  shared_connection* connections = nullptr;
  block_state* states = nullptr;  ///< by block
  call_watch watch{};
  std::size_t slot_bytes = 0;
  std::uint64_t latency_nanoseconds = 0;  ///< of each message, for shaped links
  std::uint32_t rank_count = 0;
  std::uint32_t ranks_here_count = 0;
  std::uint32_t tasks_per_block = 1;
  bool waits_apart = false;  ///< true: a rank's tasks that only wait share one block
  task_phases phases = task_phases::both;
  collective kind = collective::broadcast;
  bool reduces = false;  ///< true if it has a phase towards the roots

  /// The parameters of the call along a tree, from the argument or from memory of the device.
  [[nodiscard]] BLINK_HOST_DEVICE tree_call const& along(std::uint32_t tree) const {
    return more_trees == nullptr ? trees[tree] : more_trees[tree];
  }
};
static_assert(std::is_trivially_copyable_v<device_call> && sizeof(device_call) <= 3840,
              "blink: the call leaves no room for a reducer in the arguments of a kernel");

/// Consecutive tasks of one rank that one block walks.
struct block_share {
  device_rank* owner = nullptr;
  tree_task* tasks = nullptr;
  std::uint32_t count = 0;
  bool only_waits = false;
};

/// Returns the tasks of block number `block` of a device. Each block gets `tasks_per_block`
/// consecutive tasks of one rank, rank by rank. With `waits_apart` those that only wait have one
/// block. Empty for blocks after the last one.
[[nodiscard]] BLINK_HOST_DEVICE inline block_share share_of_block(device_call const& call,
                                                                  std::uint32_t block) {
  auto const list = static_cast<std::uint32_t>(call.phases);
  std::uint32_t before = 0;
  for (std::uint32_t k = 0; k < call.ranks_here_count; ++k) {
    device_rank& owner = call.ranks_here[k];
    std::uint32_t const all = owner.task_count[list];
    std::uint32_t const tasks = call.waits_apart ? owner.moving_count[list] : all;
    std::uint32_t const blocks = (tasks + call.tasks_per_block - 1) / call.tasks_per_block;
    if (block < before + blocks) {
      std::uint32_t const first = (block - before) * call.tasks_per_block;
      std::uint32_t const rest = tasks - first;
      return {&owner, owner.tasks[list] + first,
              rest < call.tasks_per_block ? rest : call.tasks_per_block, false};
    }
    before += blocks;
    if (tasks == all) continue;
    if (block == before) return {&owner, owner.tasks[list] + tasks, all - tasks, true};
    ++before;
  }
  return {};
}

/// Sets the fields of a task that depend on the call; called by all threads of the group.
BLINK_EITHER_SIDE
template <thread_group Group>
BLINK_HOST_DEVICE void set_call(Group const group, tree_task& here, device_call const& call,
                                bool reaches, element_sizes const& sizes) {
  choose_transfer_modes(group, here, reaches, call.reduces, sizes);
  if (group.thread_rank() != 0) return;
  tree_call const& tree = call.along(here.tree);
  here.input_begin = tree.input_begin;
  here.output_begin = tree.output_begin;
  here.count = tree.count;
  here.chunk = tree.chunk;
  here.stride = tree.stride;
  here.chunks = tree.chunks;
}

/// Returns one rank's handle to its peers in a call. `Transport` is one of `peer_memory.hpp`, or a
/// shaped one.
template <transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE Transport link_of(device_call const& call, int rank) {
  Transport transport{};
  transport.connections = call.connections;
  transport.abort = call.watch.abort;
  transport.bytes_of_slot = call.slot_bytes;
  transport.own_rank = rank;
  transport.ranks = static_cast<int>(call.rank_count);
  if constexpr (reaching_transport<Transport>) {
    transport.inputs = call.inputs;
    transport.outputs = call.outputs;
  }
  if constexpr (Transport::is_shaped) transport.latency_nanoseconds = call.latency_nanoseconds;
  return transport;
}

/// The work of one block in a call: any collective, along any schedule.
///
/// Pre: all blocks of the call, on all devices, run at once, or will do so without waiting for each
///      other to end; the `Pre` of the protocol.
template <transport Transport, class T, connection_protocol Protocol = whole_chunks,
          thread_group Group, reducer_for<T> Reducer>
BLINK_HOST_DEVICE void run_block(Group const group, device_call const& call, std::uint32_t block,
                                 Reducer const& reduce) {
  auto const share = share_of_block(call, block);
  if (share.count == 0) return;
  int const rank = share.owner->rank;
  Transport const transport = link_of<Transport>(call, rank);
  bool const leads = group.thread_rank() == 0;
  if (!call.watch.lets_begin(group)) return;
  if (leads) {
    auto const list = static_cast<std::uint32_t>(call.phases);
    if (share.tasks == share.owner->tasks[list]) ++share.owner->calls[list];
  }
  call_buffers<T> const buffers{static_cast<T const*>(call.inputs[rank]),
                                static_cast<T*>(call.outputs[rank])};
  auto const set = [&](auto threads, tree_task& here) {
    set_call(threads, here, call, reaching_transport<Transport>, sizes_of<Reducer, T>());
  };
  // An epilogue is work also where peers write the output.
  constexpr bool may_wait =
      reaching_transport<Transport> && !detail::has_epilogue<Reducer, Group, T>;
  status result = status::ok;
  if (may_wait && share.only_waits) {
    result = watch_whole_tasks(group, transport, share.tasks, share.count, sizeof(T),
                               call.watch.wait_policy(), set);
  } else {
    result = walk_whole_tasks<Protocol>(group, transport, share.tasks, share.count, buffers, reduce,
                                        call.watch.wait_policy(),
                                        [&](tree_task& here) { set(group, here); });
  }
  if (!leads) return;
  if (result == status::ok) return;
  call.states[block] = {result, call.kind};
  call.watch.give_up();
}

}}  // namespace blink::BLINK_ABI
