// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The place where a rank cannot advance.
struct stall {
  collective kind = collective::broadcast;
  int peer = -1;       ///< the rank that it waits for; -1: no task is blocked
  bool sends = false;  ///< true if it would send to the peer, false if it would receive
  int tree = -1;
  long long chunk = -1;
  std::uint64_t chunks = 0;  ///< of that task
};

/// The stall of a rank, if it has published one.
struct reported_stall {
  bool is_reported = false;
  stall where{};
};

/// Returns the blocked task of the lowest tree, or null.
///
/// With this choice on all ranks, the chain of ranks that wait for each other never reaches a
/// higher tree. So it has no cycle.
[[nodiscard]] inline tree_task const* find_blocked(tree_task const* tasks, std::size_t task_count) {
  tree_task const* result = nullptr;
  for (std::size_t k = 0; k < task_count; ++k) {
    tree_task const& here = tasks[k];
    if (here.is_finished || here.blocked_on == nullptr) continue;
    if (result == nullptr || here.tree < result->tree) result = &here;
  }
  return result;
}

/// Returns the stall of a rank with these tasks.
[[nodiscard]] inline stall find_stall(collective kind, tree_task const* tasks,
                                      std::size_t task_count) {
  stall result;
  result.kind = kind;
  auto const* const blocked = find_blocked(tasks, task_count);
  if (blocked == nullptr) return result;
  result.peer = blocked->blocked_on->peer;
  result.sends = blocked->blocked_on->sends;
  result.tree = static_cast<int>(blocked->tree);
  result.chunk = static_cast<long long>(blocked->done);
  result.chunks = blocked->chunks;
  return result;
}

}}  // namespace blink::BLINK_ABI
