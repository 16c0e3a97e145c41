// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <initializer_list>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The keys of the JSON object that a text begins with, as far as the text is one. Formats are
/// recognised by them before one is read.
///
/// Time: O(length of the text).
[[nodiscard]] inline std::vector<std::string_view> json_keys(std::string_view text) {
  constexpr std::size_t most = 1000;
  std::vector<std::string_view> result;
  std::string_view last;  // the string that was read last, while only blanks have followed
  int depth = 0;
  for (std::size_t i = 0; i < text.size() && result.size() < most; ++i) {
    char const c = text[i];
    if (c == '"') {
      auto const begin = ++i;
      while (i < text.size() && text[i] != '"') i += text[i] == '\\' ? 2U : 1U;
      last = text.substr(begin, std::min(i, text.size()) - begin);
      continue;
    }
    if (c == ' ' || c == '\t' || c == '\r' || c == '\n') continue;
    if (c == ':' && depth == 1 && last.data() != nullptr) result.push_back(last);
    if (c == '{' || c == '[') ++depth;
    if ((c == '}' || c == ']') && --depth <= 0) break;
    if (depth == 0) break;  // no object
    last = {};
  }
  return result;
}

/// True if a text begins with a JSON object that has all of these keys.
[[nodiscard]] inline bool has_json_keys(std::string_view text,
                                        std::initializer_list<std::string_view> keys) {
  if (!text.starts_with('{')) return false;
  auto const found = json_keys(text);
  return std::all_of(keys.begin(), keys.end(), [&](std::string_view key) {
    return std::find(found.begin(), found.end(), key) != found.end();
  });
}

}}}  // namespace blink::BLINK_ABI::detail
