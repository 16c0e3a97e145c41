// SPDX-License-Identifier: Apache-2.0
// A communicator of virtual ranks on one GPU: calls, replays of a graph, refusals. Compiled with
// nvcc; exits with 77, "skipped", without a GPU. `./check --gpu` runs far more (gpu_suite.cu).

#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/small_float.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>

#include "on_gpu.cuh"
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdio>
#include <vector>

namespace thread_ranks_test {

using gpu_test::check;
using gpu_test::managed;

int input(int rank, std::size_t index) {
  return static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % 5) - 1;
}

template <class T, class Reducer>
T expected(int ranks, std::size_t index, Reducer const& reduce) {
  using A = blink::accumulator_t<Reducer, T>;
  auto const lifted = [&](int rank) {
    return static_cast<A>(
        blink::detail::lift(reduce, static_cast<T>(input(rank, index)), {index, rank}));
  };
  A total = lifted(0);
  for (int rank = 1; rank < ranks; ++rank) total = static_cast<A>(reduce(total, lifted(rank)));
  return static_cast<T>(blink::detail::finish(reduce, total, ranks, {index, 0}));
}

/// Makes three calls, then two replays of a graph of two more. Returns the number of wrong
/// elements.
template <class T, class Reducer>
std::size_t run(blink::schedule const& plan, std::size_t count, std::size_t offset,
                Reducer const& reduce) {
  blink::device_options options;
  options.devices.assign(static_cast<std::size_t>(plan.rank_count), 0);
  options.slot_bytes = 4096;
  blink::device_ranks all_ranks(options);
  std::size_t const stride = (count + offset + 7) / 4 * 4;
  auto const ranks = static_cast<std::size_t>(plan.rank_count);
  managed<T> in(ranks * stride), out(ranks * stride);
  std::vector<blink::rank_buffers<T>> buffers;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    buffers.push_back(
        {in.data() + rank * stride + offset, out.data() + rank * stride + offset, count});
    for (std::size_t k = 0; k < count; ++k) {
      in[rank * stride + offset + k] = static_cast<T>(input(static_cast<int>(rank), k));
    }
  }
  std::size_t wrong = 0;
  auto const look = [&] {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t k = 0; k < count; ++k) {
        T& result = out[rank * stride + offset + k];
        wrong += result == expected<T>(plan.rank_count, k, reduce) ? 0 : 1;
        result = T{};
      }
    }
  };
  auto& prepared = all_ranks.prepare(plan);
  for (int repeat = 0; repeat < 3; ++repeat) {  // message numbers continue from launch to launch
    blink::all_reduce(all_ranks, prepared, buffers, reduce);
    all_ranks.wait();
    look();
  }
  cudaStream_t stream = nullptr;
  check(cudaStreamCreate(&stream), "cudaStreamCreate");
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeGlobal), "cudaStreamBeginCapture");
  blink::all_reduce(all_ranks, prepared, buffers, reduce, {stream});
  blink::all_reduce(all_ranks, prepared, buffers, reduce, {stream});
  cudaGraph_t graph = nullptr;
  check(cudaStreamEndCapture(stream, &graph), "cudaStreamEndCapture");
  cudaGraphExec_t launchable = nullptr;
  check(cudaGraphInstantiateWithFlags(&launchable, graph, 0), "cudaGraphInstantiate");
  for (int replay = 0; replay < 2; ++replay) {
    check(cudaGraphLaunch(launchable, stream), "cudaGraphLaunch");
    all_ranks.wait({stream});
    look();
  }
  check(cudaGraphExecDestroy(launchable), "cudaGraphExecDestroy");
  check(cudaGraphDestroy(graph), "cudaGraphDestroy");
  check(cudaStreamDestroy(stream), "cudaStreamDestroy");
  return wrong;
}

int main_with_gpu() {
  std::size_t wrong = 0;
  for (auto const& plan :
       {blink::star_schedule(4), blink::chain_schedule(4, 1), blink::binomial_schedule(6, 0)}) {
    for (std::size_t const count : {0, 1, 3, 1000, 100003}) {
      for (std::size_t const offset : {0, 1}) {
        wrong += run<float>(plan, count, offset, blink::sum{});
        wrong += run<int>(plan, count, offset, blink::avg{});
        wrong +=
            run<blink::bfloat16>(plan, count, offset, blink::accumulate_in<float>(blink::sum{}));
      }
    }
  }
  std::printf("%zu wrong elements\n", wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace thread_ranks_test

int main() {
  return gpu_test::run_on_gpu(thread_ranks_test::main_with_gpu);
}
