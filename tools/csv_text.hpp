// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/detail/input_text.hpp>

#include <algorithm>
#include <cstddef>
#include <string>
#include <utility>
#include <vector>

namespace blink::tools {

/// JSON text, with U+FFFD for bytes that are no UTF-8: texts of machines and programs are foreign.
template <class Json>
[[nodiscard]] std::string json_text(Json const& value, int indent) {
  return value.dump(indent, ' ', false, Json::error_handler_t::replace);
}

/// The text of a value that is no array: nothing for null and for numbers that are not finite.
template <class Json>
[[nodiscard]] std::string plain_text(Json const& value) {
  if (value.is_string()) return detail::printable(value.template get<std::string>());
  auto const text = json_text(value, -1);
  return text == "null" ? "" : text;
}

/// A cell of CSV: nothing for null, texts in quotes where they need them, and the elements of an
/// array with spaces between them.
///
/// Json: nlohmann::json or nlohmann::ordered_json
template <class Json>
[[nodiscard]] std::string csv_cell(Json const& cell) {
  std::string text;
  if (cell.is_array()) {
    for (auto const& element : cell) text += (text.empty() ? "" : " ") + plain_text(element);
  } else {
    text = plain_text(cell);
  }
  if (text.find_first_of(",\"\n\r") == std::string::npos) return text;
  std::string result = "\"";
  for (char const c : text) result += c == '"' ? "\"\"" : std::string(1, c);
  return result + "\"";
}

/// Rows that are objects as CSV: a column for each key, "outer.inner" for keys of objects inside.
template <class Json>
[[nodiscard]] std::string csv_of(Json const& rows) {
  std::vector<std::string> columns;
  std::vector<std::vector<std::pair<std::string, Json>>> lines;
  for (auto const& row : rows) {
    auto& line = lines.emplace_back();
    for (auto const& [key, value] : row.items()) {
      if (!value.is_object()) {
        line.emplace_back(key, value);
        continue;
      }
      for (auto const& [inner, cell] : value.items()) line.emplace_back(key + "." + inner, cell);
    }
    for (auto const& [key, value] : line) {
      if (std::find(columns.begin(), columns.end(), key) == columns.end()) columns.push_back(key);
    }
  }
  std::string text;
  for (auto const& key : columns) text += (text.empty() ? "" : ",") + csv_cell(Json(key));
  for (auto const& line : lines) {
    text += '\n';
    for (std::size_t i = 0; i < columns.size(); ++i) {
      auto const found = std::find_if(line.begin(), line.end(),
                                      [&](auto const& cell) { return cell.first == columns[i]; });
      text += (i == 0 ? "" : ",") + (found == line.end() ? "" : csv_cell(found->second));
    }
  }
  return text + "\n";
}

}  // namespace blink::tools
