// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/running/walk/tree_task.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Where a rank stands that cannot go on.
struct stall {
  collective kind = collective::broadcast;
  int peer = -1;       ///< whom it waits for; -1: no task is blocked
  bool sends = false;  ///< would it send to the peer, or receive?
  int tree = -1;
  long long chunk = -1;
  std::uint64_t chunks = 0;  ///< of that task
};

/// Where a rank stands, if it says so.
struct reported_stall {
  bool is_reported = false;
  stall where{};
};

/// The blocked task of the lowest tree, or nothing. Where all ranks answer so, whoever follows from one to the next
/// whom it waits for never comes to a higher tree, so not round in a circle either.
[[nodiscard]] inline tree_task const* find_blocked(tree_task const* tasks, std::size_t task_count) {
  tree_task const* result = nullptr;
  for (std::size_t k = 0; k < task_count; ++k) {
    tree_task const& here = tasks[k];
    if (here.is_finished || here.blocked_on == nullptr) continue;
    if (result == nullptr || here.tree < result->tree) result = &here;
  }
  return result;
}

/// Where a rank stands with its tasks.
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
