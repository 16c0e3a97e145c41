// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/early_arrivals.hpp>
#include <blink/running/walk/detail/move_chunk.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/zero_copy.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The leader's actions while no task can advance.
///
/// Semantics beyond the syntax: `on_progress` or `on_idle` is called after each round over the
/// tasks. They may let time pass, and return something else than `ok` to end the walk. `now` is a
/// clock in ticks of any length.
template <class P>
concept wait_policy = requires(P wait) {
  { wait.on_progress() } -> std::same_as<status>;
  { wait.on_idle() } -> std::same_as<status>;
  { wait.now() } -> std::same_as<std::uint64_t>;
};

/// A wait policy that also watches over calls that are tested, not waited for.
///
/// `on_idle_tests(nanoseconds)` lets no time pass. It is called now and then while nothing moves,
/// with the time for which the call has been tested so. Any result but `ok` ends the call. `resume`
/// is called when something has moved again.
template <class P>
concept tested_wait_policy = wait_policy<P> && requires(P wait, std::uint64_t nanoseconds) {
  { wait.on_idle_tests(nanoseconds) } -> std::same_as<status>;
  { wait.resume() } -> std::same_as<void>;
};

namespace detail {

/// True if the transport sends from the caller's buffer over this connection.
template <transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE bool sends_from_buffer([[maybe_unused]] endpoint const& end) {
  if constexpr (zero_copy_transport<Transport>) {
    return end.way == transfer_mode::from_input || end.way == transfer_mode::from_output;
  }
  return false;
}

/// True if the receiver consumes each message of this connection separately.
template <transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE bool takes_each(endpoint const& end) {
  return end.way == transfer_mode::slots ||
         (zero_copy_transport<Transport> && end.way == transfer_mode::into_output);
}

/// Returns an endpoint that blocks the next step of `here`, or null.
///
/// group: its threads share the endpoints, and each returns the first one of its share
BLINK_EITHER_SIDE
template <thread_group Group, transport Transport>
BLINK_HOST_DEVICE endpoint* obstacle(Group const group, Transport const transport,
                                     tree_task const& here) {
  std::uint32_t const step = group.size();
  if (here.done < here.chunks) {
    for (std::uint32_t k = group.thread_rank(); k < here.in_count; k += step) {
      endpoint& end = here.in[k];
      if (is_combined(here, k)) continue;
      if (!has_arrived_at(transport, here, end)) return &end;
    }
    for (std::uint32_t k = group.thread_rank(); k < here.out_count; k += step) {
      endpoint& end = here.out[k];
      bool const posts = end.way == transfer_mode::slots || sends_from_buffer<Transport>(end);
      bool const writes = posts || end.way == transfer_mode::push;
      if (writes && !transport.is_present(end.peer)) return &end;
      if (posts && !transport.has_credit(end.connection, end.first + here.done)) {
        return &end;
      }
    }
  } else if (here.chunks > 0) {
    // Peers may still read from this rank's buffers, which belong to the caller again after the
    // return.
    for (std::uint32_t k = group.thread_rank(); k < here.out_count; k += step) {
      endpoint& end = here.out[k];
      bool const pulls =
          end.way == transfer_mode::pull_input || end.way == transfer_mode::pull_output;
      if (pulls && !transport.consumed(end.connection, end.first + here.chunks - 1)) return &end;
      if constexpr (zero_copy_transport<Transport>) {
        bool const lends = sends_from_buffer<Transport>(end);
        if (lends && !transport.has_left(end.connection, end.first + here.chunks - 1)) return &end;
      }
    }
  }
  return nullptr;
}

/// Consumes the slots of arrivals that were combined early.
template <transport Transport>
void count_early(Transport const transport, tree_task& here) {
  for (std::uint32_t k = 0; k < here.in_count; ++k) {
    endpoint const& end = here.in[k];
    bool const is_new = (here.early.next >> k & 1) != 0;
    if (is_new && end.way == transfer_mode::slots)
      transport.consume(end.connection, end.first + here.done);
  }
  here.early.combined |= here.early.next;
}

/// Posts chunk number `done`, of `count` elements, to the receivers.
BLINK_EITHER_SIDE
template <thread_group Group, transport Transport>
BLINK_HOST_DEVICE void post_chunk(Group const group, Transport const transport, tree_task& here,
                                  std::uint64_t done, std::uint64_t count,
                                  element_sizes const& sizes) {
  for (std::uint32_t const k : share_of(group, here.out_count)) {
    endpoint& end = here.out[k];
    if (end.way == transfer_mode::pull_input) continue;  // posted as a whole by `open_task`
    std::uint64_t const bytes = count * (end.is_partial ? sizes.connection : sizes.value);
    transport.post(end.connection, end.first + done, bytes);
    end.bytes += bytes;
  }
}

/// Marks chunk number `done` as consumed for the senders.
BLINK_EITHER_SIDE
template <thread_group Group, transport Transport>
BLINK_HOST_DEVICE void take_chunk(Group const group, Transport const transport, tree_task& here,
                                  std::uint64_t done, std::uint64_t count,
                                  element_sizes const& sizes) {
  bool const is_last = done + 1 == here.chunks;
  for (std::uint32_t const k : share_of(group, here.in_count)) {
    endpoint& end = here.in[k];
    end.bytes += count * (end.is_partial ? sizes.connection : sizes.value);
    if (takes_each<Transport>(end) ? !is_combined(here, k) : is_last) {
      transport.consume(end.connection, end.first + done);
    }
  }
}

/// Publishes chunk number `done`, which was just moved, to the peers.
BLINK_EITHER_SIDE
template <thread_group Group, transport Transport>
BLINK_HOST_DEVICE void hand_over(Group const group, Transport const transport, tree_task& here,
                                 std::uint64_t done, element_sizes const& sizes) {
  std::uint64_t const count = chunk_count(here, done);
  std::uint32_t const thread = group.thread_rank();
  if (thread < here.in_count || thread < here.out_count) begin_publishing();
  // Peers wait for posted messages. If both counters share a cache line, a peer that sees the one
  // also has the other.
  if constexpr (shares_memory<Transport>) take_chunk(group, transport, here, done, count, sizes);
  post_chunk(group, transport, here, done, count, sizes);
  if constexpr (!shares_memory<Transport>) take_chunk(group, transport, here, done, count, sizes);
  if (thread != 0) return;
  if (here.early.combined != 0) here.early.combined = 0;  // others may be looking at it
  here.done = done + 1;
}

/// Posts all messages with credit that leave from a buffer without work of this rank. Returns true
/// if there was any.
///
/// For libraries that move data only during their own calls, because peers would wait otherwise.
template <zero_copy_transport Transport>
bool post_ahead(Transport const transport, tree_task& here, element_sizes const& sizes) {
  if (here.in_count > 0 || here.writes_output || here.done == here.chunks) return false;
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    if (!sends_from_buffer<Transport>(here.out[k])) return false;
  }
  std::uint64_t const before = here.done;
  while (here.done < here.chunks && obstacle(lone_thread{}, transport, here) == nullptr)
    hand_over(lone_thread{}, transport, here, here.done, sizes);
  return here.done > before;
}

}  // namespace detail

/// Prepares a task whose call fields are set. Offers inputs that peers read themselves, and skips
/// chunks that need no work on this side. All threads of the group call it, then `sync`.
BLINK_EITHER_SIDE
template <thread_group Group, transport Transport>
BLINK_HOST_DEVICE void open_task(Group const group, Transport const transport, tree_task& here,
                                 std::size_t element_bytes) {
  for (std::uint32_t const k : detail::share_of(group, here.chunks == 0 ? 0 : here.out_count)) {
    endpoint& end = here.out[k];
    if (end.way != transfer_mode::pull_input) continue;
    std::uint64_t const bytes = here.count * element_bytes;
    if constexpr (!presence_offers_input<Transport>) {
      begin_publishing();
      transport.post(end.connection, end.first + here.chunks - 1, bytes);
    }
    end.bytes += bytes;
  }
  if (group.thread_rank() != 0) return;
  here.done = 0;
  here.early.combined = 0;
  here.is_finished = false;
  here.blocked_on = nullptr;
  here.blocked_since = 0;
  bool works = here.writes_output || here.in_count > 0;
  for (std::uint32_t k = 0; !works && k < here.out_count; ++k) {
    works = here.out[k].way != transfer_mode::pull_input;
  }
  if (!works) here.done = here.chunks;
}

/// Ends a task: the next call's messages follow those of this one. All threads of the group call
/// it.
BLINK_EITHER_SIDE
template <thread_group Group>
BLINK_HOST_DEVICE void close_task(Group const group, tree_task& here) {
  for (std::uint32_t const k : detail::share_of(group, here.in_count)) {
    here.in[k].first += here.chunks;
  }
  for (std::uint32_t const k : detail::share_of(group, here.out_count)) {
    here.out[k].first += here.chunks;
  }
}

/// The result of one round over the tasks.
struct walk_round_result {
  bool moved = false;    ///< true if a chunk was moved
  bool is_open = false;  ///< true if a task is not finished; known to the leader of the group
};

/// One round over the tasks of one rank. One ready chunk of each is moved, without waiting.
///
/// clock: its `now` counts the ticks in which tasks cannot advance
BLINK_EITHER_SIDE
template <thread_group Group, transport Transport, class Clock, class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE walk_round_result walk_round(Group const group, Transport const transport,
                                               tree_task* tasks, std::size_t task_count,
                                               call_buffers<T> const& buffers,
                                               Reducer const& reduce, Clock& clock) {
  bool const leads = group.thread_rank() == 0;
  walk_round_result result;
  if constexpr (zero_copy_transport<Transport>) {
    for (std::size_t index = 0; leads && index < task_count; ++index) {
      bool const has_posted = detail::post_ahead(transport, tasks[index], sizes_of<Reducer, T>());
      result.moved = result.moved || has_posted;
    }
  }
  for (std::size_t index = 0; index < task_count; ++index) {
    tree_task& here = tasks[index];
    bool ready = false;
    bool waits = false;  // for the second time for the same endpoint
    bool may_go_on = leads;
    if constexpr (detail::works_as_device<Group>) {
      // Threads look at one connection each; the leader finds out below which one blocks.
      if (here.is_finished) continue;
      bool const has_chunks = here.done < here.chunks;  // read before the leader can go on
      may_go_on = !group.any(detail::obstacle(group, transport, here) != nullptr);
      ready = may_go_on && has_chunks;
    }
    if (leads && !here.is_finished) {
      endpoint* const blocked_on = may_go_on && detail::works_as_device<Group>
                                       ? nullptr
                                       : detail::obstacle(lone_thread{}, transport, here);
      waits = blocked_on != nullptr && blocked_on == here.blocked_on;
      if (blocked_on != here.blocked_on) {  // the clock is read at changes only
        std::uint64_t const now = clock.now();
        if (here.blocked_on != nullptr) here.blocked_on->waited += now - here.blocked_since;
        here.blocked_on = blocked_on;
        here.blocked_since = now;
      }
      if (may_go_on && blocked_on == nullptr) {
        ready = here.done < here.chunks;
        here.is_finished = !ready;
      }
      result.is_open = result.is_open || !here.is_finished;
    }
    if constexpr (detail::combines_on_arrival<Reducer>) {
      if (waits) here.early.next = detail::combinable_arrivals(transport, here);
      if (group.from_leader(waits && here.early.next != 0)) {
        detail::combine_early(group, transport, here, buffers, reduce);
        group.sync();
        if (leads) detail::count_early(transport, here);
        result.moved = true;
        continue;
      }
    }
    if constexpr (detail::works_as_device<Group>) {
      if (!ready) continue;
      detail::place_chunk<T>(group, transport, here);
      group.sync();
    } else {
      if (!group.from_leader(ready)) continue;
    }
    std::uint64_t const done = here.done;
    detail::move_chunk(group, transport, here, buffers, reduce);
    group.sync();
    detail::on_connections(group, [&](auto threads) {
      detail::hand_over(threads, transport, here, done, sizes_of<Reducer, T>());
    });
    result.moved = true;
    if constexpr (zero_copy_transport<Transport>) {
      // Peers wait for this task's further chunks, while the library may need long for data of
      // other tasks.
      if (group.from_leader(here.out_count > 0 && here.done < here.chunks)) --index;
    }
  }
  return result;
}

/// Walks the tasks of one rank until all are finished.
///
/// It goes round over the tasks, one ready chunk at a time, and never waits for a single task. A
/// block of a kernel has one task, a host thread all tasks of its rank. This one function runs
/// every collective on every transport.
///
/// Source: event-driven pipelines as in X. Luo et al., "ADAPT: an event-based adaptive collective
///         communication framework", HPDC 2018.
/// Time:   each chunk is touched once; a round looks at every connection of every unfinished task.
/// Pre:    all threads of `group` call together with equal arguments; tasks are opened; no two
///         tasks of the call need each other's progress within one rank (reduce and broadcast of an
///         inner rank are two tasks).
/// Post:   if `ok`: outputs hold the results and no peer reads or writes this rank's buffers.
/// Order:  the connections of `in` as listed, by rising rank, and this rank's input at its place
///         among them. So equal schedules and inputs give equal bits. With `order_promise::any`,
///         the order of arrival.
BLINK_EITHER_SIDE
template <thread_group Group, transport Transport, wait_policy Wait, class T,
          reducer_for<T> Reducer>
BLINK_HOST_DEVICE status walk(Group const group, Transport const transport, tree_task* tasks,
                              std::size_t task_count, call_buffers<T> const buffers,
                              Reducer const reduce, Wait& wait) {
  bool const leads = group.thread_rank() == 0;
  for (;;) {
    auto const round = walk_round(group, transport, tasks, task_count, buffers, reduce, wait);
    status result = status::ok;
    if (leads && round.is_open) result = round.moved ? wait.on_progress() : wait.on_idle();
    if (!group.from_leader(round.is_open && result == status::ok)) return result;
  }
}

}}  // namespace blink::BLINK_ABI
