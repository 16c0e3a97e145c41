// SPDX-License-Identifier: Apache-2.0
// All-reduce as a kernel: the ranks are virtual ones of a single GPU, each lane is a block, all in
// one cooperative launch. Compiled wherever nvcc is; exits with 77, "skipped", without a GPU.

#include <blink/collectives/default_schedules.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/transports/cuda/peer_memory.hpp>
#include <blink/transports/cuda/walk_kernel.cuh>
#include <blink/transports/prepared_schedule.hpp>

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <stdexcept>
#include <string>
#include <type_traits>
#include <vector>

namespace kernel_test {

constexpr int skipped = 77;

void check(cudaError_t result, char const* what) {
  if (result != cudaSuccess) {
    throw std::runtime_error(std::string(what) + ": " + cudaGetErrorString(result));
  }
}

void* managed_allocate(void*, std::size_t bytes) {
  void* memory = nullptr;
  check(cudaMallocManaged(&memory, bytes), "cudaMallocManaged");
  return memory;
}
void managed_release(void*, void* memory, std::size_t) noexcept {
  cudaFree(memory);
}

template <class T>
class managed {
 public:
  explicit managed(std::size_t count) : count_(count) {
    check(cudaMallocManaged(&data_, (count + 1) * sizeof(T)), "cudaMallocManaged");
    for (std::size_t k = 0; k < count; ++k) new (data_ + k) T{};
  }
  managed(managed const&) = delete;
  managed& operator=(managed const&) = delete;
  ~managed() { cudaFree(data_); }
  T* data() const { return data_; }
  T& operator[](std::size_t k) const { return data_[k]; }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

int input(int rank, std::size_t index) {
  return static_cast<int>((index * 7 + static_cast<std::size_t>(rank) * 13) % 5) - 1;
}

/// Returns the number of wrong elements.
template <class Link, class T, class Reducer>
std::size_t run(blink::schedule const& plan, std::size_t count, std::size_t offset,
                Reducer const& reduce) {
  using work = blink::block_work<Link, T>;
  auto const kind = blink::collective::all_reduce;
  auto const ranks = static_cast<std::size_t>(plan.rank_count);
  blink::wire_layout layout;
  layout.reaches = blink::reaching_transport<Link>;
  layout.window = 2;
  layout.slot_bytes = 4096;
  layout.memory = {nullptr, managed_allocate, managed_release};
  blink::prepared_schedule prepared(plan, layout, {});

  std::size_t const stride = (count + offset + 7) / 4 * 4;
  managed<T> in(ranks * stride);
  managed<T> out(ranks * stride);
  managed<void const*> inputs(ranks);
  managed<void*> outputs(ranks);
  managed<blink::counter> abort(1);
  std::size_t blocks = 0;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    inputs[rank] = in.data() + rank * stride + offset;
    outputs[rank] = out.data() + rank * stride + offset;
    blocks += prepared.tables().lanes(static_cast<int>(rank), kind).count;
  }
  managed<work> works(blocks);
  std::size_t wrong = 0;
  for (int repeat = 0; repeat < 3; ++repeat) {  // positions go on from launch to launch
    std::size_t block = 0;
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      auto const lanes = prepared.tables().lanes(static_cast<int>(rank), kind);
      for (std::size_t k = 0; k < count; ++k) {
        in[rank * stride + offset + k] = static_cast<T>(input(static_cast<int>(rank) + repeat, k));
        out[rank * stride + offset + k] = T{};
      }
      for (std::size_t k = 0; k < lanes.count; ++k, ++block) {
        auto& here = lanes.first[k];
        prepared.set_call<blink::scheduled_chunks>(
            here, kind, prepared.equal_block(here, kind, count), blink::sizes_of<Reducer, T>(),
            blink::order_of<Reducer>);
        auto& mine = works[block];
        mine.here = lanes.first + k;
        mine.link.wires = prepared.tables().wires();
        mine.link.abort = abort.data();
        mine.link.bytes_of_slot = prepared.tables().layout().slot_bytes;
        mine.link.own_rank = static_cast<int>(rank);
        mine.link.ranks = plan.rank_count;
        if constexpr (blink::reaching_transport<Link>) {
          mine.link.inputs = inputs.data();
          mine.link.outputs = outputs.data();
        }
        mine.buffers.input = static_cast<T const*>(inputs[rank]);
        mine.buffers.output = static_cast<T*>(outputs[rank]);
      }
    }
    auto* const kernel = &blink::walk_kernel<Link, T, Reducer>;
    work* first = works.data();
    std::uint64_t deadline = 10'000'000'000;
    Reducer reducer = reduce;
    void* arguments[] = {&first, &deadline, &reducer};
    check(cudaLaunchCooperativeKernel(reinterpret_cast<void*>(kernel),
                                      dim3(static_cast<unsigned>(blocks)), dim3(128), arguments, 0,
                                      nullptr),
          "launch");
    check(cudaDeviceSynchronize(), "kernel");
    for (std::size_t k = 0; k < blocks; ++k) wrong += works[k].result == blink::status::ok ? 0 : 1;
    for (std::size_t k = 0; k < count; ++k) {
      using A = blink::accumulator_t<Reducer, T>;
      auto const lifted = [&](int rank) {
        return static_cast<A>(
            blink::detail::lift(reduce, static_cast<T>(input(rank + repeat, k)), {k, rank}));
      };
      A total = lifted(0);
      for (int rank = 1; rank < plan.rank_count; ++rank) total = reduce(total, lifted(rank));
      auto const result =
          static_cast<T>(blink::detail::finish(reduce, total, plan.rank_count, {k, 0}));
      for (std::size_t rank = 0; rank < ranks; ++rank) {
        wrong += out[rank * stride + offset + k] == result ? 0 : 1;
      }
    }
  }
  return wrong;
}

int main_with_gpu() {
  std::size_t wrong = 0;
  for (auto const& plan :
       {blink::star_schedule(4), blink::chain_schedule(4, 1), blink::binomial_schedule(6, 0)}) {
    for (std::size_t const count : {0, 1, 3, 1000, 100003}) {
      for (std::size_t const offset : {0, 1}) {
        wrong += run<blink::slot_peer_link, float>(plan, count, offset, blink::sum{});
        wrong += run<blink::reaching_peer_link, float>(plan, count, offset, blink::sum{});
        wrong += run<blink::reaching_peer_link, int>(plan, count, offset, blink::avg{});
        wrong += run<blink::slot_peer_link, blink::bfloat16>(
            plan, count, offset, blink::accumulate_in<float>(blink::sum{}));
      }
    }
  }
  std::printf("%zu wrong elements\n", wrong);
  return wrong == 0 ? 0 : 1;
}

}  // namespace kernel_test

int main() {
  int devices = 0;
  cudaError_t const found = cudaGetDeviceCount(&devices);
  if (found != cudaSuccess || devices == 0) {
    std::printf("skipped: no GPU (%s)\n", cudaGetErrorString(found));
    return kernel_test::skipped;
  }
  try {
    return kernel_test::main_with_gpu();
  } catch (std::exception const& failure) {
    std::fprintf(stderr, "%s\n", failure.what());
    return 1;
  }
}
