// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/nccl_rates.hpp>
#include <blink/topology/topology.hpp>

#include <array>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

// What a topology file of NCCL states so that its rates are those of a machine.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The attributes of a PCI device whose link has this rate in NCCL's table; nothing if no width and
/// generation has it.
[[nodiscard]] inline std::optional<std::string> pcie_attributes(rational const& rate) {
  constexpr std::array<char const*, 6> speeds{"16.0 GT/s PCIe", "32.0 GT/s PCIe", "8.0 GT/s PCIe",
                                              "64.0 GT/s PCIe", "5.0 GT/s PCIe",  "2.5 GT/s"};
  for (std::int64_t const lanes : {16, 8, 4, 32, 12, 2, 1}) {
    for (auto const* const speed : speeds) {
      if (pcie_rate(lanes, speed) != rate) continue;
      return std::string("link_speed=\"") + speed + "\" link_width=\"" + std::to_string(lanes) +
             "\"";
    }
  }
  return std::nullopt;
}

/// The attributes of a processor with this rate to others of its host; nothing if none has it.
[[nodiscard]] inline std::optional<std::string> processor_attributes(rational const& to_others) {
  struct row {
    processor what;
    char const* text;
  };
  std::array<row, 8> const known{{
      {{"x86_64", "AuthenticAMD", 25, 17},
       "arch=\"x86_64\" vendor=\"AuthenticAMD\" familyid=\"25\" modelid=\"17\""},
      {{"x86_64", "GenuineIntel", 6, 0x4F},
       "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"79\""},
      {{"x86_64", "CentaurHauls", 7, 0x5B},
       "arch=\"x86_64\" vendor=\"CentaurHauls\" familyid=\"7\" modelid=\"91\""},
      {{"x86_64", "GenuineIntel", 6, 0x55},
       "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"85\""},
      {{"x86_64", "GenuineIntel", 6, 0x8F},
       "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"143\""},
      {{"x86_64", "GenuineIntel", 6, 0xCF},
       "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"207\""},
      {{"x86_64", "GenuineIntel", 6, 0xAD},
       "arch=\"x86_64\" vendor=\"GenuineIntel\" familyid=\"6\" modelid=\"173\""},
      {{"ppc64", "", std::nullopt, std::nullopt}, "arch=\"ppc64\""},
  }};
  for (auto const& [what, text] : known) {
    if (between_processors_rate(what) == to_others) return text;
  }
  return std::nullopt;
}

/// True if all rates are whole numbers of links of rate `one`, and at most `most` together.
[[nodiscard]] inline bool are_links_of(std::vector<rational> const& rates, rational const& one,
                                       std::int64_t most) {
  rational sum;
  for (auto const& rate : rates) {
    if ((rate / one).denominator() != 1) return false;
    sum += rate / one;
  }
  return sum <= rational(most);
}

/// The compute capability of a GPU with NVLinks of these rates; nothing if no generation has them.
[[nodiscard]] inline std::optional<std::int64_t> nvlink_generation(
    std::vector<rational> const& rates) {
  for (std::int64_t const sm : {70, 80, 90, 100, 60, 86}) {
    if (are_links_of(rates, *nvlink_line_rate(sm), most_nvlinks(sm))) return sm;
  }
  return std::nullopt;
}

/// The chip of a GPU with XGMI links of these rates, such as "942"; nothing if none has them.
[[nodiscard]] inline std::optional<std::string> xgmi_generation(
    std::vector<rational> const& rates) {
  constexpr std::int64_t most = 36;  // as many as a reader takes
  for (char const* const chip : {"942", "90a", "908", "950"}) {
    if (are_links_of(rates, *xgmi_line_rate(chip), most)) return chip;
  }
  return std::nullopt;
}

/// The bus ids of devices of one server: their own, those of labels such as "pci 0000:06:00.0" and
/// "card 0000:05:00", else numbers in a row.
[[nodiscard]] inline std::map<int, std::string> bus_ids_of(topology const& machine,
                                                           std::vector<int> const& devices) {
  std::map<int, std::string> result;
  std::set<std::string> taken;
  for (int const device : devices) {
    auto const& n = machine.nodes[static_cast<std::size_t>(device)];
    std::string_view const label = n.label;
    bool const is_in_label = label.starts_with("pci ") || label.starts_with("card ");
    std::string_view id = n.bus_id;
    if (id.empty() && is_in_label) id = label.substr(label.find(' ') + 1);
    bool const is_bus_id =
        id.size() >= 10 && id.size() <= 20 &&
        id.find_first_not_of("0123456789abcdefABCDEF:.") == std::string_view::npos;
    if (is_bus_id && taken.insert(std::string(id)).second) result[device] = id;
  }
  int next = 1;
  for (int const device : devices) {
    while (!result.contains(device)) {
      char text[32];
      std::snprintf(text, sizeof text, "%04x:%02x:00.0", next / 256, next % 256);
      ++next;
      if (taken.insert(text).second) result[device] = text;
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
