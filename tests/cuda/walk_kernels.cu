// SPDX-License-Identifier: Apache-2.0
// The kernels whose machine code is inspected (`inspect_kernel.cmake`). Their size and compile time
// are in docs/results/kernel_table.md. One kernel carries every collective that reduces, along
// every schedule; a second one carries all that only copy.

#include <blink/reducers.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/transports/cuda/kernels/walk_kernel.cuh>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include <cstdint>

namespace inspected {

using bytes = blink::detail::no_reducer;
using widened_sum = decltype(blink::accumulate_in<float>(blink::sum{}));
using widened_avg = decltype(blink::accumulate_in<float>(blink::avg{}));
using four_largest = blink::largest_values<float, 4, std::int32_t>;
using place = blink::located<float, std::int32_t>;

/// A user's type: a complex number, and its sum.
struct complex_float {
  float real, imaginary;
};
struct complex_sum {
  BLINK_HOST_DEVICE complex_float operator()(complex_float a, complex_float b) const {
    return {a.real + b.real, a.imaginary + b.imaginary};
  }
};

}  // namespace inspected

using blink::reaching_peer_transport;
using blink::shaped_peer_transport;
using blink::slot_peer_transport;

// KERNEL(name in the table, arguments of walk_kernel)
#ifndef KERNEL
#define KERNEL(name, ...) BLINK_DEFINE_WALK_KERNEL(__VA_ARGS__);
#endif

KERNEL(copy, slot_peer_transport, std::uint8_t, inspected::bytes)
KERNEL(copy_reaching, reaching_peer_transport, std::uint8_t, inspected::bytes)
KERNEL(sum_float, slot_peer_transport, float, blink::sum)
KERNEL(sum_float_reaching, reaching_peer_transport, float, blink::sum)
KERNEL(sum_float_shaped, shaped_peer_transport, float, blink::sum)
KERNEL(scaled_sum_float, slot_peer_transport, float, blink::scaled_sum<float>)
KERNEL(sum_bfloat16, slot_peer_transport, blink::bfloat16, inspected::widened_sum)
KERNEL(avg_float8, slot_peer_transport, blink::float8_e4m3, inspected::widened_avg)
KERNEL(complex_sum, slot_peer_transport, inspected::complex_float, inspected::complex_sum)
KERNEL(compensated_sum, slot_peer_transport, float, blink::compensated_sum)
KERNEL(log_sum_exp, slot_peer_transport, float, blink::log_sum_exp)
KERNEL(merge_moments, slot_peer_transport, blink::moments<float>, blink::merge_moments)
KERNEL(merge_largest, slot_peer_transport, inspected::four_largest, blink::merge_largest)
KERNEL(min_location, slot_peer_transport, inspected::place, blink::min_location<>)
KERNEL(stochastic_storage, slot_peer_transport, blink::float16,
       blink::stochastic_storage_sum<blink::float16>)
KERNEL(reproducible_sum, slot_peer_transport, float, blink::reproducible_sum)
KERNEL(packets_sum_float, slot_peer_transport, float, blink::sum, blink::small_packets)
KERNEL(packets_sum_bfloat16, slot_peer_transport, blink::bfloat16, inspected::widened_sum,
       blink::small_packets)

template void const* blink::walk_warps_kernel_address<4, slot_peer_transport, float, blink::sum>();
