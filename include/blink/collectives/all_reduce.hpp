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
#include <type_traits>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Reduces `count` elements of all ranks element by element. Every rank ends with the result.
///
/// trees:  a prepared schedule, a schedule, or algorithms by size; see `schedule_source`
/// input:  this rank's contribution (count)
/// output: the result (count); may be `input`, and must not overlap it otherwise
/// Moves:  each tree's part of the buffer once in each direction over each of its edges.
/// Time:   (chunks + height up + height down - 1) chunk transfers for each tree; all trees run at
///         once.
/// Order:  at each node of a tree, children by rising rank, with the rank's own element at its
///         place among them. So equal schedules and inputs give equal bits.
///         `proportional_split.hpp` gives the part of each tree.
/// Throws: precondition_error if the schedule does not carry an all-reduce, or for buffers that are
///         null or overlap; collective_error, on every rank, if a rank does not enter the call,
///         makes no progress until the deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source, class T,
          class Reducer>
void all_reduce(Comm& comm, Source&& trees, T const* input, T* output, std::size_t count,
                Reducer const& reducer) {
  detail::run_collective<Chunks>(comm, std::forward<Source>(trees), collective::all_reduce, input,
                                 output, count, reducer);
}

/// The same on containers. Input and output have equal sizes and may be the same container.
///
/// Throws: as above; precondition_error with both sizes if the sizes do not match.
template <chunking Chunks = scheduled_chunks, communicator Comm, schedule_source Source,
          element_buffer In, element_buffer Out, detail::maybe_reducer Reducer = sum>
void all_reduce(Comm& comm, Source&& trees, In&& input, Out&& output, Reducer const& reducer = {}) {
  detail::expect_elements_alike<In, Out>();
  auto const in = detail::elements_of(input);
  auto const out = detail::elements_of(output);
  detail::expect_sizes("all_reduce", in.size, out.size, 1, false);
  all_reduce<Chunks>(comm, std::forward<Source>(trees), in.data, out.data, in.size, reducer);
}

/// The same along the schedule that the communicator's tuning selects for this size.
///
/// Throws: as above; input_error if the file that BLINK_TUNING names cannot be read or does not fit
///         this communicator.
template <communicator Comm, class T, detail::maybe_reducer Reducer = sum>
void all_reduce(Comm& comm, T const* input, T* output, std::size_t count,
                Reducer const& reducer = {}) {
  all_reduce(comm, detail::tuned_source<Comm>{comm}, input, output, count, reducer);
}
template <communicator Comm, element_buffer In, element_buffer Out,
          detail::maybe_reducer Reducer = sum>
void all_reduce(Comm& comm, In&& input, Out&& output, Reducer const& reducer = {}) {
  all_reduce(comm, detail::tuned_source<Comm>{comm}, input, output, reducer);
}

/// The same in place: `data` is the contribution before the call and the result after it.
template <communicator Comm, class T, detail::maybe_reducer Reducer = sum>
  requires(!std::is_const_v<T>)
void all_reduce(Comm& comm, T* data, std::size_t count, Reducer const& reducer = {}) {
  all_reduce(comm, data, data, count, reducer);
}
template <communicator Comm, element_buffer Data, detail::maybe_reducer Reducer = sum>
void all_reduce(Comm& comm, Data&& data, Reducer const& reducer = {}) {
  all_reduce(comm, data, data, reducer);
}

}}  // namespace blink::BLINK_ABI
