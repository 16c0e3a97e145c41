// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/detail/nccl_rates.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string>

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

}}}  // namespace blink::BLINK_ABI::detail
