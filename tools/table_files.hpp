// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/detail/input_text.hpp>

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
};

/// Adds --json and --csv to a command.
inline void add_table_files(CLI::App& command, table_files& files, std::string const& when = {}) {
  add_output_option(command, "--json", files.json, when + "write the table as JSON to this file");
  add_output_option(command, "--csv", files.csv, when + "write the table as CSV to this file");
}

/// Writes the files that are requested.
///
/// document: an object whose "rows" are the table
template <class Json>
void write_table_files(table_files const& files, Json const& document) {
  if (!files.json.empty()) detail::write_text(files.json, document.dump(2) + "\n");
  if (!files.csv.empty()) detail::write_text(files.csv, csv_of(document.at("rows")));
}

}  // namespace blink::tools
