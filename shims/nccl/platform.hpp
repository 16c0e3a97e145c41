// SPDX-License-Identifier: Apache-2.0
#pragma once

// What the library runs on: a runtime of devices and the things that NCCL's functions need beside it.

#include <blink/running/walk/choose_protocol.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/cuda/world/device_ranks.hpp>

#include "abi.hpp"

#include <concepts>
#include <string>

namespace blink_nccl {

/// Semantics beyond the syntax:
/// - `devices()`: one object for the process, which lives for ever.
/// - `current_device()`: of the thread that calls; throws `device_error`.
/// - `use_device(device)`: it is that of the thread from now on.
/// - `stream_of(handle)`: throws `refusal` for a stream that means another one on another thread.
/// - `why_none()`: what the driver says where there is no device.
/// - `ways(ranks)`: into how many parts trees are cut, for as many blocks.
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
/// Kernels reach the buffers of all ranks of their process, and slots alone of other processes.
using transport_here = blink::reaching_peer_transport;
using link_across = blink::slot_peer_transport;
/// Chunks alone: packets would be a third kernel for each of the pairs of type and operation, which are
/// most of what this library is to compile and to load; programs that want them take `device_ranks`.
template <platform P, class Transport>
using ranks_t = blink::basic_device_ranks<typename P::devices_type, Transport,
                                          blink::fixed_protocol<blink::whole_chunks>>;

}  // namespace blink_nccl
