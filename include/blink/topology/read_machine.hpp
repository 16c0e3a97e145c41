// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/topology/detail/input_text.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/read_json.hpp>
#include <blink/topology/read_nccl_xml.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace blink::inline BLINK_ABI {

/// A machine that `read_machine` knows without a file.
struct built_in_machine {
  std::string_view name;
  std::string_view arguments;  ///< "": none; "[BOXES]": may be left out
  std::string_view about;
  topology (*make)(std::vector<int> const&);
  std::size_t least_arguments;
  std::size_t most_arguments;
};

/// All of them, in the order in which to list them.
[[nodiscard]] inline auto const& built_in_machines() {
  using arguments = std::vector<int> const&;
  constexpr auto any = std::numeric_limits<std::size_t>::max();
  static constexpr auto boxes = [](arguments a) { return a.empty() ? 1 : a[0]; };
  static constexpr std::array<built_in_machine, 14> list{{
      {"dgx1p", "", "8 P100, NVLink cube mesh", +[](arguments) { return machines::dgx1p(); }, 0, 0},
      {"dgx1v", "", "8 V100, NVLink cube mesh, some pairs doubled",
       +[](arguments) { return machines::dgx1v(); }, 0, 0},
      {"dgx2", "", "16 V100 behind NVSwitch", +[](arguments) { return machines::dgx2(); }, 0, 0},
      {"dgx_a100", "[BOXES]", "boxes of 8 A100 behind NVSwitch, two network rails",
       +[](arguments a) { return machines::dgx_a100(boxes(a)); }, 0, 1},
      {"dgx_h100", "[BOXES]", "boxes of 8 H100 behind NVSwitch, one network",
       +[](arguments a) { return machines::dgx_h100(boxes(a)); }, 0, 1},
      {"hgx_h200", "", "8 H200 behind NVSwitch", +[](arguments) { return machines::hgx_h200(); }, 0,
       0},
      {"mi250", "[BOXES]", "boxes of 16 MI250 dies, Infinity Fabric",
       +[](arguments a) { return machines::mi250(boxes(a)); }, 0, 1},
      {"nvl72", "", "72 GPUs of a GB200 rack behind NVSwitch",
       +[](arguments) { return machines::nvl72(); }, 0, 0},
      {"ring", "N", "N ranks in a closed ring", +[](arguments a) { return machines::ring(a[0]); },
       1, 1},
      {"line", "N", "N ranks in a row", +[](arguments a) { return machines::line(a[0]); }, 1, 1},
      {"mesh", "AxB[xC]", "a grid", +[](arguments a) { return machines::mesh(a); }, 2, any},
      {"torus", "AxB[xC]", "a grid closed to rings",
       +[](arguments a) { return machines::torus(a); }, 2, any},
      {"hypercube", "D", "2^D ranks, links along the edges of a cube",
       +[](arguments a) { return machines::hypercube(a[0]); }, 1, 1},
      {"fully_connected", "N", "N ranks, each pair linked",
       +[](arguments a) { return machines::fully_connected(a[0]); }, 1, 1},
  }};
  return list;
}

/// A machine by built-in name ("dgx1v", "dgx_a100:2", "torus:4x4"), or from a file: JSON if the
/// name ends in .json, an NCCL or RCCL system topology if it ends in .xml.
///
/// Throws: input_error; for an unknown name it lists what is known and suggests the nearest.
[[nodiscard]] topology read_machine(std::string const& name_or_path);

namespace detail {

/// Levenshtein's distance: the least number of letters to insert, delete or replace.
inline std::size_t letters_apart(std::string_view a, std::string_view b) {
  std::vector<std::size_t> row(b.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < a.size(); ++i) {
    auto diagonal = row[0]++;
    for (std::size_t j = 0; j < b.size(); ++j) {
      auto const replaced = diagonal + (a[i] == b[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replaced, row[j + 1] + 1, row[j] + 1});
    }
  }
  return row.back();
}

inline std::string usage(built_in_machine const& machine) {
  std::string const name(machine.name);
  if (machine.arguments.empty()) return name;
  if (machine.arguments.front() != '[') return name + ":" + std::string(machine.arguments);
  return name + "[:" + std::string(machine.arguments.substr(1));
}

/// "4x4" as 4 4.
inline std::optional<std::vector<int>> read_extents(std::string_view text) {
  std::vector<int> result;
  while (true) {
    int value = 0;
    auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (fault != std::errc{} || value < 0) return std::nullopt;
    result.push_back(value);
    text.remove_prefix(static_cast<std::size_t>(end - text.data()));
    if (text.empty()) return result;
    if (text.front() != 'x') return std::nullopt;
    text.remove_prefix(1);
  }
}

[[noreturn]] inline void fail_unknown_machine(std::string_view asked, std::string_view name) {
  std::string known;
  built_in_machine const* nearest = nullptr;
  std::size_t distance = 0;
  for (auto const& each : built_in_machines()) {
    known += (known.empty() ? "" : ", ") + usage(each);
    auto const d = letters_apart(name.substr(0, 64), each.name);
    if (nearest == nullptr || d < distance) {
      nearest = &each;
      distance = d;
    }
  }
  throw input_error("unknown machine " + in_quotes(asked) +
                    (distance <= 3 ? "; did you mean " + usage(*nearest) + "?" : std::string()) +
                    " Expected a file that ends in .json or .xml, or one of " + known);
}

}  // namespace detail

inline topology read_machine(std::string const& name_or_path) {
  std::string_view const asked = name_or_path;
  if (asked.ends_with(".json")) return read_json_file(name_or_path);
  if (asked.ends_with(".xml")) return read_nccl_xml_file(name_or_path);
  auto const name = asked.substr(0, asked.find(':'));
  for (auto const& each : built_in_machines()) {
    if (each.name != name) continue;
    std::optional<std::vector<int>> arguments(std::in_place);
    if (name.size() < asked.size()) {
      arguments = detail::read_extents(asked.substr(name.size() + 1));
    }
    if (!arguments || arguments->size() < each.least_arguments ||
        arguments->size() > each.most_arguments) {
      throw input_error("machine " + detail::in_quotes(asked) + ": expected " +
                        detail::usage(each));
    }
    return each.make(*arguments);
  }
  detail::fail_unknown_machine(asked, name);
}

}  // namespace blink::inline BLINK_ABI
