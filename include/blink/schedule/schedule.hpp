// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/schedule/by_rank.hpp>

#include <cstddef>
#include <cstdint>
#include <initializer_list>
#include <limits>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One tree of a schedule, by rank index 0 .. n-1. The trees of the two phases may differ; they
/// share the root.
struct schedule_tree {
  int root = 0;
  std::uint64_t weight = 1;         ///< share of the buffer, relative to the other trees
  by_rank<int> reduce_parent{};     ///< -1 at the root; empty: no phase to the root
  by_rank<int> broadcast_parent{};  ///< -1 at the root; empty: no phase from the root
  /// The ranks that keep the data that the root sends; empty: all ranks, including the root.
  /// Otherwise the phase from the root need not span all ranks. Ranks outside it have parent -1.
  /// Ranks on a route that do not keep the data forward it. A tree of the root alone keeps the
  /// root's own data.
  std::vector<int> receivers{};
  /// Indices into `schedule::link_bytes_per_second` of the links of the edge between a rank and its
  /// parent, in that phase's direction. Empty, for a rank or as a whole: not known.
  by_rank<std::vector<int>> reduce_route{};
  by_rank<std::vector<int>> broadcast_route{};
  std::size_t chunk_bytes = 0;  ///< size of a chunk; 0: the runtime chooses

  friend bool operator==(schedule_tree const&, schedule_tree const&) = default;
};

/// The trees by which ranks move shares of a buffer: the input of the runtime. It consists of plain
/// tables, so that it can come from a planner, a file or a user.
///
/// `proportional_split.hpp` splits a buffer over the trees. `chunking.hpp` cuts a tree's part into
/// chunks.
struct schedule {
  int rank_count = 0;
  std::vector<schedule_tree> trees{};
  std::vector<double> link_bytes_per_second{};  ///< physical links, each of one direction
  /// Of these links, for records of calls: "nvlink 2-3". Empty: they have no names.
  std::vector<std::string> link_names{};
  /// True if every tree carries the whole block of its root, and the root keeps the result for
  /// itself. For an all-reduce the block is the whole buffer. The call then takes one step
  /// instead of two, and moves N times the bytes for N ranks. See `one_shot_schedule`.
  bool is_one_shot = false;
  /// By rank, for all-gather and reduce-scatter: the relative size of its block for which the trees
  /// were planned. Calls may have blocks of any other sizes. A rank with share 0 may root no tree;
  /// then its block has no elements. Empty: blocks of one size.
  std::vector<std::uint64_t> shares{};

  friend bool operator==(schedule const&, schedule const&) = default;
};

/// Number of edges on the longest path from a rank to the root.
///
/// Time:   O(E h) for E edges and the height h.
/// Pre:    `parents` is a tree, as `validate` checks.
[[nodiscard]] inline int tree_height(by_rank<int> const& parents) {
  int result = 0;
  for (auto const& edge : parents.entries()) {
    int depth = 0;
    for (int at = edge.value; at >= 0; at = parents[static_cast<std::size_t>(at)]) ++depth;
    if (depth > result) result = depth;
  }
  return result;
}

namespace detail {

/// Throws: precondition_error unless 0 <= root < rank_count.
template <class = when_used>
BLINK_COLD void expect_root(char const* where, int rank_count, int root) {
  if (0 <= root && root < rank_count) return;
  throw precondition_error(
      text_of({where, ": root ", root, " of ", rank_count, " ranks, expected one of them"}));
}

template <class = when_used>
BLINK_COLD void validate_phase(schedule const& source, std::size_t tree, bool is_reduce) {
  auto const& own = source.trees[tree];
  auto const& parents = is_reduce ? own.reduce_parent : own.broadcast_parent;
  auto const& routes = is_reduce ? own.reduce_route : own.broadcast_route;
  if (parents.empty() && routes.empty()) return;
  auto const fail = [&](std::initializer_list<text_piece> what) {
    throw precondition_error(text_of(
        {"schedule: tree ", tree, is_reduce ? ", reduce: " : ", broadcast: ", text_of(what)}));
  };
  auto const ranks = static_cast<std::size_t>(source.rank_count);
  int const root = source.trees[tree].root;
  bool const spans = is_reduce || source.trees[tree].receivers.empty();
  if (parents.size() != ranks) {
    fail({parents.size(), " parents, expected one for each of ", ranks, " ranks"});
  }
  auto const fail_parent = [&](int rank) {
    fail({"the parent of rank ", rank, " is ", parents[static_cast<std::size_t>(rank)],
          rank == root ? ", expected -1 at the root" : ", expected another rank"});
  };
  for (auto const& [rank, parent] : parents.entries()) {
    if (rank == root || parent < 0 || parent >= source.rank_count) fail_parent(rank);
  }
  if (spans && parents.entries().size() + 1 < ranks) {
    for (int rank = 0; rank < source.rank_count; ++rank) {
      if (rank != root && parents[static_cast<std::size_t>(rank)] < 0) fail_parent(rank);
    }
  }
  for (auto const& edge : parents.entries()) {
    int steps = 0;
    for (int at = edge.rank; at != root; at = parents[static_cast<std::size_t>(at)]) {
      if (at < 0) {
        fail({"the path from rank ", edge.rank, " ends before the root ", root});
      }
      if (++steps > source.rank_count) {
        fail({"rank ", edge.rank, " lies on a cycle, expected a path to the root ", root});
      }
    }
  }
  if (!routes.empty() && routes.size() != ranks) {
    fail({routes.size(), " routes, expected none or one for each of ", ranks, " ranks"});
  }
  for (auto const& route : routes.entries()) {
    for (int const link : route.value) {
      if (link < 0 || static_cast<std::size_t>(link) >= source.link_bytes_per_second.size()) {
        fail({"a route names link ", link, " of ", source.link_bytes_per_second.size(), " links"});
      }
    }
  }
}

template <class = when_used>
BLINK_COLD void validate_receivers(schedule const& source, std::size_t index) {
  auto const& tree = source.trees[index];
  if (tree.receivers.empty()) return;
  auto const fail = [&](std::initializer_list<text_piece> what) {
    throw precondition_error(text_of({"schedule: tree ", index, ", receivers: ", text_of(what)}));
  };
  if (tree.broadcast_parent.empty()) fail({"no phase leads from the root to the receivers"});
  auto const& parents = tree.broadcast_parent;
  by_rank<int> keeps, sends;  // 1 at those that do
  for (int const rank : tree.receivers) {
    if (rank < 0 || rank >= source.rank_count) {
      fail({"rank ", rank, " of ", source.rank_count, " ranks"});
    }
    auto const at = static_cast<std::size_t>(rank);
    if (keeps[at] == 1) fail({"rank ", rank, " twice"});
    keeps.set(at, 1);
    if (rank != tree.root && parents[at] < 0) {
      fail({"no path leads to rank ", rank});
    }
  }
  for (auto const& edge : parents.entries()) sends.set(static_cast<std::size_t>(edge.value), 1);
  for (auto const& edge : parents.entries()) {
    auto const at = static_cast<std::size_t>(edge.rank);
    if (sends[at] != 1 && keeps[at] != 1)
      fail({"rank ", edge.rank, " is a leaf and keeps nothing"});
  }
}

template <class = when_used>
BLINK_COLD void validate_shares(schedule const& source) {
  if (source.shares.empty()) return;
  auto const fail = [](std::initializer_list<text_piece> what) {
    throw precondition_error(text_of({"schedule: ", text_of(what)}));
  };
  if (source.is_one_shot) fail({"one-shot with shares, but each tree carries the whole buffer"});
  if (source.shares.size() != static_cast<std::size_t>(source.rank_count)) {
    fail({source.shares.size(), " shares, expected none or one for each of ", source.rank_count,
          " ranks"});
  }
  constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  std::uint64_t sum = 0;
  for (auto const share : source.shares) {
    if (share > most - sum) fail({"the shares sum to 2^63 or more"});
    sum += share;
  }
  if (sum == 0) fail({"all shares are 0"});
}

}  // namespace detail

/// Checks that the tables form a schedule.
///
/// Time:   O(T V h) for T trees of V ranks and height h.
/// Post:   every phase of every tree spans all ranks, or its receivers, and has no cycle. The
///         weights sum to less than 2^63 and not to 0. Routes name links that exist. Links have
///         finite positive rates. There are no shares, or one for each rank, not all 0.
/// Throws: precondition_error that names tree, phase and rank if one of these does not hold.
template <class = when_used>
BLINK_COLD void validate(schedule const& source) {
  auto const fail = [](std::initializer_list<detail::text_piece> what) {
    throw precondition_error(detail::text_of({"schedule: ", detail::text_of(what)}));
  };
  if (source.rank_count < 1) fail({source.rank_count, " ranks, expected at least one"});
  if (source.trees.empty()) fail({"no trees, expected at least one"});
  std::uint64_t sum = 0;
  for (std::size_t index = 0; index < source.trees.size(); ++index) {
    auto const& tree = source.trees[index];
    if (tree.root < 0 || tree.root >= source.rank_count) {
      fail({"tree ", index, ": root ", tree.root, " of ", source.rank_count, " ranks"});
    }
    constexpr auto most = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
    if (tree.weight > most - sum) fail({"the weights sum to 2^63 or more"});
    sum += tree.weight;
    if (tree.reduce_parent.empty() && tree.broadcast_parent.empty()) {
      fail({"tree ", index, ": no parents in either phase"});
    }
    detail::validate_phase(source, index, true);
    detail::validate_phase(source, index, false);
    detail::validate_receivers(source, index);
  }
  if (sum == 0) fail({"the weights sum to 0"});
  detail::validate_shares(source);
  if (!source.link_names.empty() &&
      source.link_names.size() != source.link_bytes_per_second.size()) {
    fail({"there are ", source.link_names.size(), " names for ",
          source.link_bytes_per_second.size(), " links"});
  }
  for (std::size_t link = 0; link < source.link_bytes_per_second.size(); ++link) {
    double const rate = source.link_bytes_per_second[link];
    if (!(rate > 0) || rate > std::numeric_limits<double>::max()) {
      fail({"link ", link, ": rate ", rate,
            ", expected a positive number of bytes for each second"});
    }
  }
}

}}  // namespace blink::BLINK_ABI
