// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <cstddef>
#include <cstdint>
#include <new>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The contents of a source.
enum class source_kind : std::uint8_t {
  elements,
  partials,  ///< partial results as they cross connections
  sums,      ///< accumulators
};

/// One of the sources that a chunk is combined from.
struct chunk_source {
  void const* data = nullptr;
  source_kind kind = source_kind::elements;
  std::int32_t rank = 0;    ///< the rank that it comes from
  bool is_arrival = false;  ///< true if it arrives as a message
  std::uint64_t message = 0;
};

/// The address where the receiver reads the present chunk of `here`.
BLINK_EITHER_SIDE
template <class T, transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE void const* arriving(Transport const transport,
                                                     tree_task const& here, endpoint const& end) {
  if constexpr (reaching_transport<Transport>) {
    if (end.way == transfer_mode::pull_input) {
      return static_cast<T const*>(transport.input_of(end.peer)) + here.input_begin +
             chunk_offset(here);
    }
    if (end.way == transfer_mode::pull_output) {
      return static_cast<T const*>(transport.output_of(end.peer)) + here.output_begin +
             chunk_offset(here);
    }
    if (end.way == transfer_mode::push) {  // it is already in this rank's output
      return static_cast<T const*>(transport.output_of(transport.rank())) + here.output_begin +
             chunk_offset(here);
    }
  }
  if constexpr (shares_memory<Transport>) {
    return transport.inbox(end.connection, end.first + here.done, end.slot_subdivision);
  }
  return transport.inbox(end.connection, end.first + here.done);
}

/// The address where the sender writes the present chunk of `here`.
BLINK_EITHER_SIDE
template <class T, transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE void* leaving(Transport const transport, tree_task const& here,
                                              endpoint const& end) {
  if constexpr (reaching_transport<Transport>) {
    if (end.way == transfer_mode::push) {
      return static_cast<T*>(transport.output_of(end.peer)) + here.output_begin +
             chunk_offset(here);
    }
  }
  if constexpr (shares_memory<Transport>) {
    return transport.outbox(end.connection, end.first + here.done, end.slot_subdivision);
  }
  return transport.outbox(end.connection, end.first + here.done);
}

/// True if the sender writes data for this connection.
[[nodiscard]] BLINK_HOST_DEVICE inline bool writes(endpoint const& end) {
  return (end.way == transfer_mode::slots && !end.repeats_slots) || end.way == transfer_mode::push;
}

/// The connections of a task without those whose slots are repeated.
[[nodiscard]] inline std::uint32_t out_places(tree_task const& here) {
  std::uint32_t result = 0;
  for (std::uint32_t k = 0; k < here.out_count; ++k) result += here.out[k].repeats_slots ? 0 : 1;
  return result;
}

/// True if the task writes to this rank's output.
[[nodiscard]] BLINK_HOST_DEVICE inline bool writes_output(tree_task const& here) {
  if (!here.writes_output || here.in_count != 1) return here.writes_output;
  return here.in[0].way != transfer_mode::push && here.in[0].way != transfer_mode::into_output;
}

/// True if this task sends a partial result instead of elements.
[[nodiscard]] BLINK_HOST_DEVICE inline bool sends_partial(tree_task const& here) {
  return here.out_count > 0 && here.out[0].is_partial;
}

/// Notes where the present chunk of `here` is read and written, so that the threads of a device's
/// group do not each compute it. All threads of the group call it, then `sync`.
BLINK_EITHER_SIDE
template <class T, thread_group Group, transport Transport>
BLINK_HOST_DEVICE void place_chunk(Group const group, Transport const transport, tree_task& here) {
  for (std::uint32_t const k : share_of(group, here.in_count)) {
    here.in[k].at = const_cast<void*>(arriving<T>(transport, here, here.in[k]));
  }
  for (std::uint32_t const k : share_of(group, here.out_count)) {
    if (writes(here.out[k])) here.out[k].at = leaving<T>(transport, here, here.out[k]);
  }
}

/// This rank's part of the present chunk of `here`.
BLINK_EITHER_SIDE
template <class T, transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE chunk_source input_of_chunk(Transport const transport,
                                                            tree_task const& here,
                                                            call_buffers<T> const& buffers) {
  return {buffers.input + here.input_begin + chunk_offset(here), source_kind::elements,
          transport.rank(), false, 0};
}

/// The arrival on connection `k` of the present chunk of `here`.
template <class T, transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE chunk_source arrival_of_chunk(Transport const transport,
                                                              tree_task const& here,
                                                              std::uint32_t k) {
  auto const& end = here.in[k];
  return {arriving<T>(transport, here, end),
          end.is_partial ? source_kind::partials : source_kind::elements, end.peer, true,
          end.first + here.done};
}

/// Source `k` of the present chunk of `here`: the arrivals, with this rank's input at its place in
/// the order of the ranks.
template <class T, transport Transport>
[[nodiscard]] BLINK_HOST_DEVICE chunk_source source_of_chunk(Transport const transport,
                                                             tree_task const& here,
                                                             call_buffers<T> const& buffers,
                                                             std::uint32_t k) {
  if (here.reads_input && k == here.input_position) return input_of_chunk(transport, here, buffers);
  return arrival_of_chunk<T>(transport, here,
                             here.reads_input && k > here.input_position ? k - 1 : k);
}

/// Index in the reduced buffer of the first element of the present chunk of `here`.
[[nodiscard]] BLINK_HOST_DEVICE inline std::uint64_t chunk_index(tree_task const& here) {
  return here.input_begin + chunk_offset(here);
}

/// `N` consecutive elements that one thread holds. Their lifetime begins when they are loaded or
/// `set`.
template <class E, std::size_t N>
union tile {
  static constexpr std::size_t bytes = N * sizeof(E);
  E values[N];
  BLINK_HOST_DEVICE tile() {}  // NOLINT: no element is alive yet
};

/// Makes `result` a new `E`, also if elements can only be constructed.
template <class E, class Value>
BLINK_HOST_DEVICE void set(E& result, Value const& value) {
  ::new (static_cast<void*>(&result)) E(static_cast<E>(value));
}

}}}  // namespace blink::BLINK_ABI::detail
