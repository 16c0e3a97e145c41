// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

// Labels that readers and built-in machines give to nodes: their meaning, and lists of them.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// True if a label begins with a word and the rest is empty or has a digit: "nic", "mlx5_0".
[[nodiscard]] inline bool is_numbered(std::string_view label, std::string_view word) {
  auto const is_same = [](char a, char b) {
    return std::tolower(static_cast<unsigned char>(a)) == b;
  };
  if (label.size() < word.size()) return false;
  auto const rest = label.substr(word.size());
  return std::equal(word.begin(), word.end(), label.begin(),
                    [&](char small, char any) { return is_same(any, small); }) &&
         (rest.empty() || rest.find_first_of("0123456789") != std::string_view::npos);
}

/// The label without the number of a server: "nic0" of "b1.nic0".
[[nodiscard]] inline std::string_view label_in_server(std::string_view label) {
  auto const point = label.find('.');
  bool const has_server =
      point != std::string_view::npos && point > 1 && label.front() == 'b' &&
      label.substr(1, point - 1).find_first_not_of("0123456789") == std::string_view::npos;
  return has_server ? label.substr(point + 1) : label;
}

/// True for labels of NICs: "nic", and names of RDMA and Ethernet devices as Linux drivers give
/// them, which have a digit.
[[nodiscard]] inline bool is_nic_label(std::string_view label) {
  constexpr std::array<std::string_view, 24> words{
      "nic",   "mlx", "net ", "bnxt", "irdma", "efa", "rdmap", "roce",
      "ib",    "hfi", "qedr", "hns",  "cxi",   "hsn", "erdma", "mana",
      "ionic", "eth", "enp",  "ens",  "eno",   "hsi", "opa",   "usnic"};
  auto const name = label_in_server(label);
  bool const has_digit = name.find_first_of("0123456789") != std::string_view::npos;
  return name == words.front() ||
         (has_digit && std::any_of(words.begin(), words.end(),
                                   [&](std::string_view word) { return is_numbered(name, word); }));
}

/// True for labels of processors, as readers and built-in machines write them.
[[nodiscard]] inline bool is_processor_label(std::string_view label) {
  constexpr std::array<std::string_view, 6> words{"processor", "numa",    "socket",
                                                  "cpu",       "package", "memory"};
  return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
    return is_numbered(label_in_server(label), word);
  });
}

/// Up to `most` names, then the number of the others: "gpu0, gpu1 and 3 more".
[[nodiscard]] inline std::string few_of(std::vector<std::string> const& names,
                                        std::size_t most = 4) {
  std::string text;
  for (std::size_t i = 0; i < std::min(names.size(), most); ++i) {
    text += (i == 0 ? "" : ", ") + names[i];
  }
  if (names.size() > most) text += " and " + std::to_string(names.size() - most) + " more";
  return text;
}

}}}  // namespace blink::BLINK_ABI::detail
