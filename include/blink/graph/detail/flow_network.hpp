// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/work_budget.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A residual network for maximum flows by blocking flows (Dinitz 1970). After construction it may
/// run many times; a run allocates no memory.
///
/// Capacities are integers. Their sum over any cut stays below `unlimited`.
class flow_network {
 public:
  static constexpr std::int64_t unlimited = std::int64_t{1} << 62;

  explicit flow_network(int vertex_count) { clear(vertex_count); }

  /// Removes all arcs but keeps the memory.
  void clear(int vertex_count) {
    first_.assign(static_cast<std::size_t>(vertex_count), -1);
    level_.resize(static_cast<std::size_t>(vertex_count));
    current_.resize(static_cast<std::size_t>(vertex_count));
    head_.clear();
    next_.clear();
    room_.clear();
    capacity_.clear();
  }

  /// Adds an arc and returns its number: 0, 1, 2 … in the order of the calls.
  int add(int tail, int head, std::int64_t capacity) {
    push(tail, head, capacity);
    push(head, tail, 0);
    capacity_.push_back(capacity);
    return static_cast<int>(capacity_.size()) - 1;
  }

  /// Sets a capacity for the next run.
  void set_capacity(int arc, std::int64_t capacity) {
    capacity_[static_cast<std::size_t>(arc)] = capacity;
  }
  [[nodiscard]] std::int64_t capacity(int arc) const {
    return capacity_[static_cast<std::size_t>(arc)];
  }

  /// Computes the maximum flow from `source` to `sink`, but no more than `limit`.
  ///
  /// Pre: source != sink.
  std::int64_t run(int source, int sink, std::int64_t limit = unlimited) {
    for (std::size_t arc = 0; arc < capacity_.size(); ++arc) {
      room_[2 * arc] = capacity_[arc];
      room_[2 * arc + 1] = 0;
    }
    sink_ = sink;
    std::int64_t flow = 0;
    while (flow < limit && find_levels(source)) {
      current_ = first_;
      while (flow < limit) {
        auto const more = augment(source, limit - flow);
        if (more == 0) break;
        flow += more;
      }
    }
    return flow;
  }

  /// The flow on an arc after a run.
  [[nodiscard]] std::int64_t flow(int arc) const {
    return room_[2 * static_cast<std::size_t>(arc) + 1];
  }

  /// After a run, finds the vertices from which the sink can still be reached. If the flow is
  /// maximum, they are the smallest sink side of a minimum cut.
  ///
  /// Returns: by vertex, true if the sink can be reached from it.
  [[nodiscard]] std::vector<bool> sink_side() const {
    std::vector<bool> result(first_.size(), false);
    std::vector<int> open{sink_};
    result[static_cast<std::size_t>(sink_)] = true;
    while (!open.empty()) {
      auto const at = static_cast<std::size_t>(open.back());
      open.pop_back();
      for (int arc = first_[at]; arc >= 0; arc = next_[static_cast<std::size_t>(arc)]) {
        auto const a = static_cast<std::size_t>(arc);
        auto const from = static_cast<std::size_t>(head_[a]);
        if (room_[a ^ 1U] <= 0 || result[from]) continue;
        result[from] = true;
        open.push_back(head_[a]);
      }
    }
    return result;
  }

  /// True if the vertex is on the source's side of a minimum cut. Valid after a run below its
  /// limit.
  [[nodiscard]] bool source_side(int vertex) const {
    return level_[static_cast<std::size_t>(vertex)] >= 0;
  }

 private:
  void push(int tail, int head, std::int64_t room) {
    head_.push_back(head);
    next_.push_back(first_[static_cast<std::size_t>(tail)]);
    room_.push_back(room);
    first_[static_cast<std::size_t>(tail)] = static_cast<int>(head_.size()) - 1;
  }

  // Finds breadth-first distances in the residual network. Returns true if the sink is reached.
  bool find_levels(int source) {
    budget_scope::poll();
    std::fill(level_.begin(), level_.end(), -1);
    queue_.clear();
    queue_.push_back(source);
    level_[static_cast<std::size_t>(source)] = 0;
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      auto const at = static_cast<std::size_t>(queue_[i]);
      for (int arc = first_[at]; arc >= 0; arc = next_[static_cast<std::size_t>(arc)]) {
        auto const a = static_cast<std::size_t>(arc);
        auto const to = static_cast<std::size_t>(head_[a]);
        if (room_[a] > 0 && level_[to] < 0) {
          level_[to] = level_[at] + 1;
          queue_.push_back(head_[a]);
        }
      }
    }
    return level_[static_cast<std::size_t>(sink_)] >= 0;
  }

  std::int64_t augment(int vertex, std::int64_t wanted) {
    if (vertex == sink_) return wanted;
    auto const at = static_cast<std::size_t>(vertex);
    for (int& arc = current_[at]; arc >= 0; arc = next_[static_cast<std::size_t>(arc)]) {
      auto const a = static_cast<std::size_t>(arc);
      auto const to = static_cast<std::size_t>(head_[a]);
      if (room_[a] <= 0 || level_[to] != level_[at] + 1) continue;
      auto const sent = augment(head_[a], std::min(wanted, room_[a]));
      if (sent > 0) {
        room_[a] -= sent;
        room_[a ^ 1U] += sent;
        return sent;
      }
    }
    return 0;
  }

  std::vector<int> first_, next_, head_;  // list of the arcs of each vertex; arc a ^ 1 is the
                                          // reverse of arc a
  std::vector<std::int64_t> room_;        // residual capacity, by arc and reverse
  std::vector<std::int64_t> capacity_;    // by arc
  std::vector<int> level_, current_, queue_;
  int sink_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
