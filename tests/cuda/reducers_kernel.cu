// SPDX-License-Identifier: Apache-2.0
// The steps of every reducer on a device, compared with the same steps on the host. Before that,
// also without a GPU, operations and storage types of other libraries run in collectives on host
// threads. A plain loop checks these. Exits with 77, "skipped", if that succeeds and there is no
// GPU.

#include <blink/collectives.hpp>
#include <blink/reducers.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/host/threads.hpp>

#include "../../examples/cuda/host_ranks.hpp"
#include "on_gpu.cuh"
#include <cub/thread/thread_operators.cuh>
#include <cub/util_type.cuh>
#include <cuda/functional>
#include <cuda/std/complex>
#include <cuda/std/functional>
#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_fp8.h>
#include <cuda_runtime.h>
#include <thrust/functional.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <span>
#include <string>
#include <type_traits>
#include <typeinfo>
#include <vector>

namespace reducers_test {

constexpr int ranks = 5;
constexpr std::size_t count = 1000;

/// The result of a chain of ranks for element `k`: every step once for each rank.
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
template <std::size_t Count>
bool is_near(blink::float_block<Count> const& a, blink::float_block<Count> const& b) {
  return std::equal(std::begin(a.values), std::end(a.values), std::begin(b.values),
                    [](float one, float other) { return is_near(one, other); });
}
template <class T>
bool is_near(blink::located<T> const& a, blink::located<T> const& b) {
  return a == b;  // padding may differ
}
template <class T>
bool is_near(T const& a, T const& b) {
  return std::memcmp(&a, &b, sizeof(T)) == 0;
}

template <class T>
std::string bytes_of(T const& value) {
  std::string text;
  for (std::byte const byte : std::as_bytes(std::span(&value, 1))) {
    char two[3];
    std::snprintf(two, sizeof two, "%02x", std::to_integer<unsigned>(byte));
    text += two;
  }
  return text;
}

/// The number of elements in which device and host differ; the first one is printed. Most types are
/// compared bit by bit, floats up to the last digits, because products may be fused with sums.
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
    auto const expected = through_chain(inputs, k, reduce);
    if (is_near(outputs[k], expected)) continue;
    if (wrong == 0) {
      std::printf("%s: element %zu is %s, on the host %s\n", typeid(Reducer).name(), k,
                  bytes_of(outputs[k]).c_str(), bytes_of(expected).c_str());
    }
    ++wrong;
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
  wrong += differences<float>(blink::stochastic_sent_sum<blink::bfloat16>{3}, number);
  wrong += differences<blink::float16>(blink::stochastic_storage_sum<blink::float16>{4}, half);
  wrong += differences<blink::float_block<4>>(blink::quantised_sum{}, block);
  // Operations and storage types of other libraries.
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

// --- on the host ---

/// A small whole number other than 0. Every type here represents the results for all ranks.
int whole_input(int rank, std::size_t k) {
  int const values[] = {1, -2, 2, -1, 3};
  return values[(k * 7 + k / 5 + static_cast<std::size_t>(rank) * 3) % 5];
}

/// The number of elements of an all-reduce that differ from the result of a loop over the ranks.
/// The all-reduce runs in a communicator of threads, and as the body of a kernel with a thread for
/// each block.
///
/// make:  `make(rank, k)`, an input
/// plain: `plain(total, next)`, the operation of the reducer in other words
template <class T, class Reducer, class Make, class Plain>
std::size_t differences_on_hosts(char const* name, Reducer const& reduce, Make const& make,
                                 Plain const& plain) {
  std::size_t wrong = 0;
  for (std::size_t const length : {std::size_t{3}, count}) {
    std::vector<std::vector<T>> inputs(ranks), outputs(ranks);
    for (int rank = 0; rank < ranks; ++rank) {
      auto& own = inputs[static_cast<std::size_t>(rank)];
      for (std::size_t k = 0; k < length; ++k) own.push_back(make(rank, k));
    }
    auto const look = [&] {
      for (std::size_t k = 0; k < length; ++k) {
        auto total = make(0, k);
        for (int rank = 1; rank < ranks; ++rank) total = plain(total, make(rank, k));
        for (auto const& own : outputs) wrong += is_near(own[k], total) ? 0 : 1;
      }
    };
    for (auto const& plan : {blink::ring_schedule(ranks), blink::binomial_schedule(ranks, 1)}) {
      outputs = inputs;
      blink::thread_ranks threads(ranks);
      threads.run([&](auto& comm) {
        auto const own = static_cast<std::size_t>(comm.rank());
        blink::all_reduce(comm, plan, inputs[own].data(), outputs[own].data(), length, reduce);
      });
      look();

      constexpr std::size_t slot_bytes = 512;
      outputs = example::all_reduce_on_host(plan, inputs, slot_bytes, [&](int) { return reduce; });
      look();
    }
  }
  if (wrong > 0) std::printf("%s on the host: %zu elements differ\n", name, wrong);
  return wrong;
}

/// The same for types that hold whole numbers; `plain` works on whole numbers.
template <class T, class Reducer, class Plain>
std::size_t differences_of_whole(char const* name, Reducer const& reduce, Plain const& plain) {
  return differences_on_hosts<T>(
      name, reduce,
      [](int rank, std::size_t k) {
        return static_cast<T>(static_cast<float>(whole_input(rank, k)));
      },
      [&](T const& total, T const& next) {
        return static_cast<T>(
            static_cast<float>(plain(static_cast<int>(static_cast<float>(total)),
                                     static_cast<int>(static_cast<float>(next)))));
      });
}

std::size_t all_differences_on_hosts() {
  auto const add = [](int a, int b) { return a + b; };
  auto const multiply = [](int a, int b) { return a * b; };
  auto const larger = [](int a, int b) { return a < b ? b : a; };
  auto const smaller = [](int a, int b) { return a < b ? a : b; };
  std::size_t wrong = 0;
  wrong += differences_of_whole<float>("cuda::std::plus<>", cuda::std::plus<>{}, add);
  wrong += differences_of_whole<double>("cuda::std::plus<double>", cuda::std::plus<double>{}, add);
  wrong +=
      differences_of_whole<float>("cuda::std::multiplies<>", cuda::std::multiplies<>{}, multiply);
  wrong += differences_of_whole<float>("cuda::maximum<>", cuda::maximum<>{}, larger);
  wrong += differences_of_whole<int>("cuda::minimum<int>", cuda::minimum<int>{}, smaller);
  wrong += differences_of_whole<int>("cuda::std::bit_and<>", cuda::std::bit_and<>{},
                                     [](int a, int b) { return a & b; });
  wrong += differences_of_whole<int>("cuda::std::bit_or<int>", cuda::std::bit_or<int>{},
                                     [](int a, int b) { return a | b; });
  wrong += differences_of_whole<int>("cuda::std::bit_xor<>", cuda::std::bit_xor<>{},
                                     [](int a, int b) { return a ^ b; });
  // CUB reduces with these functors and with those of `cuda::std`. A pair has the location of its
  // value.
  using pair = cub::KeyValuePair<int, float>;
  auto const placed = [](int rank, std::size_t k) {
    return pair(rank, static_cast<float>(whole_input(rank, k)));
  };
  wrong += differences_on_hosts<pair>("cub::ArgMax", cub::ArgMax{}, placed,
                                      [](pair a, pair b) { return a.value < b.value ? b : a; });
  wrong += differences_of_whole<double>("thrust::plus<double>", thrust::plus<double>{}, add);
  wrong += differences_of_whole<float>("thrust::multiplies<float>", thrust::multiplies<float>{},
                                       multiply);
  wrong += differences_of_whole<float>("thrust::maximum<float>", thrust::maximum<float>{}, larger);
  wrong += differences_of_whole<float>("thrust::minimum<float>", thrust::minimum<float>{}, smaller);
  auto const in_float = blink::accumulate_in<float>(blink::sum{});
  wrong += differences_of_whole<__half>("__half", in_float, add);
  wrong += differences_of_whole<__nv_bfloat16>("__nv_bfloat16", in_float, add);
  wrong += differences_of_whole<__nv_fp8_e4m3>("__nv_fp8_e4m3", in_float, add);
  using complex = cuda::std::complex<float>;
  auto const turned = [](int rank, std::size_t k) {
    return complex(static_cast<float>(whole_input(rank, k)),
                   static_cast<float>(whole_input(rank, k + 1)));
  };
  wrong += differences_on_hosts<complex>(
      "cuda::std::complex, sum", blink::sum{}, turned,
      [](complex a, complex b) { return complex(a.real() + b.real(), a.imag() + b.imag()); });
  wrong +=
      differences_on_hosts<complex>("cuda::std::complex, multiplies", cuda::std::multiplies<>{},
                                    turned, [](complex a, complex b) {
                                      return complex(a.real() * b.real() - a.imag() * b.imag(),
                                                     a.real() * b.imag() + a.imag() * b.real());
                                    });
  return wrong;
}

}  // namespace reducers_test

int main() {
  if (reducers_test::all_differences_on_hosts() != 0) return 1;
  return gpu_test::run_on_gpu([] {
    std::size_t const wrong = reducers_test::all_differences();
    std::printf("%zu elements differ\n", wrong);
    return wrong == 0 ? 0 : 1;
  });
}
