// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/communicator.hpp>
#include <blink/running/call/detail/call_steps.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/element_buffer.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/schedule/chunking.hpp>

#include <cstddef>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Reduces segments of `count` elements, one for each rank. Each rank ends with its own segment.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  this rank's contribution to all segments, in the order of the ranks (ranks * count)
/// output: the result of this rank's segment (count); may be `input + rank * count`, and must not
///         overlap `input` otherwise
/// Moves:  each segment over the edges of the trees rooted at its rank, towards the root.
/// Order:  as for `all_reduce`: equal schedules and inputs give equal bits.
/// Throws: precondition_error if the schedule does not carry a reduce-scatter, or for buffers that
///         are null or overlap; collective_error, on every rank, if a rank does not enter the call,
///         makes no progress until the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T,
          class Reducer>
void reduce_scatter(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count,
                    Reducer const& reducer) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::reduce_scatter,
                                 input, output, count, reducer);
}

/// The same on containers. The input has one segment for each rank, the output is one segment.
///
/// Throws: as above; precondition_error with both sizes if the sizes do not match.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source,
          element_buffer In, element_buffer Out, detail::maybe_reducer Reducer = sum>
void reduce_scatter(Comm& comm, Source&& trees, In&& input, Out&& output,
                    Reducer const& reducer = {}) {
  detail::expect_elements_alike<In, Out>();
  auto const in = detail::elements_of(input);
  auto const out = detail::elements_of(output);
  detail::expect_sizes("reduce_scatter", in.size, out.size,
                       static_cast<std::size_t>(comm.rank_count()), true);
  reduce_scatter<Chunks>(comm, std::forward<Source>(trees), in.data, out.data, out.size, reducer);
}

/// The same along the schedule that the communicator's tuning selects for this size.
///
/// Throws: as above; input_error if the file that BLINK_TUNING names cannot be read or does not fit
///         this communicator.
template <communicator Comm, class T, detail::maybe_reducer Reducer = sum>
void reduce_scatter(Comm& comm, T const* input, T* output, std::size_t count,
                    Reducer const& reducer = {}) {
  reduce_scatter(comm, detail::tuned_source<Comm>{comm}, input, output, count, reducer);
}
template <communicator Comm, element_buffer In, element_buffer Out,
          detail::maybe_reducer Reducer = sum>
void reduce_scatter(Comm& comm, In&& input, Out&& output, Reducer const& reducer = {}) {
  reduce_scatter(comm, detail::tuned_source<Comm>{comm}, input, output, reducer);
}

}}  // namespace blink::BLINK_ABI
