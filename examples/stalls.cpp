// SPDX-License-Identifier: Apache-2.0 Times that ranks wait for each other: one rank is late, and
// the report shows it.
#include <blink/collectives.hpp>
#include <blink/collectives/call_records.hpp>

#include <chrono>
#include <cstdio>
#include <thread>
#include <vector>

int main() {
  blink::call_records
      records;  // options name files: a line or JSON object for each call, or Chrome's trace
  blink::observe_calls(&records);
  blink::thread_ranks threads(3);
  auto& trees = threads.prepare(blink::star_schedule(3));
  threads.run([&](auto& comm) {
    std::vector<float> data(100'000, 1.0F);
    for (int step = 0; step < 5; ++step) {
      if (comm.rank() == 2) std::this_thread::sleep_for(std::chrono::milliseconds(2));
      blink::all_reduce(comm, trees, data.data(), data.data(), data.size(), blink::sum{});
    }
  });
  std::printf("%s", records.stall_report().c_str());
}
