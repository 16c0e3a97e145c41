// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/counter.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/status.hpp>
#include <blink/collectives/thread_group.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/collectives/tree_walk.hpp>
#include <blink/collectives/wire_protocol.hpp>
#include <blink/config.hpp>
#include <blink/transports/cuda/block_patience.hpp>

#include <cstdint>

namespace blink::inline BLINK_ABI {

/// What one block of `walk_kernel` does.
template <transport Link, class T>
struct block_work {
  lane* here = nullptr;  ///< prepared by `prepared_schedule::set_call`
  Link link{};
  call_buffers<T> buffers{};
  status result = status::ok;  ///< how it ended
};

/// Walks one lane from its beginning to its end by all threads of a group: what kernels consist of,
/// and what a user's own kernel calls.
///
/// Pre:  all threads of `group` call together with equal arguments, and so do the groups of all other
///       lanes of the call, on all ranks, at the same time.
/// Post: if `ok`, the output holds the lane's results, and no peer touches this rank's buffers on
///       its account. Else `link.abort` is set, so that nobody goes on waiting.
template <wire_protocol Protocol = whole_chunks, thread_group Group, transport Link, class T,
          reducer_for<T> Reducer>
BLINK_HOST_DEVICE status walk_block(Group const group, block_work<Link, T>& work,
                                    std::uint64_t deadline_nanoseconds, Reducer const& reduce) {
  bool const leads = group.thread_rank() == 0;
  if (leads) open_lane(work.link, *work.here, sizeof(T));
  group.sync();
  block_patience wait{work.link.abort, deadline_nanoseconds, 0};
  status const result =
      Protocol::walk_lane(group, work.link, *work.here, work.buffers, reduce, wait);
  if (result != status::ok) publish(*work.link.abort, 1);
  if (leads) {
    close_lane(*work.here);
    work.result = result;
  }
  return result;
}

}  // namespace blink::inline BLINK_ABI
