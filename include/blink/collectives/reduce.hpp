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

/// Reduces `count` elements of all ranks element by element. The root of the trees ends with the
/// result.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  this rank's contribution (count)
/// output: at the root the result (count); may be `input`, and must not overlap it otherwise. Not
///         written at other ranks, and may be null there.
/// Moves:  each tree's part of the buffer once over each of its edges, towards the root.
/// Order:  as for `all_reduce`: equal schedules and inputs give equal bits.
/// Throws: precondition_error if the schedule does not carry a reduce, or for buffers that are null
///         or overlap; collective_error, on every rank, if a rank does not enter the call, makes no
///         progress until the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T,
          class Reducer>
void reduce(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count,
            Reducer const& reducer) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::reduce, input,
                                 output, count, reducer);
}

/// The same on containers of equal sizes. At other ranks than the root the output may be empty.
///
/// Throws: as above; precondition_error with both sizes if the sizes do not match.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source,
          element_buffer In, element_buffer Out, detail::maybe_reducer Reducer>
void reduce(Comm& comm, Source&& trees, In&& input, Out&& output, Reducer const& reducer) {
  detail::expect_elements_alike<In, Out>();
  auto const in = detail::elements_of(input);
  auto const out = detail::elements_of(output);
  if (out.size != 0) detail::expect_sizes("reduce", in.size, out.size, 1, false);
  reduce<Chunks>(comm, std::forward<Source>(trees), in.data, out.data, in.size, reducer);
}

/// The same along the schedule that the communicator's tuning selects for this size.
///
/// root:   the rank that gets the result
/// Throws: as above; input_error if the file that BLINK_TUNING names cannot be read or does not fit
///         this communicator.
template <communicator Comm, class T, detail::maybe_reducer Reducer = sum>
void reduce(Comm& comm, T const* input, T* output, std::size_t count, int root,
            Reducer const& reducer = {}) {
  reduce(comm, detail::tuned_source<Comm>{comm, root}, input, output, count, reducer);
}
template <communicator Comm, element_buffer In, element_buffer Out,
          detail::maybe_reducer Reducer = sum>
void reduce(Comm& comm, In&& input, Out&& output, int root, Reducer const& reducer = {}) {
  if (comm.rank() == root) {
    detail::expect_sizes("reduce", detail::elements_of(input).size,
                         detail::elements_of(output).size, 1, false);
  }
  reduce(comm, detail::tuned_source<Comm>{comm, root}, input, output, reducer);
}
/// The same in place. At the root `data` becomes the result; at other ranks it does not change.
template <communicator Comm, element_buffer Data, detail::maybe_reducer Reducer = sum>
void reduce(Comm& comm, Data&& data, int root, Reducer const& reducer = {}) {
  auto const own = detail::elements_of(data);
  reduce(comm, own.data, comm.rank() == root ? own.data : nullptr, own.size, root, reducer);
}

}}  // namespace blink::BLINK_ABI
