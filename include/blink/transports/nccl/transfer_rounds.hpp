// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/walk/tree_task.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/kernels/step_tasks.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

// A call runs in rounds. In each round a rank first combines the chunks that it has, then does its
// sends and receives of the round as one group. A task that begins in round b combines chunk c at
// the beginning of round b + c and sends it in that round. So chunk c crosses a connection in round
// b + c, where b is the first round of the sender's task. Tasks begin as late as the root of their
// tree allows. In a tree of height h, a reducing rank at depth d begins in round h - d and the root
// in round h. In the broadcast phase a rank at depth d begins in round h + d. Hence:
//
// - A receiver begins exactly one round after its sender. A chunk is used in the round after its
//   arrival: by a kernel before the group, or by a send in it. One slot is enough for chunks that
//   are combined, two for chunks that are forwarded.
// - A tree of depth d (of both phases) and c chunks takes d + c rounds. All trees progress at once.
//
// Proof that there is no deadlock. All ranks derive the rounds, and the connections of each round,
// from the same schedule. So a transfer is in the groups of its sender and its receiver in the same
// round. Both list the connections between them by number, so the k-th send of a pair matches the
// k-th receive. Each process issues its groups by rising rounds: one group for all of its ranks,
// each rank's part into one stream.
//
// Suppose that a rank waits without end. Let r be the least round with a group that does not end,
// or whose issue does not return. All groups before r have been issued and end, on all ranks. The
// kernels and copies between them in the streams wait for no rank. So every process gets to issue
// its group of round r. On the host this waits only for other processes to issue theirs, and for
// room that rounds before r leave. Every rank's stream also reaches the group. Then both ends of
// each transfer of the round are present. Transfers of one group do not wait for each other, so the
// group ends. This contradicts the choice of r.
//
// A rank without a transfer in a round has no group in it, and no rank waits for it. The same proof
// holds from call to call, because ranks make the same calls in the same order.

/// Returns the number of edges between a rank and the root.
///
/// Pre: the tree has the rank.
[[nodiscard]] inline std::uint64_t depth_below_root(by_rank<int> const& parents, int rank) {
  std::uint64_t depth = 0;
  for (int at = rank; (at = parents[static_cast<std::size_t>(at)]) >= 0;) ++depth;
  return depth;
}

/// Returns the round in which the first chunk of a task is combined, or available, and can be sent.
///
/// height: of the phase towards the root; 0 if the call has none
[[nodiscard]] inline std::uint64_t first_round(schedule_tree const& tree, tree_task const& here,
                                               int rank, std::uint64_t height) {
  if (here.is_root) return height;
  return here.is_reduce ? height - depth_below_root(tree.reduce_parent, rank)
                        : height + depth_below_root(tree.broadcast_parent, rank);
}

/// A task, and the round in which it begins.
struct timed_task {
  placed_task at;
  std::uint64_t begins = 0;

  /// True if the task works on one of its chunks in this round.
  [[nodiscard]] bool works_in(std::uint64_t round) const {
    return round >= begins && round - begins < at.here->chunks;
  }
};

/// The endpoint of a connection at a rank of this process.
struct timed_end {
  endpoint const* end = nullptr;
  placed_task at;
  std::uint64_t begins = 0;  ///< the round in which the first chunk crosses

  /// True if a chunk crosses the connection in this round.
  [[nodiscard]] bool crosses_in(std::uint64_t round) const {
    return round >= begins && round - begins < at.here->chunks;
  }
};

/// The ends of the connections of some tasks, in the order in which groups list them.
///
/// Time: O(n log n) for n ends.
[[nodiscard]] inline std::vector<timed_end> ends_in_order(std::vector<timed_task> const& tasks) {
  std::vector<timed_end> result;
  for (auto const& one : tasks) {
    auto const& here = *one.at.here;
    for (std::uint32_t k = 0; k < here.in_count; ++k) {
      result.push_back({here.in + k, one.at, one.begins - 1});
    }
    for (std::uint32_t k = 0; k < here.out_count; ++k) {
      result.push_back({here.out + k, one.at, one.begins});
    }
  }
  std::sort(result.begin(), result.end(), [](timed_end const& a, timed_end const& b) {
    if (a.end->connection != b.end->connection) return a.end->connection < b.end->connection;
    return a.end->sends && !b.end->sends;  // both ends are of this process
  });
  return result;
}

/// The number of rounds after which no task has work left.
[[nodiscard]] inline std::uint64_t round_count(std::vector<timed_task> const& tasks) {
  std::uint64_t result = 0;
  for (auto const& one : tasks) {
    if (one.at.here->chunks > 0) result = std::max(result, one.begins + one.at.here->chunks);
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
