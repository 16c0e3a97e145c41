// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/topology/readers/detail/square_table.hpp>
#include <blink/topology/readers/detail/text_lines.hpp>

#include <map>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The names of a card in `xpu-smi discovery`.
struct xpu_card {
  std::string uuid;
  std::string bus_id;
};

/// The cards that `xpu-smi discovery` lists, by their number as text.
using xpu_cards = std::map<std::string, xpu_card>;

/// Finds the cards in the lines beside a table.
///
/// - "0 Device Name: NAME" begins a card.
/// - "UUID: 00000000-…" and "PCI BDF Address: 0000:18:00.0" are about the last card.
[[nodiscard]] inline xpu_cards xpu_cards_of(std::vector<numbered_line> const& lines) {
  xpu_cards result;
  xpu_card* last = nullptr;
  for (auto const& line : lines) {
    auto const words = words_of(line.text);
    if (words.size() > 2 && is_digits(words[0]) && words[1] == "Device") {
      last = &result[std::string(words[0])];
    } else if (last != nullptr && words.size() == 2 && words[0] == "UUID:") {
      last->uuid = words[1];
    } else if (last != nullptr && words.size() == 4 && words[1] == "BDF") {
      last->bus_id = words[3];
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
