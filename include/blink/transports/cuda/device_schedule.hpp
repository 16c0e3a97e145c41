// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collective.hpp>
#include <blink/collectives/chunking.hpp>
#include <blink/collectives/counter.hpp>
#include <blink/collectives/lane.hpp>
#include <blink/collectives/order.hpp>
#include <blink/collectives/reducer.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/collectives/schedule_blocks.hpp>
#include <blink/collectives/stall.hpp>
#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/transports/cuda/device_allocation.hpp>
#include <blink/transports/cuda/device_call.hpp>
#include <blink/transports/cuda/device_memory.hpp>
#include <blink/transports/cuda/device_runtime.hpp>
#include <blink/transports/cuda/device_stall.hpp>
#include <blink/transports/cuda/plan_blocks.hpp>
#include <blink/transports/cuda/rank_placement.hpp>
#include <blink/transports/prepared_schedule.hpp>
#include <blink/transports/wire.hpp>
#include <blink/transports/wire_tables.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

/// Which lists of lanes a collective walks.
[[nodiscard]] constexpr lane_phases phases_of(collective kind) {
  if (!has_broadcast_phase(kind)) return lane_phases::reducing;
  return has_reduce_phase(kind) ? lane_phases::both : lane_phases::spreading;
}

/// A schedule with what its calls need in the memory of devices: the lanes of a rank on its device,
/// a wire's slots and counters on the device of its receiver, which looks there most often.
///
/// Memory: as `wire_tables`, and three times the lanes of each rank; counted before it is allocated.
template <device_runtime Devices>
class device_schedule {
 public:
  /// reaches: do kernels read and write the buffers of peers?
  /// Throws: precondition_error if `plan` is not a schedule, or if a tree joins ranks on devices that
  ///         do not reach each other; resource_error if the budget does not suffice; device_error.
  device_schedule(Devices& driver, rank_placement const& where, device_memory_budget& budget,
                  schedule const& plan, wire_layout const& layout, pipeline_costs const& costs)
      : driver_(driver), where_(where), prepared_(plan, dealt_by_us(layout), costs) {
    expect_reach();
    auto const sizes = measure();
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      device_memory_use const use{sizes[k].second, sizes[k].first, 0};
      budget.take(parts_[k].device, use, "the schedule");
    }
    for (std::size_t k = 0; k < parts_.size(); ++k) {
      parts_[k].wires = {driver_, parts_[k].device, sizes[k].first};
      parts_[k].tables = {driver_, parts_[k].device, sizes[k].second};
    }
    deal_out_wires();
    for (auto& part : parts_) make_image(part);
    restart();
  }
  device_schedule(device_schedule const&) = delete;
  device_schedule& operator=(device_schedule const&) = delete;

  [[nodiscard]] prepared_schedule const& prepared() const { return prepared_; }

  /// Lanes by device and rank there.
  [[nodiscard]] std::vector<device_lanes> lanes(lane_phases phases) const {
    std::vector<device_lanes> result;
    for (auto const& part : parts_) {
      auto& here = result.emplace_back();
      here.device = part.device;
      for (auto const& rank : part.ranks) {
        here.of_rank.push_back(rank.lane_count[static_cast<std::size_t>(phases)]);
      }
    }
    return result;
  }

  /// Fills in what a call has along each tree, as far as it fits; the rest of `all` is put into the
  /// devices' memory by the caller.
  template <chunking Chunks>
  [[nodiscard]] std::vector<tree_call> trees_of_call(collective kind, std::size_t count,
                                                     block_range const* blocks,
                                                     element_sizes const& sizes,
                                                     order_promise order,
                                                     std::size_t chunk_bytes) const {
    auto const& plan = prepared_.source();
    std::vector<tree_call> result(plan.trees.size());
    for (std::size_t tree = 0; tree < result.size(); ++tree) {
      lane here;
      here.tree = static_cast<std::uint32_t>(tree);
      auto const block = blocks == nullptr ? prepared_.equal_block(here, kind, count)
                                           : blocks[block_number(plan, plan.trees[tree], kind)];
      prepared_.template set_call<Chunks>(here, kind, block, sizes, order, chunk_bytes);
      result[tree] = {here.input_begin, here.output_begin, here.count,
                      here.chunk,       here.stride,       here.chunks};
    }
    return result;
  }

  /// What differs from device to device. `position`: in `rank_placement::devices`.
  void set_device(device_call& call, std::size_t position) const {
    auto const& part = parts_[position];
    call.ranks_here = part.at.ranks;
    call.ranks_here_count = static_cast<std::uint32_t>(part.ranks.size());
    call.wires = part.at.wires;
    call.states = part.at.states;
    call.more_trees = call_trees(position);
  }
  /// Where the trees of a call go that are too many for an argument; null if they are not.
  [[nodiscard]] tree_call* call_trees(std::size_t position) const {
    return parts_[position].at.trees;
  }

  /// Begins anew: every wire as if no message had passed. Pre: no call is running.
  void restart() {
    for (auto& part : parts_) {
      driver_.clear(part.device, part.wires.get(), part.counter_bytes);
      driver_.write(part.device, part.tables.get(), part.image.data(), part.image.size());
    }
  }

  /// How a call that failed has ended, by rank. Pre: no call is running.
  struct failed_call {
    bool is_here = false;  ///< was it along this schedule?
    collective kind = collective::broadcast;
    std::vector<device_rank_state> ranks;
  };
  [[nodiscard]] failed_call find_failure() {
    failed_call result;
    result.ranks.resize(where_.device_of.size());
    std::vector<std::array<std::uint64_t, 3>> calls(result.ranks.size());
    for (auto& part : parts_) {
      auto const image = read_back(part);
      for (std::size_t k = 0; k < part.ranks.size(); ++k) {
        auto const here = from_image<device_rank>(image, part.ranks_at + k * sizeof(device_rank));
        auto const rank = static_cast<std::size_t>(here.rank);
        std::copy(std::begin(here.calls), std::end(here.calls), calls[rank].begin());
        result.ranks[rank].device = part.device;
      }
      for (std::size_t block = 0; block < part.most_lanes; ++block) {
        auto const state =
            from_image<block_state>(image, part.states_at + block * sizeof(block_state));
        if (state.result == status::ok) continue;
        result.is_here = true;
        result.kind = state.kind;
        part.gave_up = part.gave_up || state.result == status::timed_out;
      }
    }
    if (!result.is_here) return result;
    auto const list = static_cast<std::size_t>(phases_of(result.kind));
    std::uint64_t newest = 0;
    for (auto const& of_rank : calls) newest = std::max(newest, of_rank[list]);
    for (auto& part : parts_) {
      for (auto const& here : part.ranks) {
        auto const rank = static_cast<std::size_t>(here.rank);
        auto& state = result.ranks[rank];
        auto const lanes = prepared_.tables().lanes(here.rank, result.kind);
        state.has_begun = lanes.count == 0 || calls[rank][list] == newest;
        if (state.has_begun) state.where = find_stall(result.kind, lanes.first, lanes.count);
        state.timed_out = state.has_begun && part.gave_up && state.where.peer >= 0;
      }
      part.gave_up = false;
    }
    return result;
  }

  /// What each edge carried so far. Pre: no call is running.
  [[nodiscard]] std::vector<edge_report> edges() {
    for (auto& part : parts_) (void)read_back(part);
    return prepared_.edges();
  }

 private:
  static constexpr std::size_t line = 128;

  /// Where the tables of a device are, in its memory.
  struct table_addresses {
    shared_wire* wires = nullptr;
    device_rank* ranks = nullptr;
    block_state* states = nullptr;
    tree_call* trees = nullptr;
  };

  /// What is on one device.
  struct device_part {
    int device = 0;
    std::vector<device_rank> ranks;
    std::vector<std::byte> image;      // of the tables, as they are before the first call
    std::vector<std::size_t> ends_at;  // by rank here, in the image
    std::size_t ranks_at = 0, states_at = 0;
    std::size_t trees_at = 0;  // 0: they fit into the argument of a kernel
    std::size_t counter_bytes = 0;
    std::size_t most_lanes = 0;  // of all phases
    bool gave_up = false;
    table_addresses at;
    device_allocation<Devices> wires, tables;
  };

  // Tables that are dealt out of memory that nobody has: what counts is which wires have slots. Where
  // those are is decided here.
  [[nodiscard]] static wire_layout dealt_by_us(wire_layout layout) {
    layout.ranks_share = reinterpret_cast<void*>(line);
    return layout;
  }

  void expect_reach() const {
    for (auto const& place : prepared_.tables().places()) {
      int const a = where_.device_of[static_cast<std::size_t>(place.from)];
      int const b = where_.device_of[static_cast<std::size_t>(place.to)];
      if (a == b) continue;
      for (auto const& [from, to] : {std::pair(a, b), std::pair(b, a)}) {
        if (driver_.reach(from, to)) continue;
        throw precondition_error("the schedule: tree " + std::to_string(place.tree) +
                                 " joins ranks " + std::to_string(place.from) + " and " +
                                 std::to_string(place.to) + ", and device " + std::to_string(from) +
                                 " does not reach the memory of device " + std::to_string(to) +
                                 " (peer access is refused)");
      }
    }
  }

  /// Bytes for wires and for tables, by device.
  [[nodiscard]] std::vector<std::pair<std::size_t, std::size_t>> measure() {
    auto const& tables = prepared_.tables();
    std::vector<std::pair<std::size_t, std::size_t>> result;
    for (std::size_t position = 0; position < where_.devices.size(); ++position) {
      auto& part = parts_.emplace_back();
      part.device = where_.devices[position];
      std::size_t wires = 0, slots = 0;
      for (std::uint32_t number = 0; number < tables.wire_count(); ++number) {
        auto const& wire = tables.wires()[number];
        if (where_.device_of[static_cast<std::size_t>(wire.receiver)] != part.device) continue;
        ++wires;
        if (wire.slots != nullptr) ++slots;
      }
      part.counter_bytes = wires * sizeof(wire_counters);
      make_room(part, position);
      auto const& layout = tables.layout();
      result.emplace_back(part.counter_bytes + slots * layout.window * layout.slot_bytes,
                          part.image.size());
    }
    return result;
  }

  // Sets the places in the image of the tables.
  void make_room(device_part& part, std::size_t position) {
    auto const& tables = prepared_.tables();
    std::size_t used = 0;
    auto const deal = [&](std::size_t bytes) {
      std::size_t const first = used;
      used += (bytes + line - 1) / line * line;
      return first;
    };
    (void)deal(tables.wire_count() * sizeof(shared_wire));
    auto const& ranks = where_.ranks_of[position];
    part.ranks_at = deal(ranks.size() * sizeof(device_rank));
    std::array<std::size_t, 3> lanes_of{};
    for (int const rank : ranks) {
      auto& here = part.ranks.emplace_back();
      here.rank = rank;
      part.ends_at.push_back(deal(tables.ends(rank).second * sizeof(wire_end)));
      for (std::size_t list = 0; list < 3; ++list) {
        auto const lanes = tables.lanes(rank, kind_with(list));
        here.lane_count[list] = static_cast<std::uint32_t>(lanes.count);
        lanes_of[list] += lanes.count;
        // An offset for now; an address once there is memory.
        here.lanes[list] = reinterpret_cast<lane*>(deal(lanes.count * sizeof(lane)));
      }
    }
    part.most_lanes = *std::max_element(lanes_of.begin(), lanes_of.end());
    part.states_at = deal(part.most_lanes * sizeof(block_state));
    std::size_t const trees = prepared_.source().trees.size();
    bool const has_more = trees > device_call::most_trees;
    part.trees_at = has_more ? deal(trees * sizeof(tree_call)) : 0;
    part.image.assign(used, std::byte{0});
  }

  [[nodiscard]] static collective kind_with(std::size_t list) {
    constexpr collective kinds[] = {collective::reduce, collective::broadcast,
                                    collective::all_reduce};
    static_assert(phases_of(kinds[0]) == lane_phases::reducing &&
                  phases_of(kinds[1]) == lane_phases::spreading &&
                  phases_of(kinds[2]) == lane_phases::both);
    return kinds[list];
  }

  // Counters first, so that they can be cleared together.
  void deal_out_wires() {
    auto const& tables = prepared_.tables();
    auto const& layout = tables.layout();
    std::map<int, std::pair<std::byte*, std::byte*>> next;
    for (auto const& part : parts_) {
      next[part.device] = {part.wires.get(), part.wires.get() + part.counter_bytes};
    }
    for (std::uint32_t number = 0; number < tables.wire_count(); ++number) {
      auto& wire = wires_.emplace_back(tables.wires()[number]);
      auto& [counters, slots] = next[where_.device_of[static_cast<std::size_t>(wire.receiver)]];
      wire.counters = reinterpret_cast<wire_counters*>(counters);
      counters += sizeof(wire_counters);
      if (wire.slots != nullptr) {
        wire.slots = slots;
        slots += layout.window * layout.slot_bytes;
      }
      wire.route = nullptr;  // in memory of the host; only shaped links look at it
      wire.route_length = 0;
      wire.due = nullptr;
    }
  }

  template <class T>
  static void to_image(std::vector<std::byte>& image, std::size_t at, T const* first,
                       std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (count > 0) std::memcpy(image.data() + at, first, count * sizeof(T));
  }
  template <class T>
  [[nodiscard]] static T from_image(std::vector<std::byte> const& image, std::size_t at) {
    T result;
    std::memcpy(&result, image.data() + at, sizeof(T));
    return result;
  }

  void make_image(device_part& part) {
    auto const& tables = prepared_.tables();
    std::byte* const base = part.tables.get();
    to_image(part.image, 0, wires_.data(), wires_.size());
    for (std::size_t k = 0; k < part.ranks.size(); ++k) {
      auto& here = part.ranks[k];
      auto const [ends, end_count] = tables.ends(here.rank);
      auto* const ends_there = reinterpret_cast<wire_end*>(base + part.ends_at[k]);
      to_image(part.image, part.ends_at[k], ends, end_count);
      for (std::size_t list = 0; list < 3; ++list) {
        auto const at = reinterpret_cast<std::size_t>(here.lanes[list]);
        auto const lanes = tables.lanes(here.rank, kind_with(list));
        std::vector<lane> copies(lanes.first, lanes.first + lanes.count);
        for (auto& copy : copies) {
          copy.in = ends_there + (copy.in - ends);
          copy.out = ends_there + (copy.out - ends);
        }
        to_image(part.image, at, copies.data(), copies.size());
        here.lanes[list] = reinterpret_cast<lane*>(base + at);
      }
    }
    to_image(part.image, part.ranks_at, part.ranks.data(), part.ranks.size());
    std::vector<block_state> const states(part.most_lanes);
    to_image(part.image, part.states_at, states.data(), states.size());
    part.at = {reinterpret_cast<shared_wire*>(base),
               reinterpret_cast<device_rank*>(base + part.ranks_at),
               reinterpret_cast<block_state*>(base + part.states_at),
               part.trees_at == 0 ? nullptr : reinterpret_cast<tree_call*>(base + part.trees_at)};
  }

  // Brings what calls changed into the host's tables.
  std::vector<std::byte> read_back(device_part const& part) {
    auto const& tables = prepared_.tables();
    std::vector<std::byte> image(part.image.size());
    driver_.read(part.device, image.data(), part.tables.get(), image.size());
    std::byte const* const base = part.tables.get();
    for (std::size_t k = 0; k < part.ranks.size(); ++k) {
      auto const& here = part.ranks[k];
      auto const [ends, end_count] = tables.ends(here.rank);
      auto const* const ends_there = reinterpret_cast<wire_end const*>(base + part.ends_at[k]);
      for (std::size_t end = 0; end < end_count; ++end) {
        ends[end] = from_image<wire_end>(image, part.ends_at[k] + end * sizeof(wire_end));
      }
      for (std::size_t list = 0; list < 3; ++list) {
        auto const lanes = tables.lanes(here.rank, kind_with(list));
        auto const at =
            static_cast<std::size_t>(reinterpret_cast<std::byte const*>(here.lanes[list]) - base);
        for (std::size_t index = 0; index < lanes.count; ++index) {
          auto now = from_image<lane>(image, at + index * sizeof(lane));
          auto& own = lanes.first[index];
          now.in = own.in;
          now.out = own.out;
          if (now.blocked_on != nullptr) now.blocked_on = ends + (now.blocked_on - ends_there);
          own = now;
        }
      }
    }
    return image;
  }

  Devices& driver_;
  rank_placement const& where_;
  prepared_schedule prepared_;
  std::vector<device_part> parts_;
  std::vector<shared_wire> wires_;
};

}  // namespace blink::inline BLINK_ABI
