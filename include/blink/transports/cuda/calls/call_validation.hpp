// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/unequal_blocks.hpp>
#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/running/call/detail/call_types.hpp>
#include <blink/running/connections/tree_parts.hpp>
#include <blink/schedule/chunking.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>
#include <blink/transports/cuda/calls/ranks_on_devices.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include <cstddef>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Validates the calls of a communicator of devices, with the buffers of the ranks of this process.
/// It refuses invalid calls before they affect other ranks. Then `Ranks` puts the call into its
/// streams.
///
/// Ranks:  derives from this, and has `enqueue<Chunks, T>(schedule, kind, buffers, size, copied,
///         reduce, on)`, which throws the error of an earlier failure. `buffers` have been checked.
///         `copied` has by rank the bytes of its input to copy first, because other ranks write to
///         the same memory. `on` has one stream for each device, or none.
/// Throws: precondition_error; what `enqueue` throws.
template <class Ranks, device_runtime Devices>
class call_validation : public ranks_on_devices<Devices> {
 public:
  using typename ranks_on_devices<Devices>::streams;

  /// One call of all ranks; see `device_collectives.hpp` for functions with names.
  template <chunking Chunks, class T, reducer_for<T> Reducer, class Prepared>
  void call(Prepared& prepared, collective kind, std::vector<detail::plain_buffers> const& buffers,
            std::size_t chunk_bytes, Reducer const& reduce, streams const& on) {
    auto const copied = this->check_call(prepared.prepared(), kind, buffers, sizeof(T), alignof(T));
    detail::call_size const size{.count = buffers[0].count, .chunk_bytes = chunk_bytes};
    self().template enqueue<Chunks, T>(prepared, kind, buffers, size, copied, reduce, on);
  }

  /// One call with a segment of any size for each rank; see `device_blocks.hpp` for functions with
  /// names.
  template <chunking Chunks, class T, reducer_for<T> Reducer, class Prepared>
  void call_with_blocks(Prepared& prepared, collective kind,
                        std::vector<detail::plain_buffers> const& buffers,
                        detail::unequal_blocks const& blocks, std::size_t chunk_bytes,
                        Reducer const& reduce, streams const& on) {
    this->check_call_of_blocks(prepared.prepared(), kind, blocks, buffers, alignof(T));
    std::vector<std::size_t> const nothing_copied(buffers.size(), 0);
    self().template enqueue<Chunks, T>(prepared, kind, buffers, blocks.size(chunk_bytes),
                                       nothing_copied, reduce, on);
  }

  /// Internal: an all-to-all with unequal flows, whose buffers the caller has checked.
  template <class Prepared>
  void move_blocks(Prepared& prepared, std::vector<detail::plain_buffers> const& buffers,
                   std::vector<block_range> const& blocks, streams const& on) {
    prepared.prepared().expect_carries(collective::all_to_all);
    std::size_t bytes = 0;
    for (auto const& one : blocks) bytes += one.count;
    if (bytes == 0) return;
    detail::call_size const size{.count = bytes, .blocks = blocks.data()};
    std::vector<std::size_t> const nothing_copied(buffers.size(), 0);
    self().template enqueue<scheduled_chunks, unsigned char>(
        prepared, collective::all_to_all, buffers, size, nothing_copied, detail::no_reducer{}, on);
  }

 protected:
  using ranks_on_devices<Devices>::ranks_on_devices;
  ~call_validation() = default;

 private:
  [[nodiscard]] Ranks& self() { return static_cast<Ranks&>(*this); }
};

}}  // namespace blink::BLINK_ABI
