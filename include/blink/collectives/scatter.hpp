// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_steps.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/element_buffer.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/schedule/chunking.hpp>

#include <cstddef>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Sends each rank its segment of `count` elements of the root, the rank where the schedule's trees
/// begin.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  at the root all segments in the order of the ranks (ranks * count); not read at other
///         ranks, and may be null there
/// output: this rank's segment (count); at the root may be `input + rank * count`, and must not
///         overlap `input` otherwise
/// Moves:  each segment over the trees to its rank.
/// Throws: precondition_error if the schedule does not carry a scatter, or for buffers that are
///         null or overlap; collective_error, on every rank, if a rank does not enter the call,
///         makes no progress until the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T>
void scatter(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::scatter, input,
                                 output, count, detail::no_reducer{});
}

/// The same on containers. At the root the input has one segment for each rank; at other ranks it
/// may be empty.
///
/// Throws: as above; precondition_error with both sizes if the sizes do not match.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source,
          element_buffer In, element_buffer Out>
void scatter(Comm& comm, Source&& trees, In&& input, Out&& output) {
  detail::expect_elements_alike<In, Out>();
  auto const in = detail::elements_of(input);
  auto const out = detail::elements_of(output);
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  if (in.size != 0) detail::expect_sizes("scatter", in.size, out.size, ranks, true);
  scatter<Chunks>(comm, std::forward<Source>(trees), in.data, out.data, out.size);
}

/// The same along the schedule that the communicator's tuning selects for this size.
///
/// root:   the rank whose input is distributed
/// Throws: as above; input_error if the file that BLINK_TUNING names cannot be read or does not fit
///         this communicator.
template <communicator Comm, class T>
void scatter(Comm& comm, T const* input, T* output, std::size_t count, int root) {
  scatter(comm, detail::tuned_source<Comm>{comm, root}, input, output, count);
}
template <communicator Comm, element_buffer In, element_buffer Out>
void scatter(Comm& comm, In&& input, Out&& output, int root) {
  if (comm.rank() == root) {
    detail::expect_sizes("scatter", detail::elements_of(input).size,
                         detail::elements_of(output).size,
                         static_cast<std::size_t>(comm.rank_count()), true);
  }
  scatter(comm, detail::tuned_source<Comm>{comm, root}, input, output);
}

}}  // namespace blink::BLINK_ABI
