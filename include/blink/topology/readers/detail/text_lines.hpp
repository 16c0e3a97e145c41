// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The lines of a table that a program printed, without colours (ESC [ … m) and carriage returns.
/// Other characters that are not printable ASCII, but for tabs, become question marks: messages
/// show the names.
[[nodiscard]] inline std::vector<std::string> text_lines(std::string_view text) {
  std::vector<std::string> result;
  std::string line;
  for (std::size_t i = 0; i <= text.size(); ++i) {
    if (i == text.size() || text[i] == '\n') {
      result.push_back(std::move(line));
      line.clear();
    } else if (text[i] == '\x1b') {
      while (i + 1 < text.size() && text[i] != 'm' && text[i + 1] != '\n') ++i;
    } else if (text[i] != '\r') {
      bool const is_text = text[i] == '\t' || (' ' <= text[i] && text[i] <= '~');
      line += is_text ? text[i] : '?';
    }
  }
  return result;
}

/// The words of a line between blanks and tabs. They are parts of `line`, which must outlive them.
[[nodiscard]] inline std::vector<std::string_view> words_of(std::string_view line) {
  std::vector<std::string_view> result;
  for (std::size_t at = 0; (at = line.find_first_not_of(" \t", at)) != std::string_view::npos;) {
    auto const end = std::min(line.find_first_of(" \t", at), line.size());
    result.push_back(line.substr(at, end - at));
    at = end;
  }
  return result;
}

/// True for one or more decimal digits.
[[nodiscard]] inline bool is_digits(std::string_view text) {
  return !text.empty() && text.find_first_not_of("0123456789") == std::string_view::npos;
}

}}}  // namespace blink::BLINK_ABI::detail
