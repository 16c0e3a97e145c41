// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/schedule/connection_place.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

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

/// Returns by connection the first one that uses its slots: itself, or an earlier one.
///
/// Away from the root a rank sends the same messages to all its children in a tree. Children that
/// share memory with it read them in the same slots, so that it writes them once.
///
/// Time: O(connections).
template <class = when_used>
[[nodiscard]] std::vector<std::size_t> first_users_of_slots(
    std::vector<connection_place> const& places, connection_layout const& layout, int rank_count) {
  constexpr std::size_t none = SIZE_MAX;
  std::vector<std::size_t> result(places.size());
  std::vector<std::size_t> first(static_cast<std::size_t>(rank_count), none);  // by sender
  for (std::size_t number = 0; number < places.size(); ++number) {
    auto const& place = places[number];
    result[number] = number;
    if (place.is_reduce || !layout.shares_memory || layout.reaches || !layout.both_share(place)) {
      continue;
    }
    auto& known = first[static_cast<std::size_t>(place.from)];
    if (known == none || places[known].tree != place.tree) known = number;
    result[number] = known;
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
