// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/running/walk/detail/move_chunk.hpp>
#include <blink/running/walk/detail/move_row.hpp>
#include <blink/running/walk/packet.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/running/walk/tree_walk.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The units of a chunk that one thread handles, one after the other; see `move_row.hpp`. Data
/// received after a wait was given up is 0.
template <std::size_t N, class Wait>
struct packet_row {
  static constexpr std::size_t elements = N;
  static constexpr std::size_t flight = 1;
  static constexpr bool receive_waits = true;
  static constexpr int spins_between_looks = 64;  ///< at the clock and at failures of peers

  std::size_t unit;
  std::size_t count;  ///< elements of the chunk; the last unit may have fewer than N
  Wait* wait;
  status result = status::ok;

  // No index and no computed length: on a device tiles stay in registers.
  template <class E>
  BLINK_HOST_DEVICE void load(tile<E, N> (&to)[1], void const* from) const {
    each([&](std::size_t, std::size_t i, std::size_t element) {
      set(to[0].values[i], static_cast<E const*>(from)[element]);
    });
  }
  template <class E>
  BLINK_HOST_DEVICE void store(void* to, tile<E, N> const (&from)[1]) const {
    each([&](std::size_t, std::size_t i, std::size_t element) {
      set(static_cast<E*>(to)[element], from[0].values[i]);
    });
  }
  template <class E>
  BLINK_HOST_DEVICE void receive(tile<E, N> (&to)[1], void const* from, std::uint64_t message) {
    constexpr std::size_t words = N * sizeof(E) / 4;
    auto const* const packets = static_cast<packet const*>(from) + unit * words;
    BLINK_UNROLL
    for (std::size_t w = 0; w < words; ++w) {
      std::uint32_t const data = await(packets[w], packets_of::flag(message));
      std::memcpy(reinterpret_cast<std::byte*>(to[0].values) + w * 4, &data, 4);
    }
  }
  template <class E>
  BLINK_HOST_DEVICE void send(void* to, tile<E, N> const (&from)[1], std::uint64_t message) const {
    if (result != status::ok) return;  // the receiver would take it for data
    constexpr std::size_t words = N * sizeof(E) / 4;
    auto* const packets = static_cast<packet*>(to) + unit * words;
    std::uint32_t data[words] = {};
    each([&](std::size_t, std::size_t i, std::size_t) {
      std::memcpy(reinterpret_cast<std::byte*>(data) + i * sizeof(E), &from[0].values[i],
                  sizeof(E));
    });
    BLINK_UNROLL
    for (std::size_t w = 0; w < words; ++w) {
      store_packet(packets[w], data[w], packets_of::flag(message));
    }
  }
  template <class Use>
  BLINK_HOST_DEVICE void each(Use const& use) const {
    BLINK_UNROLL
    for (std::size_t i = 0; i < N; ++i) {
      if (unit * N + i < count) use(std::size_t{0}, i, unit * N + i);
    }
  }

 private:
  [[nodiscard]] BLINK_HOST_DEVICE std::uint32_t await(packet const& at, std::uint32_t flag) {
    for (int spins = 0; result == status::ok; ++spins) {
      packet const found = load_packet(at);
      if (static_cast<std::uint32_t>(found >> 32) == flag) {
        if (spins >= spins_between_looks) result = wait->on_progress();
        return static_cast<std::uint32_t>(found);
      }
      if (spins % spins_between_looks == spins_between_looks - 1) result = wait->on_idle();
    }
    return 0;
  }
};

/// The group waits until all connections that the task's next chunk leaves on have credit. Returns
/// the status, which only the leader knows.
template <voting_group Group, transport Transport, wait_policy Wait>
BLINK_HOST_DEVICE status await_room(Group const group, Transport const transport, tree_task& here,
                                    Wait& wait) {
  auto const is_full = [&](std::uint32_t k) {
    return !transport.has_credit(here.out[k].connection, here.out[k].first + here.done);
  };
  status result = status::ok;
  for (bool waits = true; waits;) {
    bool is_any_full = false;
    for (std::uint32_t const k : share_of(group, here.out_count)) {
      is_any_full = is_any_full || is_full(k);
    }
    waits = group.any(is_any_full);
    if (group.thread_rank() == 0) {
      here.blocked_on = nullptr;
      for (std::uint32_t k = 0; waits && k < here.out_count; ++k) {
        if (is_full(k)) here.blocked_on = &here.out[k];
      }
      result = waits ? wait.on_idle() : wait.on_progress();
    }
    if (waits) waits = group.from_leader(result == status::ok);
  }
  return result;
}

/// Returns the connection on which a part of the task's next chunk is missing, or null.
template <transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE endpoint* missing_packets(Transport const transport,
                                                          tree_task const& here, std::size_t units,
                                                          element_sizes const& unit) {
  for (std::uint32_t k = 0; k < here.in_count; ++k) {
    auto& end = here.in[k];
    std::uint64_t const message = end.first + here.done;
    auto const* const packets =
        reinterpret_cast<packet const*>(transport.inbox(end.connection, message));
    std::size_t const words = units * (end.is_partial ? unit.connection : unit.value) / 4;
    for (std::size_t w = 0; w < words; ++w) {
      if (load_packet(packets[w]) >> 32 != packets_of::flag(message)) return &end;
    }
  }
  return nullptr;
}

/// Publishes to the peers which slots of chunk number `done` are free again.
template <thread_group Group, transport Transport>
BLINK_HOST_DEVICE void hand_over_packets(Group const group, Transport const transport,
                                         tree_task& here, std::uint64_t done,
                                         element_sizes const& sizes) {
  std::uint64_t const count = chunk_count(here, done);
  auto const bytes_of = [&](endpoint const& end) {
    return count * (end.is_partial ? sizes.connection : sizes.value);
  };
  for (std::uint32_t const k : share_of(group, here.out_count)) {
    here.out[k].bytes += bytes_of(here.out[k]);
  }
  if (group.thread_rank() < here.in_count) begin_publishing();
  for (std::uint32_t const k : share_of(group, here.in_count)) {
    endpoint& end = here.in[k];
    end.bytes += bytes_of(end);
    transport.consume(end.connection, end.first + done);
  }
  if (group.thread_rank() == 0) here.done = done + 1;
}

/// Fills the rest of the chunk's slots, if this message fills slots.
template <thread_group Group, transport Transport>
BLINK_HOST_DEVICE void fill_slots(Group const group, Transport const transport,
                                  tree_task const& here, std::size_t units,
                                  element_sizes const& unit) {
  std::size_t const slot = transport.slot_bytes() / sizeof(packet);
  for (std::uint32_t k = 0; k < here.out_count; ++k) {
    auto const& end = here.out[k];
    std::uint64_t const message = end.first + here.done;
    if (!packets_of::fills_slot(message)) continue;
    auto* const packets = reinterpret_cast<packet*>(transport.outbox(end.connection, message));
    std::size_t const used = units * (end.is_partial ? unit.connection : unit.value) / 4;
    for (std::size_t w = used + group.thread_rank(); w < slot; w += group.size()) {
      store_packet(packets[w], 0, packets_of::flag(message));
    }
  }
}

}  // namespace detail

/// Walks one task whose connections carry packets.
///
/// Each thread sends its elements as soon as it has them, and receives them by their flags, without
/// a barrier before or after. It is for messages so small that only latency counts, because the
/// connections carry twice the bytes.
///
/// Time:   one write and one read of a word for each step, for a single chunk.
/// Pre:    as for `walk`, and: all connections of the task use slots (`transfer_mode::slots`),
///         which were 0 before their first message and have carried packets ever since
///         (`connection_layout::has_packets`); `packets_of::carries` these sizes; the groups of a
///         rank's other tasks walk at the same time.
/// Post:   as for `walk`. If a thread gives up a wait, all threads return its cause, and
///         `blocked_on` is the connection that it waited for. Without credit only the leader knows
///         the cause, and the other threads return `aborted`.
template <voting_group Group, transport Transport, wait_policy Wait, class T,
          reducer_for<T> Reducer>
BLINK_HOST_DEVICE status walk_packets(Group const group, Transport const transport, tree_task& here,
                                      call_buffers<T> const& buffers, Reducer const& reduce,
                                      Wait& wait) {
  constexpr element_sizes sizes = sizes_of<Reducer, T>();
  constexpr std::size_t n = packets_of::unit_elements(sizes);
  bool const leads = group.thread_rank() == 0;
  status result = status::ok;
  while (here.done < here.chunks) {
    result = detail::await_room(group, transport, here, wait);
    detail::place_chunk<T>(group, transport, here);
    if (!group.from_leader(result == status::ok)) return leads ? result : status::aborted;
    std::uint64_t const done = here.done;
    std::size_t const count = chunk_count(here, done);
    // A message without elements, of a barrier, is one unit without meaning.
    std::size_t const units = count == 0 ? 1 : (count + n - 1) / n;
    constexpr element_sizes unit{n * sizes.value, n * sizes.connection};
    detail::packet_row<n, Wait> row{0, count, &wait};
    auto const way = detail::way_of_chunk<T>(transport, here, buffers);
    for (row.unit = group.thread_rank(); row.unit < units; row.unit += group.size()) {
      detail::move_row(way, row, reduce);
    }
    detail::fill_slots(group, transport, here, units, unit);
    // From here on all threads have read the slots.
    if (group.any(row.result != status::ok)) {
      if (leads) here.blocked_on = detail::missing_packets(transport, here, units, unit);
      return group.any(row.result == status::timed_out) ? status::timed_out : status::aborted;
    }
    detail::run_epilogue(group, here, buffers, reduce);
    detail::hand_over_packets(group, transport, here, done, sizes);
    group.sync();
  }
  if (leads) here.is_finished = true;
  return status::ok;
}

/// Connections carry chunks of all sizes, which counters announce. Where peers reach each other's
/// buffers most connections carry only the announcements.
struct whole_chunks {
  template <class Group, class Transport, class Wait, class T, class Reducer>
  BLINK_HOST_DEVICE static status walk_tasks(Group const group, Transport const transport,
                                             tree_task* tasks, std::uint32_t task_count,
                                             call_buffers<T> const& buffers, Reducer const& reduce,
                                             Wait& wait) {
    return walk(group, transport, tasks, task_count, buffers, reduce, wait);
  }
};

/// Connections carry packets, for messages of up to some kilobytes (`walk_packets`).
///
/// A connection does so for its whole life, so a schedule that uses both protocols has two sets of
/// tables.
///
/// Pre: the tasks of one group have the same order on all ranks. The data that each sends fits into
///      its window, because they are walked one after the other.
struct small_packets {
  template <class Group, class Transport, class Wait, class T, class Reducer>
  BLINK_HOST_DEVICE static status walk_tasks(Group const group, Transport const transport,
                                             tree_task* tasks, std::uint32_t task_count,
                                             call_buffers<T> const& buffers, Reducer const& reduce,
                                             Wait& wait) {
    status result = status::ok;
    for (std::uint32_t k = 0; k < task_count && result == status::ok; ++k) {
      result = walk_packets(group, transport, tasks[k], buffers, reduce, wait);
    }
    return result;
  }
};

/// The protocol of connections: an empty type, because it selects a kernel.
template <class P>
concept connection_protocol = std::is_same_v<P, whole_chunks> || std::is_same_v<P, small_packets>;

}}  // namespace blink::BLINK_ABI
