// SPDX-License-Identifier: Apache-2.0
// Kernels that a communicator of devices launches, for `inspect_kernel.cmake`; see also
// walk_kernels.cu.

#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/running/walk/warps.cuh>
#include <blink/transports/cuda/channels/channel_launch.hpp>
#include <blink/transports/cuda/kernels/call_kernel.cuh>
#include <blink/transports/cuda/kernels/copy_step.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>
#include <blink/transports/cuda/p2p/piece_call.hpp>
#include <blink/transports/cuda/p2p/piece_lists.hpp>
#include <blink/transports/cuda/ranks/cuda_devices.cuh>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include <cuda/functional>
#include <cuda/std/functional>
#include <thrust/functional.h>

namespace inspected {

/// A user's kernel that calls a collective: by blocks, or by parts of `Warps` warps.
template <class T, class Reducer, std::uint32_t Warps = 0>
struct calling {
  T* data;
  std::size_t count;
  Reducer reduce;

  template <class Group, class Channels>
  BLINK_HOST_DEVICE void operator()(Group const block_group, Channels const& ranks,
                                    std::uint32_t block) const {
    if constexpr (Warps == 0) {
      (void)ranks.run(block_group, block, data + block * count, data + block * count, count,
                      reduce);
    } else {
      auto const group = part_of<Warps>(block_group);
      std::uint32_t const channel = block * group.count() + group.index();
      (void)ranks.run(group, channel, data + channel * count, data + channel * count, count,
                      reduce);
    }
  }
};

}  // namespace inspected

using widened_sum = decltype(blink::accumulate_in<float>(blink::sum{}));

BLINK_DEFINE_CALL_KERNEL(blink::reaching_peer_transport, float, blink::sum);
BLINK_DEFINE_CALL_KERNEL(blink::reaching_peer_transport, blink::bfloat16, widened_sum);
BLINK_DEFINE_CALL_KERNEL(blink::shaped_peer_transport, float, blink::sum);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_transport, float, blink::sum, blink::small_packets);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_transport, blink::bfloat16, widened_sum,
                         blink::small_packets);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_transport, unsigned char, blink::detail::no_reducer,
                         blink::small_packets);

// Functors of other libraries.
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_transport, float, cuda::std::plus<>);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_transport, float, cuda::maximum<>);
BLINK_DEFINE_CALL_KERNEL(blink::slot_peer_transport, double, thrust::multiplies<double>);

// Kernels that combine elements for copy engines and NCCL.
template __global__ void blink::step_kernel<float, blink::sum>(
    BLINK_KERNEL_CONSTANT blink::copy_step const, BLINK_KERNEL_CONSTANT blink::sum const);
template __global__ void blink::step_kernel<blink::bfloat16, widened_sum>(
    BLINK_KERNEL_CONSTANT blink::copy_step const, BLINK_KERNEL_CONSTANT widened_sum const);
template __global__ void blink::step_kernel<unsigned char, blink::detail::no_reducer>(
    BLINK_KERNEL_CONSTANT blink::copy_step const,
    BLINK_KERNEL_CONSTANT blink::detail::no_reducer const);

// Sends and receives between processes, and lists that do not fit into arguments.
template __global__ void blink::work_kernel<blink::piece_call>(
    BLINK_KERNEL_CONSTANT blink::piece_call const);
template __global__ void blink::work_kernel<blink::list_batch<blink::piece_part>>(
    BLINK_KERNEL_CONSTANT blink::list_batch<blink::piece_part> const);
template __global__ void blink::work_kernel<blink::list_batch<blink::tree_call>>(
    BLINK_KERNEL_CONSTANT blink::list_batch<blink::tree_call> const);

// The user's own kernels.
#define CALLING_KERNEL(T, Protocol, ...)                                                 \
  template __global__ void                                                               \
  blink::work_kernel<blink::channel_work<inspected::calling<__VA_ARGS__>, T, Protocol>>( \
      BLINK_KERNEL_CONSTANT                                                              \
          blink::channel_work<inspected::calling<__VA_ARGS__>, T, Protocol> const)
CALLING_KERNEL(float, blink::whole_chunks, float, blink::sum);
CALLING_KERNEL(float, blink::whole_chunks, float, blink::sum, 4);
CALLING_KERNEL(float, blink::small_packets, float, blink::sum);
CALLING_KERNEL(blink::bfloat16, blink::whole_chunks, blink::bfloat16, widened_sum);
