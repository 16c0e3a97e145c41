// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/detail/json_fields.hpp>
#include <blink/core/error.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/schedule/tuning_table.hpp>

#include <nlohmann/json.hpp>

#include <cstddef>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

// Tuning tables as JSON. Needs nlohmann-json, unlike programs that only run collectives.

namespace blink { inline namespace BLINK_ABI {

/// The version of the format that `write_tuning` writes; `docs/tuning.md` describes it.
inline constexpr int tuning_format = 1;

namespace detail {

/// A schedule as JSON, without the fields that have their default.
[[nodiscard]] inline nlohmann::ordered_json schedule_to_json(schedule const& source) {
  nlohmann::ordered_json result{{"ranks", source.rank_count}};
  if (source.is_one_shot) result["one_shot"] = true;
  if (!source.shares.empty()) result["shares"] = source.shares;
  auto trees = nlohmann::ordered_json::array();
  for (auto const& tree : source.trees) {
    nlohmann::ordered_json out{{"root", tree.root}, {"weight", tree.weight}};
    if (!tree.reduce_parent.empty()) out["reduce_parent"] = tree.reduce_parent.values();
    if (!tree.broadcast_parent.empty()) out["broadcast_parent"] = tree.broadcast_parent.values();
    if (!tree.receivers.empty()) out["receivers"] = tree.receivers;
    if (!tree.reduce_route.empty()) out["reduce_route"] = tree.reduce_route.values();
    if (!tree.broadcast_route.empty()) out["broadcast_route"] = tree.broadcast_route.values();
    if (tree.chunk_bytes != 0) out["chunk_bytes"] = tree.chunk_bytes;
    trees.push_back(std::move(out));
  }
  if (!source.link_bytes_per_second.empty()) {
    result["link_bytes_per_second"] = source.link_bytes_per_second;
  }
  if (!source.link_names.empty()) result["link_names"] = source.link_names;
  result["trees"] = std::move(trees);
  return result;
}

/// Reads the contents of tuning files.
class tuning_reader : public json_fields {
 public:
  using json_fields::json_fields;

  schedule source(json const& value, std::string const& where) const {
    schedule result;
    result.rank_count = integer(field(value, where, "ranks"), where + ".ranks");
    if (value.contains("one_shot")) {
      if (!value["one_shot"].is_boolean()) fail(where + ".one_shot", "expected true or false");
      result.is_one_shot = value["one_shot"].get<bool>();
    }
    if (value.contains("shares")) {
      for (auto const& share : array(value["shares"], where + ".shares")) {
        result.shares.push_back(size(share, where + ".shares" + at(result.shares.size())));
      }
    }
    if (value.contains("link_bytes_per_second")) {
      auto const here = where + ".link_bytes_per_second";
      for (auto const& rate : array(value["link_bytes_per_second"], here)) {
        result.link_bytes_per_second.push_back(
            number(rate, here + at(result.link_bytes_per_second.size())));
      }
    }
    if (value.contains("link_names")) {
      auto const here = where + ".link_names";
      for (auto const& name : array(value["link_names"], here)) {
        if (!name.is_string()) fail(here + at(result.link_names.size()), "expected a text");
        result.link_names.push_back(name.get<std::string>());
      }
    }
    for (auto const& entry : array(field(value, where, "trees"), where + ".trees")) {
      result.trees.push_back(tree(entry, where + ".trees" + at(result.trees.size())));
    }
    return result;
  }

 private:
  schedule_tree tree(json const& value, std::string const& where) const {
    schedule_tree result;
    result.root = integer(field(value, where, "root"), where + ".root");
    result.weight = size(field(value, where, "weight"), where + ".weight");
    for (auto const& [key, list] : {std::pair("reduce_parent", &result.reduce_parent),
                                    std::pair("broadcast_parent", &result.broadcast_parent)}) {
      if (value.contains(key)) *list = integers(value[key], where + "." + key);
    }
    if (value.contains("receivers")) {
      result.receivers = integers(value["receivers"], where + ".receivers");
    }
    for (auto const& [key, routes] : {std::pair("reduce_route", &result.reduce_route),
                                      std::pair("broadcast_route", &result.broadcast_route)}) {
      if (!value.contains(key)) continue;
      auto const here = where + "." + key;
      for (auto const& route : array(value[key], here)) {
        routes->push_back(integers(route, here + at(routes->size())));
      }
    }
    if (value.contains("chunk_bytes")) {
      result.chunk_bytes = size(value["chunk_bytes"], where + ".chunk_bytes");
    }
    return result;
  }
};

}  // namespace detail

/// Tables as JSON text, format 1: each algorithm and each range on its own line.
[[nodiscard]] inline std::string write_tuning(std::vector<tuning_table> const& tables) {
  using json = nlohmann::ordered_json;
  auto const lines = [](auto const& rows, auto const& one) {
    std::string result = "[";
    for (std::size_t i = 0; i < rows.size(); ++i) {
      result += (i == 0 ? "\n      " : ",\n      ") + one(rows[i]).dump();
    }
    return result + "]";
  };
  std::string text =
      "{\n  \"blink_tuning\": " + std::to_string(tuning_format) + ",\n  \"tables\": [";
  for (std::size_t i = 0; i < tables.size(); ++i) {
    auto const& table = tables[i];
    text +=
        std::string(i == 0 ? "" : ",") + "\n    {\"collective\": \"" +
        std::string(to_text(table.collective)) + "\"," +
        (table.transport.empty() ? "" : " \"transport\": " + json(table.transport).dump() + ",") +
        (table.is_doubtful ? " \"doubtful\": true," : "") + "\n     \"algorithms\": " +
        lines(table.algorithms,
              [](algorithm const& m) {
                return json{{"name", m.name}, {"schedule", detail::schedule_to_json(m.source)}};
              }) +
        ",\n     \"ranges\": " +
        lines(table.ranges,
              [](tuning_range const& r) {
                json range{{"from_bytes", r.from_bytes}, {"algorithm", r.algorithm}};
                if (r.chunk_bytes != 0) range["chunk_bytes"] = r.chunk_bytes;
                return range;
              }) +
        "}";
  }
  return text + "]\n}\n";
}

/// Writes tables to a file.
///
/// Throws: input_error if the file cannot be written.
inline void write_tuning_file(std::string const& file, std::vector<tuning_table> const& tables) {
  detail::write_text(file, write_tuning(tables));
}

/// Reads tables from JSON text. Unknown keys are ignored.
///
/// file:   the name to show in errors
/// Post:   every table passed `validate`.
/// Throws: input_error with the line (malformed text) or the field, and the expected value.
[[nodiscard]] inline std::vector<tuning_table> read_tuning(std::string_view text,
                                                           std::string const& file) {
  detail::tuning_reader const read(file);
  auto const document = read.document(text, "a tuning file", "blink_tuning", tuning_format);
  std::vector<tuning_table> result;
  for (auto const& entry : read.array(read.field(document, "", "tables"), "tables")) {
    auto const where = "tables" + read.at(result.size());
    tuning_table table;
    table.collective = read.kind(read.field(entry, where, "collective"), where + ".collective");
    if (entry.contains("transport")) {
      table.transport = read.text(entry["transport"], where + ".transport");
    }
    if (entry.contains("doubtful")) {
      if (!entry["doubtful"].is_boolean()) read.fail(where + ".doubtful", "expected true or false");
      table.is_doubtful = entry["doubtful"].get<bool>();
    }
    auto const in_tuning = where + ".algorithms";
    for (auto const& row : read.array(read.field(entry, where, "algorithms"), in_tuning)) {
      auto const here = in_tuning + read.at(table.algorithms.size());
      table.algorithms.push_back(
          {read.text(read.field(row, here, "name"), here + ".name"),
           read.source(read.field(row, here, "schedule"), here + ".schedule")});
    }
    auto const in_ranges = where + ".ranges";
    for (auto const& row : read.array(read.field(entry, where, "ranges"), in_ranges)) {
      auto const here = in_ranges + read.at(table.ranges.size());
      tuning_range range{read.size(read.field(row, here, "from_bytes"), here + ".from_bytes"),
                         read.size(read.field(row, here, "algorithm"), here + ".algorithm"), 0};
      if (row.contains("chunk_bytes")) {
        range.chunk_bytes = read.size(row["chunk_bytes"], here + ".chunk_bytes");
      }
      table.ranges.push_back(range);
    }
    try {
      validate(table);
    } catch (precondition_error const& fault) {
      read.fail(where, fault.what());
    }
    result.push_back(std::move(table));
  }
  return result;
}

/// Reads tables from a file.
///
/// Throws: input_error if the file cannot be read, or as `read_tuning`.
[[nodiscard]] inline std::vector<tuning_table> read_tuning_file(std::string const& file) {
  return read_tuning(detail::file_text(file, "tuning tables"), file);
}

namespace detail {

/// Enables BLINK_TUNING in programs that include this header in any of their sources.
inline bool const has_tuning_file_reader =
    (present_tuning_file_reader = [](std::string const& file) { return read_tuning_file(file); }, true);

}  // namespace detail

}}  // namespace blink::BLINK_ABI
