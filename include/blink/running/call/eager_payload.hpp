// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <cstddef>

namespace blink { inline namespace BLINK_ABI {

/// What a rank shows of its input when it announces a call (`detail::eager_communicator`).
struct eager_payload {
  void const* data = nullptr;  ///< null: this rank has nothing to show
  std::size_t count = 0;       ///< for each rank; the same on all
  bool has_blocks = false;     ///< one for each rank, in their order; else all see the same
  int to = -1;                 ///< only to this rank; -1: to all

  [[nodiscard]] void const* for_rank(int rank) const {
    std::size_t const before = has_blocks ? count * static_cast<std::size_t>(rank) : 0;
    return static_cast<std::byte const*>(data) + before;
  }
  /// For all ranks together.
  [[nodiscard]] std::size_t whole(int rank_count) const {
    return has_blocks ? count * static_cast<std::size_t>(rank_count) : count;
  }
};

/// May ranks show what they have in this call, as far as there is room for it? If not it goes over the connections
/// whatever its size.
[[nodiscard]] inline bool can_be_eager(call_record const& record) {
  auto const kind = record.kind();
  return record.may_be_eager && kind != collective::send_to_next && kind != collective::permute;
}

/// What `rank` shows then. The same on all ranks, but for `data`. Pre: `can_be_eager`.
[[nodiscard]] inline eager_payload payload_of(prepared_schedule const& prepared,
                                              call_record const& record, int rank) {
  auto const kind = record.kind();
  if (kind == collective::barrier) return {};
  int const root = root_of(prepared.source(), kind);
  return {is_from_root(kind) && rank != root ? nullptr : record.input,
          record.parameters.count * record.parameters.element_bytes, has_input_blocks(kind),
          is_to_root(kind) ? root : -1};
}

}}  // namespace blink::BLINK_ABI
