// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/running/walk/stall.hpp>
#include <blink/transports/cuda/runtime/rank_placement.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The report in the memory of a rank's device after a failed call.
struct device_rank_report {
  int rank = 0;
  bool has_tasks = false;   ///< in this call
  bool gave_up = false;     ///< true if a block on its device reached the deadline
  bool is_inside = false;   ///< true if its last call is known not to have ended with `ok`
  std::uint64_t calls = 0;  ///< calls begun with the same phases, or in the same channel
  std::uint64_t count = 0;  ///< elements of the last call; for calls from kernels
  stall where{};            ///< in the last call
};

/// The state of a rank on a device when a call failed.
struct device_rank_state {
  bool has_begun = false;  ///< true if its kernel has run
  bool timed_out = false;  ///< true if one of its blocks reached the deadline
  stall where{};           ///< `peer` -1: it waits for no peer
  std::string absence{};   ///< the reason why it has not begun, if known
};

/// Returns the state of each rank in the failed call. Ranks without a report have not begun.
[[nodiscard]] inline std::vector<device_rank_state> judge_ranks(
    rank_placement const& where, std::vector<device_rank_report> const& reports) {
  std::uint64_t newest = 0;
  for (auto const& each : reports) newest = std::max(newest, each.calls);
  std::vector<device_rank_state> result(where.device_of.size());
  for (auto const& each : reports) {
    auto& state = result[static_cast<std::size_t>(each.rank)];
    state.has_begun = !each.has_tasks || each.is_inside || each.calls == newest;
    if (state.has_begun) state.where = each.where;
    state.timed_out = state.has_begun && each.gave_up && state.where.peer >= 0;
  }
  return result;
}

/// Returns the cause of a failed call, with the chain of waits that leads to it. The chain begins
/// at a rank that reached the deadline and follows the peer that each rank waits for. It ends at a
/// rank that has not begun, waits for no peer, or is already in the chain.
///
/// call: the call in words
[[nodiscard]] inline collective_error describe_device_stall(
    rank_placement const& placement, std::string const& call,
    std::vector<device_rank_state> const& ranks, double deadline_seconds) {
  auto const name = [&](std::size_t rank) { return placement.name(static_cast<int>(rank)); };
  std::size_t first = ranks.size();
  for (std::size_t rank = 0; rank < ranks.size() && first == ranks.size(); ++rank) {
    if (ranks[rank].timed_out && ranks[rank].where.peer >= 0) first = rank;
  }
  if (first == ranks.size()) {
    return {call + ": ended before all ranks were done: it was aborted by its owner", -1, -1, -1,
            -1};
  }
  auto const& where = ranks[first].where;
  std::string text = name(first) + ", " + call + ", tree " + std::to_string(where.tree) +
                     ", chunk " + std::to_string(where.chunk) + " of " +
                     std::to_string(where.chunks) + ": waits for ";
  std::vector<bool> is_named(ranks.size(), false);
  is_named[first] = true;
  std::size_t at = first;
  for (;;) {
    auto const& step = ranks[at].where;
    auto const next = static_cast<std::size_t>(step.peer);
    text += name(next);
    if (at != first) {
      text += " at tree " + std::to_string(step.tree) + ", chunk " + std::to_string(step.chunk);
    }
    text += step.sends ? " to take it" : " to send it";
    at = next;
    bool const goes_on = ranks[at].has_begun && ranks[at].where.peer >= 0 && !is_named[at];
    if (!goes_on) break;
    is_named[at] = true;
    text += ", which waits for ";
  }
  if (!ranks[at].has_begun && !ranks[at].absence.empty()) {
    text += "; " + ranks[at].absence;
  } else if (!ranks[at].has_begun) {
    text +=
        ", whose kernel has not begun: something before it in its stream, or on its device, "
        "does not end";
  } else if (!is_named[at]) {
    text += ", which makes no progress";
  }
  text += " (waited " + std::to_string(deadline_seconds) + " s)";
  return {text, static_cast<int>(first), static_cast<int>(at), where.tree, where.chunk};
}

}}  // namespace blink::BLINK_ABI
