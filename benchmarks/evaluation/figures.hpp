// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Tables whose figures state where they come from, and their forms as text, Markdown, CSV and JSON.

namespace blink::bench {

/// The way in which a figure was obtained.
enum class origin : std::uint8_t {
  none,       ///< a label, not a figure
  computed,   ///< exact, from the weights of checked plans
  simulated,  ///< by `simulate`
  measured,   ///< on a real machine, by the project
  published,  ///< a claim of its authors
  recalled    ///< from memory of a paper whose text was not at hand: a hint
};

[[nodiscard]] std::string_view to_text(origin from);

/// One cell of a table.
struct cell {
  std::string text;
  std::optional<double> value{};  ///< in full precision, for CSV and JSON; none: the text
  origin from = origin::none;     ///< none: that of the column
};

[[nodiscard]] cell label(std::string text);
[[nodiscard]] cell number(double value, int decimals, origin from = origin::none);
/// A cell of an empty table place, such as a ring where none closes.
[[nodiscard]] cell absent();

struct column {
  std::string name;  ///< with its unit
  origin from = origin::none;
};

struct table {
  std::string name;  ///< of its CSV file
  std::string title;
  std::vector<column> columns;
  std::vector<std::vector<cell>> rows;
};

/// A figure of others, beside ours.
struct finding {
  std::string claim;
  cell theirs;
  cell ours;
  std::string verdict;  ///< met, missed or not comparable
  std::string why;
};

/// "met" if `ours` is at least `theirs`, otherwise "missed".
[[nodiscard]] std::string verdict_of(double ours, double theirs);

/// One part of the evaluation.
struct part_result {
  std::string title;
  std::string about;  ///< a few sentences
  std::vector<table> tables;
  std::vector<finding> findings;
};

/// The findings of all parts as one table.
[[nodiscard]] table findings_table(std::vector<part_result> const& parts);

[[nodiscard]] std::string as_text(part_result const& part);
[[nodiscard]] std::string as_markdown(part_result const& part);
[[nodiscard]] std::string as_csv(table const& shown);
[[nodiscard]] std::string as_json(std::vector<part_result> const& parts, double seconds);

/// The text in lines of at most 100 columns.
[[nodiscard]] std::string wrapped(std::string_view text);

}  // namespace blink::bench
