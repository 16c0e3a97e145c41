// SPDX-License-Identifier: Apache-2.0
#pragma once

// The platform of the library: a runtime of devices and the further functions that NCCL's functions
// need.

#include <blink/running/walk/choose_protocol.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "abi.hpp"

#include <concepts>
#include <string>

namespace blink_nccl {

/// Semantics beyond the syntax:
/// - `devices()`: one object for the process, which is never destroyed.
/// - `current_device()`: of the calling thread; throws `device_error`.
/// - `use_device(device)`: makes it the current device of the thread.
/// - `stream_of(handle)`: throws `refusal` for a handle that means different streams on different
///   threads.
/// - `why_none()`: the driver's reason why there is no device.
/// - `ways(ranks)`: the number of parts that trees are cut into, each for its own block.
template <class P>
concept platform = blink::sharing_runtime<typename P::devices_type> &&
                   requires(stream_handle handle, int device, int ranks) {
                     { P::devices() } -> std::same_as<typename P::devices_type&>;
                     { P::current_device() } -> std::same_as<int>;
                     { P::use_device(device) } -> std::same_as<void>;
                     { P::stream_of(handle) } -> std::same_as<typename P::devices_type::stream>;
                     { P::why_none() } -> std::same_as<std::string>;
                     { P::ways(ranks) } -> std::same_as<int>;
                   };
static_assert(!platform<int>);

template <platform P>
using stream_t = typename P::devices_type::stream;
/// Kernels reach the buffers of all ranks of their process, but only slots of other processes.
using transport_here = blink::reaching_peer_transport;
using link_across = blink::slot_peer_transport;
/// Device ranks that move chunks only. Packets would need another kernel for each pair of type and
/// operation, and kernels dominate the time to compile and to load this library. Programs that need
/// packets use `device_ranks`.
template <platform P, class Transport>
using ranks_t = blink::basic_device_ranks<typename P::devices_type, Transport,
                                          blink::fixed_protocol<blink::whole_chunks>>;

}  // namespace blink_nccl
