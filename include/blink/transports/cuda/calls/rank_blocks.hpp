// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/unequal_blocks.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/call/detail/check_buffers.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Checks the buffers of some ranks in a call with segments of any sizes; see `check_rank_buffers`.
///
/// Returns: by rank of this process, the bytes that the call accesses from its buffers' addresses
///          on.
/// Throws:  precondition_error that names the rank, for buffers that are null, not aligned, or
///          overlap otherwise than in place. Also for counts that differ from those of the ranks'
///          segments.
[[nodiscard]] inline std::vector<buffer_reach> check_rank_blocks(
    collective kind, rank_range const& which, unequal_blocks const& blocks,
    std::vector<buffer_use> const& use, std::vector<plain_buffers> const& buffers,
    std::size_t alignment) {
  expect_all_buffers(std::string(to_text(kind)), use, buffers);
  std::vector<buffer_reach> reach;
  for (std::size_t k = 0; k < buffers.size(); ++k) {
    int const rank = which.first + static_cast<int>(k);
    auto const name = std::string(to_text(kind)) + " on rank " + std::to_string(rank);
    auto const& own = buffers[k];
    if (own.count != blocks.count_of(rank)) {
      throw precondition_error(name + ": count " + std::to_string(own.count) +
                               ", expected that of its block, " +
                               std::to_string(blocks.count_of(rank)));
    }
    blocks.check_buffers(name, rank, own.input, own.output);
    reach.push_back({blocks.input_bytes(rank), blocks.output_bytes(rank)});
    if (use[k].reads) expect_aligned(kind, rank, "input", own.input, alignment);
    if (use[k].writes) expect_aligned(kind, rank, "output", own.output, alignment);
  }
  expect_ranks_apart(kind, which, use, buffers, reach);
  return reach;
}

}}}  // namespace blink::BLINK_ABI::detail
