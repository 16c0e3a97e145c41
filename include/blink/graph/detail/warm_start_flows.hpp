// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/detail/flow_network.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Flows of equal value from one source to several sinks. Each flow uses the capacities
/// independently of the others. When capacities change, the flows are repaired instead of computed
/// again, because most changes affect few of them.
///
/// Memory: O(S E) for S sinks and E arcs.
class warm_start_flows {
 public:
  /// wanted: the value that every flow should have
  warm_start_flows(int vertex_count, int source, std::vector<int> sinks, std::int64_t wanted)
      : source_(source),
        sinks_(std::move(sinks)),
        wanted_(wanted),
        network_(vertex_count),
        first_(static_cast<std::size_t>(vertex_count), -1),
        before_(static_cast<std::size_t>(vertex_count), -1) {}

  /// Adds an arc and returns its number: 0, 1, 2 … in the order of the calls.
  int add(int tail, int head, std::int64_t capacity) {
    for (auto const& [from, to] : {std::pair(tail, head), std::pair(head, tail)}) {
      head_.push_back(to);
      next_.push_back(first_[static_cast<std::size_t>(from)]);
      first_[static_cast<std::size_t>(from)] = static_cast<int>(head_.size()) - 1;
    }
    capacity_.push_back(capacity);
    for (auto& r : rows_) r.flow.push_back(0);
    return rows_.empty() ? network_.add(tail, head, capacity)
                         : static_cast<int>(capacity_.size()) - 1;
  }

  /// Finds all flows. Must be called once, before `reduce` and `shift`.
  void start() {
    for (int const sink : sinks_) {
      row r{sink, network_.run(source_, sink, wanted_), {}};
      r.flow.reserve(capacity_.size());
      for (std::size_t a = 0; a < capacity_.size(); ++a) {
        r.flow.push_back(network_.flow(static_cast<int>(a)));
      }
      rows_.push_back(std::move(r));
    }
  }

  /// Lowers the capacity of an arc by up to `most`, as far as all flows keep the wanted value.
  ///
  /// Returns: by how much.
  /// Pre:     all flows have the wanted value.
  std::int64_t reduce(int arc, std::int64_t most) {
    capacity(arc) -= most;
    std::int64_t missing = 0;
    for (auto& r : rows_) {
      mend(r, arc);
      missing = std::max(missing, fill(r));
    }
    if (missing > 0) {
      capacity(arc) += missing;
      for (auto& r : rows_) fill(r);
    }
    return most - missing;
  }

  /// Moves up to `most` of capacity from the arcs u -> w and w -> t to the arc u -> t. It stops
  /// where a flow would lose the wanted value.
  ///
  /// Returns: how much.
  /// Pre:     all flows have the wanted value.
  std::int64_t shift(int uw, int wt, int ut, std::int64_t most) {
    capacity(uw) -= most;
    capacity(wt) -= most;
    capacity(ut) += most;
    std::int64_t missing = 0;
    for (auto& r : rows_) {
      auto const excess = std::max(over(r, uw), over(r, wt));
      if (excess > 0) {
        auto const moved = std::min({excess, flow(r, uw), flow(r, wt)});
        move(r, uw, wt, ut, moved);
        mend(r, uw);
        mend(r, wt);
      }
      missing = std::max(missing, fill(r));
    }
    if (missing > 0) {
      capacity(uw) += missing;
      capacity(wt) += missing;
      capacity(ut) -= missing;
      for (auto& r : rows_) {
        move(r, uw, wt, ut, -std::max<std::int64_t>(over(r, ut), 0));
        fill(r);
      }
    }
    return most - missing;
  }

 private:
  struct row {
    int sink;
    std::int64_t value;
    std::vector<std::int64_t> flow;  // by arc
  };

  [[nodiscard]] std::int64_t& capacity(int arc) { return capacity_[static_cast<std::size_t>(arc)]; }
  [[nodiscard]] static std::int64_t& flow(row& r, int arc) {
    return r.flow[static_cast<std::size_t>(arc)];
  }
  [[nodiscard]] std::int64_t over(row& r, int arc) { return flow(r, arc) - capacity(arc); }

  static void move(row& r, int uw, int wt, int ut, std::int64_t amount) {
    flow(r, uw) -= amount;
    flow(r, wt) -= amount;
    flow(r, ut) += amount;
  }

  /// Removes the flow of an arc beyond its capacity. The removed flow is rerouted to the arc's head
  /// where possible. The rest lowers the value of the flow.
  void mend(row& r, int arc) {
    auto const excess = over(r, arc);
    if (excess <= 0) return;
    flow(r, arc) -= excess;
    auto const at = static_cast<std::size_t>(arc);
    int const tail = head_[2 * at + 1];
    int const head = head_[2 * at];
    auto const lost = excess - send(r, tail, head, excess);
    if (lost == 0) return;
    send(r, tail, source_, lost);
    send(r, r.sink, head, lost);
    r.value -= lost;
  }

  /// Increases the flow until it has the wanted value or no more fits.
  ///
  /// Returns: the missing value.
  std::int64_t fill(row& r) {
    if (r.value < wanted_) r.value += send(r, source_, r.sink, wanted_ - r.value);
    return wanted_ - r.value;
  }

  /// Sends up to `amount` more from one vertex to another over shortest paths of the residual
  /// network.
  ///
  /// Returns: how much.
  std::int64_t send(row& r, int from, int to, std::int64_t amount) {
    if (from == to) return amount;
    std::int64_t sent = 0;
    while (sent < amount && find_path(r, from, to)) {
      auto step = amount - sent;
      for (int at = to; at != from; at = tail_of(arc_into(at))) {
        step = std::min(step, room(r, arc_into(at)));
      }
      for (int at = to; at != from; at = tail_of(arc_into(at))) {
        auto const a = static_cast<std::size_t>(arc_into(at));
        r.flow[a / 2] += a % 2 == 0 ? step : -step;
      }
      sent += step;
    }
    return sent;
  }

  [[nodiscard]] int arc_into(int v) const { return before_[static_cast<std::size_t>(v)]; }
  [[nodiscard]] int tail_of(int half) const {
    return head_[static_cast<std::size_t>(half) ^ std::size_t{1}];
  }
  [[nodiscard]] std::int64_t room(row const& r, int half) const {
    auto const a = static_cast<std::size_t>(half);
    return a % 2 == 0 ? capacity_[a / 2] - r.flow[a / 2] : r.flow[a / 2];
  }

  /// Searches breadth first from `from`. Afterwards `before_` leads back from `to`.
  bool find_path(row const& r, int from, int to) {
    std::fill(before_.begin(), before_.end(), -1);
    queue_.assign(1, from);
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      for (int half = first_[static_cast<std::size_t>(queue_[i])]; half >= 0;
           half = next_[static_cast<std::size_t>(half)]) {
        int const head = head_[static_cast<std::size_t>(half)];
        if (head == from || arc_into(head) >= 0 || room(r, half) <= 0) continue;
        before_[static_cast<std::size_t>(head)] = half;
        if (head == to) return true;
        queue_.push_back(head);
      }
    }
    return false;
  }

  int source_;
  std::vector<int> sinks_;
  std::int64_t wanted_;
  flow_network network_;  // computes the first flows
  std::vector<int> first_, next_,
      head_;  // list of the half arcs of each vertex; arc a has the halves 2 a and 2 a + 1
  std::vector<std::int64_t> capacity_;  // by arc
  std::vector<row> rows_;               // by sink
  std::vector<int> before_;             // by vertex: the half arc through which it was reached
  std::vector<int> queue_;
};

}}}  // namespace blink::BLINK_ABI::detail
