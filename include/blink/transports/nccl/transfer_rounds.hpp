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

// A call in rounds: in each, every rank combines what it has, then does its sends and receives of the round as
// one group. Chunk c of a task that begins in round b is combined at the begin of round b + c and sent in it; so
// chunk c crosses a connection in round b + c, b being that of the task which sends. Tasks begin as late as lets the
// root of their tree go on: a reducing rank at depth d of a tree of height h in round h - d, the root in round
// h, a rank at depth d below it in round h + d. Hence:
//
// - A receiver begins exactly one round behind its sender. What arrives is used in the next round: by a kernel
//   before the group, or by a send in it. One slot is enough for what is combined, two for what is passed on.
// - A tree of depth d (of both phases) and c chunks takes d + c rounds; all trees go on at once.
//
// Why nobody waits in a circle. All ranks derive the rounds, and the connections of each, from the same schedule, so a
// transfer is in its sender's and in its receiver's group of the same round, and both list the connections between
// them by number: the k-th send of a pair is the k-th receive. Each process issues its groups by rising rounds,
// one for all of its ranks, each rank's into one stream. Suppose that somebody waits for ever, and look at the
// least round r in which a group does not end (or whose issue does not return). All groups before r have been
// issued and end, on all ranks. What stands between them in the streams, kernels and copies, waits for nobody.
// So every process comes to issue its group of round r, which waits on the host for nothing but processes that
// issue theirs and for room that rounds before r leave; and every rank's stream comes to it. Then both ends of
// each transfer of the round are there, and those of one group do not wait for each other: it ends. This
// contradicts the choice of r. Ranks without a transfer in a round have no group in it, for whom nobody waits.
// The same holds from call to call, as ranks make the same calls in the same order.

/// Number of edges between a rank and the root. Pre: the tree has the rank.
[[nodiscard]] inline std::uint64_t depth_below_root(std::vector<int> const& parents, int rank) {
  std::uint64_t depth = 0;
  for (int at = rank; (at = parents[static_cast<std::size_t>(at)]) >= 0;) ++depth;
  return depth;
}

/// The round in which a task has its first chunk combined, or at hand, for being sent.
///
/// height:  of the phase towards the root; 0 if the call has none
[[nodiscard]] inline std::uint64_t first_round(schedule_tree const& tree, tree_task const& here,
                                               int rank, std::uint64_t height) {
  if (here.is_root) return height;
  return here.is_reduce ? height - depth_below_root(tree.reduce_parent, rank)
                        : height + depth_below_root(tree.broadcast_parent, rank);
}

/// A task, and when it begins.
struct timed_task {
  placed_task at;
  std::uint64_t begins = 0;

  [[nodiscard]] bool works_in(std::uint64_t round) const {
    return round >= begins && round - begins < at.here->chunks;
  }
};

/// A wire's end at a rank of this process.
struct timed_end {
  endpoint const* end = nullptr;
  placed_task at;
  std::uint64_t begins = 0;  ///< the round in which the first chunk crosses

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

/// Behind the last round in which one of the tasks has anything to do.
[[nodiscard]] inline std::uint64_t round_count(std::vector<timed_task> const& tasks) {
  std::uint64_t result = 0;
  for (auto const& one : tasks) {
    if (one.at.here->chunks > 0) result = std::max(result, one.begins + one.at.here->chunks);
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
