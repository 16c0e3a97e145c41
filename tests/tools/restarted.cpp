// SPDX-License-Identifier: Apache-2.0
// A training loop that goes on after a loss: `blink run --restart 1 -- PROGRAM FOLDER`. In step 3
// the first process of rank 1 dies. The other ranks make a new communicator with the process that
// takes its place, and go on from the step that all have.
#include <blink/ucx.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <string>
#include <vector>

namespace {

constexpr int steps = 8, lost_in = 3;

void run(std::string const& folder) {
  int done = 0, communicators = 0;
  while (done < steps) {
    blink::launcher_bootstrap all;
    auto options = blink::message_options();
    options.waits.deadline = std::chrono::seconds(20);
    blink::ucx_communicator comm(all, options);
    ++communicators;
    try {
      // The step that every rank has; a new process has none.
      std::vector<int> first(1, done);
      blink::all_reduce(comm, first, blink::max{});
      for (done = first[0]; done < steps; ++done) {
        bool const is_lost =
            comm.rank() == 1 && done == lost_in && !std::ifstream(folder + "/lost");
        if (is_lost) {
          std::ofstream(folder + "/lost").put('1').flush();
          std::raise(SIGKILL);
        }
        std::vector<float> data(10'000, 1);
        blink::all_reduce(comm, data);
        auto const sum = static_cast<float>(comm.rank_count());
        if (std::count(data.begin(), data.end(), sum) != 10'000) throw blink::error("a wrong sum");
      }
      std::printf("rank %d of %d: %d steps, %d communicators\n", comm.rank(), comm.rank_count(),
                  done, communicators);
    } catch (blink::collective_error const& failure) {
      std::printf("rank %d: %s\n", comm.rank(), failure.what());
    }
  }
}

}  // namespace

int main(int count, char** texts) {
  try {
    if (count == 2) run(texts[1]);
    return count == 2 ? 0 : 2;
  } catch (std::exception const& failure) {
    std::printf("%s\n", failure.what());
    return 1;
  }
}
