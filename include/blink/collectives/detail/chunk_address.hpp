// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/lane.hpp>
#include <blink/collectives/transport.hpp>
#include <blink/config.hpp>

#include <cstddef>
#include <cstdint>

namespace blink::inline BLINK_ABI::detail {

/// Where the receiver reads the chunk that `here` works on.
template <class T, transport Link>
[[nodiscard]] BLINK_HOST_DEVICE T const* arriving(Link const link, lane const& here,
                                                  wire_end const& end) {
  if constexpr (reaching_transport<Link>) {
    std::size_t const before = static_cast<std::size_t>(here.done) * here.chunk;
    if (end.way == passage::pull_input) {
      return static_cast<T const*>(link.input_of(end.peer)) + here.input_begin + before;
    }
    if (end.way == passage::pull_output) {
      return static_cast<T const*>(link.output_of(end.peer)) + here.output_begin + before;
    }
    if (end.way == passage::push) {  // it is in the own output already
      return static_cast<T const*>(link.output_of(link.rank())) + here.output_begin + before;
    }
  }
  return reinterpret_cast<T const*>(link.inbox(end.wire, end.first + here.done));
}

/// Where the sender writes the chunk that `here` works on.
template <class T, transport Link>
[[nodiscard]] BLINK_HOST_DEVICE T* leaving(Link const link, lane const& here, wire_end const& end) {
  if constexpr (reaching_transport<Link>) {
    if (end.way == passage::push) {
      return static_cast<T*>(link.output_of(end.peer)) + here.output_begin +
             static_cast<std::size_t>(here.done) * here.chunk;
    }
  }
  return reinterpret_cast<T*>(link.outbox(end.wire, end.first + here.done));
}

/// Does the sender write anything for this wire?
[[nodiscard]] BLINK_HOST_DEVICE inline bool writes(wire_end const& end) {
  return end.way == passage::slots || end.way == passage::push;
}

/// Is there anything to write to the own output?
[[nodiscard]] BLINK_HOST_DEVICE inline bool writes_output(lane const& here) {
  return here.writes_output && !(here.in_count == 1 && here.in[0].way == passage::push);
}

/// Where source `k` of the chunk that `here` works on lies: the own input first, then what arrives.
template <class T, transport Link>
[[nodiscard]] BLINK_HOST_DEVICE T const* chunk_source(Link const link, lane const& here,
                                                      call_buffers<T> const& buffers,
                                                      std::uint32_t k) {
  if (!here.reads_input) return arriving<T>(link, here, here.in[k]);
  if (k > 0) return arriving<T>(link, here, here.in[k - 1]);
  return buffers.input + here.input_begin + static_cast<std::size_t>(here.done) * here.chunk;
}

}  // namespace blink::inline BLINK_ABI::detail
