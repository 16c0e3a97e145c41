// SPDX-License-Identifier: Apache-2.0
// Must not compile: floats have no bits to combine. A test looks for the sentence that says so.
#include <blink/collectives.hpp>

void wrong(blink::rank_context<blink::threads_link, blink::lone_thread>& me) {
  float value = 1;
  blink::all_reduce(me, blink::star_schedule(2), &value, &value, 1, blink::bit_xor{});
}
