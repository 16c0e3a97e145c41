// SPDX-License-Identifier: Apache-2.0
// Must not compile: floats have no bits to combine. A test compares the error with its text.
#include <blink/collectives.hpp>

void wrong(blink::thread_communicator<blink::threads_link, blink::lone_thread>& comm) {
  float value = 1;
  blink::all_reduce(comm, blink::star_schedule(2), &value, &value, 1, blink::bit_xor{});
}
