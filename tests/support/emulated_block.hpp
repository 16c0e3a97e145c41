// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/team_group.hpp>
#include <blink/collectives/thread_group.hpp>

namespace blink_test {

/// Host threads that stand for a CUDA block and move chunks by the code of kernels. What differs is what
/// a compiler makes of it: the instructions that load and store, and how barriers are done.
class emulated_block : public blink::team_group {
 public:
  static constexpr bool moves_as_device = true;
  using blink::team_group::team_group;
};
static_assert(blink::voting_group<emulated_block> && blink::device_like_group<emulated_block>);
static_assert(!blink::device_like_group<blink::team_group>);

}  // namespace blink_test
