// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/memory_source.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/kernels/device_call.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The phases of a collective, which select its list of tasks.
[[nodiscard]] constexpr task_phases phases_of(collective kind) {
  if (!has_broadcast_phase(kind)) return task_phases::reducing;
  return has_reduce_phase(kind) ? task_phases::both : task_phases::spreading;
}

/// The part of a schedule that the kernels of one device read and write, in one piece of the
/// device's memory. It has all connections, the tasks of the device's ranks with their endpoints,
/// the states of blocks, and room for the trees of a call. For shaped connections it also has their
/// routes and the times of their messages. The host makes the tables as an image in its memory, and
/// reads them back as one.
///
/// Memory: the image; three times the tasks of each rank.
class device_tables {
 public:
  /// The addresses of the tables, in memory of the device.
  struct addresses {
    shared_connection* connections = nullptr;
    device_rank* ranks = nullptr;
    block_state* states = nullptr;
    tree_call* trees = nullptr;  ///< null if the trees of a call fit into the argument of a kernel
  };

  /// Sets the offsets of all tables.
  ///
  /// ranks:  of the device
  /// source: the schedule of the tables
  device_tables(connection_tables const& tables, std::vector<int> const& ranks,
                schedule const& source) {
    std::size_t used = 0;
    auto const deal = [&](std::size_t bytes) {
      std::size_t const first = used;
      used += detail::whole_lines(bytes);
      return first;
    };
    (void)deal(tables.connection_count() * sizeof(shared_connection));
    ranks_at_ = deal(ranks.size() * sizeof(device_rank));
    std::array<std::size_t, 3> tasks_of{};
    for (int const rank : ranks) {
      auto& here = ranks_.emplace_back();
      here.rank = rank;
      ends_at_.push_back(deal(tables.ends(rank).second * sizeof(endpoint)));
      for (std::size_t list = 0; list < 3; ++list) {
        auto const tasks = tables.tasks(rank, kind_with(list));
        here.task_count[list] = static_cast<std::uint32_t>(tasks.count);
        here.moving_count[list] = static_cast<std::uint32_t>(
            std::count_if(tasks.first, tasks.first + tasks.count,
                          [&](tree_task const& task) { return moves(tables, task, list); }));
        tasks_of[list] += tasks.count;
        // An offset for now; an address once there is memory.
        here.tasks[list] = reinterpret_cast<tree_task*>(deal(tasks.count * sizeof(tree_task)));
      }
    }
    largest_task_count_ = *std::max_element(tasks_of.begin(), tasks_of.end());
    states_at_ = deal(largest_task_count_ * sizeof(block_state));
    if (source.trees.size() > device_call::most_trees) {
      trees_at_ = deal(source.trees.size() * sizeof(tree_call));
    }
    if (tables.layout().is_shaped) {
      free_at_ = deal(source.link_bytes_per_second.size() * sizeof(std::uint64_t));
      due_at_ = deal(tables.connection_count() * tables.layout().window * sizeof(std::uint64_t));
      std::size_t hops = 0;
      for (std::uint32_t number = 0; number < tables.connection_count(); ++number) {
        hops += tables.connections()[number].route_length;
      }
      routes_at_ = deal(hops * sizeof(route_link));
    }
    image_.assign(used, std::byte{0});
  }

  /// Fills the image with the state before the first call.
  ///
  /// connections: with counters and slots in memory of the device
  /// base:        the address of the tables in memory of the device
  void make_image(connection_tables const& tables, std::vector<shared_connection> connections,
                  std::byte* base) {
    base_ = base;
    put_routes(tables, connections);
    put(0, connections.data(), connections.size());
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
      auto& here = ranks_[k];
      auto const [ends, end_count] = tables.ends(here.rank);
      auto* const ends_there = reinterpret_cast<endpoint*>(base + ends_at_[k]);
      put(ends_at_[k], ends, end_count);
      for (std::size_t list = 0; list < 3; ++list) {
        auto const at = reinterpret_cast<std::size_t>(here.tasks[list]);
        auto const tasks = tables.tasks(here.rank, kind_with(list));
        std::vector<tree_task> copies;
        for (std::size_t const index : order_of(tables, tasks, list)) {
          auto& copy = copies.emplace_back(tasks.first[index]);
          copy.in = ends_there + (copy.in - ends);
          copy.out = ends_there + (copy.out - ends);
        }
        put(at, copies.data(), copies.size());
        here.tasks[list] = reinterpret_cast<tree_task*>(base + at);
      }
    }
    put(ranks_at_, ranks_.data(), ranks_.size());
    std::vector<block_state> const states(largest_task_count_);
    put(states_at_, states.data(), states.size());
  }

  [[nodiscard]] std::vector<std::byte> const& image() const { return image_; }
  /// The ranks of the device, with the device's addresses of their tasks.
  [[nodiscard]] std::vector<device_rank> const& ranks() const { return ranks_; }
  /// Pre: the image has been made.
  [[nodiscard]] addresses where() const {
    return {reinterpret_cast<shared_connection*>(base_),
            reinterpret_cast<device_rank*>(base_ + ranks_at_),
            reinterpret_cast<block_state*>(base_ + states_at_),
            trees_at_ == 0 ? nullptr : reinterpret_cast<tree_call*>(base_ + trees_at_)};
  }

  /// Copies what calls have changed into the host's tables; `now` is the memory of the device.
  void read_back(connection_tables const& tables, std::vector<std::byte> const& now) const {
    for (std::size_t k = 0; k < ranks_.size(); ++k) {
      auto const& here = ranks_[k];
      auto const [ends, end_count] = tables.ends(here.rank);
      auto const* const ends_there = reinterpret_cast<endpoint const*>(base_ + ends_at_[k]);
      for (std::size_t end = 0; end < end_count; ++end) {
        ends[end] = from<endpoint>(now, ends_at_[k] + end * sizeof(endpoint));
      }
      for (std::size_t list = 0; list < 3; ++list) {
        auto const tasks = tables.tasks(here.rank, kind_with(list));
        auto const at =
            static_cast<std::size_t>(reinterpret_cast<std::byte const*>(here.tasks[list]) - base_);
        auto const order = order_of(tables, tasks, list);
        for (std::size_t place = 0; place < order.size(); ++place) {
          auto there = from<tree_task>(now, at + place * sizeof(tree_task));
          auto& own = tasks.first[order[place]];
          there.in = own.in;
          there.out = own.out;
          if (there.blocked_on != nullptr)
            there.blocked_on = ends + (there.blocked_on - ends_there);
          own = there;
        }
      }
    }
  }
  /// Returns the state of the device's rank at a position after the calls so far; `now` is as in
  /// `read_back`.
  [[nodiscard]] device_rank rank_in(std::vector<std::byte> const& now, std::size_t number) const {
    return from<device_rank>(now, ranks_at_ + number * sizeof(device_rank));
  }
  /// The states of the blocks, one for each block that a call may have.
  [[nodiscard]] std::vector<block_state> states_in(std::vector<std::byte> const& now) const {
    std::vector<block_state> result;
    for (std::size_t block = 0; block < largest_task_count_; ++block) {
      result.push_back(from<block_state>(now, states_at_ + block * sizeof(block_state)));
    }
    return result;
  }

 private:
  [[nodiscard]] static collective kind_with(std::size_t list) {
    constexpr collective kinds[] = {collective::reduce, collective::broadcast,
                                    collective::all_reduce};
    static_assert(phases_of(kinds[0]) == task_phases::reducing &&
                  phases_of(kinds[1]) == task_phases::spreading &&
                  phases_of(kinds[2]) == task_phases::both);
    return kinds[list];
  }

  [[nodiscard]] static bool moves(connection_tables const& tables, tree_task const& here,
                                  std::size_t list) {
    return detail::moves_data(here, tables.layout().reaches, has_reduce_phase(kind_with(list)));
  }
  /// The tasks of a list in their order in memory of the device: those that only wait come last.
  template <class Tasks>
  [[nodiscard]] static std::vector<std::size_t> order_of(connection_tables const& tables,
                                                         Tasks const& tasks, std::size_t list) {
    std::vector<std::size_t> order;
    for (bool const moving : {true, false}) {
      for (std::size_t index = 0; index < tasks.count; ++index) {
        if (moves(tables, tasks.first[index], list) == moving) order.push_back(index);
      }
    }
    return order;
  }

  // Addresses of routes in memory of the host are of no use to a device.
  void put_routes(connection_tables const& tables, std::vector<shared_connection>& connections) {
    std::size_t next_route = routes_at_;
    std::size_t next_due = due_at_;
    for (auto& connection : connections) {
      auto const* const route = std::exchange(connection.route, nullptr);
      auto const length = std::exchange(connection.route_length, 0U);
      connection.due = nullptr;
      if (!tables.layout().is_shaped) continue;
      connection.due = reinterpret_cast<std::uint64_t*>(base_ + next_due);
      next_due += connection.window * sizeof(std::uint64_t);
      if (length == 0) continue;
      std::vector<route_link> copies(route, route + length);
      for (auto& over : copies) {
        over.free_at = reinterpret_cast<std::uint64_t*>(base_ + free_at_) + over.link;
      }
      put(next_route, copies.data(), copies.size());
      connection.route = reinterpret_cast<route_link const*>(base_ + next_route);
      connection.route_length = length;
      next_route += length * sizeof(route_link);
    }
  }

  template <class T>
  void put(std::size_t at, T const* first, std::size_t count) {
    static_assert(std::is_trivially_copyable_v<T>);
    if (count > 0) std::memcpy(image_.data() + at, first, count * sizeof(T));
  }
  template <class T>
  [[nodiscard]] static T from(std::vector<std::byte> const& image, std::size_t at) {
    T result;
    std::memcpy(&result, image.data() + at, sizeof(T));
    return result;
  }

  std::vector<device_rank> ranks_;
  std::vector<std::byte> image_;
  std::byte* base_ = nullptr;
  std::vector<std::size_t> ends_at_;  // by rank here, in the image
  std::size_t ranks_at_ = 0, states_at_ = 0;
  std::size_t trees_at_ = 0;                              // 0: there are none
  std::size_t largest_task_count_ = 0;                    // of all phases
  std::size_t free_at_ = 0, due_at_ = 0, routes_at_ = 0;  // of shaped connections
};

}}  // namespace blink::BLINK_ABI
