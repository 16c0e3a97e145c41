// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/lane.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/status.hpp>
#include <blink/collectives/thread_block.cuh>
#include <blink/collectives/transport.hpp>
#include <blink/collectives/tree_walk.hpp>
#include <blink/config.hpp>
#include <blink/transports/cuda/block_patience.cuh>

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

/// One block for each lane of one or more ranks: any collective, along any schedule.
///
/// Pre: launched cooperatively, so that all blocks run at once: a lane that waits for one that is
///      not resident would wait for ever.
template <transport Link, class T, reducer_for<T> Reducer>
__global__ void __launch_bounds__(512, 1)
    walk_kernel(block_work<Link, T>* work, std::uint64_t deadline_nanoseconds,
                Reducer const reduce) {
  auto& mine = work[blockIdx.x];
  thread_block const group;
  if (group.thread_rank() == 0) open_lane(mine.link, *mine.here, sizeof(T));
  group.sync();
  block_patience wait{mine.link.abort, deadline_nanoseconds, 0};
  status const result = walk(group, mine.link, mine.here, 1, mine.buffers, reduce, wait);
  if (group.thread_rank() == 0) {
    close_lane(*mine.here);
    mine.result = result;
    if (result != status::ok) publish(*mine.link.abort, 1);
  }
}

}  // namespace blink::inline BLINK_ABI
