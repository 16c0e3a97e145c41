// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/machine_builder.hpp>
#include <blink/topology/readers/detail/rate_text.hpp>
#include <blink/topology/readers/detail/text_remarks.hpp>
#include <blink/topology/readers/detail/word_stream.hpp>
#include <blink/topology/readers/read_ns3_topology.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The cells of a line between blanks or commas, up to `#`.
[[nodiscard]] inline std::vector<std::string_view> cells_of(std::string_view line) {
  auto const is_between = [](char c) { return c == ',' || is_blank(c); };
  line = line.substr(0, line.find('#'));
  std::vector<std::string_view> result;
  for (std::size_t at = 0; at < line.size();) {
    auto const begin = at;
    while (at < line.size() && !is_between(line[at])) ++at;
    if (at > begin) result.push_back(line.substr(begin, at - begin));
    if (at < line.size()) ++at;
  }
  return result;
}

/// A mark in place of the rate of a rank to itself.
[[nodiscard]] inline bool is_own_mark(std::string_view cell) {
  return cell == "-" || cell == "X" || cell == "x" || cell == "inf" || cell == "N/A";
}

/// The lines of a matrix that have cells, one after the other.
class matrix_lines {
 public:
  explicit matrix_lines(std::string_view text) : rest_(without_byte_order_mark(text)) {}

  /// The cells of the next line; nothing at the end of the text.
  [[nodiscard]] std::vector<std::string_view> next() {
    while (!rest_.empty()) {
      auto const line = rest_.substr(0, rest_.find('\n'));
      rest_.remove_prefix(std::min(line.size() + 1, rest_.size()));
      ++line_;
      if (auto cells = cells_of(line); !cells.empty()) return cells;
    }
    return {};
  }
  /// The line of these cells.
  [[nodiscard]] int line() const { return line_; }

 private:
  std::string_view rest_;
  int line_ = 0;
};

/// Turns a matrix of rates into a machine.
class rate_matrix_reader {
 public:
  rate_matrix_reader(std::string_view text, std::string const& file, bool is_strict)
      : file_(file), lines_(text), remarks_(file, is_strict) {}

  topology read() {
    auto cells = lines_.next();
    if (cells.size() == 1) {
      if (auto const unit = rate_unit(cells.front())) {
        unit_ = *unit;
        cells = lines_.next();
      }
    }
    auto const ranks = cells.size();
    if (ranks == 0) fail_at(file_, std::max(1, lines_.line()), "no numbers, expected a matrix");
    if (ranks > most_ranks) {
      fail_at(file_, lines_.line(),
              std::to_string(ranks) + " numbers, expected at most " + std::to_string(most_ranks));
    }
    for (std::size_t i = 0; i < ranks; ++i) {
      machine_.add_node(node_kind::rank, "gpu" + std::to_string(i), 0);
    }
    for (std::size_t row = 0; row < ranks; ++row) {
      if (row > 0) cells = lines_.next();
      if (cells.empty()) {
        fail_at(file_, lines_.line(),
                "the text ends after " + std::to_string(row) + " rows, expected " +
                    std::to_string(ranks) + ", one for each column");
      }
      read_row(row, cells, ranks);
    }
    if (auto const more = lines_.next(); !more.empty()) {
      fail_at(file_, lines_.line(),
              in_quotes(more.front()) + " behind the last row, expected " + std::to_string(ranks) +
                  " rows, one for each column");
    }
    remarks_.move_to(machine_);
    return machine_.build(file_);
  }

 private:
  void read_row(std::size_t row, std::vector<std::string_view> const& cells, std::size_t ranks) {
    auto const place = "row " + std::to_string(row) + ": ";
    if (cells.size() != ranks) {
      fail_at(file_, lines_.line(),
              place + std::to_string(cells.size()) + " numbers, expected " + std::to_string(ranks) +
                  " as in row 0");
    }
    for (std::size_t column = 0; column < ranks; ++column) {
      if (row == column && is_own_mark(cells[column])) continue;
      auto const rate = read_rate(cells[column], unit_);
      if (!rate) {
        fail_at(file_, lines_.line(),
                place + in_quotes(cells[column]) + " in column " + std::to_string(column) +
                    ", expected a rate from 0 to " + std::to_string(largest_rate) +
                    " of at most 9 decimals");
      }
      if (*rate == 0) continue;
      if (row == column) {
        remarks_.add(lines_.line(), place + "its rate to itself is left out");
        continue;
      }
      machine_.add_link(static_cast<int>(row), static_cast<int>(column), *rate, link_kind::unknown);
    }
  }

  static constexpr std::size_t most_ranks = 1024;

  std::string const& file_;
  matrix_lines lines_;
  text_remarks remarks_;
  machine_builder machine_;
  rational unit_ = 1;  // in GB/s
};

}  // namespace detail

/// True if the first line with text consists of numbers only, behind a unit such as GB/s. The
/// first number may be a mark of the diagonal.
[[nodiscard]] inline bool is_rate_matrix(std::string_view text) {
  detail::matrix_lines lines(text);
  auto cells = lines.next();
  if (cells.size() == 1 && detail::rate_unit(cells.front())) cells = lines.next();
  for (std::size_t i = 0; i < cells.size(); ++i) {
    if (i == 0 && detail::is_own_mark(cells[i])) continue;
    if (!detail::read_rate(cells[i])) return false;
  }
  return !cells.empty() && !is_ns3_topology(text);
}

/// Reads a machine from a matrix of rates: row i, column j is the capacity from rank i to rank j.
///
///     # measured, GB/s
///     0    25    12.5
///     25   0     12.5
///     12.5 12.5  0
///
/// - Numbers stand between blanks or commas. `#` begins a comment.
/// - 0 is no link. On the diagonal `-`, `X`, `inf` and `N/A` mean the same. Another rate there is
///   left out, with a remark.
/// - A first line may be the unit: GB/s (as without it), Gbps, MB/s or others of ns-3.
/// - Each number is a link of unknown kind. All ranks are in one server.
///
/// file:   the name that errors start with
/// Time:   O(length of the text).
/// Post:   `validate` accepts the result, whose ranks have the ids 0 … N-1.
/// Throws: input_error with file and line if rows or columns are missing, or a cell is no rate.
///         With `is_strict` for rates on the diagonal. For any of `options.rates`.
[[nodiscard]] inline topology read_rate_matrix(std::string_view text, std::string const& file,
                                               reading_options const& options = {}) {
  expect_no_rate_but(options.rates, {}, file);
  return detail::named_after(file,
                             detail::rate_matrix_reader(text, file, options.is_strict).read());
}

}}  // namespace blink::BLINK_ABI
