// SPDX-License-Identifier: Apache-2.0
#pragma once

// Tuning tables from the program or from BLINK_TUNING, and the choice of one for a call.

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/schedule/schedule_blocks.hpp>
#include <blink/schedule/tuning_table.hpp>

#include <cstdlib>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The number of ranks and the transport by which tables are chosen.
struct tuned_ranks {
  int count = 0;
  std::string_view transport{};  ///< its name in tables; empty: it has none

  [[nodiscard]] bool suits(tuning_table const& table) const {
    bool const is_over_it =
        table.transport.empty() || transport.empty() || table.transport == transport;
    return is_over_it && table.algorithms.front().source.rank_count == count;
  }
};

template <class = when_used>
[[nodiscard]] std::string to_text(tuned_ranks const& ranks) {
  return text_of({ranks.count, " ranks", ranks.transport.empty() ? "" : " over ", ranks.transport});
}

/// The ranks that a table is for.
template <class = when_used>
[[nodiscard]] tuned_ranks ranks_of(tuning_table const& table) {
  return {table.algorithms.front().source.rank_count, table.transport};
}

/// Calls `read` with the name of each file in BLINK_TUNING, where `:` separates them.
///
/// Throws: input_error with `BLINK_TUNING: ` before the error of `read`.
template <class Read>
BLINK_COLD void for_each_tuning_file(Read const& read) {
  char const* const list = std::getenv("BLINK_TUNING");
  std::string_view rest = list == nullptr ? "" : list;
  while (!rest.empty()) {
    std::string const file(rest.substr(0, rest.find(':')));
    rest.remove_prefix(file.size() < rest.size() ? file.size() + 1 : file.size());
    if (file.empty()) continue;
    try {
      read(file);
    } catch (error const& problem) {
      throw input_error(text_of({"BLINK_TUNING: ", problem.what()}));
    }
  }
}

/// Throws `Error` if two tables are for the same calls of these ranks.
///
/// giver: source of the tables, for the error
template <class Error>
void expect_one_for_each_call(std::vector<tuning_table> const& tables, tuned_ranks const& ranks,
                              std::string_view giver) {
  for (std::size_t k = 0; k < tables.size(); ++k) {
    if (!ranks.suits(tables[k])) continue;
    auto const kind = tables[k].collective;
    auto const ends = end_points(tables[k].algorithms.front().source, kind);
    for (std::size_t other = 0; other < k; ++other) {
      if (tables[other].collective == kind && ranks.suits(tables[other]) &&
          end_points(tables[other].algorithms.front().source, kind) == ends) {
        throw Error(text_of(
            {giver, ": two tables for ", to_text(kind), " of ", to_text(ranks), ", expected one"}));
      }
    }
  }
}

/// Returns the tables of the files in BLINK_TUNING, but for doubtful ones; none if it is not set.
///
/// is_part: true if the ranks are a part of another communicator. Files may lack their number then.
/// Throws:  input_error if a file cannot be read or no source of the program includes the reader.
///          input_error if no table suits the ranks, or two are for the same calls.
template <class = when_used>
[[nodiscard]] BLINK_COLD std::vector<tuning_table> tables_of_environment(tuned_ranks const& ranks,
                                                                         bool is_part = false) {
  std::vector<tuning_table> result;
  for_each_tuning_file([&](std::string const& file) {
    if (present_tuning_file_reader == nullptr) {
      throw input_error(text_of({file,
                                 ": this program has no reader of tuning files, expected one of "
                                 "its sources to include <blink/schedule/tuning_file.hpp>"}));
    }
    for (auto& table : present_tuning_file_reader(file)) {
      if (!table.is_doubtful) result.push_back(std::move(table));
    }
  });
  bool is_for_others = !result.empty();
  for (auto const& table : result) is_for_others = is_for_others && !ranks.suits(table);
  if (is_for_others && !is_part) {
    throw input_error(
        text_of({"BLINK_TUNING: its first table is for ", to_text(ranks_of(result.front())),
                 ", expected one for ", to_text(ranks)}));
  }
  expect_one_for_each_call<input_error>(result, ranks, "BLINK_TUNING");
  return result;
}

/// The table for a collective from a root; null if none is for it.
template <class = when_used>
[[nodiscard]] tuning_table const* table_for(std::vector<tuning_table> const& tables,
                                            tuned_ranks const& ranks, collective kind, int root) {
  for (auto const& table : tables) {
    bool const is_from_root =
        table.collective == kind &&
        (!has_root(kind) || root_of(table.algorithms.front().source, kind) == root);
    if (is_from_root && ranks.suits(table)) return &table;
  }
  return nullptr;
}

}}}  // namespace blink::BLINK_ABI::detail
