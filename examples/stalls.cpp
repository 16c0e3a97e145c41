// SPDX-License-Identifier: Apache-2.0
// What do ranks wait for? One of them comes late; the others are told so in numbers.
#include <blink/collectives.hpp>
#include <blink/collectives/call_records.hpp>

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  blink::call_records
      records;  // options name files: a line or a JSON object a call, Chrome's trace
  blink::observe_calls(&records);
  blink::thread_world world(3);
  auto& trees = world.prepare(blink::star_schedule(3));
  world.run([&](auto& me) {
    std::vector<float> data(100'000, 1.0F);
    for (int step = 0; step < 5; ++step) {
      if (me.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      blink::all_reduce(me, trees, data.data(), data.data(), data.size(), blink::sum{});
    }
  });
  std::printf("%s", records.stall_report().c_str());
}
