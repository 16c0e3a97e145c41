// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cctype>
#include <charconv>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

// Names of devices that drivers use: bus ids and UUIDs.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The text with small letters.
[[nodiscard]] inline std::string in_small_letters(std::string_view text) {
  std::string result(text);
  std::transform(result.begin(), result.end(), result.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return result;
}

[[nodiscard]] inline bool is_hexadecimal(std::string_view text) {
  return !text.empty() &&
         text.find_first_not_of("0123456789abcdefABCDEF") == std::string_view::npos;
}

/// The place of a PCI device, as a bus id such as "0000:06:00.0" states it.
struct pci_address {
  std::optional<std::uint32_t> domain;  ///< nothing in the short form "06:00.0"
  std::uint32_t bus = 0;
  std::uint32_t device = 0;
  std::uint32_t function = 0;

  /// True if both may be one device: without a domain an address means any.
  [[nodiscard]] bool agrees_with(pci_address const& other) const {
    bool const has_both = domain && other.domain;
    return bus == other.bus && device == other.device && function == other.function &&
           (!has_both || *domain == *other.domain);
  }
};

/// Reads "0000:06:00.0", "00000000:06:00.0" as NVML writes it, and "06:00.0". Nothing for other
/// texts.
[[nodiscard]] inline std::optional<pci_address> read_pci_address(std::string_view text) {
  auto const number = [](std::string_view digits,
                         std::size_t most) -> std::optional<std::uint32_t> {
    std::uint32_t value = 0;
    auto const* const end = digits.data() + digits.size();
    auto const [rest, failure] = std::from_chars(digits.data(), end, value, 16);
    if (failure != std::errc{} || rest != end || digits.size() > most) return std::nullopt;
    return value;
  };
  auto const point = text.rfind('.');
  auto const colon = text.rfind(':', point);
  if (point == std::string_view::npos || colon == std::string_view::npos) return std::nullopt;
  auto const above = text.substr(0, colon);  // domain and bus, or the bus alone
  auto const mark = above.find(':');
  bool const has_domain = mark != std::string_view::npos;
  auto const bus = number(above.substr(has_domain ? mark + 1 : 0), 2);
  auto const device = number(text.substr(colon + 1, point - colon - 1), 2);
  auto const function = number(text.substr(point + 1), 1);
  if (!bus || !device || !function) return std::nullopt;
  pci_address result{std::nullopt, *bus, *device, *function};
  if (!has_domain) return result;
  result.domain = number(above.substr(0, mark), 8);
  return result.domain ? std::optional(result) : std::nullopt;
}

/// "GPU-" and 16 digits, by which ROCm's runtime knows a GPU, of the unique id that rocm-smi and
/// hwloc state. Nothing for other texts, and for 0, which stands for no id.
[[nodiscard]] inline std::optional<std::string> rocm_uuid(std::string_view unique_id) {
  constexpr std::size_t digits = 16;
  if (unique_id.starts_with("0x")) unique_id.remove_prefix(2);
  bool const is_id = is_hexadecimal(unique_id) && unique_id.size() <= digits &&
                     unique_id.find_first_not_of('0') != std::string_view::npos;
  if (!is_id) return std::nullopt;
  return "GPU-" + std::string(digits - unique_id.size(), '0') + in_small_letters(unique_id);
}

/// The UUIDs of an AMD GPU of the one that a program states: a unique id, or the form of amd-smi
/// ("b5ff74a1-0000-1000-806f-3d3e7b684465"). That has the unique id in its first byte, the tenth
/// and the last six. None for texts that stand for no UUID.
///
/// Source: AMD SMI library, `amdsmi_uuid_gen`; ROCR runtime, ROCR_VISIBLE_DEVICES
[[nodiscard]] inline std::vector<std::string> amd_uuids(std::string_view stated) {
  constexpr std::size_t size = 36;
  if (stated.empty() || stated == "N/A" || stated.find_first_not_of("0x") == stated.npos) return {};
  if (auto uuid = rocm_uuid(stated)) return {*std::move(uuid)};
  std::vector<std::string> result{std::string(stated)};
  bool const is_of_amd_smi =
      stated.size() == size && stated.substr(8, 13) == "-0000-1000-80" && stated[23] == '-';
  if (!is_of_amd_smi) return result;
  auto const unique_id = std::string(stated.substr(0, 2)) + std::string(stated.substr(21, 2)) +
                         std::string(stated.substr(24));
  if (auto uuid = rocm_uuid(unique_id)) result.push_back(*std::move(uuid));
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
