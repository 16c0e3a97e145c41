// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/lane.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/wire.hpp>

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <new>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

/// Where tables and slots live: ordinary memory, or memory that a GPU reaches.
struct memory_source {
  void* (*allocate)(std::size_t bytes);  ///< aligned to 128 bytes; throws if there is none
  void (*release)(void* memory) noexcept;

  [[nodiscard]] static memory_source host() { return {host_allocate, host_release}; }

 private:
  static constexpr std::align_val_t alignment{128};
  static void* host_allocate(std::size_t bytes) { return ::operator new(bytes, alignment); }
  static void host_release(void* memory) noexcept { ::operator delete(memory, alignment); }
};

/// The lanes of one rank for one combination of phases.
struct lane_list {
  lane* first = nullptr;
  std::size_t count = 0;
};

/// How wires are laid out.
struct wire_layout {
  bool reaches = false;              ///< peers' buffers are read and written directly
  bool is_shaped = false;            ///< messages carry the time of their arrival
  std::uint32_t window = 4;          ///< slots of a wire
  std::size_t slot_bytes = 1 << 18;  ///< size of a slot
  memory_source memory = memory_source::host();
  int only_rank = -1;           ///< tables for this rank alone; -1: for all
  void* ranks_share = nullptr;  ///< memory that processes share; see `wire_tables::shared_bytes`
};

/// All wires, wire ends and lanes that a schedule needs: allocated once, then used by any number of
/// calls.
///
/// Memory: edges * window * slot_bytes, and a few lines for each edge; where peers reach each
/// other only inner reduce edges have slots. Tables for one rank that shares no memory have slots
/// for that rank's wires only.
class wire_tables {
 public:
  /// Time: O(T V). Pre: `validate(plan)` passed; layout.window >= 1; `ranks_share`, if not null,
  /// has `shared_bytes(plan, layout)` bytes, all 0 before the first rank came.
  wire_tables(schedule const& plan, wire_layout const& layout);

  /// What the ranks share: counters, slots, times. The rest belongs to each process.
  [[nodiscard]] static std::size_t shared_bytes(schedule const& plan, wire_layout layout) {
    layout.only_rank = -1;
    return share(plan, with_whole_lines(layout), nullptr, nullptr, nullptr);
  }

  [[nodiscard]] shared_wire* wires() const { return wires_; }
  [[nodiscard]] std::uint32_t wire_count() const { return wire_count_; }
  [[nodiscard]] wire_layout const& layout() const { return layout_; }

  /// The lanes that `rank` walks in a collective of this kind; one lane of a phase for each tree,
  /// ordered by tree.
  [[nodiscard]] lane_list lanes(int rank, collective kind) const {
    auto const& of_rank = ranks_[static_cast<std::size_t>(rank)];
    if (!has_broadcast_phase(kind)) return of_rank.reducing;
    return has_reduce_phase(kind) ? of_rank.both : of_rank.spreading;
  }
  /// All wire ends of `rank`.
  [[nodiscard]] std::pair<wire_end*, std::size_t> ends(int rank) const {
    auto const& of_rank = ranks_[static_cast<std::size_t>(rank)];
    return {of_rank.ends, of_rank.end_count};
  }
  /// The tree of a wire, and whether the wire leads towards the root.
  struct wire_place {
    std::uint32_t tree = 0;
    bool is_reduce = false;
  };
  [[nodiscard]] std::vector<wire_place> const& places() const { return places_; }

  /// By physical link: when it is free again. For shaped transports.
  [[nodiscard]] std::atomic<std::uint64_t>& link_free_at(int link) const {
    return link_free_at_[link];
  }

 private:
  struct rank_tables {
    wire_end* ends = nullptr;
    std::size_t end_count = 0;
    lane_list reducing;   // trees towards roots
    lane_list spreading;  // trees away from roots
    lane_list both;
  };

  template <class T>
  T* make(std::size_t count) {
    if (count == 0) return nullptr;
    memory_.emplace_back(layout_.memory.allocate(count * sizeof(T)), layout_.memory.release);
    T* const first = static_cast<T*>(memory_.back().get());
    if constexpr (!std::is_same_v<T, std::byte>) std::uninitialized_value_construct_n(first, count);
    return first;
  }
  void make_wires(schedule const& plan);
  void begin_at_zero(schedule const& plan);
  void make_lanes(schedule const& plan, int rank);

  // Wires of tree t: the reduce wire of rank r is number (2 t) n + r, its broadcast wire, from its
  // parent to it, (2 t + 1) n + r. Roots and absent phases leave numbers unused.
  [[nodiscard]] static std::uint32_t wire_number(schedule const& plan, std::size_t tree,
                                                 bool is_reduce, int rank) {
    return static_cast<std::uint32_t>(2 * tree + (is_reduce ? 0 : 1)) *
               static_cast<std::uint32_t>(plan.rank_count) +
           static_cast<std::uint32_t>(rank);
  }

  static constexpr std::size_t line = 128;
  [[nodiscard]] static constexpr std::size_t whole_lines(std::size_t bytes) {
    return (bytes + line - 1) / line * line;
  }
  [[nodiscard]] static wire_layout with_whole_lines(wire_layout layout) {
    layout.slot_bytes = whole_lines(layout.slot_bytes);
    return layout;
  }
  static std::size_t share(schedule const& plan, wire_layout const& layout, std::byte* memory,
                           shared_wire* wires, std::atomic<std::uint64_t>** link_free_at);

  wire_layout layout_;
  std::vector<std::unique_ptr<void, void (*)(void*) noexcept>> memory_;
  shared_wire* wires_ = nullptr;
  std::uint32_t wire_count_ = 0;
  std::vector<wire_place> places_;
  std::vector<rank_tables> ranks_;
  std::atomic<std::uint64_t>* link_free_at_ = nullptr;
};

inline wire_tables::wire_tables(schedule const& plan, wire_layout const& layout)
    : layout_(with_whole_lines(layout)), ranks_(static_cast<std::size_t>(plan.rank_count)) {
  expects(layout.window >= 1, "wire_layout: window >= 1");
  make_wires(plan);
  for (int rank = 0; rank < plan.rank_count; ++rank) {
    if (layout.only_rank < 0 || rank == layout.only_rank) make_lanes(plan, rank);
  }
}

namespace detail {

[[nodiscard]] inline bool is_leaf(std::vector<int> const& parents, int rank) {
  return std::find(parents.begin(), parents.end(), rank) == parents.end();
}

/// Calls `visit(tree, is_reduce, rank, parents, routes)` for each edge: that of a rank to its parent.
template <class Visit>
void for_each_edge(schedule const& plan, Visit const& visit) {
  for (std::size_t tree = 0; tree < plan.trees.size(); ++tree) {
    auto const& from = plan.trees[tree];
    for (bool const is_reduce : {true, false}) {
      auto const& parents = is_reduce ? from.reduce_parent : from.broadcast_parent;
      auto const& routes = is_reduce ? from.reduce_route : from.broadcast_route;
      for (int rank = 0; rank < static_cast<int>(parents.size()); ++rank) {
        if (parents[static_cast<std::size_t>(rank)] < 0) continue;
        visit(tree, is_reduce, rank, parents, routes);
      }
    }
  }
}

}  // namespace detail

/// Deals `memory` out to the wires and returns how much there must be. Nothing is dealt out if
/// `wires` is null.
inline std::size_t wire_tables::share(schedule const& plan, wire_layout const& layout,
                                      std::byte* memory, shared_wire* wires,
                                      std::atomic<std::uint64_t>** link_free_at) {
  std::size_t used = 0;
  auto const deal = [&](std::size_t bytes) {
    std::byte* const first = memory == nullptr ? nullptr : memory + used;
    used += whole_lines(bytes);
    return first;
  };
  auto* const free_at =
      deal(plan.link_bytes_per_second.size() * sizeof(std::atomic<std::uint64_t>));
  if (wires != nullptr) *link_free_at = reinterpret_cast<std::atomic<std::uint64_t>*>(free_at);
  bool const all = layout.only_rank < 0 || layout.ranks_share != nullptr;
  detail::for_each_edge(
      plan, [&](std::size_t tree, bool is_reduce, int rank, auto const& parents, auto const&) {
        int const parent = parents[static_cast<std::size_t>(rank)];
        if (!all && rank != layout.only_rank && parent != layout.only_rank) return;
        auto* const counters = deal(sizeof(wire_counters));
        auto* const due = layout.is_shaped ? deal(layout.window * sizeof(std::uint64_t)) : nullptr;
        bool const has_slots = !layout.reaches || (is_reduce && !detail::is_leaf(parents, rank));
        auto* const slots = has_slots ? deal(layout.window * layout.slot_bytes) : nullptr;
        if (wires == nullptr) return;
        auto& wire = wires[wire_number(plan, tree, is_reduce, rank)];
        wire.counters = reinterpret_cast<wire_counters*>(counters);
        wire.due = reinterpret_cast<std::uint64_t*>(due);
        wire.slots = slots;
      });
  return used;
}

/// Sets to 0 what is read before it is written; slots are not.
inline void wire_tables::begin_at_zero(schedule const& plan) {
  for (std::size_t link = 0; link < plan.link_bytes_per_second.size(); ++link) {
    new (link_free_at_ + link) std::atomic<std::uint64_t>(0);
  }
  for (std::uint32_t number = 0; number < wire_count_; ++number) {
    if (wires_[number].counters != nullptr) new (wires_[number].counters) wire_counters;
  }
}

inline void wire_tables::make_wires(schedule const& plan) {
  wire_count_ = static_cast<std::uint32_t>(2 * plan.trees.size() * ranks_.size());
  places_.resize(wire_count_);
  wires_ = make<shared_wire>(wire_count_);
  auto* memory = static_cast<std::byte*>(layout_.ranks_share);
  if (memory == nullptr) {
    memory = make<std::byte>(share(plan, layout_, nullptr, nullptr, nullptr));
  }
  share(plan, layout_, memory, wires_, &link_free_at_);
  if (layout_.ranks_share == nullptr) begin_at_zero(plan);
  detail::for_each_edge(plan, [&](std::size_t tree, bool is_reduce, int rank, auto const& parents,
                                  auto const& routes) {
    auto const number = wire_number(plan, tree, is_reduce, rank);
    places_[number] = {static_cast<std::uint32_t>(tree), is_reduce};
    auto& wire = wires_[number];
    int const parent = parents[static_cast<std::size_t>(rank)];
    wire.sender = is_reduce ? rank : parent;
    wire.receiver = is_reduce ? parent : rank;
    wire.window = layout_.window;
    wire.slot_bytes = layout_.slot_bytes;
    if (routes.empty() || routes[static_cast<std::size_t>(rank)].empty()) return;
    auto const& route = routes[static_cast<std::size_t>(rank)];
    int* const copy = make<int>(route.size());
    std::copy(route.begin(), route.end(), copy);
    wire.route = copy;
    wire.route_length = static_cast<std::uint32_t>(route.size());
  });
}

inline void wire_tables::make_lanes(schedule const& plan, int rank) {
  auto& of_rank = ranks_[static_cast<std::size_t>(rank)];
  std::vector<wire_end> ends;
  struct span_of_ends {
    std::size_t first = 0;
    std::uint32_t count = 0;
  };
  struct tree_ends {
    span_of_ends reduce_children, reduce_parent, broadcast_parent, broadcast_children;
  };
  std::vector<tree_ends> of_tree;
  auto const add_end = [&](std::uint32_t wire, int peer, bool sends, bool sender_is_source) {
    wire_end end;
    end.wire = wire;
    end.peer = peer;
    end.sends = sends;
    end.sender_is_source = sender_is_source;
    ends.push_back(end);
  };
  for (std::size_t tree = 0; tree < plan.trees.size(); ++tree) {
    auto const& from = plan.trees[tree];
    tree_ends here;
    auto const children = [&](bool is_reduce, std::vector<int> const& parents) {
      span_of_ends result{ends.size(), 0};
      for (int child = 0; child < static_cast<int>(parents.size()); ++child) {
        if (parents[static_cast<std::size_t>(child)] != rank) continue;
        add_end(wire_number(plan, tree, is_reduce, child), child, !is_reduce,
                is_reduce ? detail::is_leaf(parents, child) : rank == from.root);
        ++result.count;
      }
      return result;
    };
    auto const parent = [&](bool is_reduce, std::vector<int> const& parents) {
      span_of_ends result{ends.size(), 0};
      if (parents.empty() || rank == from.root) return result;
      int const above = parents[static_cast<std::size_t>(rank)];
      add_end(wire_number(plan, tree, is_reduce, rank), above, is_reduce,
              is_reduce ? detail::is_leaf(parents, rank) : above == from.root);
      result.count = 1;
      return result;
    };
    here.reduce_children = children(true, from.reduce_parent);
    here.reduce_parent = parent(true, from.reduce_parent);
    here.broadcast_parent = parent(false, from.broadcast_parent);
    here.broadcast_children = children(false, from.broadcast_parent);
    of_tree.push_back(here);
  }
  of_rank.end_count = ends.size();
  of_rank.ends = make<wire_end>(ends.size());
  std::copy(ends.begin(), ends.end(), of_rank.ends);

  auto const list = [&](bool reduces, bool spreads) {
    std::vector<lane> lanes;
    for (std::size_t tree = 0; tree < plan.trees.size(); ++tree) {
      auto const& from = plan.trees[tree];
      if ((reduces && from.reduce_parent.empty()) || (spreads && from.broadcast_parent.empty())) {
        return lane_list{};  // this schedule does not carry such a collective
      }
      auto const add_lane = [&](bool is_reduce, span_of_ends const& in, span_of_ends const& out) {
        lane here;
        here.tree = static_cast<std::uint32_t>(tree);
        here.is_reduce = is_reduce;
        here.is_root = rank == from.root;
        here.reads_input = is_reduce || here.is_root;
        here.writes_output = !is_reduce || here.is_root;
        here.in = of_rank.ends + in.first;
        here.in_count = in.count;
        while (is_reduce && here.input_position < in.count &&
               here.in[here.input_position].peer < rank) {
          ++here.input_position;
        }
        here.out = of_rank.ends + out.first;
        here.out_count = out.count;
        lanes.push_back(here);
      };
      auto const& at = of_tree[tree];
      if (rank == from.root) {
        add_lane(reduces, reduces ? at.reduce_children : span_of_ends{},
                 spreads ? at.broadcast_children : span_of_ends{});
      } else {
        if (reduces) add_lane(true, at.reduce_children, at.reduce_parent);
        if (spreads) add_lane(false, at.broadcast_parent, at.broadcast_children);
      }
    }
    lane_list result{make<lane>(lanes.size()), lanes.size()};
    std::copy(lanes.begin(), lanes.end(), result.first);
    return result;
  };
  of_rank.reducing = list(true, false);
  of_rank.spreading = list(false, true);
  of_rank.both = list(true, true);
}

}  // namespace blink::inline BLINK_ABI
