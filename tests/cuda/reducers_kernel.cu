// SPDX-License-Identifier: Apache-2.0
// The steps of every reducer on a device, beside the same steps on the host. Compiled wherever nvcc
// is; exits with 77, "skipped", without a GPU.

#include <blink/collectives/reducer.hpp>
#include <blink/reducers.hpp>

#include "on_gpu.cuh"
#include <cuda/functional>
#include <cuda/std/complex>
#include <cuda/std/functional>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <thrust/functional.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <type_traits>
#include <vector>

namespace reducers_test {

constexpr int ranks = 5;
constexpr std::size_t count = 1000;

/// What a chain of ranks makes of element `k`: every step once for each rank.
template <class T, class Reducer>
BLINK_HOST_DEVICE T through_chain(T const* inputs, std::size_t k, Reducer const& reduce) {
  using A = blink::accumulator_t<Reducer, T>;
  A total = static_cast<A>(blink::detail::lift(reduce, inputs[k], {k, 0}));
  for (int rank = 1; rank < ranks; ++rank) {
    auto const sent = blink::detail::send(reduce, total, {k, rank});
    auto const own = static_cast<A>(
        blink::detail::lift(reduce, inputs[static_cast<std::size_t>(rank) * count + k], {k, rank}));
    total = static_cast<A>(reduce(own, static_cast<A>(blink::detail::receive<T>(reduce, sent))));
  }
  return static_cast<T>(blink::detail::finish(reduce, total, ranks, {k, 0}));
}

template <class T, class Reducer>
__global__ void chain_kernel(T const* inputs, T* outputs, Reducer const reduce) {
  std::size_t const k = blockIdx.x * blockDim.x + threadIdx.x;
  if (k < count) outputs[k] = through_chain(inputs, k, reduce);
}

bool is_near(float a, float b) {
  return (a != a && b != b) || a == b || std::fabs(a - b) <= 1e-5F * (1 + std::fabs(b));
}
template <class T>
bool is_near(T const& a, T const& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

/// Returns the number of elements in which device and host differ: bits for most types, the last
/// digits for floats, whose products may be fused with sums.
template <class T, class Reducer, class Make>
std::size_t differences(Reducer const& reduce, Make const& make) {
  T* inputs = nullptr;
  T* outputs = nullptr;
  if (cudaMallocManaged(&inputs, ranks * count * sizeof(T)) != cudaSuccess) return count;
  if (cudaMallocManaged(&outputs, count * sizeof(T)) != cudaSuccess) return count;
  for (std::size_t k = 0; k < ranks * count; ++k) inputs[k] = make(k);
  chain_kernel<<<(count + 127) / 128, 128>>>(inputs, outputs, reduce);
  std::size_t wrong = cudaDeviceSynchronize() == cudaSuccess ? 0 : count;
  for (std::size_t k = 0; wrong < count && k < count; ++k) {
    wrong += is_near(outputs[k], through_chain(inputs, k, reduce)) ? 0 : 1;
  }
  cudaFree(inputs);
  cudaFree(outputs);
  return wrong;
}

std::size_t all_differences() {
  auto const number = [](std::size_t k) {
    return std::ldexp(static_cast<float>(k * 7919 % 2003) - 1001, static_cast<int>(k % 13) - 9);
  };
  auto const whole = [](std::size_t k) { return static_cast<std::uint32_t>(k * 2654435761U); };
  auto const place = [&](std::size_t k) {
    return blink::located<int>{static_cast<int>(k * 31 % 7), static_cast<std::int64_t>(k)};
  };
  auto const largest = [&](std::size_t k) {
    blink::largest_values<int, 3> result;
    for (std::size_t n = 0; n < k % 5; ++n) result.add(place(k * 5 + n));
    return result;
  };
  auto const block = [&](std::size_t k) {
    blink::float_block<4> result{};
    for (std::size_t n = 0; n < 4; ++n) result.values[n] = std::round(number(4 * k + n));
    return result;
  };
  auto const half = [&](std::size_t k) { return blink::float16(number(k) / 64); };
  auto const small = [&](std::size_t k) { return blink::float8_e4m3(number(k) / 512); };
  std::size_t wrong = 0;
  wrong += differences<float>(blink::scaled_sum<float>{0.5F}, number);
  wrong += differences<std::uint32_t>(blink::bit_xor{}, whole);
  wrong += differences<std::uint32_t>(blink::logical_and{}, whole);
  wrong += differences<blink::located<int>>(blink::min_location<>{}, place);
  wrong += differences<float>(blink::minimum{}, number);
  wrong += differences<float>(blink::maximum_number{}, number);
  wrong += differences<float>(blink::compensated_sum{}, number);
  wrong += differences<float>(blink::log_sum_exp{}, number);
  wrong += differences<float>(blink::mean_of_ranks{}, number);
  wrong += differences<blink::largest_values<int, 3>>(blink::merge_largest{}, largest);
  wrong += differences<float>(blink::reproducible_sum{}, number);
  wrong += differences<blink::float16>(blink::accumulate_in<float>(blink::avg{}), half);
  wrong += differences<blink::float8_e4m3>(
      blink::accumulate_in<float, blink::bfloat16>(blink::sum{}), small);
  wrong += differences<float>(blink::stochastic_wire_sum<blink::bfloat16>{3}, number);
  wrong += differences<blink::float16>(blink::stochastic_storage_sum<blink::float16>{4}, half);
  wrong += differences<blink::float_block<4>>(blink::quantised_sum{}, block);
  // Operations and storage types of others.
  wrong += differences<float>(cuda::std::plus<>{}, number);
  wrong += differences<float>(cuda::maximum<>{}, number);
  wrong += differences<std::uint32_t>(cuda::std::bit_xor<std::uint32_t>{}, whole);
  wrong += differences<float>(thrust::multiplies<float>{}, number);
  wrong += differences<cuda::std::complex<float>>(blink::sum{}, [&](std::size_t k) {
    return cuda::std::complex<float>(std::round(number(k)), std::round(number(k + 1)));
  });
  auto const in_float = blink::accumulate_in<float>(blink::sum{});
  wrong += differences<__half>(in_float, [&](std::size_t k) { return __half(number(k) / 64); });
  wrong +=
      differences<__nv_bfloat16>(in_float, [&](std::size_t k) { return __nv_bfloat16(number(k)); });
  wrong += differences<__nv_fp8_e4m3>(
      in_float, [&](std::size_t k) { return __nv_fp8_e4m3(number(k) / 512); });
  return wrong;
}

}  // namespace reducers_test

int main() {
  return gpu_test::run_on_gpu([] {
    std::size_t const wrong = reducers_test::all_differences();
    std::printf("%zu elements differ\n", wrong);
    return wrong == 0 ? 0 : 1;
  });
}
