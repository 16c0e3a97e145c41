// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <array>
#include <optional>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Facts about the links of a GPU, by its name.
struct gpu_model {
  std::string_view name;    ///< a part of the GPU's name, whole words
  int sm = 0;               ///< its compute capability, for NVLink; 0: it has no NVLink
  std::string_view pcie{};  ///< transfers of its PCIe generation; empty: not known
};

/// The model that a name such as "NVIDIA A100-SXM4-80GB" has; nothing for unknown ones.
///
/// Source: data sheets of the makers.
[[nodiscard]] inline std::optional<gpu_model> gpu_model_of(std::string_view name) {
  constexpr std::string_view gen3 = "8 GT/s", gen4 = "16 GT/s", gen5 = "32 GT/s";
  constexpr std::array<gpu_model, 33> models{{
      {"P100", 60, gen3},      {"V100", 70, gen3},     {"V100S", 0, gen3},
      {"A100", 80, gen4},      {"A800", 80, gen4},     {"A30", 80, gen4},
      {"H100", 90, gen5},      {"H200", 90, gen5},     {"H800", 90, gen5},
      {"H20", 90, gen5},       {"GH200", 90, gen5},    {"B100", 100, gen5},
      {"B200", 100, gen5},     {"B300", 100, {}},      {"GB200", 100, {}},
      {"GB300", 100, {}},      {"A40", 86, gen4},      {"RTX A6000", 86, gen4},
      {"RTX A5000", 86, gen4}, {"RTX 3090", 86, gen4}, {"RTX 2080", 75, gen3},
      {"TITAN RTX", 75, gen3}, {"K80", 0, gen3},       {"P40", 0, gen3},
      {"P4", 0, gen3},         {"T4", 0, gen3},        {"A10", 0, gen4},
      {"L4", 0, gen4},         {"L40", 0, gen4},       {"L40S", 0, gen4},
      {"RTX 4090", 0, gen4},   {"RTX 5090", 0, gen5},  {"RTX PRO 6000", 0, gen5},
  }};
  std::string words = " ";
  for (char const c : name) {
    bool const is_word = ('0' <= c && c <= '9') || ('A' <= c && c <= 'Z') || ('a' <= c && c <= 'z');
    if (is_word || words.back() != ' ') words += is_word ? c : ' ';
  }
  words += ' ';
  for (auto const& each : models) {
    if (words.find(" " + std::string(each.name) + " ") != std::string::npos) return each;
  }
  return std::nullopt;
}

}}}  // namespace blink::BLINK_ABI::detail
