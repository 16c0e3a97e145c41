// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "arguments.hpp"
#include "csv_text.hpp"
#include "report/report_data.hpp"
#include "table_files.hpp"
#include <CLI/CLI.hpp>

#include <filesystem>
#include <string>
#include <system_error>
#include <utility>
#include <vector>

// The tables of a command that prints several, as one file of JSON and a folder of CSV files.

namespace blink::tools {

[[nodiscard]] inline std::string table_path(std::string const& folder, std::string const& table) {
  return folder + "/" + table + ".csv";
}

/// Adds --json and --csv to a command that prints several tables; `csv` is the folder.
///
/// tables: their names
inline void add_table_folder(CLI::App& command, table_files& files,
                             std::vector<std::string> tables) {
  add_output_option(command, "--json", files.json, "also write all that is shown to this file");
  command.add_option("--csv", files.csv, "also write each table as a file of this folder")
      ->check([&command, tables = std::move(tables)](std::string const& folder) {
        std::error_code fault;
        if (std::filesystem::exists(folder, fault) &&
            !std::filesystem::is_directory(folder, fault)) {
          return folder + ": is no folder, expected one for tables";
        }
        std::string refused;
        for (auto const& table : tables) {
          if (refused.empty()) refused = kept_file(command, table_path(folder, table));
        }
        return refused;
      });
}

/// Writes the files that are requested, all or none. Tables without rows are written as well, so
/// that none of an earlier run stays beside the others.
///
/// document:    for --json
/// tables:      an object with the rows of each table, for --csv
/// may_replace: false: a file that exists is refused
/// Throws:      input_error that names the file or folder.
template <class Json>
void write_table_folder(table_files const& files, Json const& document, Json const& tables,
                        bool may_replace) {
  std::vector<report_file> all;
  if (!files.json.empty()) all.push_back({files.json, json_text(document, 2) + "\n"});
  if (!files.csv.empty()) {
    for (auto const& [name, rows] : tables.items()) {
      all.push_back({table_path(files.csv, name), csv_of(rows)});
    }
  }
  write_report_files(all, may_replace);
}

}  // namespace blink::tools
