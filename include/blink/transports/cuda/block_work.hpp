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

/// What one block of `walk_kernel` does: as a rule one lane of a rank.
template <transport Link, class T>
struct block_work {
  lane* here = nullptr;  ///< prepared by `prepared_schedule::set_call`
  std::uint32_t lane_count =
      1;  ///< consecutive ones, walked in turns; packets: one after the other
  Link link{};
  call_buffers<T> buffers{};
  status result = status::ok;  ///< how it ended
};

/// Walks lanes from their beginning to their end by all threads of a group: what kernels consist of,
/// and what a user's own kernel calls.
///
/// Pre:  all threads of `group` call together with equal arguments, and so do the groups of all other
///       lanes of the call, on all ranks, at the same time.
/// Post: if `ok`, the output holds the lanes' results, and no peer touches this rank's buffers on
///       their account. Else `link.abort` is set, so that nobody goes on waiting.
template <wire_protocol Protocol = whole_chunks, thread_group Group, transport Link, class T,
          reducer_for<T> Reducer>
BLINK_HOST_DEVICE status walk_block(Group const group, block_work<Link, T>& work,
                                    std::uint64_t deadline_nanoseconds, Reducer const& reduce) {
  bool const leads = group.thread_rank() == 0;
  for (std::uint32_t k = 0; leads && k < work.lane_count; ++k) {
    open_lane(work.link, work.here[k], sizeof(T));
  }
  group.sync();
  block_patience wait{work.link.abort, deadline_nanoseconds, 0};
  status result = Protocol::walk_lanes(group, work.link, work.here, work.lane_count, work.buffers,
                                       reduce, wait);
  bool const is_ok = group.from_leader(result == status::ok);  // some walks tell the leader only
  if (!is_ok && result == status::ok) result = status::aborted;
  if (result != status::ok) publish(*work.link.abort, 1);
  if (leads) {
    for (std::uint32_t k = 0; k < work.lane_count; ++k) close_lane(work.here[k]);
    work.result = result;
  }
  return result;
}

}  // namespace blink::inline BLINK_ABI
