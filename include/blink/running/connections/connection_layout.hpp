// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/schedule/connection_place.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The layout of connections.
struct connection_layout {
  bool reaches = false;        ///< peers' buffers are read and written directly
  bool shares_memory = false;  ///< slots lie where ranks on other cores read (`slot_rotation.hpp`)
  bool is_shaped = false;      ///< messages carry the time of their arrival
  bool has_packets = false;    ///< slots carry packets, so that half of their bytes are data
  std::uint32_t window = 4;    ///< slots of a connection
  std::size_t slot_bytes = 1 << 18;  ///< size of a slot
  memory_source memory{};
  int only_rank = -1;  ///< tables for this rank alone; -1: for all
  /// memory that processes share; see `connection_tables::shared_bytes`
  void* ranks_share = nullptr;
  /// By rank: its number among the ranks that share memory with `only_rank`; negative: it shares
  /// none, and its connections carry messages. Null: all ranks share, or none.
  int const* sharing_ranks = nullptr;
  void* times_share = nullptr;  ///< memory that they share for times alone; see `time_bytes`
  void const* owner = nullptr;  ///< the communicator whose calls use them; null: any

  /// True if both ends of a connection share memory.
  [[nodiscard]] bool both_share(connection_place const& place) const {
    bool const any_share = only_rank < 0 || ranks_share != nullptr;
    return any_share && (sharing_ranks == nullptr ||
                         (sharing_ranks[place.from] >= 0 && sharing_ranks[place.to] >= 0));
  }
};

}}  // namespace blink::BLINK_ABI
