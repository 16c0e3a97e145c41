// SPDX-License-Identifier: Apache-2.0
// Must not compile: ranks that read each other's buffers would lift with their own state. A test
// compares the error with its text.
#include <blink/collectives.hpp>

struct scaled_at_home {
  static constexpr bool lift_at_source = true;
  int factor;
  [[nodiscard]] int lift(int value) const { return factor * value; }
  [[nodiscard]] int operator()(int a, int b) const { return a + b; }
};

void wrong(blink::thread_communicator<blink::threads_link, blink::lone_thread>& comm) {
  int value = 1;
  blink::all_reduce(comm, blink::star_schedule(2), &value, &value, 1,
                    scaled_at_home{comm.rank() + 2});
}
