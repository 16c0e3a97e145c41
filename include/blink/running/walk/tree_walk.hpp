// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/early_arrivals.hpp>
#include <blink/running/walk/detail/move_chunk.hpp>
#include <blink/running/walk/lane.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/zero_copy.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// What the leader of a group does while no lane can go on.
///
/// Semantics beyond the syntax: `after_progress` and `after_none` are called after each round over
/// the lanes; they may let time pass and return something else than `ok` when the walk is to end.
/// `now` is a clock in ticks of any length.
template <class P>
concept patience = requires(P wait) {
  { wait.after_progress() } -> std::same_as<status>;
  { wait.after_none() } -> std::same_as<status>;
  { wait.now() } -> std::same_as<std::uint64_t>;
};

/// One that also watches over calls that are tested, not waited for: `after_idle_tests(nanoseconds)` lets
/// no time pass and is asked now and then while nothing moves, with the time for which the call has been
/// tested so; anything but `ok` says that it is to end. `go_on` comes when something has moved again.
template <class P>
concept tested_patience = patience<P> && requires(P wait, std::uint64_t nanoseconds) {
  { wait.after_idle_tests(nanoseconds) } -> std::same_as<status>;
  { wait.go_on() } -> std::same_as<void>;
};

namespace detail {

/// Does the transport send from the caller's buffer over this wire?
template <transport Link>
[[nodiscard]] BLINK_HOST_DEVICE bool sends_from_buffer([[maybe_unused]] wire_end const& end) {
  if constexpr (zero_copy_transport<Link>) {
    return end.way == passage::from_input || end.way == passage::from_output;
  }
  return false;
}

/// Does the receiver give back each message of this wire by itself?
template <transport Link>
[[nodiscard]] BLINK_HOST_DEVICE bool takes_each(wire_end const& end) {
  return end.way == passage::slots ||
         (zero_copy_transport<Link> && end.way == passage::into_output);
}

/// The wire end that keeps `here` from its next step, or nothing.
BLINK_EITHER_SIDE
template <transport Link>
BLINK_HOST_DEVICE wire_end* obstacle(Link const link, lane const& here) {
  if (here.done < here.chunks) {
    for (std::uint32_t k = 0; k < here.in_count; ++k) {
      wire_end& end = here.in[k];
      if (is_combined(here, k)) continue;
      if (!has_come(link, here, end)) return &end;
    }
    for (std::uint32_t k = 0; k < here.out_count; ++k) {
      wire_end& end = here.out[k];
      bool const posts = end.way == passage::slots || sends_from_buffer<Link>(end);
      bool const writes = posts || end.way == passage::push;
      if (writes && !link.is_present(end.peer)) return &end;
      if (posts && !link.has_room(end.wire, end.first + here.done)) {
        return &end;
      }
    }
  } else if (here.chunks > 0) {
    // Peers may still read from our buffers, which belong to the caller again after the return.
    for (std::uint32_t k = 0; k < here.out_count; ++k) {
      wire_end& end = here.out[k];
      bool const pulls = end.way == passage::pull_input || end.way == passage::pull_output;
      if (pulls && !link.was_taken(end.wire, end.first + here.chunks - 1)) return &end;
      if constexpr (zero_copy_transport<Link>) {
        bool const lends = sends_from_buffer<Link>(end);
        if (lends && !link.has_left(end.wire, end.first + here.chunks - 1)) return &end;
      }
    }
  }
  return nullptr;
}

/// Gives back the slots of what was combined early.
template <transport Link>
void count_early(Link const link, lane& here) {
  for (std::uint32_t k = 0; k < here.in_count; ++k) {
    wire_end const& end = here.in[k];
    bool const is_new = (here.early.next >> k & 1) != 0;
    if (is_new && end.way == passage::slots) link.take(end.wire, end.first + here.done);
  }
  here.early.combined |= here.early.next;
}

/// Tells receivers that the chunk at hand, of so many elements, is complete.
BLINK_EITHER_SIDE
template <transport Link>
BLINK_HOST_DEVICE void post_chunk(Link const link, lane& here, std::uint64_t count,
                                  element_sizes const& sizes) {
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    wire_end& end = here.out[k];
    if (end.way == passage::pull_input) continue;  // posted as a whole by `open_lane`
    std::uint64_t const bytes = count * (end.is_partial ? sizes.wire : sizes.value);
    link.post(end.wire, end.first + here.done, bytes);
    end.bytes += bytes;
  }
}

/// Tells senders that it has been read.
BLINK_EITHER_SIDE
template <transport Link>
BLINK_HOST_DEVICE void take_chunk(Link const link, lane& here, std::uint64_t count,
                                  element_sizes const& sizes) {
  bool const is_last = here.done + 1 == here.chunks;
  for (std::uint32_t k = 0; k < here.in_count; ++k) {
    wire_end& end = here.in[k];
    end.bytes += count * (end.is_partial ? sizes.wire : sizes.value);
    if (takes_each<Link>(end) ? !is_combined(here, k) : is_last) {
      link.take(end.wire, end.first + here.done);
    }
  }
}

/// Tells the peers about the chunk that was just moved.
BLINK_EITHER_SIDE
template <transport Link>
BLINK_HOST_DEVICE void hand_over(Link const link, lane& here, element_sizes const& sizes) {
  std::uint64_t const count = chunk_count(here, here.done);
  // Peers wait for what is posted; where it comes in one line with what was taken, who sees the one has the other.
  if constexpr (shares_memory<Link>) take_chunk(link, here, count, sizes);
  post_chunk(link, here, count, sizes);
  if constexpr (!shares_memory<Link>) take_chunk(link, here, count, sizes);
  here.early.combined = 0;
  ++here.done;
}

/// Posts all that there is room for of what leaves from a buffer without this rank's doing, and says whether there
/// was any. For libraries that move data while they are asked for something else: peers would wait meanwhile.
template <zero_copy_transport Link>
bool post_ahead(Link const link, lane& here, element_sizes const& sizes) {
  if (here.in_count > 0 || here.writes_output || here.done == here.chunks) return false;
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    if (!sends_from_buffer<Link>(here.out[k])) return false;
  }
  std::uint64_t const before = here.done;
  while (here.done < here.chunks && obstacle(link, here) == nullptr) hand_over(link, here, sizes);
  return here.done > before;
}

}  // namespace detail

/// Prepares a lane whose call fields are set: offers inputs that peers read themselves, and skips
/// chunks that need no work on this side.
BLINK_EITHER_SIDE
template <transport Link>
BLINK_HOST_DEVICE void open_lane(Link const link, lane& here, std::size_t element_bytes) {
  here.done = 0;
  here.early.combined = 0;
  here.is_finished = false;
  here.blocked_on = nullptr;
  here.blocked_since = 0;
  if (here.chunks == 0) return;
  bool works = here.writes_output || here.in_count > 0;
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    wire_end& end = here.out[k];
    if (end.way == passage::pull_input) {
      std::uint64_t const bytes = here.count * element_bytes;
      if constexpr (!presence_offers_input<Link>) {
        link.post(end.wire, end.first + here.chunks - 1, bytes);
      }
      end.bytes += bytes;
    } else {
      works = true;
    }
  }
  if (!works) here.done = here.chunks;
}

/// Ends a lane: the next call's messages follow those of this one.
BLINK_HOST_DEVICE inline void close_lane(lane& here) {
  for (std::uint32_t k = 0; k < here.in_count; ++k) here.in[k].first += here.chunks;
  for (std::uint32_t k = 0; k < here.out_count; ++k) here.out[k].first += here.chunks;
}

/// What one round over the lanes came to.
struct walk_round_result {
  bool moved = false;    ///< was there a chunk to move?
  bool is_open = false;  ///< is a lane not finished? Known to the leader of the group.
};

/// One round over the lanes of one rank: one ready chunk of each is moved; nothing is waited for.
///
/// clock: its `now` counts the ticks that lanes cannot go on
BLINK_EITHER_SIDE
template <thread_group Group, transport Link, class Clock, class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE walk_round_result walk_round(Group const group, Link const link, lane* lanes,
                                               std::size_t lane_count,
                                               call_buffers<T> const& buffers,
                                               Reducer const& reduce, Clock& clock) {
  bool const leads = group.thread_rank() == 0;
  walk_round_result result;
  if constexpr (zero_copy_transport<Link>) {
    for (std::size_t index = 0; leads && index < lane_count; ++index) {
      bool const has_posted = detail::post_ahead(link, lanes[index], sizes_of<Reducer, T>());
      result.moved = result.moved || has_posted;
    }
  }
  for (std::size_t index = 0; index < lane_count; ++index) {
    lane& here = lanes[index];
    bool ready = false;
    bool waits = false;  // for a second time for the same
    if (leads && !here.is_finished) {
      wire_end* const blocked_on = detail::obstacle(link, here);
      waits = blocked_on != nullptr && blocked_on == here.blocked_on;
      if (blocked_on != here.blocked_on) {  // the clock is read at changes only
        std::uint64_t const now = clock.now();
        if (here.blocked_on != nullptr) here.blocked_on->waited += now - here.blocked_since;
        here.blocked_on = blocked_on;
        here.blocked_since = now;
      }
      if (blocked_on == nullptr) {
        ready = here.done < here.chunks;
        here.is_finished = !ready;
      }
      result.is_open = result.is_open || !here.is_finished;
    }
    if constexpr (detail::combines_on_arrival<Reducer>) {
      if (waits) here.early.next = detail::combinable_arrivals(link, here);
      if (group.from_leader(waits && here.early.next != 0)) {
        detail::combine_early(group, link, here, buffers, reduce);
        group.sync();
        if (leads) detail::count_early(link, here);
        result.moved = true;
        continue;
      }
    }
    if (!group.from_leader(ready)) continue;
    detail::move_chunk(group, link, here, buffers, reduce);
    group.sync();
    if (leads) detail::hand_over(link, here, sizes_of<Reducer, T>());
    result.moved = true;
    if constexpr (zero_copy_transport<Link>) {
      // Peers wait for what this lane makes of further chunks, while what comes on others may take the library long.
      if (group.from_leader(here.out_count > 0 && here.done < here.chunks)) --index;
    }
  }
  return result;
}

/// Walks the lanes of one rank until all are finished: round and round, one ready chunk at a time,
/// never waiting for a single one. A block of a kernel has one lane, a host thread all of its
/// rank's. This one function runs every collective on every transport.
///
/// Source: event-driven pipelines as in X. Luo et al., "ADAPT: an event-based adaptive collective
///         communication framework", HPDC 2018.
/// Time:   each chunk is touched once; a round looks at every wire of every unfinished lane.
/// Pre:    all threads of `group` call together with equal arguments; lanes are opened; no two
///         lanes of the call need each other's progress within one rank (reduce and broadcast of
///         an inner rank are two lanes).
/// Post:   if `ok`: outputs hold the results and no peer reads or writes this rank's buffers.
/// Order:  the wires of `in` as listed, by rising rank, and the own input at its place among them:
///         equal schedules and inputs give equal bits. With `order_promise::any` as they come.
BLINK_EITHER_SIDE
template <thread_group Group, transport Link, patience Wait, class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE status walk(Group const group, Link const link, lane* lanes,
                              std::size_t lane_count, call_buffers<T> const buffers,
                              Reducer const reduce, Wait& wait) {
  bool const leads = group.thread_rank() == 0;
  for (;;) {
    auto const round = walk_round(group, link, lanes, lane_count, buffers, reduce, wait);
    status result = status::ok;
    if (leads && round.is_open) result = round.moved ? wait.after_progress() : wait.after_none();
    if (!group.from_leader(round.is_open && result == status::ok)) return result;
  }
}

}}  // namespace blink::BLINK_ABI
