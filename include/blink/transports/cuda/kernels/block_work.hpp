// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/transports/cuda/kernels/block_wait.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The work of one block of `walk_kernel`: usually one task of a rank.
template <transport Transport, class T>
struct block_work {
  tree_task* here = nullptr;  ///< set for the call by `prepared_schedule::set_call`
  /// consecutive tasks, walked in turns; with packets one after the other
  std::uint32_t task_count = 1;
  Transport transport{};
  call_buffers<T> buffers{};
  status result = status::ok;  ///< set when the block ends
};

/// Walks tasks from their beginning to their end by all threads of a group.
///
/// set:     `set(tree_task)`: all threads call it to set the parameters of the call before a task
///          is opened
/// Pre:     all threads of `group` call together with equal arguments.
/// Returns: the status at the end, which only the leader knows.
template <connection_protocol Protocol, thread_group Group, transport Transport, class T,
          reducer_for<T> Reducer, class Set>
BLINK_HOST_DEVICE status walk_whole_tasks(Group const group, Transport const transport,
                                          tree_task* tasks, std::uint32_t task_count,
                                          call_buffers<T> const& buffers, Reducer const& reduce,
                                          block_wait wait, Set const& set) {
  for (std::uint32_t k = 0; k < task_count; ++k) set(tasks[k]);
  group.sync();
  for (std::uint32_t k = 0; k < task_count; ++k) open_task(group, transport, tasks[k], sizeof(T));
  group.sync();
  status const result =
      Protocol::walk_tasks(group, transport, tasks, task_count, buffers, reduce, wait);
  for (std::uint32_t k = 0; k < task_count; ++k) close_task(group, tasks[k]);
  return result;
}

namespace detail {

/// One thread waits until peers have read and written this rank's buffers for a task that moves
/// nothing (`moves_data`).
template <transport Transport>
BLINK_HOST_DEVICE status watch_task(Transport const transport, tree_task& here,
                                    std::size_t element_bytes, block_wait wait) {
  if (here.chunks == 0) return status::ok;
  auto const wait_for = [&](endpoint& end, auto const& is_done) {
    here.blocked_on = &end;
    here.blocked_since = wait.now();
    status result = status::ok;
    while (result == status::ok && !is_done()) result = wait.on_idle();
    end.waited += wait.now() - here.blocked_since;
    if (result == status::ok) here.blocked_on = nullptr;
    return result;
  };
  status result = status::ok;
  for (std::uint32_t k = 0; k < here.in_count && result == status::ok; ++k) {
    endpoint& end = here.in[k];
    std::uint64_t const last = end.first + here.chunks - 1;
    result = wait_for(end, [&] { return transport.has_arrived(end.connection, last); });
    if (result != status::ok) continue;
    end.bytes += here.count * element_bytes;
    begin_publishing();
    transport.consume(end.connection, last);
  }
  for (std::uint32_t k = 0; k < here.out_count && result == status::ok; ++k) {
    endpoint& end = here.out[k];
    std::uint64_t const last = end.first + here.chunks - 1;
    result = wait_for(end, [&] { return transport.consumed(end.connection, last); });
  }
  return result;
}

}  // namespace detail

/// Watches tasks that move nothing, from their beginning to their end. Each thread of the group has
/// some of them for itself.
///
/// set:     `set(lone_thread, tree_task)`, as for `walk_whole_tasks`
/// Pre:     as for `walk_whole_tasks`
/// Returns: the same status to all threads.
template <voting_group Group, transport Transport, class Set>
BLINK_HOST_DEVICE status watch_whole_tasks(Group const group, Transport const transport,
                                           tree_task* tasks, std::uint32_t task_count,
                                           std::size_t element_bytes, block_wait wait,
                                           Set const& set) {
  status result = status::ok;
  // Peers wait for the inputs that tasks offer when they are opened.
  for (std::uint32_t const k : detail::share_of(group, task_count)) {
    set(lone_thread{}, tasks[k]);
    open_task(lone_thread{}, transport, tasks[k], element_bytes);
  }
  for (std::uint32_t const k : detail::share_of(group, task_count)) {
    if (result == status::ok) result = detail::watch_task(transport, tasks[k], element_bytes, wait);
    if (result != status::ok) continue;
    tasks[k].done = tasks[k].chunks;
    tasks[k].is_finished = true;
  }
  for (std::uint32_t const k : detail::share_of(group, task_count)) {
    close_task(lone_thread{}, tasks[k]);
  }
  if (group.any(result == status::timed_out)) return status::timed_out;
  return group.any(result != status::ok) ? status::aborted : status::ok;
}

/// Walks tasks whose parameters are set, by all threads of a group: the body of `walk_kernel`.
///
/// Pre:  all threads of `group` call together with equal arguments. The groups of all other tasks
///       of the call do so at the same time, on all ranks.
/// Post: if `ok`, the output holds the tasks' results, and no peer accesses this rank's buffers for
///       these tasks any more. Otherwise `transport.abort` is set, so that no block waits any
///       longer.
template <connection_protocol Protocol = whole_chunks, thread_group Group, transport Transport,
          class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE status walk_block(Group const group, block_work<Transport, T>& work,
                                    std::uint64_t deadline_nanoseconds, Reducer const& reduce) {
  block_wait const wait{work.transport.abort, deadline_nanoseconds, 0};
  status result = walk_whole_tasks<Protocol>(group, work.transport, work.here, work.task_count,
                                             work.buffers, reduce, wait, [](tree_task&) {});
  bool const is_ok = group.from_leader(result == status::ok);
  if (!is_ok && result == status::ok) result = status::aborted;
  if (result != status::ok) publish(*work.transport.abort, 1);
  if (group.thread_rank() == 0) work.result = result;
  return result;
}

/// Walks one work for each part of a block; block number `block` has as many works as parts.
template <connection_protocol Protocol = whole_chunks, block_part Group, transport Transport,
          class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE void walk_part(Group const group, std::uint32_t block,
                                 block_work<Transport, T>* works, std::uint32_t work_count,
                                 std::uint64_t deadline_nanoseconds, Reducer const& reduce) {
  std::uint32_t const index = block * group.count() + group.index();
  if (index < work_count) walk_block<Protocol>(group, works[index], deadline_nanoseconds, reduce);
}

}}  // namespace blink::BLINK_ABI
