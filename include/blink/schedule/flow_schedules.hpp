// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/schedule/schedule.hpp>

#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// A tree of one edge, by which `from` sends to `to`. With equal ranks the data stays in place.
template <class = when_used>
schedule_tree direct_flow(int rank_count, int from, int to) {
  schedule_tree result;
  result.root = from;
  result.broadcast_parent = by_rank<int>(rank_count, {to, from == to ? -1 : from});
  result.receivers = {to};
  return result;
}

/// Adds one flow for each rank: `ends(rank)` is the pair of its sender and its receiver.
template <class Ends>
void add_direct_flows(schedule& result, Ends const& ends) {
  for (int rank = 0; rank < result.rank_count; ++rank) {
    auto const [from, to] = ends(rank);
    result.trees.push_back(direct_flow(result.rank_count, from, to));
  }
}

}  // namespace detail

/// A gather: every rank sends its block directly to `root`.
///
/// Pre:    0 <= root < rank_count.
template <class = when_used>
[[nodiscard]] schedule gather_schedule(int rank_count, int root) {
  detail::expect_root("gather_schedule", rank_count, root);
  schedule result{.rank_count = rank_count};
  detail::add_direct_flows(result, [&](int rank) { return std::pair(rank, root); });
  return result;
}

/// A scatter: `root` sends every rank its block directly.
///
/// Pre:    0 <= root < rank_count.
template <class = when_used>
[[nodiscard]] schedule scatter_schedule(int rank_count, int root) {
  detail::expect_root("scatter_schedule", rank_count, root);
  schedule result{.rank_count = rank_count};
  detail::add_direct_flows(result, [&](int rank) { return std::pair(root, rank); });
  return result;
}

/// An all-to-all: every rank sends every other rank its block directly. The flows are ordered by
/// distance, so that not all ranks begin with the same receiver.
///
/// Pre:    rank_count >= 1.
template <class = when_used>
[[nodiscard]] schedule all_to_all_schedule(int rank_count) {
  expects(rank_count >= 1, "all_to_all_schedule: rank_count below 1, expected at least one rank");
  schedule result{.rank_count = rank_count};
  for (int distance = 0; distance < rank_count; ++distance) {
    detail::add_direct_flows(
        result, [&](int rank) { return std::pair(rank, (rank + distance) % rank_count); });
  }
  return result;
}

/// A permutation: each rank sends directly to `destinations[rank]`. A destination of -1 means that
/// the rank does not send. A rank that is its own destination keeps its data.
///
/// Pre:    at least one rank sends.
/// Throws: precondition_error if a destination is no rank, or no rank sends. `validate_for` refuses
///         two ranks with one destination.
template <class = when_used>
[[nodiscard]] schedule permute_schedule(std::vector<int> const& destinations) {
  schedule result;
  result.rank_count = static_cast<int>(destinations.size());
  for (int rank = 0; rank < result.rank_count; ++rank) {
    int const to = destinations[static_cast<std::size_t>(rank)];
    if (to < -1 || to >= result.rank_count) {
      throw precondition_error(
          detail::text_of({"permute_schedule: rank ", rank, " sends to ", to, " of ",
                           result.rank_count, " ranks, expected one of them or -1"}));
    }
    if (to >= 0) result.trees.push_back(detail::direct_flow(result.rank_count, rank, to));
  }
  expects(!result.trees.empty(), "permute_schedule: no rank sends, expected at least one");
  return result;
}

/// Each rank sends directly to the next one; the last rank does not send. A single rank sends to
/// itself.
///
/// Pre:    rank_count >= 1.
template <class = when_used>
[[nodiscard]] schedule send_to_next_schedule(int rank_count) {
  expects(rank_count >= 1, "send_to_next_schedule: rank_count below 1, expected at least one rank");
  if (rank_count == 1) return permute_schedule({0});
  std::vector<int> next(static_cast<std::size_t>(rank_count), -1);
  for (int rank = 0; rank + 1 < rank_count; ++rank) next[static_cast<std::size_t>(rank)] = rank + 1;
  return permute_schedule(next);
}

}}  // namespace blink::BLINK_ABI
