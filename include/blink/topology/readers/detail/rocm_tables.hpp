// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/detail/device_names.hpp>
#include <blink/topology/readers/detail/rocm_cells.hpp>
#include <blink/topology/readers/detail/rocm_names.hpp>
#include <blink/topology/readers/detail/square_table.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>
#include <blink/topology/readers/detail/text_remarks.hpp>

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Combines the tables of a text.
class rocm_table_reader {
 public:
  rocm_table_reader(square_tables const& text, std::string const& file, text_remarks& remarks)
      : text_(text), file_(file), remarks_(remarks) {}

  /// Throws: input_error with file and line for a cell that a table of its kind cannot have, and
  ///         for tables that contradict each other. Also for a text that states no links.
  [[nodiscard]] rocm_tables read() {
    found_.last_line = text_.last_line;
    for (auto const& table : text_.tables) read_table(table);
    found_.numa_nodes.resize(found_.names.size());
    names_.begin();
    for (auto const& table : text_.tables) read_other_columns(table);
    for (auto const& line : text_.others) read_other(line);
    expect_links();
    if (found_.link.is_empty()) derive_links();
    return std::move(found_);
  }

 private:
  enum class kind { other, link, hops, weight, bandwidth, access };
  static constexpr std::int64_t unknown = rocm_property::unknown;

  [[nodiscard]] static bool has(std::string_view text, std::string_view part) {
    return text.find(part) != std::string_view::npos;
  }

  [[nodiscard]] static kind kind_of_title(std::string_view title) {
    if (has(title, "Link Type") || has(title, "LINK TYPE")) return kind::link;
    if (has(title, "Weight") || has(title, "WEIGHT")) return kind::weight;
    if (has(title, "Hops") || has(title, "HOPS")) return kind::hops;
    if (has(title, "Bandwidth") || has(title, "NUMA BW")) return kind::bandwidth;
    if (has(title, "accessibility") || has(title, "ACCESS")) return kind::access;
    return kind::other;
  }

  /// The kind of a table: cells decide before its title, because rocm-smi has printed types below
  /// the title of weights.
  [[nodiscard]] static kind kind_of(square_table const& table) {
    auto const any = [&](auto const& accepts) {
      return std::any_of(table.rows.begin(), table.rows.end(), [&](auto const& row) {
        return std::any_of(row.cells.begin(), row.cells.end(), accepts);
      });
    };
    if (any([](auto const& cell) { return rocm_type_of(cell).has_value(); })) return kind::link;
    if (any([](auto const& cell) { return rocm_bandwidth_of(cell).has_value(); })) {
      return kind::bandwidth;
    }
    return kind_of_title(table.title.text);
  }

  void read_table(square_table const& table) {
    auto const is = kind_of(table);
    if (is == kind::other) {
      has_flags_ = true;
      return;
    }
    if (auto const titled = kind_of_title(table.title.text);
        is != titled && titled != kind::other) {
      remarks_.add(table.header_line, "a table of " + std::string(name_of(is)) +
                                          " below the title in line " +
                                          std::to_string(table.title.number));
    }
    if (found_.names.empty()) {
      found_.names = table.names;
      found_.header_line = table.header_line;
    } else if (found_.names != table.names) {
      fail_at(file_, table.header_line,
              "names other GPUs than line " + std::to_string(found_.header_line) +
                  ", expected the same ones in each table");
    }
    if (auto* const property = property_of(is); property != nullptr && property->is_empty()) {
      property->resize(found_.names.size());
    }
    for (auto const& row : table.rows) {
      for (std::size_t column = 0; column < row.cells.size(); ++column) {
        read_cell(is, table, row, column);
      }
    }
    if (is == kind::access) remark_disabled(table);
  }

  [[nodiscard]] rocm_property* property_of(kind is) {
    switch (is) {
      case kind::link:
        return &found_.link;
      case kind::hops:
        return &found_.hops;
      case kind::weight:
        return &found_.weight;
      case kind::bandwidth:
        return &found_.bandwidth;
      default:
        return nullptr;
    }
  }

  [[nodiscard]] static std::string_view name_of(kind is) {
    constexpr std::array<std::string_view, 6> names{"flags",   "link types", "hops",
                                                    "weights", "bandwidths", "access"};
    return names[static_cast<std::size_t>(is)];
  }

  void read_cell(kind is, square_table const& table, square_table::row const& row,
                 std::size_t column) {
    std::string_view const cell = row.cells[column];
    auto const type = rocm_type_of(cell);
    auto const fail = [&](std::string const& expected) {
      fail_at(file_, row.line,
              "the row of " + in_quotes(table.names[row.at]) + " has " + in_quotes(cell) +
                  " in column " + in_quotes(table.names[column]) + ", expected " + expected);
    };
    if (column == row.at) {
      if (type) fail("no link to itself");
      return;
    }
    bool const is_blank = cell == "N/A" || cell == "None";
    if (is == kind::link) {
      if (!type && !is_blank) fail("XGMI or PCIE");
      put(found_.link, row, column, type ? type->link : unknown);
      if (type && type->hops > 0) put(found_.hops, row, column, type->hops);
    } else if (is == kind::bandwidth) {
      // rocm-smi leaves 0 where it cannot read a bandwidth.
      auto const value = is_blank || cell == "0" ? unknown : rocm_bandwidth_of(cell);
      if (!value && rocm_number_of(cell) != unknown) fail("such as 50000-200000, in MB/s");
      put(found_.bandwidth, row, column, value.value_or(unknown));
    } else if (is == kind::hops || is == kind::weight) {
      auto const value = is_blank ? unknown : rocm_number_of(cell);
      if (!value) fail("a number");
      put(*property_of(is), row, column, *value);
    }
  }

  void put(rocm_property& property, square_table::row const& row, std::size_t column,
           std::int64_t value) {
    if (property.is_empty()) property.resize(found_.names.size());
    auto& cell = property.at(row.at, column);
    if (cell.value != unknown && value != unknown && cell.value != value) {
      fail_at(file_, row.line,
              "contradicts line " + std::to_string(cell.line) + " about " + found_.names[row.at] +
                  " and " + found_.names[column] + ", expected tables of one machine");
    }
    if (value != unknown || cell.line == 0) cell = {value, row.line};
  }

  void remark_disabled(square_table const& table) {
    for (auto const& row : table.rows) {
      for (auto const& cell : row.cells) {
        if (cell != "DISABLED" && cell != "False") continue;
        remarks_.add(row.line, "access of " + table.names[row.at] +
                                   " to other GPUs is disabled, which counts as enabled");
        break;
      }
    }
  }

  /// TransferBench: "0000:0c:00.0 304 0 …" with the bus id, the compute units and the NUMA node.
  void read_other_columns(square_table const& table) {
    if (table.names != found_.names) return;
    for (auto const& row : table.rows) {
      if (row.others.size() > 2 && is_gpu_name(row.others[0]) && is_digits(row.others[1])) {
        set_numa_node(row.at, row.others[2]);
        found_.bus_ids[row.at] = in_small_letters(row.others[0]);
      }
    }
  }

  void set_numa_node(std::size_t gpu, std::string_view number) {
    constexpr std::size_t most_digits = 6;
    if (!is_digits(number) || number.size() > most_digits || found_.numa_nodes[gpu]) return;
    found_.numa_nodes[gpu] = std::stoi(std::string(number));
  }

  void read_other(numbered_line const& line) {
    auto const words = words_of(line.text);
    if (words[0].starts_with("gfx")) return read_architectures(words);
    if (names_.read(line, words)) return;
    if (has(line.text, "ERROR") || has(line.text, "ot supported on")) {
      remarks_.add(line.number, "the program reports " + in_quotes(line.text));
    }
    if (!is_gpu_name(words[0])) return;
    // "GPU0 : (Topology) Numa Node: 7"
    bool const is_numa = words.size() == 6 && words[2] == "(Topology)" && words[3] == "Numa";
    has_numa_ = has_numa_ || is_numa;
    if (is_numa && words[4] == "Node:") {
      if (auto const gpu = names_.position_of(words[0])) set_numa_node(*gpu, words[5]);
    } else if (!is_numa && line.number == text_.last_line) {
      remarks_.add(line.number, "the text ends in " + in_quotes(line.text));
    }
  }

  void read_architectures(std::vector<std::string_view> const& words) {
    bool const are_equal =
        std::all_of(words.begin(), words.end(), [&](auto word) { return word == words[0]; });
    if (are_equal) found_.architecture = words[0];
  }

  void expect_links() const {
    bool has_flags = has_flags_;
    for (auto const& title : text_.titles) {
      has_flags = has_flags || has(title.text, "TABLE") || has(title.text, "STATUS");
      if (!found_.link.is_empty() || kind_of_title(title.text) != kind::link) continue;
      fail_at(file_, title.number,
              "no table follows the title of link types, expected the names and rows of the GPUs; "
              "the text may be cut");
    }
    if (!found_.link.is_empty() || !found_.bandwidth.is_empty() || !found_.hops.is_empty() ||
        !found_.weight.is_empty()) {
      return;
    }
    if (found_.names.size() == 1) return;
    fail_at(file_, text_.last_line,
            std::string("the text ends without a table of links between GPUs") +
                (has_numa_   ? ", it states NUMA nodes only"
                 : has_flags ? ", its tables state no links"
                             : "") +
                ", expected that of rocm-smi --showtopo or --shownodesbw, or of amd-smi topology");
  }

  /// Takes types from hops, or else from weights.
  void derive_links() {
    auto const& from = found_.hops.is_empty() ? found_.weight : found_.hops;
    if (from.is_empty()) return;
    // An XGMI hop weighs 15. PCIe has two parts of 20 at least.
    std::int64_t const most_xgmi = found_.hops.is_empty() ? 39 : 1;
    found_.link.resize(found_.names.size());
    for (std::size_t a = 0; a < found_.names.size(); ++a) {
      for (std::size_t b = 0; b < found_.names.size(); ++b) {
        auto const [value, line] = from.at(a, b);
        bool const is_known = a != b && value > 0;
        found_.link.at(a, b) = {!is_known            ? unknown
                                : value <= most_xgmi ? rocm_tables::xgmi
                                                     : rocm_tables::pcie,
                                line};
      }
    }
    found_.notes.push_back(
        found_.hops.is_empty()
            ? "link types follow from weights: less than 40 is XGMI, 40 or more PCIe"
            : "link types follow from hops: 1 is XGMI, 2 and 3 are PCIe");
  }

  square_tables const& text_;
  std::string const& file_;
  text_remarks& remarks_;
  rocm_tables found_;
  rocm_name_reader names_{found_, remarks_};
  bool has_numa_ = false;
  bool has_flags_ = false;
};

}}}  // namespace blink::BLINK_ABI::detail
