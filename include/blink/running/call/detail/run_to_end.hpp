// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/call/detail/steps_of_calls.hpp>
#include <blink/running/call/session.hpp>

namespace blink { inline namespace BLINK_ABI { namespace detail {

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

}}}  // namespace blink::BLINK_ABI::detail
