// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/readers/detail/square_table.hpp>

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

/// A number for each two GPUs, from all tables of a text that state it.
class rocm_property {
 public:
  static constexpr std::int64_t unknown = -1;
  struct cell {
    std::int64_t value = unknown;
    int line = 0;  ///< 0: no row says anything
  };

  void resize(std::size_t count) { cells_.assign(count, std::vector<cell>(count)); }
  [[nodiscard]] bool is_empty() const { return cells_.empty(); }
  [[nodiscard]] cell& at(std::size_t a, std::size_t b) { return cells_[a][b]; }
  [[nodiscard]] cell const& at(std::size_t a, std::size_t b) const { return cells_[a][b]; }
  /// The values of both rows from low to high. If one row says nothing, twice that of the other.
  [[nodiscard]] std::pair<std::int64_t, std::int64_t> between(std::size_t a, std::size_t b) const {
    if (is_empty()) return {unknown, unknown};
    auto const [low, high] = std::minmax(at(a, b).value, at(b, a).value);
    return {low == unknown ? high : low, high};
  }
  /// The line that speaks of two GPUs; 0 if there is none.
  [[nodiscard]] int line_of(std::size_t a, std::size_t b) const {
    return is_empty() ? 0 : std::max(at(a, b).line, at(b, a).line);
  }

 private:
  std::vector<std::vector<cell>> cells_;
};

/// The GPUs of a host as the tables of rocm-smi, amd-smi and TransferBench describe them.
struct rocm_tables {
  static constexpr std::int64_t xgmi = 0, pcie = 1;  ///< of `link`: the slower one is larger

  std::vector<std::string> names;
  int header_line = 0;
  int last_line = 0;
  rocm_property link;
  rocm_property hops;                           ///< AMD's steps: 1 XGMI, 2 and 3 PCIe
  rocm_property weight;                         ///< 15 for each XGMI hop, 20 for each part of PCIe
  rocm_property bandwidth;                      ///< the largest, in MB/s; 0: no link
  std::vector<std::optional<int>> numa_nodes;   ///< by GPU
  std::vector<std::vector<std::string>> uuids;  ///< by GPU, as `node::uuids`
  std::vector<std::string> bus_ids;             ///< by GPU; empty: not said
  std::string architecture;                     ///< "gfx942"; empty: not said, or several
  std::vector<std::string> notes;               ///< for people, not about faults of the text
};

/// A cell of a table of link types.
struct rocm_type {
  std::int64_t link = rocm_property::unknown;
  std::int64_t hops = rocm_property::unknown;
};

/// Reads "XGMI", "PCIE", and with hops "XGMI-1". Other names of types are unknown ones.
[[nodiscard]] inline std::optional<rocm_type> rocm_type_of(std::string_view cell) {
  constexpr std::array<std::string_view, 6> unknown_types{"XXXX", "UNKNOWN", "????",
                                                          "HT",   "QPI",     "INFB"};
  auto const mark = std::min(cell.find('-'), cell.size());
  auto const name = cell.substr(0, mark);
  rocm_type result;
  if (mark < cell.size()) {
    if (cell.size() != mark + 2 || !is_digits(cell.substr(mark + 1))) return std::nullopt;
    result.hops = cell.back() - '0';
  }
  if (name == "XGMI") result.link = rocm_tables::xgmi;
  if (name == "PCIE" || name == "PCIe") result.link = rocm_tables::pcie;
  bool const is_known =
      std::find(unknown_types.begin(), unknown_types.end(), name) != unknown_types.end();
  return result.link != rocm_property::unknown || is_known ? std::optional(result) : std::nullopt;
}

/// Reads a number. The largest of 16 and of 32 bits stand for an unknown one.
[[nodiscard]] inline std::optional<std::int64_t> rocm_number_of(std::string_view cell) {
  constexpr std::size_t most_digits = 10;
  if (!is_digits(cell) || cell.size() > most_digits) return std::nullopt;
  std::int64_t const value = std::stoll(std::string(cell));
  constexpr std::int64_t unknown_16 = 65'535, unknown_32 = 4'294'967'295;
  return value == unknown_16 || value == unknown_32 ? rocm_property::unknown : value;
}

/// Reads "50000-200000", the bandwidth of one link and of all, in MB/s. Returns that of all.
[[nodiscard]] inline std::optional<std::int64_t> rocm_bandwidth_of(std::string_view cell) {
  auto const mark = cell.find('-');
  if (mark == std::string_view::npos) return std::nullopt;
  auto const least = rocm_number_of(cell.substr(0, mark)),
             most = rocm_number_of(cell.substr(mark + 1));
  constexpr std::int64_t largest = 10'000'000;
  if (!least || !most) return std::nullopt;
  if (*least == rocm_property::unknown || *most == rocm_property::unknown)
    return rocm_property::unknown;
  return *most > largest || *least > *most ? std::nullopt : most;
}

}}}  // namespace blink::BLINK_ABI::detail
