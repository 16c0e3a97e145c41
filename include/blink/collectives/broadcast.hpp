// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_steps.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/element_buffer.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/schedule/chunking.hpp>

#include <cstddef>
#include <type_traits>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Copies `count` elements of the root of the trees to every rank.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  at the root the elements (count); not read at other ranks, and may be null there
/// output: the elements (count); at the root may be `input`, and must not overlap it otherwise
/// Moves:  each tree's part of the buffer once over each of its edges, away from the root.
/// Throws: precondition_error if the schedule does not carry a broadcast, or for buffers that are
///         null or overlap; collective_error, on every rank, if a rank does not enter the call,
///         makes no progress until the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T>
void broadcast(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::broadcast, input,
                                 output, count, detail::no_reducer{});
}

/// The same in place on a container: the root's elements go to all ranks. Its size is equal on all
/// ranks.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source,
          element_buffer Data>
void broadcast(Comm& comm, Source&& trees, Data&& data) {
  detail::expect_elements_alike<Data, Data>();
  auto const own = detail::elements_of(data);
  broadcast<Chunks>(comm, std::forward<Source>(trees), own.data, own.data, own.size);
}

/// The same along the schedule that the communicator's tuning selects for this size.
///
/// root:   the rank whose elements all ranks get
/// Throws: as above; input_error if the file that BLINK_TUNING names cannot be read or does not fit
///         this communicator.
template <communicator Comm, class T>
  requires(!std::is_const_v<T>)
void broadcast(Comm& comm, T* data, std::size_t count, int root) {
  broadcast(comm, detail::tuned_source<Comm>{comm, root}, data, data, count);
}
template <communicator Comm, element_buffer Data>
void broadcast(Comm& comm, Data&& data, int root) {
  broadcast(comm, detail::tuned_source<Comm>{comm, root}, data);
}

}}  // namespace blink::BLINK_ABI
