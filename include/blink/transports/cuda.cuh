// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/detail/undefine_macros.hpp>  // first

#include <blink/core/config.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/p2p/device_exchange.hpp>
#include <blink/transports/cuda/ranks/cuda_devices.cuh>
#include <blink/transports/cuda/ranks/device_blocks.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/host/host_rendezvous.hpp>

namespace blink { inline namespace BLINK_ABI {

/// Ranks that are GPUs of this process. Several ranks may share a GPU.
///
///     blink::device_ranks ranks({.devices = {0, 1, 2, 3}});
///     blink::all_reduce(ranks, plan, buffers, blink::sum{}, streams);
///     ranks.wait(streams);
///
/// Kernels read and write each other's buffers, so GPUs that a tree joins need peer access.
///
/// Protocols: see `basic_device_ranks`
template <protocol_chooser Protocols = modelled_protocol>
class device_ranks_with
    : public basic_device_ranks<cuda_devices, reaching_peer_transport, Protocols> {
 public:
  /// Throws: precondition_error if a device does not exist or an option is out of range;
  ///         resource_error, device_error.
  explicit device_ranks_with(device_options const& options)
      : device_ranks_with::basic_device_ranks(cuda_devices::of_process(), options) {}
};
/// Device ranks of one process that choose the protocol of each call by a model of its time.
using device_ranks = device_ranks_with<>;

/// Ranks that are GPUs of several processes of one host, one or more of each process.
///
///     blink::launcher_bootstrap all;  // by `blink run`; or mpi_bootstrap all(MPI_COMM_WORLD);
///     blink::process_device_ranks ranks({.devices = {0}}, all);
///
/// Kernels pass data through slots in memory that the receiver's process shares (CUDA IPC).
///
/// Protocols: see `basic_device_ranks`; the same in all processes
template <protocol_chooser Protocols = modelled_protocol>
class process_device_ranks_with
    : public basic_device_ranks<cuda_devices, slot_peer_transport, Protocols> {
 public:
  /// Throws: see `basic_device_ranks`.
  template <process_bootstrap Bootstrap>
  process_device_ranks_with(device_options const& options, Bootstrap& all)
      : process_device_ranks_with::basic_device_ranks(cuda_devices::of_process(), options, all) {}
};
/// Device ranks of several processes that choose the protocol of each call by a model of its time.
using process_device_ranks = process_device_ranks_with<>;

/// Virtual ranks on one GPU, joined by links that are as slow as a schedule's physical links.
///
///     blink::shaped_device_ranks ranks({.devices = {0, 0, 0, 0, 0, 0}});
///     blink::all_reduce(ranks, make_schedule(dgx1v, plan), buffers, blink::sum{}, streams);
///
/// Each message also takes `costs.latency_seconds` of the options. A schedule that names no links
/// runs at full speed. `exchange` has no schedule, so it also copies at full speed.
/// `shaped_peer_transport_with` documents how the GPU's clock limits the accuracy for small
/// messages.
class shaped_device_ranks
    : public basic_device_ranks<cuda_devices, shaped_peer_transport, fixed_protocol<whole_chunks>> {
 public:
  /// Throws: precondition_error if the ranks are on several devices; what `basic_device_ranks`
  ///         throws.
  explicit shaped_device_ranks(device_options const& options)
      : shaped_device_ranks::basic_device_ranks(cuda_devices::of_process(), options) {}
};

}}  // namespace blink::BLINK_ABI

#include <blink/core/detail/restore_macros.hpp>  // last
