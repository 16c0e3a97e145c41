// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/connection_layout.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/connection_place.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Memory that is dealt out in whole lines. Null: it is only counted.
struct memory_part {
  std::byte* memory = nullptr;
  std::size_t used = 0;

  [[nodiscard]] std::byte* deal(std::size_t bytes) {
    std::byte* const first = memory == nullptr ? nullptr : memory + used;
    used += whole_lines(bytes);
    return first;
  }
};

/// The memory of the connections of a schedule.
struct connection_memory {
  memory_part common;  ///< of ranks that share memory, in the same order on each of them
  memory_part own;     ///< of connections of this rank that carry messages
};

/// One end of a connection, before the first call.
[[nodiscard]] inline endpoint end_of(connection_place const& place, std::uint32_t number,
                                     bool sends) {
  endpoint end;
  end.connection = number;
  end.peer = sends ? place.to : place.from;
  end.sends = sends;
  end.sender_is_source = place.sender_is_source;
  end.sender_keeps = place.sender_keeps;
  end.receiver_keeps = place.receiver_keeps;
  return end;
}

/// Deals out memory to the connections: counters, slots and times, in the order of `places`.
///
/// layout:       with slots of whole lines
/// connections:  by number; null: memory is only counted
/// link_free_at: receives the place of the times until which links are busy; or null
/// Time:         O(connections).
template <class = when_used>
void deal_memory(schedule const& source, std::vector<connection_place> const& places,
                 connection_layout const& layout, connection_memory& memory,
                 shared_connection* connections, std::uint64_t** link_free_at) {
  auto* next_time = static_cast<std::byte*>(layout.times_share);
  bool const all_have_times = next_time != nullptr;
  auto const deal_times = [&](std::size_t count) {
    std::size_t const bytes = count * sizeof(std::uint64_t);
    if (!all_have_times) return memory.common.deal(bytes);
    return std::exchange(next_time, next_time + whole_lines(bytes));
  };
  auto* const free_at = deal_times(source.link_bytes_per_second.size());
  // The links of the schedule exist even without connections, as for one rank.
  if (link_free_at != nullptr) *link_free_at = reinterpret_cast<std::uint64_t*>(free_at);
  // Both connections of an edge have their counters in the same lines, so that one fetch shows the
  // other end's progress on both. Indexed by child: its last reduce connection.
  struct reduce_connection {
    connection_place const* place = nullptr;
    connection_counters* counters = nullptr;
  };
  std::vector<reduce_connection> reduce_connections(static_cast<std::size_t>(source.rank_count));
  auto const first_users = first_users_of_slots(places, layout, source.rank_count);
  for (std::size_t number = 0; number < places.size(); ++number) {
    auto const& place = places[number];
    bool const is_common = layout.both_share(place);
    bool const is_here =
        is_common || place.from == layout.only_rank || place.to == layout.only_rank;
    bool const has_times = layout.is_shaped && (is_here || all_have_times);
    auto* const due = has_times ? deal_times(layout.window) : nullptr;
    if (!is_here) continue;
    auto& part = is_common ? memory.common : memory.own;
    connection_counters* counters = nullptr;
    bool is_reverse = false;
    if (is_common) {
      auto& up = reduce_connections[static_cast<std::size_t>(place.child())];
      is_reverse = up.place != nullptr && place.reverses(*up.place);
      counters = is_reverse ? up.counters
                            : reinterpret_cast<connection_counters*>(part.deal(sizeof(*counters)));
      if (place.is_reduce) up = {&place, counters};
    }
    bool const reduces = !source.trees[place.tree].reduce_parent.empty();
    auto const way = transfer_mode_of(end_of(place, static_cast<std::uint32_t>(number), true),
                                      layout.reaches, place.is_reduce, reduces);
    bool const has_slots = way == transfer_mode::slots;
    bool const is_repeated = is_common && first_users[number] != number;
    auto* const slots =
        has_slots && !is_repeated ? part.deal(layout.window * layout.slot_bytes) : nullptr;
    if (connections == nullptr) continue;
    auto& connection = connections[number];
    connection.use(counters, is_reverse);
    connection.due = reinterpret_cast<std::uint64_t*>(due);
    connection.slots = is_repeated ? connections[first_users[number]].slots : slots;
  }
}

}}}  // namespace blink::BLINK_ABI::detail
