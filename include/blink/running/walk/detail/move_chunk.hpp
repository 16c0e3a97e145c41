// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/detail/move_chunk_device.hpp>
#include <blink/running/walk/thread_group.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <cstddef>
#include <cstdint>

#if !BLINK_DEVICE_PASS
#include <blink/running/walk/detail/host_clock.hpp>
#include <blink/running/walk/detail/move_chunk_host.hpp>
#endif

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Runs the epilogue, if there is one, after the task's next chunk was moved. All threads of the
/// group call it.
template <class Group, class T, class Reducer>
BLINK_HOST_DEVICE void run_epilogue(Group const group, tree_task const& here,
                                    call_buffers<T> const& buffers, Reducer const& reduce) {
  if constexpr (has_epilogue<Reducer, Group, T>) {
    if (!here.writes_output) return;
    group.sync();  // what other threads have written
    std::size_t const begin = here.output_begin + chunk_offset(here);
    reduce.epilogue(group, buffers.output + begin, std::uint64_t{begin},
                    chunk_count(here, here.done));
    group.sync();  // the leader goes on to the next chunk
  }
}

/// Moves the task's next chunk: combines this rank's input and arrivals in that order, writes the
/// result to output and peers, and runs the epilogue on it.
///
/// The one step of the walk that depends on how a machine accesses memory.
template <thread_group Group, transport Transport, class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE void move_chunk(Group const group, Transport const transport,
                                  tree_task const& here, call_buffers<T> const& buffers,
                                  Reducer const& reduce) {
#if BLINK_DEVICE_PASS
  move_chunk_on_device(group, transport, here, buffers, reduce);
#else
  if constexpr (works_as_device<Group>) {
    move_chunk_on_device(group, transport, here, buffers, reduce);
  } else {
    time_span const span(buffers.moving);
    move_chunk_on_host(group, transport, here, buffers, reduce);
  }
#endif
  run_epilogue(group, here, buffers, reduce);
}

/// Adds the arrivals `here.early.next` to the sums of a chunk with missing arrivals; not on devices
/// (`combines_on_arrival`).
template <thread_group Group, transport Transport, class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE void combine_early([[maybe_unused]] Group const group,
                                     [[maybe_unused]] Transport const transport,
                                     [[maybe_unused]] tree_task const& here,
                                     [[maybe_unused]] call_buffers<T> const& buffers,
                                     [[maybe_unused]] Reducer const& reduce) {
#if !BLINK_DEVICE_PASS
  combine_early_on_host(group, transport, here, buffers, reduce);
#endif
}

}}}  // namespace blink::BLINK_ABI::detail
