// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/readers/detail/peer_access.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The path between two devices that a cell of `nvidia-smi topo -m` names, from near to far.
struct smi_path {
  enum class level : std::uint8_t { unknown, self, nvlink, pix, pxb, phb, node, sys };
  level is = level::unknown;
  int links = 0;  ///< of NVLink

  friend bool operator==(smi_path const&, smi_path const&) = default;
};

/// A device of the table.
struct smi_device {
  std::string name;      ///< "GPU0", "NIC3", "mlx5_1"
  std::string label;     ///< the NIC's name in the legend, else the name
  std::string affinity;  ///< its processors, as the table writes them; empty: not said
  int line = 0;          ///< of its row; 0: it has none
  [[nodiscard]] bool is_gpu() const { return name.starts_with("GPU"); }
};

/// The table: the path between each two devices.
struct smi_matrix {
  std::vector<smi_device> devices;           ///< in the order of the columns
  std::vector<std::vector<smi_path>> paths;  ///< by row and column; unknown where the table is cut
  std::vector<std::string> remarks;
  int header_line = 0;

  /// The path between two devices, from either of their rows.
  [[nodiscard]] smi_path between(std::size_t a, std::size_t b) const {
    auto const& there = paths[a][b];
    return there.is == smi_path::level::unknown ? paths[b][a] : there;
  }
};

/// Reads the text of `nvidia-smi topo -m`, as the command prints it or as people paste it.
class smi_matrix_reader {
 public:
  using level = smi_path::level;

  smi_matrix_reader(std::string_view text, std::string const& file)
      : file_(file), lines_(text_lines(text)) {}

  /// True if there is a row, such as "GPU0 X NV12 SYS".
  [[nodiscard]] bool has_row() const {
    return std::any_of(lines_.begin(), lines_.end(), [](std::string const& line) {
      auto const words = words_of(line);
      return words.size() > 2 && is_number_of("GPU", words[0]) && !codes_of(words[1]).empty() &&
             !codes_of(words[2]).empty();
    });
  }

  /// Returns the line of the header, "GPU0 GPU1 … CPU Affinity"; nothing if there is none. A
  /// header of topo -p2p counts only if there is no other.
  [[nodiscard]] std::optional<std::size_t> header() const {
    std::optional<std::size_t> of_access;
    for (std::size_t at = 0; at < lines_.size(); ++at) {
      auto const words = words_of(lines_[at]);
      if (words.empty() || !is_number_of("GPU", words.front().substr(0, 4))) continue;
      // The rows begin with the same name. Their next words are paths or answers.
      if (words.size() > 1 && (!codes_of(words[1]).empty() || is_access_answer(words[1]))) continue;
      if (!is_above_answers(at)) return at;
      if (!of_access) of_access = at;
    }
    return of_access;
  }

  /// Throws: input_error with file and line for a table without header, rows that do not match it,
  ///         names that appear twice, and a diagonal without X.
  [[nodiscard]] smi_matrix read() {
    auto const top = header();
    if (!top)
      fail_at(file_, 1,
              "no line with the names of the GPUs above their rows, expected GPU0, GPU1, …");
    table_.header_line = static_cast<int>(*top) + 1;
    read_header(*top);
    std::size_t const count = table_.devices.size();
    table_.paths.assign(count, std::vector<smi_path>(count));
    for (std::size_t at = *top + 1; at < lines_.size(); ++at) {
      auto const words = words_of(lines_[at]);
      if (words.empty()) continue;
      bool const is_row = words.size() > 1 && !codes_of(words[1]).empty();
      if (!is_row) {
        refuse_table_of_access(at, words);
        break;
      }
      read_row(at, words);
    }
    read_legend(*top + 1);
    compare_both_sides();
    return std::move(table_);
  }

 private:
  [[nodiscard]] static bool is_number_of(std::string_view kind, std::string_view word) {
    return word.size() > kind.size() && word.starts_with(kind) &&
           word.find_first_not_of("0123456789", kind.size()) == std::string_view::npos;
  }

  /// The paths that a word writes: one, or several where a terminal ran them together
  /// ("NODEPXB"). Nothing for any other word.
  [[nodiscard]] static std::vector<smi_path> codes_of(std::string_view word) {
    struct code {
      std::string_view text;
      level is;
    };
    constexpr std::array<code, 8> codes{{{"X", level::self},
                                         {"PIX", level::pix},
                                         {"PXB", level::pxb},
                                         {"PHB", level::phb},
                                         {"NODE", level::node},
                                         {"SYS", level::sys},
                                         {"SOC", level::sys},  // before 2017
                                         {"NV", level::nvlink}}};
    std::vector<smi_path> result;
    while (!word.empty()) {
      auto const* const found = std::find_if(codes.begin(), codes.end(), [&](code const& each) {
        return word.starts_with(each.text);
      });
      if (found == codes.end()) return {};
      word.remove_prefix(found->text.size());
      smi_path path{found->is, 0};
      if (found->is == level::nvlink) {
        constexpr int most = 999;
        std::size_t digits = 0;
        for (; digits < word.size() && word[digits] >= '0' && word[digits] <= '9'; ++digits) {
          path.links = std::min(most, path.links * 10 + (word[digits] - '0'));
        }
        if (path.links == 0) return {};
        word.remove_prefix(digits);
      }
      result.push_back(path);
    }
    return result;
  }

  /// The names in a word: one, or several where a terminal ran them together ("NIC8NIC9").
  [[nodiscard]] static std::vector<std::string_view> names_of(std::string_view word) {
    std::vector<std::string_view> result;
    auto rest = word;
    while (!rest.empty()) {
      bool const is_numbered = rest.starts_with("GPU") || rest.starts_with("NIC");
      auto const end = std::min(rest.find_first_not_of("0123456789", 3), rest.size());
      if (!is_numbered || end <= 3) return {word};
      result.push_back(rest.substr(0, end));
      rest.remove_prefix(end);
    }
    return result;
  }

  void read_header(std::size_t at) {
    constexpr std::size_t most = 1024;
    for (auto const word : words_of(lines_[at])) {
      if (word == "CPU" || word == "NUMA" || word == "GPU") break;  // "CPU Affinity" and others
      for (auto const name : names_of(word)) {
        add_device(name, at);
        if (table_.devices.size() > most) {
          fail_at(file_, static_cast<int>(at) + 1,
                  "more than " + std::to_string(most) + " devices, expected a table of one host");
        }
      }
    }
  }

  std::size_t add_device(std::string_view name, std::size_t line) {
    if (!position_.emplace(name, table_.devices.size()).second) {
      fail_at(file_, static_cast<int>(line) + 1,
              in_quotes(name) + " appears twice, expected each device once");
    }
    table_.devices.push_back({std::string(name), std::string(name), "", 0});
    return table_.devices.size() - 1;
  }

  void read_row(std::size_t at, std::vector<std::string_view> const& words) {
    int const line = static_cast<int>(at) + 1;
    std::size_t const columns = columns_ == 0 ? columns_ = table_.devices.size() : columns_;
    auto const known = position_.find(words.front());
    // NICs whose columns were cut out of the table keep their rows.
    std::size_t const row =
        known == position_.end() ? add_device(words.front(), at) : known->second;
    if (known == position_.end()) {
      for (auto& each : table_.paths) each.emplace_back();
      table_.paths.emplace_back(table_.devices.size());
    }
    auto& device = table_.devices[row];
    if (device.line != 0) {
      fail_at(file_, line, "a second row of " + in_quotes(device.name) + ", expected one");
    }
    device.line = line;
    std::vector<smi_path> found;
    std::size_t word = 1;
    for (; word < words.size() && found.size() < columns; ++word) {
      auto const codes = words[word] == "N/A" ? std::vector<smi_path>(1) : codes_of(words[word]);
      if (codes.empty()) break;
      found.insert(found.end(), codes.begin(), codes.end());
    }
    bool const goes_on = word < words.size() && !codes_of(words[word]).empty();
    if (found.size() < columns) {
      refuse_table_of_access(at, {words.begin() + 1, words.end()});
    }
    if (found.size() > columns || goes_on || (found.size() < columns && !is_last_row(at))) {
      fail_at(file_, line,
              "the row of " + in_quotes(device.name) + " has " +
                  std::to_string(found.size() + (goes_on ? 1 : 0)) + " paths" +
                  (goes_on ? " or more" : "") + ", expected " + std::to_string(columns) +
                  ", one for each name in line " + std::to_string(table_.header_line));
    }
    if (found.size() < columns) {
      table_.remarks.push_back("line " + std::to_string(line) +
                               ": the table is cut off in the row of " + device.name);
    }
    for (std::size_t column = 0; column < found.size(); ++column) {
      bool const is_self = found[column].is == level::self;
      if (is_self == (column == row)) {
        table_.paths[row][column] = found[column];
        continue;
      }
      fail_at(file_, line,
              "the row of " + in_quotes(device.name) + (is_self ? " has X" : " has no X") +
                  " in column " + in_quotes(table_.devices[column].name) +
                  ", expected X in its own");
    }
    if (found.size() == columns && word < words.size()) device.affinity = words[word];
  }

  /// True if the next line is a row of `nvidia-smi topo -p2p`.
  [[nodiscard]] bool is_above_answers(std::size_t at) const {
    while (++at < lines_.size()) {
      auto const words = words_of(lines_[at]);
      if (!words.empty()) return std::any_of(words.begin(), words.end(), is_access_answer);
    }
    return false;
  }

  /// The rows of `nvidia-smi topo -p2p` begin with X, too.
  void refuse_table_of_access(std::size_t at, std::vector<std::string_view> const& words) const {
    auto const answer = std::find_if(words.begin(), words.end(), is_access_answer);
    if (answer == words.end()) return;
    fail_at(file_, static_cast<int>(at) + 1,
            in_quotes(*answer) +
                ": a table of topo -p2p, which says what may reach what, not what "
                "joins it; expected that of topo -m");
  }

  [[nodiscard]] bool is_last_row(std::size_t at) const {
    for (++at; at < lines_.size(); ++at) {
      auto const words = words_of(lines_[at]);
      if (!words.empty()) return words.size() < 2 || codes_of(words[1]).empty();
    }
    return true;
  }

  /// Reads "NIC0: mlx5_0".
  void read_legend(std::size_t from) {
    for (std::size_t at = from; at < lines_.size(); ++at) {
      auto const words = words_of(lines_[at]);
      if (words.size() != 2 || !words[0].ends_with(':')) continue;
      auto const known = position_.find(words[0].substr(0, words[0].size() - 1));
      if (known != position_.end()) table_.devices[known->second].label = words[1];
    }
  }

  void compare_both_sides() {
    for (std::size_t a = 0; a < table_.devices.size(); ++a) {
      for (std::size_t b = a + 1; b < table_.devices.size(); ++b) {
        auto& there = table_.paths[a][b];
        auto& back = table_.paths[b][a];
        if (there == back || there.is == level::unknown || back.is == level::unknown) continue;
        table_.remarks.push_back("line " + std::to_string(table_.devices[a].line) + ": " +
                                 table_.devices[a].name + " and " + table_.devices[b].name +
                                 " say other paths to each other; the slower one counts");
        bool const is_back_slower =
            back.is > there.is || (back.is == there.is && back.links < there.links);
        (is_back_slower ? there : back) = is_back_slower ? back : there;
      }
    }
  }

  std::string file_;
  std::vector<std::string> lines_;
  std::map<std::string, std::size_t, std::less<>> position_;  // of a device, by name
  std::size_t columns_ = 0;
  smi_matrix table_;
};

}}}  // namespace blink::BLINK_ABI::detail
