// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/call_signature.hpp>
#include <blink/config.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <cstddef>
#include <optional>

namespace blink::inline BLINK_ABI {

/// What a rank shows of its input when it announces a call (`detail::showing_session`).
struct shown_bytes {
  void const* data = nullptr;
  std::size_t count = 0;
  int to = -1;  ///< only to this rank; -1: to all
};

/// What `rank` shows; empty if the call goes over the wires instead. The same on all ranks whether it
/// does, and decided by what is equal on all of them.
///
/// most: bytes of an input that can be shown
[[nodiscard]] inline std::optional<shown_bytes> bytes_to_show(prepared_schedule const& plan,
                                                              call_record const& record, int rank,
                                                              std::size_t most) {
  auto const kind = static_cast<collective>(record.signature.kind);
  std::size_t const bytes = record.signature.count * record.signature.element_bytes;
  bool const can_do = kind == collective::all_reduce || kind == collective::reduce ||
                      kind == collective::broadcast || kind == collective::all_gather ||
                      kind == collective::barrier;
  if (!record.may_show || !can_do || bytes > most) return std::nullopt;
  if (kind == collective::barrier) return shown_bytes{};
  int const root = plan.source().trees[0].root;
  if (kind == collective::broadcast && rank != root) return shown_bytes{};
  return shown_bytes{record.input, bytes, kind == collective::reduce ? root : -1};
}

}  // namespace blink::inline BLINK_ABI
