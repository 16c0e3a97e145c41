// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives/lane.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/wire.hpp>

#include <algorithm>
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
};

/// All wires, wire ends and lanes that a schedule needs, for all ranks: allocated once, then used
/// by any number of calls.
///
/// Memory: edges * window * slot_bytes, and a few lines for each edge; where peers reach each
/// other only inner reduce edges have slots.
class wire_tables {
 public:
  /// Time: O(T V). Pre: `validate(plan)` passed; layout.window >= 1.
  wire_tables(schedule const& plan, wire_layout const& layout);

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
  void make_lanes(schedule const& plan, int rank);

  // Wires of tree t: the reduce wire of rank r is number (2 t) n + r, its broadcast wire, from its
  // parent to it, (2 t + 1) n + r. Roots and absent phases leave numbers unused.
  [[nodiscard]] std::uint32_t wire_number(std::size_t tree, bool is_reduce, int rank) const {
    return static_cast<std::uint32_t>((2 * tree + (is_reduce ? 0 : 1)) * ranks_.size() +
                                      static_cast<std::size_t>(rank));
  }

  wire_layout layout_;
  std::vector<std::unique_ptr<void, void (*)(void*) noexcept>> memory_;
  shared_wire* wires_ = nullptr;
  std::uint32_t wire_count_ = 0;
  std::vector<wire_place> places_;
  std::vector<rank_tables> ranks_;
};

inline wire_tables::wire_tables(schedule const& plan, wire_layout const& layout)
    : layout_(layout), ranks_(static_cast<std::size_t>(plan.rank_count)) {
  expects(layout.window >= 1, "wire_layout: window >= 1");
  constexpr std::size_t line = 128;
  layout_.slot_bytes = (layout.slot_bytes + line - 1) / line * line;
  make_wires(plan);
  for (int rank = 0; rank < plan.rank_count; ++rank) make_lanes(plan, rank);
}

namespace detail {

[[nodiscard]] inline bool is_leaf(std::vector<int> const& parents, int rank) {
  return std::find(parents.begin(), parents.end(), rank) == parents.end();
}

}  // namespace detail

inline void wire_tables::make_wires(schedule const& plan) {
  wire_count_ = static_cast<std::uint32_t>(2 * plan.trees.size() * ranks_.size());
  places_.resize(wire_count_);
  wires_ = make<shared_wire>(wire_count_);
  auto const add = [&](std::size_t tree, bool is_reduce, std::vector<int> const& parents,
                       std::vector<std::vector<int>> const& routes) {
    for (int rank = 0; rank < static_cast<int>(parents.size()); ++rank) {
      auto const number = wire_number(tree, is_reduce, rank);
      places_[number] = {static_cast<std::uint32_t>(tree), is_reduce};
      if (parents[static_cast<std::size_t>(rank)] < 0) continue;
      auto& wire = wires_[number];
      wire.window = layout_.window;
      wire.slot_bytes = layout_.slot_bytes;
      if (!layout_.reaches || (is_reduce && !detail::is_leaf(parents, rank))) {
        wire.slots = make<std::byte>(layout_.window * layout_.slot_bytes);
      }
      if (layout_.is_shaped) wire.due = make<std::uint64_t>(layout_.window);
      if (routes.empty() || routes[static_cast<std::size_t>(rank)].empty()) continue;
      auto const& route = routes[static_cast<std::size_t>(rank)];
      int* const copy = make<int>(route.size());
      std::copy(route.begin(), route.end(), copy);
      wire.route = copy;
      wire.route_length = static_cast<std::uint32_t>(route.size());
    }
  };
  for (std::size_t tree = 0; tree < plan.trees.size(); ++tree) {
    auto const& from = plan.trees[tree];
    add(tree, true, from.reduce_parent, from.reduce_route);
    add(tree, false, from.broadcast_parent, from.broadcast_route);
  }
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
        add_end(wire_number(tree, is_reduce, child), child, !is_reduce,
                is_reduce ? detail::is_leaf(parents, child) : rank == from.root);
        ++result.count;
      }
      return result;
    };
    auto const parent = [&](bool is_reduce, std::vector<int> const& parents) {
      span_of_ends result{ends.size(), 0};
      if (parents.empty() || rank == from.root) return result;
      int const above = parents[static_cast<std::size_t>(rank)];
      add_end(wire_number(tree, is_reduce, rank), above, is_reduce,
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
