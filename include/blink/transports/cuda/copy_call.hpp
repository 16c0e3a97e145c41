// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/detail/chunk_address.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/config.hpp>
#include <blink/transports/cuda/copy_schedule.hpp>
#include <blink/transports/cuda/device_runtime.hpp>
#include <blink/transports/cuda/rank_buffers.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink::inline BLINK_ABI {

/// What the steps of one call share: its buffers, and where each chunk is taken from and put.
template <device_runtime Devices>
struct copy_call {
  copy_schedule<Devices> const* plan = nullptr;
  std::vector<detail::plain_buffers> buffers;  ///< by rank
  std::vector<placed_lane> receivers;          ///< by wire
  element_sizes sizes;
  std::size_t element_bytes = 1;
  std::uint64_t window = 1;

  [[nodiscard]] void const* input(lane const& here, int rank, std::uint64_t chunk) const {
    auto const* const base =
        static_cast<std::byte const*>(buffers[static_cast<std::size_t>(rank)].input);
    return base + (here.input_begin + chunk * here.stride) * element_bytes;
  }
  [[nodiscard]] void* output(lane const& here, int rank, std::uint64_t chunk) const {
    auto* const base = static_cast<std::byte*>(buffers[static_cast<std::size_t>(rank)].output);
    return base + (here.output_begin + chunk * here.stride) * element_bytes;
  }
  /// Nothing to compute: one source, and elements stay what they are.
  [[nodiscard]] static bool is_copy(lane const& here) {
    return here.in_count + (here.reads_input ? 1 : 0) == 1 && !(here.is_root && here.is_reduce) &&
           !detail::sends_partial(here);
  }
  /// Where a chunk is put at the receiver of a wire: at its last place if that is all it is for.
  [[nodiscard]] bool is_delivered(std::uint32_t wire) const {
    auto const& to = *receivers[wire].here;
    return is_copy(to) && to.writes_output;
  }
  [[nodiscard]] void* destination(std::uint32_t wire, std::uint64_t chunk) const {
    auto const& to = receivers[wire];
    return is_delivered(wire) ? output(*to.here, to.rank, chunk) : plan->inbox(wire, chunk);
  }
  [[nodiscard]] std::size_t bytes(lane const& here, wire_end const& end,
                                  std::uint64_t chunk) const {
    return static_cast<std::size_t>(chunk_count(here, chunk)) *
           (end.is_partial ? sizes.wire : sizes.value);
  }
};

}  // namespace blink::inline BLINK_ABI
