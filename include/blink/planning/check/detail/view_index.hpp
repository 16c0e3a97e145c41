// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/member_view.hpp>

#include <algorithm>
#include <cstddef>
#include <span>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The nodes and links of a view by number, because a check looks up each of them thousands of
/// times. Nodes are numbered by rising id, links in the order of `plan_view::capacity`.
class view_index {
 public:
  struct numbered_link {
    int from = 0;  ///< node number
    int to = 0;    ///< node number
    rational capacity{};
  };

  explicit view_index(plan_view const& view) : ids_(view.nodes.begin(), view.nodes.end()) {
    is_rank_.resize(ids_.size());
    for (int const id : view.ranks) is_rank_[static_cast<std::size_t>(node(id))] = true;
    first_out_.assign(ids_.size() + 1, 0);
    for (auto const& [ends, c] : view.capacity) {
      links_.push_back({node(ends.first), node(ends.second), c});
      ++first_out_[static_cast<std::size_t>(links_.back().from) + 1];
    }
    for (std::size_t v = 0; v < ids_.size(); ++v) first_out_[v + 1] += first_out_[v];
  }

  [[nodiscard]] std::size_t node_count() const { return ids_.size(); }
  [[nodiscard]] int id(int node) const { return ids_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] bool is_rank(int node) const { return is_rank_[static_cast<std::size_t>(node)]; }
  [[nodiscard]] std::span<numbered_link const> links() const { return links_; }

  /// The number of the first link out of a node; those of the next node follow.
  [[nodiscard]] std::size_t first_out(int node) const {
    return first_out_[static_cast<std::size_t>(node)];
  }

  /// The number of the node with this id; -1 if it is not in the view.
  [[nodiscard]] int node(int id) const {
    if (ids_.empty() || id < ids_.front()) return -1;
    auto const guess = static_cast<std::size_t>(id) - static_cast<std::size_t>(ids_.front());
    if (guess < ids_.size() && ids_[guess] == id) return static_cast<int>(guess);
    auto const found = std::lower_bound(ids_.begin(), ids_.end(), id);
    return found == ids_.end() || *found != id ? -1 : static_cast<int>(found - ids_.begin());
  }

  /// The number of the link between two nodes, given by number; -1 if the view has none, or a node
  /// is -1.
  [[nodiscard]] int link(int from, int to) const {
    if (from < 0 || to < 0) return -1;
    auto const begin = links_.begin() + static_cast<std::ptrdiff_t>(first_out(from));
    auto const end = links_.begin() + static_cast<std::ptrdiff_t>(first_out(from + 1));
    auto const found = std::lower_bound(
        begin, end, to, [](numbered_link const& l, int node) { return l.to < node; });
    return found == end || found->to != to ? -1 : static_cast<int>(found - links_.begin());
  }

 private:
  std::vector<int> ids_;
  std::vector<bool> is_rank_;
  std::vector<numbered_link> links_;
  std::vector<std::size_t> first_out_;
};

}}}  // namespace blink::BLINK_ABI::detail
