// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/detail/spanning_tree_search.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/readers/detail/square_table.hpp>
#include <blink/topology/readers/detail/table_machine_builder.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>
#include <blink/topology/readers/detail/text_remarks.hpp>
#include <blink/topology/readers/detail/xpu_cards.hpp>
#include <blink/topology/readers/reading_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The path between two tiles that a cell of `xpu-smi topology -m` names, from near to far.
struct xpu_path {
  enum class level : std::uint8_t {
    unknown,
    self,
    mdf,     ///< Multi-Die Fabric: the tiles are on one card
    xelink,  ///< direct Xe Links
    routed,  ///< Xe Links of other tiles
    pix,
    pxb,
    phb,
    node,
    sys
  };
  level is = level::unknown;
  int lanes_missing = 0;  ///< of Xe Links: `most_lanes` minus their number

  static constexpr int most_lanes = 999;
  [[nodiscard]] int lanes() const { return most_lanes - lanes_missing; }
  /// The slower path is larger.
  friend auto operator<=>(xpu_path const&, xpu_path const&) = default;
  friend bool operator==(xpu_path const&, xpu_path const&) = default;  // nvcc warns without
};

/// Reads "S", "MDF", "XL16", "XL*", "PIX", "PXB", "PHB", "NODE", "SYS"; nothing for other words.
[[nodiscard]] inline std::optional<xpu_path> xpu_path_of(std::string_view word) {
  using level = xpu_path::level;
  constexpr std::array<std::pair<std::string_view, level>, 11> codes{{{"S", level::self},
                                                                      {"MDF", level::mdf},
                                                                      {"XL*", level::routed},
                                                                      {"PIX", level::pix},
                                                                      {"PXB", level::pxb},
                                                                      {"PHB", level::phb},
                                                                      {"NODE", level::node},
                                                                      {"SYS", level::sys},
                                                                      {"N/A", level::unknown},
                                                                      {"Unknown", level::unknown},
                                                                      {"XL", level::xelink}}};
  for (auto const& [code, is] : codes) {
    if (word == code) return xpu_path{is, xpu_path::most_lanes};
  }
  constexpr std::size_t most_digits = 3;
  auto const lanes = word.substr(std::min<std::size_t>(2, word.size()));
  if (!word.starts_with("XL") || !is_digits(lanes) || lanes.size() > most_digits) return {};
  return xpu_path{level::xelink, xpu_path::most_lanes - std::stoi(std::string(lanes))};
}

/// Turns the table of xpu-smi into nodes and links.
class xpu_machine_builder {
 public:
  using level = xpu_path::level;

  /// text: with one table
  xpu_machine_builder(square_tables const& text, std::string const& file, text_remarks& remarks,
                      assumed_rates const& rates)
      : table_(text.tables.front()),
        cards_(xpu_cards_of(text.others)),
        last_line_(text.last_line),
        file_(file),
        remarks_(remarks),
        paths_(count(), std::vector<xpu_path>(count())),
        affinities_(count()),
        machine_(rates, [this](link_kind kind) { return assumed_rate(kind); }) {}

  [[nodiscard]] topology build() {
    for (auto const& row : table_.rows) read_row(row);
    compare_rows();
    for (std::size_t tile = 0; tile < count(); ++tile) {
      int const id = machine_.add_gpu("gpu" + table_.names[tile].substr(3));
      auto const known = cards_.find(card_of(tile));
      if (known != cards_.end()) machine_.machine().at(id).bus_id = known->second.bus_id;
    }
    add_fabric();
    add_pcie();
    remarks_.move_to(machine_.machine());
    return machine_.build(file_);
  }

 private:
  [[nodiscard]] std::size_t count() const { return table_.names.size(); }
  [[nodiscard]] xpu_path between(std::size_t a, std::size_t b) const {
    return std::max(paths_[a][b], paths_[b][a]);
  }
  template <class Call>
  void for_each_pair(Call const& call) const {
    for (std::size_t a = 0; a < count(); ++a) {
      for (std::size_t b = a + 1; b < count(); ++b) call(a, b);
    }
  }

  void read_row(square_table::row const& row) {
    for (std::size_t column = 0; column < row.cells.size(); ++column) {
      auto const path = xpu_path_of(row.cells[column]);
      bool const is_self = path && path->is == level::self;
      if (path && is_self == (column == row.at)) {
        paths_[row.at][column] = *path;
        continue;
      }
      fail_at(file_, row.line,
              "the row of " + in_quotes(table_.names[row.at]) + " has " +
                  in_quotes(row.cells[column]) + " in column " + in_quotes(table_.names[column]) +
                  ", expected " +
                  (column == row.at ? "S" : "XL and lanes, XL*, MDF, PIX, PXB, PHB, NODE or SYS"));
    }
    if (!row.others.empty()) affinities_[row.at] = row.others.front();
  }

  void compare_rows() {
    std::vector<int> lines(count(), 0);
    for (auto const& row : table_.rows) lines[row.at] = row.line;
    for_each_pair([&](std::size_t a, std::size_t b) {
      auto const &there = paths_[a][b], &back = paths_[b][a];
      auto const names = table_.names[a] + " and " + table_.names[b];
      if (between(a, b).is == level::unknown) {
        fail_at(file_, last_line_,
                "the table ends here and says nothing about " + names +
                    ", expected the row of one of them");
      }
      if (there == back || there.is == level::unknown || back.is == level::unknown) return;
      remarks_.add(lines[a], names + " say other paths to each other; the slower one counts");
    });
  }

  /// The number of a tile's card.
  [[nodiscard]] std::string card_of(std::size_t tile) const {
    auto const& name = table_.names[tile];
    return name.substr(3, name.find('/') - 3);
  }

  /// Xe Links, and the fabric between the tiles of a card.
  void add_fabric() {
    // Tile to tile in one direction, as the Argonne Leadership Computing Facility measures it on
    // Aurora's Max 1550 (docs.alcf.anl.gov, "Aurora node performance overview").
    constexpr int mdf_rate = 196;
    constexpr int lanes_of_a_link = 4;
    bool has_mdf = false;
    for_each_pair([&](std::size_t a, std::size_t b) {
      auto const path = between(a, b);
      int const from = static_cast<int>(a), to = static_cast<int>(b);
      if (path.is == level::mdf) {
        machine_.add_both_ways_at(mdf_rate, from, to, link_kind::xelink);
        has_mdf = true;
      } else if (path.is == level::xelink && path.lanes() > 0) {
        machine_.add_both_ways(from, to, link_kind::xelink,
                               rational(path.lanes(), lanes_of_a_link));
      } else if (path.is == level::xelink) {
        remarks_.add(table_.header_line, table_.names[a] + " and " + table_.names[b] +
                                             " state no lanes of Xe Link, which count as four");
        machine_.add_both_ways(from, to, link_kind::xelink);
      }
    });
    if (has_mdf) {
      machine_.remark("MDF counts as " + std::to_string(mdf_rate) +
                      " GB/s of kind xelink, as measured on Aurora: the table says no rates");
    }
  }

  [[nodiscard]] bool has_fabric() const {
    return std::any_of(paths_.begin(), paths_.end(), [](auto const& row) {
      return std::any_of(row.begin(), row.end(), [](auto const& path) {
        return path.is == level::mdf || path.is == level::xelink;
      });
    });
  }

  /// A rate, and the reason for it.
  [[nodiscard]] reasoned_rate assumed_rate(link_kind kind) const {
    if (kind == link_kind::socket) {
      return {assumed_between_processors, "as NCCL assumes between AMD processors"};
    }
    // Half of the 50663.95 MiB/s that `xpu-smi discovery` shows for a port of a Max 1100. The port
    // has four lanes, and the number is for both directions.
    if (kind == link_kind::xelink) return {rational(425, 16), "four lanes of 53.125 Gb/s"};
    constexpr std::int64_t lanes = 16;
    if (has_fabric()) return {pcie_rate(lanes, "32 GT/s"), "Gen 5 x16 as beside Xe Links"};
    return {pcie_rate(lanes, "16 GT/s"), "Gen 4 x16"};
  }

  /// Cards, PCIe switches and processors.
  void add_pcie() {
    std::vector<int> top(count());
    disjoint_sets sets(static_cast<int>(count()));
    std::map<std::string, std::vector<int>> cards;
    for (std::size_t tile = 0; tile < count(); ++tile) {
      top[tile] = static_cast<int>(tile);
      cards[card_of(tile)].push_back(top[tile]);
    }
    for (auto const& [card, tiles] : cards) {
      if (tiles.size() < 2) {
        set_uuid(tiles.front(), card);
        continue;
      }
      int const above = machine_.add_switch("card" + card);
      set_uuid(above, card);
      for (int const tile : tiles) {
        machine_.add_both_ways(tile, above, link_kind::pcie);
        sets.join(tiles.front(), tile);
        top[static_cast<std::size_t>(tile)] = above;
      }
    }
    for (auto const farthest : {level::pix, level::pxb}) {
      join_nearer(sets, farthest);
      machine_.raise(sets, top);
    }
    join_nearer(sets, level::node);
    table_machine_builder::join_by_affinity(sets, affinities_);
    join_unknown(sets);
    machine_.add_processors(sets, top);
  }

  void set_uuid(int id, std::string const& card) {
    auto const known = cards_.find(card);
    if (known == cards_.end() || known->second.uuid.empty()) return;
    machine_.machine().at(id).uuids = {known->second.uuid};
  }

  void join_nearer(disjoint_sets& sets, level farthest) const {
    for_each_pair([&](std::size_t a, std::size_t b) {
      auto const is = between(a, b).is;
      if (level::pix <= is && is <= farthest) sets.join(static_cast<int>(a), static_cast<int>(b));
    });
  }

  /// Makes one processor of all cards if the table says nothing that parts them.
  void join_unknown(disjoint_sets& sets) const {
    bool are_apart = std::any_of(affinities_.begin(), affinities_.end(),
                                 [&](auto affinity) { return affinity != affinities_[0]; });
    for_each_pair([&](std::size_t a, std::size_t b) {
      are_apart = are_apart || between(a, b).is == level::sys;
    });
    for (int tile = 1; tile < static_cast<int>(count()) && !are_apart; ++tile) sets.join(0, tile);
  }

  square_table const& table_;
  xpu_cards cards_;
  int last_line_;
  std::string const& file_;
  text_remarks& remarks_;
  std::vector<std::vector<xpu_path>> paths_;  // by row and column
  std::vector<std::string_view> affinities_;  // by tile
  table_machine_builder machine_;
};

}  // namespace detail

/// True if the text has a line of tiles, such as "GPU 0/0|GPU 0/1|CPU Affinity", or the row of one.
[[nodiscard]] inline bool is_xpu_smi(std::string_view text) {
  for (auto const& line : detail::text_lines(text)) {
    auto const plain = detail::with_plain_names(line);
    auto const words = detail::words_of(plain);
    auto const is_tile = [](std::string_view word) {
      return detail::is_gpu_name(word) && word.find('/') != std::string_view::npos;
    };
    if (words.size() < 2 || !is_tile(words[0])) continue;
    if (is_tile(words[1]) || words[1] == "CPU" || detail::xpu_path_of(words[1])) return true;
  }
  return false;
}

/// Reads a machine of Intel GPUs from the table that `xpu-smi topology -m` prints, with or without
/// bars.
///
/// Ranks are the tiles, with ids 0 … N-1 in the order of the columns. Cards of several tiles, PCIe
/// switches and processors follow.
///
/// - XL# are direct Xe Links with # lanes; a link has four. XL* passes other tiles, so that it is
///   no link of its own.
/// - MDF joins the tiles of a card. Such a link has kind xelink, because both are one fabric.
/// - Each card has one link to a PCIe switch or its processor. PIX, PXB, PHB, NODE and SYS count as
///   in `read_smi_matrix`, and equal affinities make one processor.
/// - Rates are those of `options`, or assumed. `topology::remarks` says which.
/// - `xpu-smi discovery` in the same text names the cards. A card of several tiles is a switch,
///   which has the UUID.
///
/// file:   the name that errors start with
/// Source: codes as in Intel's user guide of XPU-SMI
/// Time:   O(N^2 log N) for N tiles.
/// Post:   `validate` accepts the result.
/// Throws: input_error with file and line if the text has no such table or several. Also if a row
///         does not match the line of names, or two tiles have no path. With `is_strict` also for
///         the first remark about the text.
[[nodiscard]] inline topology read_xpu_smi(std::string_view text, std::string const& file,
                                           reading_options const& options = {}) {
  detail::text_remarks remarks(file, options.is_strict);
  auto const found = detail::square_table_reader(text, file, remarks).read();
  if (found.tables.size() != 1) {
    int const line = found.tables.empty() ? 1 : found.tables[1].header_line;
    detail::fail_at(file, line,
                    std::string(found.tables.empty() ? "no" : "a second") +
                        " line with the names of the tiles, expected one with GPU 0/0, GPU 0/1, …");
  }
  return detail::xpu_machine_builder(found, file, remarks, options.rates).build();
}

}}  // namespace blink::BLINK_ABI
