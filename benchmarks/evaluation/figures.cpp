// SPDX-License-Identifier: Apache-2.0
#include "figures.hpp"

#include "../../tools/csv_text.hpp"
#include <nlohmann/json.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdio>
#include <sstream>
#include <utility>

namespace blink::bench {
namespace {

/// The width of a text in columns: UTF-8 continuation bytes take none.
std::size_t columns_of(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U; }));
}

/// The head of a column, with the origin of its figures.
std::string head_of(column const& each) {
  if (each.from == origin::none) return each.name;
  return each.name + ", " + std::string(to_text(each.from));
}

/// A cell's text, with its origin if the column does not state it.
std::string text_of_cell(cell const& each) {
  if (each.from == origin::none) return each.text;
  return each.text + " (" + std::string(to_text(each.from)) + ")";
}

bool is_label(table const& shown, std::size_t at) {
  return shown.columns[at].from == origin::none &&
         std::ranges::none_of(shown.rows,
                              [&](auto const& row) { return row[at].value.has_value(); });
}

nlohmann::json json_of(cell const& each) {
  nlohmann::json value = each.value ? nlohmann::json(*each.value) : nlohmann::json(each.text);
  if (each.from == origin::none) return value;
  return {{"value", std::move(value)}, {"origin", to_text(each.from)}};
}

nlohmann::json json_of(table const& shown) {
  nlohmann::json columns = nlohmann::json::array(), rows = nlohmann::json::array();
  for (auto const& each : shown.columns) {
    columns.push_back({{"name", each.name}, {"origin", to_text(each.from)}});
  }
  for (auto const& row : shown.rows) {
    auto cells = nlohmann::json::array();
    for (auto const& each : row) cells.push_back(json_of(each));
    rows.push_back(std::move(cells));
  }
  return {{"name", shown.name}, {"title", shown.title}, {"columns", columns}, {"rows", rows}};
}

}  // namespace

std::string_view to_text(origin from) {
  constexpr std::string_view names[]{"label",    "computed",  "simulated",
                                     "measured", "published", "recalled"};
  return names[static_cast<std::size_t>(from)];
}

cell label(std::string text) {
  return {std::move(text)};
}

cell number(double value, int decimals, origin from) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*f", decimals, value);
  return {text, value, from};
}

cell absent() {
  return {"-"};
}

std::string verdict_of(double ours, double theirs) {
  return ours >= theirs ? "met" : "missed";
}

table findings_table(std::vector<part_result> const& parts) {
  table result{"findings",
               "Each figure of others beside ours",
               {{"figure"}, {"theirs"}, {"here"}, {"verdict"}, {"why"}},
               {}};
  for (auto const& part : parts) {
    for (auto const& each : part.findings) {
      result.rows.push_back(
          {label(each.claim), each.theirs, each.ours, label(each.verdict), label(each.why)});
    }
  }
  return result;
}

std::string wrapped(std::string_view text) {
  constexpr std::size_t most_columns = 100;
  std::istringstream words{std::string(text)};
  std::string result, line, word;
  while (words >> word) {
    if (!line.empty() && columns_of(line) + 1 + columns_of(word) > most_columns) {
      result += std::exchange(line, "") + "\n";
    }
    line += (line.empty() ? "" : " ") + word;
  }
  return result + line + "\n";
}

std::string as_text(part_result const& part) {
  std::string result = part.title + "\n" + std::string(columns_of(part.title), '=') + "\n\n" +
                       (part.about.empty() ? "" : wrapped(part.about) + "\n");
  for (auto const& shown : part.tables) {
    std::vector<std::vector<std::string>> lines(1);
    for (auto const& each : shown.columns) lines[0].push_back(head_of(each));
    for (auto const& row : shown.rows) {
      auto& line = lines.emplace_back();
      for (auto const& each : row) line.push_back(text_of_cell(each));
    }
    std::vector<std::size_t> width(shown.columns.size(), 0);
    for (auto const& line : lines) {
      for (std::size_t c = 0; c < line.size(); ++c) {
        width[c] = std::max(width[c], columns_of(line[c]));
      }
    }
    result += shown.title + "\n";
    for (auto const& line : lines) {
      std::string text;
      for (std::size_t c = 0; c < line.size(); ++c) {
        std::string const space(width[c] - columns_of(line[c]), ' ');
        text += "  " + (is_label(shown, c) ? line[c] + space : space + line[c]);
      }
      while (text.ends_with(' ')) text.pop_back();
      result += text + "\n";
    }
    result += "\n";
  }
  return result;
}

std::string as_markdown(part_result const& part) {
  std::string result =
      "## " + part.title + "\n\n" + (part.about.empty() ? "" : wrapped(part.about) + "\n");
  for (auto const& shown : part.tables) {
    result += wrapped(shown.title + ":") + "\n|";
    std::string rule = "|";
    for (std::size_t c = 0; c < shown.columns.size(); ++c) {
      result += " " + head_of(shown.columns[c]) + " |";
      rule += is_label(shown, c) ? " --- |" : " ---: |";
    }
    result += "\n" + rule + "\n";
    for (auto const& row : shown.rows) {
      result += "|";
      for (auto const& each : row) result += " " + text_of_cell(each) + " |";
      result += "\n";
    }
    result += "\n";
  }
  return result;
}

std::string as_csv(table const& shown) {
  std::string result;
  for (std::size_t c = 0; c < shown.columns.size(); ++c) {
    result += (c == 0 ? "" : ",") + tools::csv_cell(nlohmann::json(head_of(shown.columns[c])));
  }
  result += "\n";
  for (auto const& row : shown.rows) {
    for (std::size_t c = 0; c < row.size(); ++c) {
      bool const is_plain = row[c].value && row[c].from == origin::none;
      auto const value =
          is_plain ? nlohmann::json(*row[c].value) : nlohmann::json(text_of_cell(row[c]));
      result += (c == 0 ? "" : ",") + tools::csv_cell(value);
    }
    result += "\n";
  }
  return result;
}

std::string as_json(std::vector<part_result> const& parts, double seconds) {
  nlohmann::json result{
      {"blink_evaluation", 1}, {"seconds", seconds}, {"parts", nlohmann::json::array()}};
  for (auto const& part : parts) {
    nlohmann::json tables = nlohmann::json::array();
    for (auto const& each : part.tables) tables.push_back(json_of(each));
    result["parts"].push_back({{"title", part.title}, {"tables", std::move(tables)}});
  }
  result["parts"].push_back(
      {{"title", "Findings"}, {"tables", nlohmann::json::array({json_of(findings_table(parts))})}});
  return result.dump(1) + "\n";
}

}  // namespace blink::bench
