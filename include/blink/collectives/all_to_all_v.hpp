// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/block.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/detail/unequal_flows.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <cstddef>
#include <cstring>
#include <string>
#include <vector>

namespace blink::inline BLINK_ABI {

/// Hands each rank a block of each other; every pair of ranks has a size of its own.
///
/// input:    blocks for the ranks
/// sends:    by rank, where the block for it lies in `input`; blocks may lie over each other
/// output:   blocks of the ranks; may be `input` if `sends` and `receives` are equal, and must not
///           overlap it otherwise
/// receives: by rank, where its block comes to lie in `output`; none over another
/// Moves:    each block over the trees from its sender to its receiver; before that, sizes: ranks on
///           the way need them, and both ends are compared.
/// Needs:    in place, a copy of the input.
/// Throws:   precondition_error if `plan` does not carry an all-to-all, for blocks or buffers that
///           are wrong, and on all ranks if a rank sends another count than the other expects;
///           collective_error, on every rank, if a rank does not come or does not go on before the
///           deadline, or calls something else.
template <chunking Chunks = scheduled_chunks, session Me, class T>
void all_to_all_v(Me& me, prepared_schedule& plan, T const* input, std::vector<block> const& sends,
                  T* output, std::vector<block> const& receives) {
  auto const name = "all_to_all_v on rank " + std::to_string(me.rank());
  plan.expect_carries(collective::all_to_all);
  detail::check_blocks(name + ", sends", sends, me.rank_count(), sizeof(T), false);
  detail::check_blocks(name + ", receives", receives, me.rank_count(), sizeof(T), true);
  std::size_t const in_end = detail::end_of(sends);
  std::size_t const out_end = detail::end_of(receives);
  detail::expect_buffer(name, "input", input, in_end);
  detail::expect_buffer(name, "output", output, out_end);
  if (in_end > 0 && input == output && sends == receives) {
    auto& copy = plan.copy_of(me.rank());
    if (me.group().thread_rank() == 0) {
      std::memcpy(copy.at_least(in_end * sizeof(T)), input, in_end * sizeof(T));
    }
    me.group().sync();
    input = reinterpret_cast<T const*>(copy.data());
  } else {
    detail::expect_apart(name, input, in_end * sizeof(T), output, out_end * sizeof(T));
  }
  auto const blocks = detail::agree_on_flows(me, plan, "all_to_all_v", {sends, receives, {}, {}});
  detail::move_flows<Chunks>(me, plan, input, output, blocks);
}

/// The same along a schedule that is looked up, or prepared, first.
template <chunking Chunks = scheduled_chunks, session Me, class T>
void all_to_all_v(Me& me, schedule const& plan, T const* input, std::vector<block> const& sends,
                  T* output, std::vector<block> const& receives) {
  all_to_all_v<Chunks>(me, me.prepare(plan), input, sends, output, receives);
}

}  // namespace blink::inline BLINK_ABI
