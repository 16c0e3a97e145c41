// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// One way to do a collective.
struct method {
  std::string name;  ///< for people
  schedule plan;

  friend bool operator==(method const&, method const&) = default;
};

/// From a size on: which method, in which chunks.
struct method_range {
  std::size_t from_bytes = 0;   ///< of the whole buffer
  std::size_t method = 0;       ///< position in the table's methods
  std::size_t chunk_bytes = 0;  ///< 0: as the schedule says

  friend bool operator==(method_range const&, method_range const&) = default;
};

/// Which method is the fastest for which size: what `tune` measures and `choose_methods` predicts.
/// Plain data, to be stored and read again; equal on all ranks.
struct method_table {
  blink::collective collective = collective::all_reduce;
  std::vector<method> methods{};
  std::vector<method_range> ranges{};  ///< by rising `from_bytes`, from 0 on

  friend bool operator==(method_table const&, method_table const&) = default;
};

/// The table that takes one method for every size.
[[nodiscard]] inline method_table only_method(collective kind, std::string name, schedule plan) {
  return {kind, {{std::move(name), std::move(plan)}}, {{0, 0, 0}}};
}

namespace detail {

/// Who sends to whom, where that is the schedule's to say: the root, or the flows, by rising ranks.
[[nodiscard]] inline std::vector<std::pair<int, int>> end_points(schedule const& plan,
                                                                 collective kind) {
  std::vector<std::pair<int, int>> result;
  if (kind == collective::broadcast || kind == collective::reduce) {
    result.emplace_back(root_of(plan, kind), -1);
  }
  if (!is_flow(kind)) return result;
  for (auto const& tree : plan.trees) result.emplace_back(tree.root, flow_end(tree));
  std::sort(result.begin(), result.end());
  result.erase(std::unique(result.begin(), result.end()), result.end());
  return result;
}

}  // namespace detail

/// Checks that the table has one method for every size.
///
/// Post:   schedules are for the same number of ranks, carry the collective and give the same
///         result; ranges begin at 0, rise, and name methods that exist.
/// Throws: precondition_error that says which method or range is wrong.
inline void validate(method_table const& table) {
  auto const fail = [&](std::string const& what) {
    throw precondition_error("methods of " + std::string(to_text(table.collective)) + ": " + what);
  };
  if (table.methods.empty()) fail("none, expected at least one");
  for (auto const& each : table.methods) {
    try {
      validate(each.plan);
      validate_for(each.plan, table.collective);
    } catch (precondition_error const& fault) {
      fail("'" + each.name + "': " + fault.what());
    }
    if (each.plan.rank_count != table.methods[0].plan.rank_count) {
      fail("'" + each.name + "' is for " + std::to_string(each.plan.rank_count) +
           " ranks, the first for " + std::to_string(table.methods[0].plan.rank_count));
    }
    if (detail::end_points(each.plan, table.collective) !=
        detail::end_points(table.methods[0].plan, table.collective)) {
      fail("'" + each.name + "' has other roots or receivers than '" + table.methods[0].name + "'");
    }
  }
  if (table.ranges.empty()) fail("no ranges of sizes, expected one from 0 on");
  for (std::size_t index = 0; index < table.ranges.size(); ++index) {
    auto const& range = table.ranges[index];
    auto const name = "range " + std::to_string(index) + " ";
    if (range.method >= table.methods.size()) {
      fail(name + "names method " + std::to_string(range.method) + " of " +
           std::to_string(table.methods.size()));
    }
    bool const begins =
        index == 0 ? range.from_bytes == 0 : range.from_bytes > table.ranges[index - 1].from_bytes;
    if (!begins) {
      fail(name + "begins at " + std::to_string(range.from_bytes) +
           " bytes, expected 0 for the first and rising sizes");
    }
  }
}

/// The range that holds a size.
///
/// Time: O(ranges). Pre: `validate(table)` passed.
[[nodiscard]] inline method_range const& range_of(method_table const& table, std::size_t bytes) {
  std::size_t at = table.ranges.size() - 1;
  while (table.ranges[at].from_bytes > bytes) --at;
  return table.ranges[at];
}

}}  // namespace blink::BLINK_ABI
