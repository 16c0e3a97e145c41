// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/move_chunk_device.hpp>
#include <blink/collectives/epilogue.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/thread_group.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>

#if !BLINK_DEVICE_PASS
#include <blink/collectives/detail/host_clock.hpp>
#include <blink/collectives/detail/move_chunk_host.hpp>
#endif

namespace blink::inline BLINK_ABI::detail {

/// The lane's next chunk: own input and arrivals, combined in that order, to output and peers; and
/// the epilogue of the results.
/// The one step of the walk that knows how a machine likes to touch memory.
template <thread_group Group, transport Link, class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE void move_chunk(Group const group, Link const link, lane const& here,
                                  call_buffers<T> const& buffers, Reducer const& reduce) {
#if BLINK_DEVICE_PASS
  move_chunk_on_device(group, link, here, buffers, reduce);
#else
  if constexpr (device_like_group<Group>) {
    move_chunk_on_device(group, link, here, buffers, reduce);
  } else {
    time_span const span(buffers.moving);
    move_chunk_on_host(group, link, here, buffers, reduce);
  }
#endif
  run_epilogue(group, here, buffers, reduce);
}

/// Adds the arrivals `here.early.next` to the sums of the chunk that waits for others; not on devices
/// (`combines_on_arrival`).
template <thread_group Group, transport Link, class T, reducer_for<T> Reducer>
BLINK_HOST_DEVICE void combine_early([[maybe_unused]] Group const group,
                                     [[maybe_unused]] Link const link,
                                     [[maybe_unused]] lane const& here,
                                     [[maybe_unused]] call_buffers<T> const& buffers,
                                     [[maybe_unused]] Reducer const& reduce) {
#if !BLINK_DEVICE_PASS
  combine_early_on_host(group, link, here, buffers, reduce);
#endif
}

}  // namespace blink::inline BLINK_ABI::detail
