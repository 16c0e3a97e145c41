// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/topology.hpp>

#include <array>
#include <charconv>
#include <cstddef>
#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

// The machines of `machines.hpp` by name, for command lines.

namespace blink { inline namespace BLINK_ABI {

/// A machine that users name on a command line.
struct built_in_machine {
  std::string_view name;
  std::string_view arguments;  ///< "": none; "[SERVERS]": optional
  std::string_view about;      ///< one line for lists
  topology (*make)(std::vector<int> const&);
  std::size_t least_arguments;  ///< numbers after the colon: "torus:4x4" has two
  std::size_t most_arguments;
};

/// All built-in machines, in the order of lists.
[[nodiscard]] inline auto const& built_in_machines() {
  using arguments = std::vector<int> const&;
  constexpr auto any = std::numeric_limits<std::size_t>::max();
  static constexpr auto servers = [](arguments a) { return a.empty() ? 1 : a[0]; };
  static constexpr std::array<built_in_machine, 15> list{{
      {"dgx1p", "", "8 P100, NVLink cube mesh", +[](arguments) { return machines::dgx1p(); }, 0, 0},
      {"dgx1v", "", "8 V100, NVLink cube mesh, some pairs doubled",
       +[](arguments) { return machines::dgx1v(); }, 0, 0},
      {"dgx1v_pcie", "", "the same with its PCIe tree and sockets",
       +[](arguments) { return machines::dgx1v_pcie(); }, 0, 0},
      {"dgx2", "", "16 V100 behind NVSwitch", +[](arguments) { return machines::dgx2(); }, 0, 0},
      {"dgx_a100", "[SERVERS]", "servers of 8 A100 behind NVSwitch, two network rails",
       +[](arguments a) { return machines::dgx_a100(servers(a)); }, 0, 1},
      {"dgx_h100", "[SERVERS]", "servers of 8 H100 behind NVSwitch, one network",
       +[](arguments a) { return machines::dgx_h100(servers(a)); }, 0, 1},
      {"hgx_h200", "", "8 H200 behind NVSwitch", +[](arguments) { return machines::hgx_h200(); }, 0,
       0},
      {"mi250", "[SERVERS]", "servers of 16 MI250 dies, Infinity Fabric",
       +[](arguments a) { return machines::mi250(servers(a)); }, 0, 1},
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

/// The name with its arguments: "dgx1v", "ring:N", "dgx_a100[:SERVERS]".
[[nodiscard]] inline std::string usage(built_in_machine const& machine) {
  std::string const name(machine.name);
  if (machine.arguments.empty()) return name;
  if (machine.arguments.front() != '[') return name + ":" + std::string(machine.arguments);
  return name + "[:" + std::string(machine.arguments.substr(1));
}

/// The machine of this name, such as "dgx1v", "dgx_a100:2", "torus:4x4". Nothing if the part before
/// the colon names no built-in machine.
///
/// Throws: input_error if the machine does not accept the numbers after the colon.
[[nodiscard]] std::optional<topology> make_built_in_machine(std::string_view text);

namespace detail {

/// The numbers of "4x4"; nothing for text of another form.
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

}  // namespace detail

inline std::optional<topology> make_built_in_machine(std::string_view text) {
  auto const name = text.substr(0, text.find(':'));
  for (auto const& each : built_in_machines()) {
    if (each.name != name) continue;
    std::optional<std::vector<int>> arguments(std::in_place);
    if (name.size() < text.size()) arguments = detail::read_extents(text.substr(name.size() + 1));
    if (!arguments || arguments->size() < each.least_arguments ||
        arguments->size() > each.most_arguments) {
      throw input_error("machine " + detail::in_quotes(text) + ": expected " + usage(each));
    }
    return each.make(*arguments);
  }
  return std::nullopt;
}

}}  // namespace blink::BLINK_ABI
