// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/detail/input_text.hpp>
#include <blink/core/rational.hpp>

#include "arguments.hpp"
#include "csv_text.hpp"
#include <CLI/CLI.hpp>
#include <nlohmann/json.hpp>

#include <string>

// The table that a command prints, as files of JSON and CSV.

namespace blink::tools {

/// The files of a table; empty: not requested.
struct table_files {
  std::string json;
  std::string csv;

  [[nodiscard]] bool are_requested() const { return !json.empty() || !csv.empty(); }
};

/// Adds --json and --csv to a command.
///
/// files: must outlive the command's parsing
inline void add_table_files(CLI::App& command, table_files& files, std::string const& when = {}) {
  add_output_option(command, "--json", files.json, when + "write the table as JSON to this file");
  add_output_option(command, "--csv", files.csv, when + "write the table as CSV to this file")
      ->check([&files](std::string const& csv) {
        bool const is_same = csv == files.json && !csv.starts_with("/dev/");
        return is_same ? csv + " is also that of --json, expected another file" : std::string();
      });
}

/// Adds a number to a row, and its text without rounding as "exact_" and the key.
template <class Json>
void add_exact(Json& row, std::string const& key, rational const& value) {
  row[key] = value.to_double();
  row["exact_" + key] = value.to_text();
}

/// Writes the files that are requested.
///
/// document: an object whose "rows" are the table
template <class Json>
void write_table_files(table_files const& files, Json const& document) {
  if (!files.json.empty()) detail::write_text(files.json, json_text(document, 2) + "\n");
  if (!files.csv.empty()) detail::write_text(files.csv, csv_of(document.at("rows")));
}

}  // namespace blink::tools
