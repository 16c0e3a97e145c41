// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>

#include <array>
#include <cstdint>
#include <optional>
#include <string_view>

// Bandwidths in GB/s of one direction. NCCL's rates are those of its source, release 2.30
// (graph/topo.h, graph/topo.cc). RCCL's are those of its repository of October 2024. Line rates are
// those of the makers' data sheets.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// NCCL's rate of one NVLink of a GPU with compute capability `sm` (70 for 7.0). Nothing for GPUs
/// without NVLink.
[[nodiscard]] constexpr std::optional<rational> nvlink_effective_rate(std::int64_t sm) {
  if (sm < 60 || sm == 89) return std::nullopt;
  if (sm >= 100) return rational(401, 10);
  if (sm >= 90) return rational(206, 10);
  if (sm == 86) return rational(12);
  return sm >= 70 ? rational(20) : rational(18);
}

/// The data sheet's rate of one NVLink of such a GPU.
[[nodiscard]] constexpr std::optional<rational> nvlink_line_rate(std::int64_t sm) {
  if (sm < 60 || sm == 89) return std::nullopt;
  if (sm >= 100) return rational(50);
  if (sm == 86) return rational(225, 16);  // four links make 56.25
  return sm >= 70 ? rational(25) : rational(20);
}

/// RCCL's rate of one XGMI link of a GPU. `gcn` is such as "906" or "gfx942". "910" is RCCL's
/// decimal number for gfx90a.
[[nodiscard]] constexpr std::optional<rational> xgmi_effective_rate(std::string_view gcn) {
  if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
  if (gcn == "906" || gcn == "908") return rational(24);
  if (gcn == "90a" || gcn == "910") return rational(36);
  if (gcn == "940" || gcn == "941" || gcn == "942" || gcn == "950") return rational(48);
  return std::nullopt;
}

/// The data sheet's rate of one XGMI link: half of the sheet's number, which is for both
/// directions.
[[nodiscard]] constexpr std::optional<rational> xgmi_line_rate(std::string_view gcn) {
  if (gcn.starts_with("gfx")) gcn.remove_prefix(3);
  if (gcn == "906" || gcn == "908") return rational(46);
  if (gcn == "90a" || gcn == "910") return rational(50);
  if (gcn == "940" || gcn == "941" || gcn == "942") return rational(64);
  if (gcn == "950") return rational(153, 2);
  return std::nullopt;
}

/// NCCL's rate of one lane of PCIe, in units of 100 Mb/s, by the transfers that Linux writes: "16
/// GT/s", "16.0 GT/s" or "16.0 GT/s PCIe". Nothing for another text.
///
/// as_nccl: "16.0 GT/s" is another text, as for NCCL itself
[[nodiscard]] constexpr std::optional<int> pcie_lane_rate(std::string_view speed,
                                                          bool as_nccl = false) {
  struct row {
    std::string_view transfers;
    int rate;
  };
  constexpr std::array<row, 11> rows{{{"2.5", 15},
                                      {"5", 30},
                                      {"5.0", 30},
                                      {"8", 60},
                                      {"8.0", 60},
                                      {"16", 120},
                                      {"16.0", 120},
                                      {"32", 240},
                                      {"32.0", 240},
                                      {"64", 480},
                                      {"64.0", 480}}};
  for (auto const& [transfers, rate] : rows) {
    if (!speed.starts_with(transfers)) continue;
    auto const behind = speed.substr(transfers.size());
    bool const has_suffix = behind.starts_with(" GT/s PCIe");
    bool const is_known = !as_nccl || transfers == "2.5" || !transfers.ends_with(".0");
    if (behind.starts_with(" GT/s") && (is_known || has_suffix)) return rate;
  }
  return std::nullopt;
}

/// The rate of a PCIe link: its width times that of a lane, which counts as 8 GT/s if it is not
/// known.
[[nodiscard]] constexpr rational pcie_rate(std::int64_t lanes, std::string_view speed,
                                           bool as_nccl = false) {
  return rational(lanes * pcie_lane_rate(speed, as_nccl).value_or(60), 80);
}

/// The most NVLinks that a GPU of this compute capability has; 36 of those to come.
[[nodiscard]] constexpr std::int64_t most_nvlinks(std::int64_t sm) {
  if (sm >= 110) return 36;
  if (sm >= 90) return 18;
  if (sm == 86) return 4;
  if (sm >= 80) return 12;
  return sm >= 70 ? 6 : 4;
}

/// The attributes of a processor on which the rate between sockets depends.
struct processor {
  std::string_view arch;
  std::string_view vendor;
  std::optional<std::int64_t> family;
  std::optional<std::int64_t> model;
};

/// The rate between two NUMA nodes of a host: NCCL's, but for Granite Rapids, which it takes for
/// Sapphire Rapids. Nothing for a processor that NCCL does not know.
///
/// as_nccl: NCCL's for Granite Rapids as well
[[nodiscard]] constexpr std::optional<rational> between_processors_rate(processor const& cpu,
                                                                        bool as_nccl = false) {
  if (cpu.arch == "ppc64" || cpu.arch == "ppc64le") return rational(32);
  if (cpu.arch == "arm64" || cpu.arch == "aarch64") return rational(6);
  if (cpu.arch != "x86_64") return std::nullopt;
  if (cpu.vendor == "AuthenticAMD") return rational(16);
  if (cpu.vendor == "GenuineIntel") {
    if (!cpu.model) return std::nullopt;
    if (!as_nccl && (*cpu.model == 0xAD || *cpu.model == 0xAE)) return rational(48);
    if (*cpu.model >= 0xCF) return rational(40);  // Emerald Rapids
    if (*cpu.model >= 0x8F) return rational(22);  // Sapphire Rapids
    return *cpu.model >= 0x55 ? rational(10) : rational(6);
  }
  if (cpu.vendor == "CentaurHauls" || cpu.vendor == "  Shanghai  ") {
    return cpu.family == 7 && cpu.model == 0x5B ? rational(9) : rational(6);
  }
  return std::nullopt;
}

/// The rate between processors of which nothing is known: as between AMD's.
inline constexpr int assumed_between_processors = 16;

/// NCCL's rate of a link inside a chip. It is no limit in practice.
inline constexpr int unlimited_rate = 5000;

}}}  // namespace blink::BLINK_ABI::detail
