// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/schedule_blocks.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A named schedule for a collective.
struct algorithm {
  std::string name;  ///< for messages and tables
  schedule source;

  friend bool operator==(algorithm const&, algorithm const&) = default;
};

/// The algorithm and chunk size for buffers from a size on.
struct tuning_range {
  std::size_t from_bytes = 0;   ///< of the whole buffer
  std::size_t algorithm = 0;    ///< position in the table's algorithms
  std::size_t chunk_bytes = 0;  ///< 0: the size in the schedule

  friend bool operator==(tuning_range const&, tuning_range const&) = default;
};

/// The fastest algorithm for each size of one collective: `tune` measures it, `choose_tuning`
/// predicts it. It is plain data that can be stored and read again; equal on all ranks.
struct tuning_table {
  blink::collective collective = collective::all_reduce;
  std::vector<algorithm> algorithms{};
  std::vector<tuning_range> ranges{};  ///< by rising `from_bytes`, from 0 on
  std::string transport{};             ///< for which it holds, such as "slots"; empty: any
  /// True if other programs used the cores while it was measured. BLINK_TUNING leaves it out.
  bool is_doubtful = false;

  friend bool operator==(tuning_table const&, tuning_table const&) = default;
};

/// The table with one algorithm for all sizes.
template <class = when_used>
[[nodiscard]] tuning_table only_algorithm(collective kind, std::string name, schedule source) {
  return {kind, {{std::move(name), std::move(source)}}, {{0, 0, 0}}};
}

namespace detail {

/// The reader of tuning files. `tuning_file.hpp` sets it, because reading needs a JSON library that
/// programs may do without.
using tuning_file_reader = std::vector<tuning_table> (*)(std::string const& file);
inline tuning_file_reader present_tuning_file_reader = nullptr;

/// The senders and receivers that a schedule determines: its root, or its flows in rising order. A
/// flow is one number, because units that include this header already instantiate such vectors.
template <class = when_used>
[[nodiscard]] std::vector<std::uint64_t> end_points(schedule const& source, collective kind) {
  std::vector<std::uint64_t> result;
  auto const add = [&](int from, int to) {
    result.push_back(static_cast<std::uint64_t>(from) << 32 | static_cast<std::uint32_t>(to));
  };
  if (has_one_root(kind)) add(root_of(source, kind), 0);
  if (!is_point_to_point(kind)) return result;
  for (auto const& tree : source.trees) add(tree.root, flow_end(tree));
  for (std::size_t k = 1; k < result.size(); ++k) {  // most schedules name them in order already
    for (std::size_t at = k; at > 0 && result[at] < result[at - 1]; --at) {
      std::swap(result[at], result[at - 1]);
    }
  }
  std::size_t different = 0;
  for (std::size_t k = 0; k < result.size(); ++k) {
    if (k == 0 || result[k] != result[different - 1]) result[different++] = result[k];
  }
  result.resize(different);
  return result;
}

}  // namespace detail

/// Checks that the table has one algorithm for every size.
///
/// Post:   schedules are for the same number of ranks, carry the collective and give the same
///         result; ranges begin at 0, rise, and name algorithms that exist.
/// Throws: precondition_error that says which algorithm or range is wrong.
template <class = when_used>
void validate(tuning_table const& table) {
  auto const fail = [&](std::string const& what) {
    throw precondition_error("algorithms of " + std::string(to_text(table.collective)) + ": " +
                             what);
  };
  if (table.algorithms.empty()) fail("none, expected at least one");
  for (auto const& each : table.algorithms) {
    try {
      validate(each.source);
      validate_for(each.source, table.collective);
    } catch (precondition_error const& fault) {
      fail("'" + each.name + "': " + fault.what());
    }
    if (each.source.rank_count != table.algorithms[0].source.rank_count) {
      fail("'" + each.name + "' is for " + std::to_string(each.source.rank_count) +
           " ranks, the first for " + std::to_string(table.algorithms[0].source.rank_count));
    }
    if (detail::end_points(each.source, table.collective) !=
        detail::end_points(table.algorithms[0].source, table.collective)) {
      fail("'" + each.name + "' has other roots or receivers than '" + table.algorithms[0].name +
           "'");
    }
  }
  if (table.ranges.empty()) fail("no ranges of sizes, expected one from 0 on");
  for (std::size_t index = 0; index < table.ranges.size(); ++index) {
    auto const& range = table.ranges[index];
    auto const name = "range " + std::to_string(index) + " ";
    if (range.algorithm >= table.algorithms.size()) {
      fail(name + "names algorithm " + std::to_string(range.algorithm) + " of " +
           std::to_string(table.algorithms.size()));
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
[[nodiscard]] inline tuning_range const& range_of(tuning_table const& table, std::size_t bytes) {
  std::size_t at = table.ranges.size() - 1;
  while (table.ranges[at].from_bytes > bytes) --at;
  return table.ranges[at];
}

}}  // namespace blink::BLINK_ABI
