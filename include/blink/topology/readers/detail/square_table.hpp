// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>
#include <blink/topology/readers/detail/text_remarks.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A line of a text, counted from 1.
struct numbered_line {
  int number = 0;
  std::string text;
};

/// A table that has a row and a column for each GPU.
struct square_table {
  struct row {
    int line = 0;
    std::size_t at = 0;               ///< position of its GPU in `names`
    std::vector<std::string> cells;   ///< by column; fewer where the text ends
    std::vector<std::string> others;  ///< the words after the cells
  };
  numbered_line title;  ///< number 0: it has none
  int header_line = 0;
  bool has_others = false;         ///< more columns follow those of the GPUs
  std::vector<std::string> names;  ///< of the columns: "GPU0", "GPU0/1" or "0000:0c:00.0"
  std::vector<row> rows;           ///< in the order of the text
};

/// The tables of a text, and its other lines that are not blank.
struct square_tables {
  std::vector<square_table> tables;
  std::vector<numbered_line> titles;
  std::vector<numbered_line> others;
  int last_line = 1;  ///< that is not blank
};

/// True for "GPU0", for a tile such as "GPU0/1", and for a bus id such as "0000:0c:00.0".
[[nodiscard]] inline bool is_gpu_name(std::string_view word) {
  constexpr std::size_t most_digits = 6;
  if (word.starts_with("GPU")) {
    word.remove_prefix(3);
    auto const mark = std::min(word.find('/'), word.size());
    return is_digits(word.substr(0, mark)) && word.size() <= 2 * most_digits &&
           (mark == word.size() || is_digits(word.substr(mark + 1)));
  }
  auto const is_hex = [&](std::size_t from, std::size_t count) {
    return word.substr(from, count).find_first_not_of("0123456789abcdefABCDEF") ==
           std::string_view::npos;
  };
  constexpr std::size_t domain = 4;
  return word.size() == domain + 8 && is_hex(0, domain) && word[domain] == ':' &&
         is_hex(domain + 1, 2) && word[domain + 3] == ':' && is_hex(domain + 4, 2) &&
         word[domain + 6] == '.' && is_hex(domain + 7, 1);
}

/// A line with "GPU0" for "GPU[0]", "GPU 0" and "GPU 00", and with blanks for bars and
/// tabs.
[[nodiscard]] inline std::string with_plain_names(std::string_view line) {
  std::string result;
  for (std::size_t at = 0; at < line.size();) {
    auto const number = line.substr(at).starts_with("GPU") ? line.find_first_not_of(" [", at + 3)
                                                           : std::string_view::npos;
    bool const is_name = number != std::string_view::npos && is_digits(line.substr(number, 1));
    if (!is_name) {
      bool const is_blank = line[at] == '|' || line[at] == '\t';
      result += is_blank ? ' ' : line[at];
      ++at;
      continue;
    }
    at = std::min(line.find_first_not_of("0123456789", number), line.size());
    auto digits = line.substr(number, at - number);
    digits.remove_prefix(std::min(digits.find_first_not_of('0'), digits.size() - 1));
    result += "GPU";
    result += digits;
    if (at < line.size() && line[at] == ']') ++at;
  }
  return result;
}

/// Finds the tables in what rocm-smi, amd-smi, TransferBench or xpu-smi print.
class square_table_reader {
 public:
  square_table_reader(std::string_view text, std::string const& file, text_remarks& remarks)
      : file_(file), remarks_(remarks), lines_(text_lines(text)) {
    for (std::size_t at = 0; at < lines_.size(); ++at) {
      lines_[at] = with_plain_names(lines_[at]);
      if (!words_of(lines_[at]).empty()) last_line_ = number_of(at);
    }
  }

  /// Throws: input_error with file and line for a row that does not match the line of names, and
  ///         for a GPU that appears twice.
  [[nodiscard]] square_tables read() {
    for (std::size_t at = 0; at < lines_.size(); ++at) read_line(at);
    found_.last_line = last_line_;
    return std::move(found_);
  }

 private:
  static int number_of(std::size_t at) { return static_cast<int>(at) + 1; }

  void read_line(std::size_t at) {
    auto const words = words_of(lines_[at]);
    if (words.empty()) return;
    bool const is_of_a_gpu = is_gpu_name(words[0]);
    if (!is_of_a_gpu && (words[0].starts_with("==") || words.back().ends_with(':'))) {
      found_.titles.push_back({number_of(at), lines_[at]});
      has_title_ = true;
      is_open_ = false;
    } else if (auto const names = names_at(at, words); names > 0) {
      open_table(at, words, names);
    } else if (is_open_ && is_of_a_gpu && words.size() > 1 && words[1] != ":") {
      read_row(at, words);
    } else {
      // Programs print errors between the rows.
      if (is_open_ && rows_.size() == position_.size()) is_open_ = false;
      found_.others.push_back({number_of(at), lines_[at]});
    }
  }

  /// The number of names if the line is that of the columns' names, else 0.
  [[nodiscard]] std::size_t names_at(std::size_t at,
                                     std::vector<std::string_view> const& words) const {
    std::size_t count = 0;
    while (count < words.size() && is_gpu_name(words[count]) &&
           words[count].starts_with("GPU") == words[0].starts_with("GPU")) {
      ++count;
    }
    // "PCIe Bus ID", "CPU Affinity"
    bool const is_all = count == words.size() || words[count] == "PCIe" || words[count] == "CPU";
    if (!is_all) return 0;
    return count != 1 || next_begins_with(words[0], at) ? count : 0;
  }

  [[nodiscard]] bool next_begins_with(std::string_view name, std::size_t at) const {
    for (++at; at < lines_.size(); ++at) {
      auto const first = lines_[at].find_first_not_of(" \t");
      if (first == std::string::npos) continue;
      auto const words = words_of(std::string_view(lines_[at]).substr(first, 100));
      return words.size() > 1 && words[0] == name;
    }
    return false;
  }

  void open_table(std::size_t at, std::vector<std::string_view> const& words, std::size_t count) {
    constexpr std::size_t most = 1024;
    if (count > most) {
      fail_at(file_, number_of(at),
              "more than " + std::to_string(most) + " GPUs, expected a table of one host");
    }
    square_table table;
    if (has_title_) table.title = found_.titles.back();
    has_title_ = false;
    table.header_line = number_of(at);
    position_.clear();
    rows_.clear();
    table.has_others = count < words.size();
    for (std::size_t i = 0; i < count; ++i) {
      if (!position_.emplace(words[i], i).second) {
        fail_at(file_, number_of(at),
                in_quotes(words[i]) + " appears twice, expected each GPU once");
      }
      table.names.emplace_back(words[i]);
    }
    found_.tables.push_back(std::move(table));
    is_open_ = true;
  }

  void read_row(std::size_t at, std::vector<std::string_view> const& words) {
    auto& table = found_.tables.back();
    auto const fail = [&](std::string const& what) { fail_at(file_, number_of(at), what); };
    auto const known = position_.find(words[0]);
    if (known == position_.end()) {
      fail("a row of " + in_quotes(words[0]) + ", expected a name of line " +
           std::to_string(table.header_line));
    }
    if (auto const [first, is_first] = rows_.emplace(known->second, number_of(at)); !is_first) {
      fail("a second row of " + in_quotes(words[0]) + ", expected only that of line " +
           std::to_string(first->second));
    }
    auto const columns = table.names.size();
    auto const cells = words.size() - 1;
    bool const is_cut = cells < columns && number_of(at) == last_line_;
    if ((cells < columns && !is_cut) || (cells > columns && !table.has_others)) {
      fail("the row of " + in_quotes(words[0]) + " has " + std::to_string(cells) +
           " cells, expected " + std::to_string(columns) + ", one for each name in line " +
           std::to_string(table.header_line));
    }
    if (is_cut) remarks_.add(number_of(at), "the text ends in the row of " + in_quotes(words[0]));
    // The last cell may be cut, too.
    auto const count = is_cut ? cells - 1 : columns;
    auto const end = words.begin() + 1 + static_cast<std::ptrdiff_t>(count);
    table.rows.push_back(
        {number_of(at), known->second, {words.begin() + 1, end}, {end, words.end()}});
  }

  std::string const& file_;
  text_remarks& remarks_;
  std::vector<std::string> lines_;
  int last_line_ = 1;  // that is not blank
  square_tables found_;
  bool has_title_ = false;
  bool is_open_ = false;
  std::map<std::string, std::size_t, std::less<>> position_;  // of a name of the open table
  std::map<std::size_t, int> rows_;                           // line of each row of the open table
};

}}}  // namespace blink::BLINK_ABI::detail
