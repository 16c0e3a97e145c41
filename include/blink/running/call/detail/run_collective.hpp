// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/detail/collective_call.hpp>
#include <blink/running/call/detail/run_to_end.hpp>
#include <blink/running/call/schedule_source.hpp>
#include <blink/running/call/session.hpp>
#include <blink/schedule/chunking.hpp>

#include <cstddef>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A whole call, from its beginning to its end.
///
/// count: elements of the whole buffer, or of one block where the collective has blocks
template <chunking Chunks, session Me, schedule_source Plan, class T, class Reducer>
void run_collective(Me& me, Plan&& plan, collective kind, T const* input, T* output,
                    std::size_t count, Reducer const& reduce) {
  auto const chosen = choose_schedule(me, std::forward<Plan>(plan), kind,
                                      buffer_bytes(kind, count, sizeof(T), me.rank_count()));
  collective_call<Chunks, Me, T, Reducer> call(me, *chosen.plan, kind, input, output,
                                               {count, chosen.chunk_bytes}, reduce);
  run_to_end(me, kind, call);
}

}}}  // namespace blink::BLINK_ABI::detail
