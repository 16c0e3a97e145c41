// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/order.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/packet.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/tree_share.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/transports/cuda/kernels/block_work.hpp>
#include <blink/transports/cuda/kernels/call_watch.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include <cstddef>
#include <cstdint>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

/// The parameters of a tree for the calls of a channel; equal on all ranks and in all channels.
struct channel_tree {
  tree_share share{};
  std::size_t input_block = 0;  ///< the segment of an input that the tree carries a part of
  std::size_t output_block = 0;
  std::size_t chunk_bytes = 1;  ///< chunk size of a call of the largest count
};

/// The reason why a rank's own call of a channel was refused.
enum class channel_refusal : std::uint32_t {
  none,
  count,     ///< more elements than the channel was made for
  in_place,  ///< the output is the input, which is sent while other ranks write there
  order,     ///< the reducer is not commutative, and the schedule changes the order of ranks
  element,   ///< the data that the reducer sends does not fit into the slots
  reducer,   ///< there is no reducer, and the collective combines elements
};

/// The progress of one rank in one channel; written by the leader of the group that calls there.
struct alignas(64) channel_state {
  std::uint64_t calls = 0;  ///< begun so far
  std::uint64_t count = 0;  ///< elements of the last call
  status result = status::ok;
  channel_refusal refusal = channel_refusal::none;
};

/// The channels of one device in the form that kernels receive: the common part of all its ranks
/// and all calls. The numbers of messages, which increase from call to call, are in the tasks.
struct channel_table {
  /// ranks of the device; the tasks of each rank are listed channel by channel
  device_rank* ranks = nullptr;
  shared_connection* connections = nullptr;
  channel_tree const* trees = nullptr;  ///< of one channel
  channel_state* states = nullptr;      ///< by rank of the device and channel
  counter* no_channel = nullptr;        ///< 1 + a channel that was requested and does not exist
  call_watch watch{};
  std::size_t slot_bytes = 0;  ///< for data
  std::size_t most_count = 0;
  std::size_t element_bytes = 0;
  std::uint32_t tree_count = 0;
  std::uint32_t channels = 0;
  std::uint32_t rank_count = 0;  ///< of all devices
  task_phases phases = task_phases::both;
  collective kind = collective::broadcast;
  bool reduces = false;      ///< true if it has a phase towards the roots
  bool keeps_order = false;  ///< true if reducers need not be commutative
  bool keeps_input = false;  ///< true if the input is sent while other ranks write to the output
};
static_assert(std::is_trivially_copyable_v<channel_table>);

/// Sets the fields of a task that depend on the call, for a segment of `count` elements; called by
/// all threads of the group.
template <class T, connection_protocol Protocol, reducer_for<T> Reducer, thread_group Group>
BLINK_HOST_DEVICE void set_call(Group const group, tree_task& here, channel_table const& all,
                                std::size_t count) {
  static_assert(order_of<Reducer> != order_promise::ranks,
                "blink: devices do not combine along the tree of ranks, expected a reducer with "
                "another promise than order_promise::ranks");
  constexpr element_sizes sizes = sizes_of<Reducer, T>();
  choose_transfer_modes(group, here, false, all.reduces, sizes);
  if (group.thread_rank() != 0) return;
  channel_tree const& tree = all.trees[here.tree % all.tree_count];
  slot_room const room{all.slot_bytes, std::is_same_v<Protocol, small_packets>};
  std::size_t begin = 0;
  if constexpr (order_of<Reducer> == order_promise::shape) {
    begin = take_periods(here, tree.share, room, count, sizes);
  } else {
    begin = take_part(here, tree.share, count, sizes);
    cut_part(here, room, sizes, tree.chunk_bytes / sizes.largest());
  }
  here.input_begin = tree.input_block * count + begin;
  here.output_begin = tree.output_block * count + begin;
  here.chunks = (here.count + here.chunk - 1) / here.chunk;
  if (all.kind == collective::barrier) here.chunks = 1;  // a message without elements
}

/// A rank's channels as its kernel receives them: independent connections to all other ranks, each
/// for one collective at a time from within the kernel. A channel belongs to one group of threads
/// at a time: a block or a part of one.
///
/// The k-th call of a rank in a channel matches the k-th call of all other ranks there, in whatever
/// kernels and launches they are. Data goes through slots, because peers do not reach the buffers.
/// Buffers may be anywhere in global memory that the group reads and writes, but not in shared
/// memory of a block.
template <class T, connection_protocol Protocol = whole_chunks>
class rank_channels {
 public:
  /// number: of the rank, on its device
  BLINK_HOST_DEVICE rank_channels(channel_table const& all, std::uint32_t number)
      : all_(&all), number_(number) {}

  /// The rank to which these channels belong.
  [[nodiscard]] BLINK_HOST_DEVICE int rank() const { return all_->ranks[number_].rank; }
  [[nodiscard]] BLINK_HOST_DEVICE int rank_count() const {
    return static_cast<int>(all_->rank_count);
  }
  /// The number of channels.
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t channel_count() const { return all_->channels; }
  /// The largest count of a call.
  [[nodiscard]] BLINK_HOST_DEVICE std::size_t most_count() const { return all_->most_count; }

  /// Runs the collective of the channels in one of them.
  ///
  /// count:   elements of the buffer, or of a segment if the collective has segments; equal on all
  ///          ranks. If counts differ, chunks do not arrive; packets may.
  /// Pre:     all threads of the group call together with equal arguments. No other group uses the
  ///          channel before a barrier of both groups, or the end of the kernel. Input and output
  ///          are the same place, are placed as the collective defines in place, or do not overlap.
  /// Post:    if `ok`, all threads see the result in the output, and no rank reads the input any
  ///          more. Threads need no barrier between their accesses to the buffers and the call,
  ///          before or after it.
  /// Returns: the same status to all threads. If it is not `ok`, no later call succeeds on any
  ///          rank. The kernel should end, and `wait` of the communicator throws the cause. Other
  ///          ranks may have returned `ok` from this call.
  template <thread_group Group, reducer_for<T> Reducer>
  BLINK_HOST_DEVICE status run(Group const group, std::uint32_t channel, T const* input, T* output,
                               std::size_t count, Reducer const& reduce) const {
    constexpr bool has_packets = std::is_same_v<Protocol, small_packets>;
    static_assert(!has_packets || (packets_of::carries(sizes_of<Reducer, T>()) &&
                                   order_of<Reducer> != order_promise::shape),
                  "blink: elements, or the data that the reducer sends, are too large for packets, "
                  "or the reducer "
                  "promises the same bits for any length: take whole_chunks");
    channel_table const& all = *all_;
    if (!all.watch.lets_begin(group)) return status::aborted;
    bool const leads = group.thread_rank() == 0;
    if (channel >= all.channels) {
      if (leads) {
        publish(*all.no_channel, std::uint64_t{1} + channel);
        all.watch.give_up();
      }
      return status::aborted;
    }
    channel_state& state = all.states[std::size_t{number_} * all.channels + channel];
    if (leads) {
      ++state.calls;
      state.count = count;
    }
    auto const refusal = refusal_of<Reducer>(input, output, count);
    if (refusal != channel_refusal::none) {
      if (leads) fail(state, status::aborted, refusal);
      return status::aborted;
    }
    device_rank const& own = all.ranks[number_];
    auto const list = static_cast<std::uint32_t>(all.phases);
    std::uint32_t const tasks = own.task_count[list] / all.channels;
    call_buffers<T> const buffers{input, output};
    std::size_t const elements = all.kind == collective::barrier ? 0 : count;
    status result = walk_whole_tasks<Protocol>(
        group, transport(elements), own.tasks[list] + std::size_t{channel} * tasks, tasks, buffers,
        reduce, all.watch.wait_policy(),
        [&](tree_task& here) { set_call<T, Protocol, Reducer>(group, here, all, elements); });
    if (group.from_leader(result == status::ok)) return status::ok;
    if (leads) fail(state, result, channel_refusal::none);
    bool const is_late = group.from_leader(result == status::timed_out);
    return is_late ? status::timed_out : status::aborted;
  }
  /// Runs a collective that moves elements and combines none.
  template <thread_group Group>
  BLINK_HOST_DEVICE status run(Group const group, std::uint32_t channel, T const* input, T* output,
                               std::size_t count) const {
    return run(group, channel, input, output, count, detail::no_reducer{});
  }
  /// Runs a barrier.
  template <thread_group Group>
  BLINK_HOST_DEVICE status run(Group const group, std::uint32_t channel) const {
    return run(group, channel, nullptr, nullptr, 0);
  }

 private:
  template <class Reducer>
  [[nodiscard]] BLINK_HOST_DEVICE channel_refusal refusal_of(T const* input, T const* output,
                                                             std::size_t count) const {
    constexpr element_sizes sizes = sizes_of<Reducer, T>();
    constexpr bool has_packets = std::is_same_v<Protocol, small_packets>;
    // Packets of a task have to fit into its window; that was checked with the size of the
    // elements.
    std::size_t const most_bytes = has_packets ? all_->element_bytes : all_->slot_bytes;
    if (std::is_same_v<Reducer, detail::no_reducer> && all_->reduces &&
        all_->kind != collective::barrier) {
      return channel_refusal::reducer;
    }
    if (count > all_->most_count) return channel_refusal::count;
    if (all_->keeps_input && input == output && count > 0) return channel_refusal::in_place;
    if (!is_commutative<Reducer> && all_->reduces && !all_->keeps_order) {
      return channel_refusal::order;
    }
    return sizes.largest() > most_bytes ? channel_refusal::element : channel_refusal::none;
  }
  BLINK_HOST_DEVICE void fail(channel_state& state, status result, channel_refusal why) const {
    state.result = result;
    state.refusal = why;
    all_->watch.give_up();
  }
  [[nodiscard]] BLINK_HOST_DEVICE sized_peer_transport transport(std::size_t count) const {
    sized_peer_transport result{};
    result.connections = all_->connections;
    result.abort = all_->watch.abort;
    result.bytes_of_slot = all_->slot_bytes;
    result.own_rank = rank();
    result.ranks = rank_count();
    result.whole = count;
    return result;
  }

  channel_table const* all_;
  std::uint32_t number_;
};

}}  // namespace blink::BLINK_ABI
