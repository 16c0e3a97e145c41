// SPDX-License-Identifier: Apache-2.0
// A training loop without a model: `blink stalls -n 2 -- PROGRAM STEPS`. Each step computes for a
// while and adds up three gradients. Ranks of UCX run on hosts, those of processes on one host.
#include <blink/collectives.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/tuning_file.hpp>  // BLINK_TUNING
#ifdef BLINK_TEST_UCX
#include <blink/ucx.hpp>
#else
#include <blink/transports/host/processes.hpp>
#endif

#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <thread>
#include <vector>

namespace {

template <class Comm>
void train(Comm& comm, int steps) {
  std::vector<float> weights(1000, 1);
  blink::broadcast(comm, weights, 0);
  std::vector<std::vector<float>> gradients;
  for (std::size_t const size : {300000U, 100000U, 1000U}) gradients.emplace_back(size, 1.0F);
  for (int step = 0; step < steps; ++step) {
    std::this_thread::sleep_for(std::chrono::milliseconds(2));
    for (auto& gradient : gradients) blink::all_reduce(comm, gradient);
  }
  blink::barrier(comm);
  if (comm.rank() == 0) std::printf("%d steps\n", steps);
}

}  // namespace

int main(int count, char** texts) {
  try {
    int const steps = count > 1 ? std::atoi(texts[1]) : 10;
#ifdef BLINK_TEST_UCX
    blink::launcher_bootstrap all;
    blink::ucx_communicator comm(all);
#else
    blink::process_communicator comm;
#endif
    train(comm, steps);
    return 0;
  } catch (blink::error const& failure) {
    std::printf("%s\n", failure.what());
    return 1;
  }
}
