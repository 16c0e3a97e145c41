// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/text.hpp>

#include <atomic>

namespace blink::inline BLINK_ABI::detail {

/// Throws: precondition_error while calls that this rank has started have not ended.
template <session Me>
void expect_nothing_started(Me& me, collective kind) {
  if (me.holder().load(std::memory_order_acquire) == nullptr) return;
  throw precondition_error(text_of({"rank ", me.rank(), " calls ", to_text(kind),
                                    " while calls that it has started have not ended"}));
}

/// A whole call that the caller waits for.
///
/// Throws: precondition_error, before the call is touched, while another one has not ended; what the
///         call throws.
template <session Me, class Call>
void run_to_end(Me& me, collective kind, Call& call) {
  if (me.group().thread_rank() == 0) {
    expect_nothing_started(me, kind);
    me.expect_outside(kind);
  }
  call.begin();
  call.complete();
}

}  // namespace blink::inline BLINK_ABI::detail
