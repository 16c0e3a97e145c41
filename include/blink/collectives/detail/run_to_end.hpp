// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/detail/steps_of_calls.hpp>
#include <blink/collectives/session.hpp>
#include <blink/config.hpp>

namespace blink::inline BLINK_ABI::detail {

/// A whole call that the caller waits for.
///
/// Throws: precondition_error, before the call is touched, while another one has not ended; what the
///         call throws.
template <session Me, class Call>
void run_to_end(Me& me, collective kind, Call& call) {
  if (me.group().thread_rank() == 0) steps_of(me).expect_free(me, kind);
  call.begin();
  call.complete();
}

}  // namespace blink::inline BLINK_ABI::detail
