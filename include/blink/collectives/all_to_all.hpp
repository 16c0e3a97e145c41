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

/// Sends a segment of `count` elements from each rank to each rank: a transposition of segments.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  a segment for each rank, in the order of the ranks (ranks * count)
/// output: a segment of each rank, in the order of the ranks (ranks * count); may be `input`, and
///         must not overlap it otherwise
/// Moves:  each segment over the trees from its sender to its receiver.
/// Needs:  in place, memory for a copy of the input.
/// Throws: precondition_error if the schedule does not carry an all-to-all, or for buffers that are
///         null or overlap; collective_error, on every rank, if a rank does not enter the call,
///         makes no progress until the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T>
void all_to_all(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::all_to_all, input,
                                 output, count, detail::no_reducer{});
}

/// The same on containers. Input and output have one segment for each rank.
///
/// Throws: as above; precondition_error with both sizes if the sizes do not match.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source,
          element_buffer In, element_buffer Out>
void all_to_all(Comm& comm, Source&& trees, In&& input, Out&& output) {
  detail::expect_elements_alike<In, Out>();
  auto const in = detail::elements_of(input);
  auto const out = detail::elements_of(output);
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  detail::expect_sizes("all_to_all", in.size, out.size, 1, false);
  detail::expect_segments("all_to_all", in.size, ranks);
  all_to_all<Chunks>(comm, std::forward<Source>(trees), in.data, out.data, in.size / ranks);
}

/// The same along the schedule that the communicator's tuning selects for this size.
///
/// Throws: as above; input_error if the file that BLINK_TUNING names cannot be read or does not fit
///         this communicator.
template <communicator Comm, class T>
void all_to_all(Comm& comm, T const* input, T* output, std::size_t count) {
  all_to_all(comm, detail::tuned_source<Comm>{comm}, input, output, count);
}
template <communicator Comm, element_buffer In, element_buffer Out>
void all_to_all(Comm& comm, In&& input, Out&& output) {
  all_to_all(comm, detail::tuned_source<Comm>{comm}, input, output);
}

}}  // namespace blink::BLINK_ABI
