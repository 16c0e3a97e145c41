// SPDX-License-Identifier: Apache-2.0
#pragma once

// Inputs that device and host compute from positions, and comparison on the device.

#include <blink/core/collective.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/reducers/small_float.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>

#include "../on_gpu.cuh"
#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <stdexcept>
#include <type_traits>
#include <vector>

namespace gpu_suite {

using gpu_test::check;

/// Small whole numbers: sums and products of sixteen of them are exact in every tested type. For
/// elements with a location it is the rank.
template <class T>
BLINK_HOST_DEVICE T element(int rank, std::uint64_t index, std::uint32_t seed) {
  std::uint64_t bits = index * 0x9e3779b97f4a7c15u + static_cast<std::uint64_t>(rank) * 0xd1342543u;
  bits = (bits ^ (bits >> 31) ^ seed) * 0xbf58476d1ce4e5b9u;
  auto const bit = static_cast<float>((bits >> 40) % 2);
  float const small = 1 + bit;
  if constexpr (requires(T const both) { both.index; }) {
    return {small, rank};
  } else if constexpr (std::is_same_v<T, blink::float8_e4m3>) {
    return static_cast<T>(bit);  // this type has no odd numbers above 16
  } else {
    return static_cast<T>(small);
  }
}

template <class T>
__global__ void fill(T* to, std::size_t count, int rank, std::uint32_t seed) {
  std::size_t const stride = std::size_t{gridDim.x} * blockDim.x;
  for (std::size_t k = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; k < count; k += stride) {
    to[k] = element<T>(rank, k, seed);
  }
}

/// The expected output of a rank.
struct expectation {
  std::size_t outputs = 0;  ///< elements
  std::size_t count = 0;    ///< of a block, or of the buffer
  int ranks = 0;
  int rank = 0;
  int source = 0;  ///< the rank that sends the data, if only one does
  std::uint32_t seed = 0;
  bool reduces = false, gathers = false, has_input_blocks = false;
};

template <class T, class Reducer>
__global__ void compare(T const* output, expectation const what, Reducer const reduce,
                        unsigned long long* wrong) {
  std::size_t const stride = std::size_t{gridDim.x} * blockDim.x;
  std::size_t const own = what.count * static_cast<std::size_t>(what.rank);
  for (std::size_t k = std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; k < what.outputs;
       k += stride) {
    T expected{};
    std::size_t const in_block = what.gathers ? k % what.count : k;
    std::size_t const index = in_block + (what.has_input_blocks ? own : 0);
    if (what.reduces) {
      using A = blink::accumulator_t<Reducer, T>;
      A total =
          static_cast<A>(blink::detail::lift(reduce, element<T>(0, index, what.seed), {index, 0}));
      for (int rank = 1; rank < what.ranks; ++rank) {
        total = static_cast<A>(
            reduce(total, static_cast<A>(blink::detail::lift(
                              reduce, element<T>(rank, index, what.seed), {index, rank}))));
      }
      expected = static_cast<T>(blink::detail::finish(reduce, total, what.ranks, {index, 0}));
    } else {
      int const from = what.gathers ? static_cast<int>(k / what.count) : what.source;
      expected = element<T>(from, index, what.seed);
    }
    if (!(output[k] == expected)) atomicAdd(wrong, 1ULL);
  }
}

/// The rank that sends the contents of a rank's output; -1 if there is none.
inline int source_of(blink::schedule const& plan, blink::collective kind, int rank) {
  auto const& first = plan.trees[0];
  if (kind == blink::collective::gather) return rank == blink::flow_end(first) ? rank : -1;
  if (kind == blink::collective::reduce) return rank == blink::reduce_end(first) ? rank : -1;
  if (kind != blink::collective::permute && kind != blink::collective::send_to_next) {
    return first.root;
  }
  for (auto const& tree : plan.trees) {
    if (blink::flow_end(tree) == rank) return tree.root;
  }
  return -1;
}

/// Memory for the buffers of all ranks, one after the other.
class arena {
 public:
  explicit arena(std::size_t bytes) : bytes_(bytes) {
    check(cudaMalloc(&memory_, bytes), "cudaMalloc of the buffers");
    check(cudaMalloc(&wrong_, sizeof *wrong_), "cudaMalloc");
  }
  arena(arena const&) = delete;
  arena& operator=(arena const&) = delete;
  ~arena() {
    cudaFree(memory_);
    cudaFree(wrong_);
  }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// Bytes of the buffers of a case.
  template <class T>
  [[nodiscard]] static std::size_t needed(blink::collective kind, int ranks, std::size_t count) {
    auto const n = static_cast<std::size_t>(ranks);
    std::size_t const blocks =
        (blink::has_input_blocks(kind) ? n : 1) + (blink::has_output_blocks(kind) ? n : 1);
    return n * blocks * (count * sizeof(T) + 512);
  }

  /// Buffers with fresh inputs, `offset` elements after aligned addresses.
  ///
  /// is_in_place: the output is the input, or one of the two is a block of the other
  template <class T>
  [[nodiscard]] std::vector<blink::rank_buffers<T>> buffers(blink::collective kind, int ranks,
                                                            std::size_t count, std::size_t offset,
                                                            std::uint32_t seed, cudaStream_t on,
                                                            bool is_in_place = false) {
    auto* next = static_cast<std::byte*>(memory_);
    auto const take = [&](bool has_blocks) {
      std::size_t const elements = has_blocks ? count * static_cast<std::size_t>(ranks) : count;
      auto* const first = reinterpret_cast<T*>(next) + offset;
      next += ((elements + offset) * sizeof(T) + 255) / 256 * 256;
      return first;
    };
    std::vector<blink::rank_buffers<T>> result;
    for (int rank = 0; rank < ranks; ++rank) {
      bool const input_has_blocks = blink::has_input_blocks(kind);
      bool const output_has_blocks = blink::has_output_blocks(kind);
      std::size_t const own_block = count * static_cast<std::size_t>(rank);
      T* input = take(input_has_blocks || (is_in_place && output_has_blocks));
      T* output = is_in_place ? input : take(output_has_blocks);
      if (is_in_place && output_has_blocks && !input_has_blocks) input += own_block;
      if (is_in_place && input_has_blocks && !output_has_blocks) output += own_block;
      std::size_t const inputs =
          blink::has_input_blocks(kind) ? count * static_cast<std::size_t>(ranks) : count;
      if (inputs > 0) fill<<<528, 256, 0, on>>>(input, inputs, rank, seed);
      result.push_back({input, output, count});
    }
    std::size_t const used = static_cast<std::size_t>(next - static_cast<std::byte*>(memory_));
    if (used > bytes_) throw std::runtime_error("the buffers of the suite are too small");
    for (auto const& own : result) {
      if (is_in_place) break;
      std::size_t const outputs =
          blink::has_output_blocks(kind) ? count * static_cast<std::size_t>(ranks) : count;
      if (outputs > 0) {
        check(cudaMemsetAsync(own.output, 0x5a, outputs * sizeof(T), on), "cudaMemsetAsync");
      }
    }
    return result;
  }

  /// The number of wrong elements in all outputs.
  template <class T, class Reducer>
  [[nodiscard]] unsigned long long wrong(blink::schedule const& plan, blink::collective kind,
                                         std::vector<blink::rank_buffers<T>> const& buffers,
                                         std::uint32_t seed, Reducer const& reduce,
                                         cudaStream_t on) {
    check(cudaMemsetAsync(wrong_, 0, sizeof *wrong_, on), "cudaMemsetAsync");
    for (int rank = 0; rank < plan.rank_count; ++rank) {
      auto const& own = buffers[static_cast<std::size_t>(rank)];
      expectation what;
      what.source = source_of(plan, kind, rank);
      if (what.source < 0) continue;
      what.count = own.count;
      what.ranks = plan.rank_count;
      what.rank = rank;
      what.seed = seed;
      what.reduces = blink::has_reduce_phase(kind);
      what.gathers = blink::has_output_blocks(kind);
      what.has_input_blocks = blink::has_input_blocks(kind);
      what.outputs =
          what.gathers ? own.count * static_cast<std::size_t>(plan.rank_count) : own.count;
      if (what.outputs == 0) continue;
      compare<<<528, 256, 0, on>>>(static_cast<T const*>(own.output), what, reduce, wrong_);
      check(cudaGetLastError(), "compare");
    }
    unsigned long long result = 0;
    check(cudaMemcpyAsync(&result, wrong_, sizeof result, cudaMemcpyDeviceToHost, on),
          "cudaMemcpyAsync");
    check(cudaStreamSynchronize(on), "compare");
    return result;
  }

 private:
  void* memory_ = nullptr;
  unsigned long long* wrong_ = nullptr;
  std::size_t bytes_;
};

}  // namespace gpu_suite
