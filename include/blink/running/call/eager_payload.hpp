// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/call_description.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <cstddef>

namespace blink { inline namespace BLINK_ABI {

/// The part of its input that a rank sends when it announces a call (`detail::eager_communicator`).
struct eager_payload {
  void const* data = nullptr;  ///< null: this rank has no payload
  std::size_t count = 0;       ///< bytes for each rank; the same on all ranks
  bool has_blocks = false;     ///< true: one segment for each rank, in their order; false: the same
                               ///< bytes for all
  int to = -1;                 ///< only to this rank; -1: to all

  /// The bytes for one rank.
  [[nodiscard]] void const* for_rank(int rank) const {
    std::size_t const before = has_blocks ? count * static_cast<std::size_t>(rank) : 0;
    return static_cast<std::byte const*>(data) + before;
  }
  /// Bytes for all ranks together.
  [[nodiscard]] std::size_t whole(int rank_count) const {
    return has_blocks ? count * static_cast<std::size_t>(rank_count) : count;
  }
};

/// True if ranks may send eager payloads in this call. Otherwise inputs of every size use the
/// connections.
[[nodiscard]] inline bool can_be_eager(call_record const& record) {
  auto const kind = record.kind();
  return record.may_be_eager && !is_permutation(kind);
}

/// Returns the eager payload of `rank`, the same on all ranks except for `data`. Pre:
/// `can_be_eager`.
[[nodiscard]] inline eager_payload payload_of(prepared_schedule const& prepared,
                                              call_record const& record, int rank) {
  auto const kind = record.kind();
  if (!moves_data(kind)) return {};
  int const root = root_of(prepared.source(), kind);
  return {is_from_root(kind) && rank != root ? nullptr : record.input,
          record.parameters.count * record.parameters.element_bytes, has_input_blocks(kind),
          is_to_root(kind) ? root : -1};
}

}}  // namespace blink::BLINK_ABI
