// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/topology/readers/detail/cluster_builder.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads the entries of Slurm's topology.conf.
class slurm_conf_reader {
 public:
  slurm_conf_reader(std::string_view text, std::string const& file, cluster_builder& builder)
      : file_(file), builder_(builder), lines_(text_lines(text)) {}

  [[nodiscard]] static bool accepts(std::string_view text) {
    while (!text.empty()) {
      auto const end = std::min(text.find('\n'), text.size());
      auto const line = text.substr(0, end);
      auto const first = std::min(line.find_first_not_of(" \t"), line.size());
      auto const key = line.substr(first, line.find_first_of("= \t", first) - first);
      if (is_entry(key) && line.find('=') != std::string_view::npos) return true;
      text.remove_prefix(std::min(end + 1, text.size()));
    }
    return false;
  }

  void read() {
    for (std::size_t i = 0; i < lines_.size(); ++i) {
      int const number = static_cast<int>(i) + 1;
      auto line = without_comment(lines_[i]);
      while (drop_continuation(line) && i + 1 < lines_.size()) line += without_comment(lines_[++i]);
      read_line(line, number);
    }
  }

 private:
  struct pair {
    std::string_view key, value;
  };

  [[nodiscard]] static bool is_entry(std::string_view key) {
    return is_same_word(key, "SwitchName") || is_same_word(key, "BlockName");
  }

  /// A # begins a comment, but not after a backslash.
  [[nodiscard]] static std::string without_comment(std::string_view line) {
    for (std::size_t i = 0; i < line.size(); ++i) {
      if (line[i] == '#' && (i == 0 || line[i - 1] != '\\')) return std::string(line.substr(0, i));
    }
    return std::string(line);
  }

  /// Drops the backslash at the end of a line; false if there is none. Two are none.
  static bool drop_continuation(std::string& line) {
    auto const end = line.find_last_not_of(" \t") + 1;
    auto const begin = line.find_last_not_of('\\', end - 1) + 1;
    if (end == 0 || (end - begin) % 2 == 0) return false;
    line.resize(end - 1);
    return true;
  }

  /// KEY=VALUE from `at` on, which moves behind it. Values in quotes may have blanks.
  [[nodiscard]] pair read_pair(std::string_view line, std::size_t& at, int number) const {
    auto const skip_blanks = [&] { at = std::min(line.find_first_not_of(" \t", at), line.size()); };
    pair result;
    auto const end = std::min(line.find_first_of("= \t", at), line.size());
    result.key = line.substr(at, end - at);
    at = end;
    skip_blanks();
    if (at == line.size() || line[at] != '=' || result.key.empty()) {
      fail_at(file_, number, "found " + in_quotes(result.key) + ", expected KEY=VALUE");
    }
    ++at;
    skip_blanks();
    bool const is_quoted = at < line.size() && line[at] == '"';
    at += is_quoted ? 1 : 0;
    auto const last = line.find_first_of(is_quoted ? "\"" : " \t", at);
    if (is_quoted && last == std::string_view::npos) {
      fail_at(file_, number, in_quotes(result.key) + " has a quote without end, expected \"");
    }
    result.value = line.substr(at, std::min(last, line.size()) - at);
    at = std::min(last, line.size() - 1) + 1;
    skip_blanks();
    return result;
  }

  void read_line(std::string_view line, int number) {
    auto at = std::min(line.find_first_not_of(" \t"), line.size());
    if (at == line.size()) return;
    auto const first = line.substr(at, line.find_first_of("= \t", at) - at);
    if (is_same_word(first, "BlockSizes")) return;
    if (!is_entry(first)) {
      builder_.remark(number, in_quotes(first) + " is not used");
      return;
    }
    cluster_entry entry;
    entry.line = number;
    entry.is_block = is_same_word(first, "BlockName");
    entry.name = read_pair(line, at, number).value;
    while (at < line.size()) {
      auto const [key, value] = read_pair(line, at, number);
      auto* const list = is_same_word(key, "Nodes")                         ? &entry.nodes
                         : is_same_word(key, "Switches") && !entry.is_block ? &entry.children
                                                                            : nullptr;
      if (list != nullptr) {
        if (!list->empty()) {
          fail_at(file_, number, in_quotes(key) + " appears twice, expected it once");
        }
        *list = value;
      } else if (is_same_word(key, "LinkSpeed")) {
        entry.link_speed = speed_of(value, number);
      } else {
        builder_.remark(number, "unknown key " + in_quotes(key));
      }
    }
    builder_.add(std::move(entry));
  }

  [[nodiscard]] std::int64_t speed_of(std::string_view text, int number) const {
    auto const value = read_decimal(text, 0);
    constexpr std::int64_t most = UINT32_MAX;
    if (!value || value->numerator() < 0 || value->numerator() > most) {
      fail_at(file_, number,
              "LinkSpeed=" + in_quotes(text) + ", expected an integer from 0 to " +
                  std::to_string(most));
    }
    return value->numerator();
  }

  std::string const& file_;
  cluster_builder& builder_;
  std::vector<std::string> lines_;
};

}}}  // namespace blink::BLINK_ABI::detail
