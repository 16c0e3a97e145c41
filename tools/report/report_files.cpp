// SPDX-License-Identifier: Apache-2.0
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/version.hpp>
#include <blink/drawing/detail/svg_text.hpp>

#include "../csv_text.hpp"
#include "page_text.hpp"
#include "report_data.hpp"
#include <unistd.h>

#include <cstdio>
#include <filesystem>
#include <stdexcept>
#include <utility>

namespace blink::tools {
namespace {

/// Replaces each `@name@` of a text.
void fill(std::string& text, std::string_view name, std::string_view value) {
  auto const sign = "@" + std::string(name) + "@";
  auto at = text.find(sign);
  if (at == std::string::npos) throw std::logic_error("the page has no " + sign);
  for (; at != std::string::npos; at = text.find(sign, at + value.size())) {
    text.replace(at, sign.size(), value);
  }
}

}  // namespace

void add_table(report_json& report, std::string const& name, std::string const& title,
               std::string const& caption, std::vector<report_column> const& columns,
               report_json rows) {
  auto heads = report_json::array();
  for (auto const& each : columns) {
    report_json head{{"title", each.title}};
    if (!each.unit.empty()) head["unit"] = each.unit;
    if (each.has_bar) head["bar"] = true;
    if (!each.of.empty()) head["of"] = each.of;
    heads.push_back(std::move(head));
  }
  report["tables"][name] = {{"title", title},
                            {"caption", caption},
                            {"columns", std::move(heads)},
                            {"rows", std::move(rows)}};
}

std::string report_text(report_json const& report) {
  return report.dump(-1, ' ', true, report_json::error_handler_t::replace);
}

std::string report_page(report_json const& report, std::string const& drawing) {
  // The data cannot end its element: "<" is written as an escape sequence of JSON.
  std::string data;
  for (char const c : report_text(report)) data += c == '<' ? "\\u003c" : std::string(1, c);
  std::string page(page_html);
  // Later texts may hold the signs of earlier ones, so foreign text comes last.
  fill(page, "VERSION", BLINK_VERSION_TEXT);
  fill(page, "STYLE", page_css);
  fill(page, "SCRIPT",
       std::string(page_js) + std::string(picture_js) + std::string(time_line_js) +
           std::string(lessons_js) + std::string(self_test_js));
  auto const title = detail::escaped(report.at("title").get<std::string>());
  auto const split = page.find("@TITLE@");
  if (split == std::string::npos) throw std::logic_error("the page has no @TITLE@");
  auto rest = page.substr(split);
  page.resize(split);
  auto const picture_at = rest.find("@DRAWING@"), data_at = rest.find("@DATA@");
  if (picture_at == std::string::npos || data_at < picture_at) {
    throw std::logic_error("the page has no @DRAWING@ before @DATA@");
  }
  auto const part = [&](std::size_t from, std::size_t to) { return rest.substr(from, to - from); };
  return page + title + part(7, picture_at) + drawing + part(picture_at + 9, data_at) + data +
         rest.substr(data_at + 6);
}

std::vector<report_file> report_csv(report_json const& report, std::string const& folder) {
  std::vector<report_file> result;
  if (!report.contains("tables")) return result;
  for (auto const& [name, table] : report.at("tables").items()) {
    std::string text;
    for (auto const& column : table.at("columns")) {
      auto head = column.at("title").get<std::string>();
      if (column.contains("unit")) head += " (" + column.at("unit").get<std::string>() + ")";
      text += (text.empty() ? "" : ",") + csv_cell(report_json(head));
    }
    for (auto const& row : table.at("rows")) {
      text += '\n';
      for (std::size_t i = 0; i < row.size(); ++i) text += (i == 0 ? "" : ",") + csv_cell(row[i]);
    }
    result.push_back({folder + "/" + name + ".csv", text + "\n"});
  }
  return result;
}

void write_report_files(std::vector<report_file> const& files, bool may_replace) {
  namespace fs = std::filesystem;
  std::error_code fault;
  for (auto const& file : files) {
    bool const exists = !file.path.starts_with("/dev/") && fs::is_regular_file(file.path, fault);
    if (!exists || may_replace) continue;
    throw input_error(file.path + " exists, expected a new file, or --force to replace it");
  }
  // All are written beside their places before one is renamed.
  std::vector<std::pair<std::string, std::string>> staged;
  auto const give_up = [&] {
    for (auto const& [beside, path] : staged) fs::remove(beside, fault);
  };
  std::vector<std::string> made;
  try {
    for (auto const& file : files) {
      auto const folder = fs::path(file.path).parent_path();
      if (!folder.empty() && !fs::exists(folder, fault)) {
        if (!fs::create_directory(folder, fault)) {
          throw input_error(folder.string() + ": cannot be made, expected a folder to write to");
        }
        made.push_back(folder.string());
      }
      if (file.path.starts_with("/dev/")) {
        detail::write_text(file.path, file.text);
        continue;
      }
      if (fs::is_directory(file.path, fault)) {
        throw input_error(file.path + ": is a folder, expected a file to write");
      }
      auto const beside = file.path + ".new" + std::to_string(::getpid());
      staged.emplace_back(beside, file.path);
      try {
        detail::write_text(beside, file.text);
      } catch (input_error const&) {
        throw input_error(file.path + ": cannot be written, expected a writable file");
      }
    }
  } catch (input_error const&) {
    give_up();
    for (auto const& folder : made) fs::remove(folder, fault);
    throw;
  }
  for (auto const& [beside, path] : staged) {
    if (std::rename(beside.c_str(), path.c_str()) == 0) continue;
    give_up();
    throw input_error(path + ": cannot be written, expected a writable file");
  }
}

}  // namespace blink::tools
