// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/connection_layout.hpp>
#include <blink/running/connections/detail/connection_memory.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/connection_place.hpp>
#include <blink/schedule/operand_order.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <cstdint>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The tasks of one rank for one combination of phases.
struct task_list {
  tree_task* first = nullptr;
  std::size_t count = 0;
};

/// All connections, endpoints and tasks that a schedule needs, allocated once for any number of
/// calls.
///
/// Memory: edges * window * slot_bytes, and a few cache lines for each edge. Away from the root a
///         rank has one set of slots for all children that share memory with it. Where peers reach
///         each other only inner reduce edges have slots. Tables for one rank that shares no memory
///         have slots for that rank's connections only.
class connection_tables {
 public:
  /// Time: O(T V).
  /// Pre:  `validate(schedule)` passed; layout.window >= 1; `ranks_share` and `times_share`, if not
  ///       null, have `shared_bytes(schedule, layout)` and `time_bytes(schedule, layout)` bytes,
  ///       all 0 before the first rank uses them.
  template <class = when_used>
  connection_tables(schedule const& source, connection_layout const& layout);

  /// Bytes of the memory that the ranks share: counters, slots, times. The rest belongs to each
  /// process.
  template <class = when_used>
  [[nodiscard]] static std::size_t shared_bytes(schedule const& source, connection_layout layout) {
    layout.only_rank = -1;
    detail::connection_memory all;
    detail::deal_memory(source, connection_places(source), with_whole_lines(layout), all, nullptr,
                        nullptr);
    return all.common.used;
  }

  /// Bytes of the times that they share: when messages of shaped connections arrive, and until when
  /// links are busy.
  template <class = when_used>
  [[nodiscard]] static std::size_t time_bytes(schedule const& source,
                                              connection_layout const& layout) {
    return detail::whole_lines(source.link_bytes_per_second.size() * sizeof(std::uint64_t)) +
           connection_places(source).size() *
               detail::whole_lines(layout.window * sizeof(std::uint64_t));
  }

  /// See `prepared_schedule::share`.
  template <class = when_used>
  BLINK_COLD void share(schedule const& source, void* memory) {
    layout_.ranks_share = memory;
    detail::connection_memory parts;
    parts.common.memory = static_cast<std::byte*>(memory);
    parts.own.memory = own_memory_;
    detail::deal_memory(source, places_, layout_, parts, connections_, &link_free_at_);
    map_slots(source);
    for (std::uint32_t number = 0; number < connection_count_; ++number) {
      auto* const hops = const_cast<route_link*>(connections_[number].route);  // made here
      for (std::uint32_t hop = 0; hop < connections_[number].route_length; ++hop) {
        hops[hop].free_at = link_free_at_ + hops[hop].link;
      }
    }
    for (auto const& of_rank : ranks_) {
      for (std::size_t k = 0; k < of_rank.end_count; ++k) of_rank.ends[k].first = 0;
    }
  }

  [[nodiscard]] shared_connection* connections() const { return connections_; }
  [[nodiscard]] std::uint32_t connection_count() const { return connection_count_; }
  [[nodiscard]] connection_layout const& layout() const { return layout_; }

  /// The tasks that `rank` walks in a collective of this kind: one task of a phase for each tree,
  /// ordered by tree.
  [[nodiscard]] task_list tasks(int rank, collective kind) const {
    auto const& of_rank = ranks_[static_cast<std::size_t>(rank)];
    if (!has_broadcast_phase(kind)) return of_rank.reducing;
    return has_reduce_phase(kind) ? of_rank.both : of_rank.spreading;
  }
  /// All endpoints of `rank`.
  [[nodiscard]] std::pair<endpoint*, std::size_t> ends(int rank) const {
    auto const& of_rank = ranks_[static_cast<std::size_t>(rank)];
    return {of_rank.ends, of_rank.end_count};
  }
  /// The places of all connections, by number.
  [[nodiscard]] std::vector<connection_place> const& places() const { return places_; }

 private:
  struct rank_tables {
    endpoint* ends = nullptr;
    std::size_t end_count = 0;
    task_list reducing;   // trees towards roots
    task_list spreading;  // trees away from roots
    task_list both;
  };

  template <class T>
  T* make(std::size_t count) {
    if (count == 0) return nullptr;
    memory_.emplace_back(layout_.memory, count * sizeof(T));
    T* const first = static_cast<T*>(static_cast<void*>(memory_.back().data()));
    if constexpr (!std::is_same_v<T, std::byte>) {
      for (std::size_t k = 0; k < count; ++k) new (first + k) T();
    }
    return first;
  }
  template <class = when_used>
  BLINK_COLD void make_connections(schedule const& source);
  template <class = when_used>
  void begin_at_zero(schedule const& source);
  template <class = when_used>
  void map_slots(schedule const& source);
  template <class = when_used>
  BLINK_COLD void make_ends(schedule const& source);
  template <class = when_used>
  void make_tasks(schedule const& source);
  [[nodiscard]] bool has_tables(int rank) const {
    return layout_.only_rank < 0 || rank == layout_.only_rank;
  }

  // Consecutive endpoints of one rank.
  struct span_of_ends {
    std::size_t first = 0;
    std::uint32_t count = 0;
  };
  // The endpoints of one rank in one tree; none for ranks that the tree leaves out.
  struct tree_ends {
    std::uint32_t tree = 0;
    span_of_ends reduce_in, reduce_out, broadcast_in, broadcast_out;
  };

  [[nodiscard]] static connection_layout with_whole_lines(connection_layout layout) {
    layout.slot_bytes = detail::whole_lines(layout.slot_bytes);
    return layout;
  }

  connection_layout layout_;
  std::vector<memory_block> memory_;
  shared_connection* connections_ = nullptr;
  std::uint32_t connection_count_ = 0;
  std::vector<connection_place> places_;
  std::vector<std::vector<tree_ends>> trees_of_;  // by rank, ordered by tree
  std::vector<rank_tables> ranks_;
  std::byte* own_memory_ = nullptr;        // of connections that carry messages
  std::uint64_t* link_free_at_ = nullptr;  // by physical link
};

template <class>
connection_tables::connection_tables(schedule const& source, connection_layout const& layout)
    : layout_(with_whole_lines(layout)), ranks_(static_cast<std::size_t>(source.rank_count)) {
  expects(layout.window >= 1, "connection_layout: window is 0, expected at least 1");
  make_connections(source);
  make_ends(source);
  make_tasks(source);
}

/// Sets to 0 what is read before it is written. Slots are not.
template <class>
void connection_tables::begin_at_zero(schedule const& source) {
  if (layout_.times_share == nullptr) {
    for (std::size_t link = 0; link < source.link_bytes_per_second.size(); ++link) {
      link_free_at_[link] = 0;
    }
  }
  for (std::uint32_t number = 0; number < connection_count_; ++number) {
    for (counter* const one : {connections_[number].posted, connections_[number].consumed}) {
      if (one != nullptr) new (one) counter(0);
    }
  }
}

template <class>
void connection_tables::make_connections(schedule const& source) {
  places_ = connection_places(source);
  connection_count_ = static_cast<std::uint32_t>(places_.size());
  connections_ = make<shared_connection>(connection_count_);
  detail::connection_memory sizes;
  detail::deal_memory(source, places_, layout_, sizes, nullptr, nullptr);
  detail::connection_memory memory;
  memory.common.memory = static_cast<std::byte*>(layout_.ranks_share);
  if (memory.common.memory == nullptr) memory.common.memory = make<std::byte>(sizes.common.used);
  memory.own.memory = own_memory_ = make<std::byte>(sizes.own.used);
  detail::deal_memory(source, places_, layout_, memory, connections_, &link_free_at_);
  if (layout_.ranks_share == nullptr) begin_at_zero(source);
  for (std::size_t number = 0; number < places_.size(); ++number) {
    auto const& place = places_[number];
    auto& connection = connections_[number];
    connection.sender = place.from;
    connection.receiver = place.to;
    connection.window = layout_.window;
    connection.slot_bytes = layout_.slot_bytes;
    auto const& tree = source.trees[place.tree];
    auto const& routes = place.is_reduce ? tree.reduce_route : tree.broadcast_route;
    auto const child = static_cast<std::size_t>(place.child());
    if (routes.empty() || routes[child].empty()) continue;
    auto* const hops = make<route_link>(routes[child].size());
    connection.route = hops;
    for (int const link : routes[child]) {
      double const rate = source.link_bytes_per_second[static_cast<std::size_t>(link)];
      hops[connection.route_length++] = {link, 1e9 / rate, link_free_at_ + link};
    }
  }
  map_slots(source);
}

template <class>
void connection_tables::map_slots(schedule const& source) {
  // More memory is mapped as calls use it: mapping all of it would take seconds.
  constexpr std::size_t most_mapped = std::size_t{1} << 28;
  if (!layout_.shares_memory || shared_bytes(source, layout_) > most_mapped) return;
  for (std::size_t number = 0; number < places_.size(); ++number) {
    auto const& connection = connections_[number];
    bool const is_of_rank = has_tables(connection.sender) || has_tables(connection.receiver);
    if (!is_of_rank || connection.posted == nullptr || connection.slots == nullptr) continue;
    detail::map_now(connection.slots, connection.window * connection.slot_bytes);
  }
}

template <class>
void connection_tables::make_ends(schedule const& source) {
  std::vector<std::vector<endpoint>> ends(ranks_.size());
  trees_of_.resize(ranks_.size());
  std::size_t first = 0;
  auto const first_users = first_users_of_slots(places_, layout_, source.rank_count);
  for (std::size_t tree = 0; tree < source.trees.size(); ++tree) {
    auto const of_tree = [&](int rank) -> tree_ends& {
      auto& all = trees_of_[static_cast<std::size_t>(rank)];
      if (all.empty() || all.back().tree != tree) {
        all.emplace_back().tree = static_cast<std::uint32_t>(tree);
      }
      return all.back();
    };
    if (has_tables(source.trees[tree].root)) (void)of_tree(source.trees[tree].root);
    std::size_t last = first;
    while (last < places_.size() && places_[last].tree == tree) ++last;
    auto const below = detail::ranks_below(source.trees[tree]);
    // One kind of endpoint after the other, so that those of a rank are consecutive.
    auto const add = [&](bool is_reduce, bool sends, span_of_ends tree_ends::* where) {
      for (std::size_t number = first; number < last; ++number) {
        auto const& place = places_[number];
        if (place.is_reduce != is_reduce) continue;
        int const rank = sends ? place.from : place.to;
        if (!has_tables(rank)) continue;
        auto& own = ends[static_cast<std::size_t>(rank)];
        auto& span = of_tree(rank).*where;
        if (span.count == 0) span.first = own.size();
        ++span.count;
        own.push_back(detail::end_of(place, static_cast<std::uint32_t>(number), sends));
        own.back().repeats_slots = first_users[number] != number;
        if (!is_reduce || below.empty()) continue;
        auto const& ranks = below[static_cast<std::size_t>(place.from)];
        own.back().first_rank = static_cast<std::uint32_t>(ranks.begin);
        own.back().end_rank = static_cast<std::uint32_t>(ranks.end);
      }
    };
    add(true, false, &tree_ends::reduce_in);
    add(true, true, &tree_ends::reduce_out);
    add(false, false, &tree_ends::broadcast_in);
    add(false, true, &tree_ends::broadcast_out);
    first = last;
  }
  for (std::size_t rank = 0; rank < ranks_.size(); ++rank) {
    ranks_[rank].end_count = ends[rank].size();
    ranks_[rank].ends = make<endpoint>(ends[rank].size());
    for (std::size_t k = 0; k < ends[rank].size(); ++k) ranks_[rank].ends[k] = ends[rank][k];
  }
}

template <class>
void connection_tables::make_tasks(schedule const& source) {
  bool all_reduce = true;
  bool all_spread = true;
  for (auto const& tree : source.trees) {
    all_reduce = all_reduce && !tree.reduce_parent.empty();
    all_spread = all_spread && !tree.broadcast_parent.empty();
  }
  for (int rank = 0; rank < source.rank_count; ++rank) {
    if (!has_tables(rank)) continue;
    auto& of_rank = ranks_[static_cast<std::size_t>(rank)];
    auto const list = [&](bool reduces, bool spreads) {
      // Without such trees the schedule does not carry such a collective.
      if ((reduces && !all_reduce) || (spreads && !all_spread)) return task_list{};
      std::vector<tree_task> tasks;
      for (auto const& at : trees_of_[static_cast<std::size_t>(rank)]) {
        auto const& from = source.trees[at.tree];
        auto const add_task = [&](bool is_reduce, span_of_ends const& in, span_of_ends const& out) {
          tree_task here;
          here.tree = at.tree;
          here.is_reduce = is_reduce;
          here.is_root = rank == from.root;
          here.rank = static_cast<std::uint32_t>(rank);
          here.reads_input = is_reduce || here.is_root;
          here.writes_output = (!is_reduce || here.is_root) && detail::keeps(from, rank);
          here.in = of_rank.ends + in.first;
          here.in_count = in.count;
          while (is_reduce && here.input_position < in.count &&
                 here.in[here.input_position].peer < rank) {
            ++here.input_position;
          }
          here.out = of_rank.ends + out.first;
          here.out_count = out.count;
          tasks.push_back(here);
        };
        // Sums for another rank are sent to it.
        bool const leaves = spreads || !from.receivers.empty();
        if (rank == from.root) {
          add_task(reduces, reduces ? at.reduce_in : span_of_ends{},
                   leaves ? at.broadcast_out : span_of_ends{});
        } else {
          if (reduces) add_task(true, at.reduce_in, at.reduce_out);
          if (leaves && at.broadcast_in.count > 0)
            add_task(false, at.broadcast_in, at.broadcast_out);
        }
      }
      task_list result{make<tree_task>(tasks.size()), tasks.size()};
      for (std::size_t k = 0; k < tasks.size(); ++k) result.first[k] = tasks[k];
      return result;
    };
    of_rank.reducing = list(true, false);
    of_rank.spreading = list(false, true);
    of_rank.both = source.is_one_shot ? of_rank.reducing : list(true, true);
  }
}

}}  // namespace blink::BLINK_ABI
