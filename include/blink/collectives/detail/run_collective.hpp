// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/detail/collective_call.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>
#include <blink/transports/prepared_schedule.hpp>

#include <cstddef>

namespace blink::inline BLINK_ABI::detail {

/// A whole call, from its beginning to its end.
///
/// count: elements of the whole buffer, or of one block where the collective has blocks
template <chunking Chunks, session Me, class T, class Reducer>
void run_collective(Me& me, prepared_schedule& plan, collective kind, T const* input, T* output,
                    std::size_t count, Reducer const& reduce) {
  collective_call<Chunks, Me, T, Reducer> call(me, plan, kind, input, output, {count}, reduce);
  call.begin();
  call.complete();
}

}  // namespace blink::inline BLINK_ABI::detail
