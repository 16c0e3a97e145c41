// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>

#include <array>
#include <cmath>
#include <cstddef>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Length of the UTF-8 character that `text` starts with, or 0 if it starts with none.
[[nodiscard]] inline std::size_t utf8_length(std::string_view text) {
  auto const byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (byte(0) < 0x80) return 1;
  std::size_t const length = byte(0) >= 0xf0 ? 4 : byte(0) >= 0xe0 ? 3 : 2;
  if (byte(0) < 0xc2 || byte(0) > 0xf4 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (byte(i) < 0x80 || byte(i) > 0xbf) return 0;
  }
  bool const is_overlong =
      (byte(0) == 0xe0 && byte(1) < 0xa0) || (byte(0) == 0xf0 && byte(1) < 0x90);
  bool const is_surrogate = byte(0) == 0xed && byte(1) > 0x9f;
  bool const is_beyond = byte(0) == 0xf4 && byte(1) > 0x8f;
  bool const is_no_character = byte(0) == 0xef && byte(1) == 0xbf && byte(2) > 0xbd;
  return is_overlong || is_surrogate || is_beyond || is_no_character ? 0 : length;
}

/// Any bytes as text of an XML document, at most `longest` characters. Markup is escaped. Bytes
/// that are not UTF-8, and characters that XML forbids, become "?".
[[nodiscard]] inline std::string escaped(std::string_view text, std::size_t longest = 200) {
  std::string result;
  for (std::size_t i = 0, count = 0; i < text.size(); ++count) {
    if (count == longest) return result + "…";
    auto const length = utf8_length(text.substr(i));
    char const c = text[i];
    if (length > 1) {
      result += text.substr(i, length);
    } else if (length == 0 || static_cast<unsigned char>(c) < 0x20 || c == 0x7f) {
      result += '?';
    } else if (c == '&') {
      result += "&amp;";
    } else if (c == '<') {
      result += "&lt;";
    } else if (c == '>') {
      result += "&gt;";
    } else if (c == '"') {
      result += "&quot;";
    } else if (c == '\'') {
      result += "&#39;";
    } else {
      result += c;
    }
    i += length == 0 ? 1 : length;
  }
  return result;
}

/// A length in pixels, to a tenth; the same in every locale.
[[nodiscard]] inline std::string px(double value) {
  long const tenths = std::lround(value * 10);
  long const size = tenths < 0 ? -tenths : tenths;
  return (tenths < 0 ? "-" : "") + std::to_string(size / 10) +
         (size % 10 == 0 ? "" : "." + std::to_string(size % 10));
}

/// A rate for people, with at most two decimals: "12.5".
[[nodiscard]] inline std::string short_text(rational const& value) {
  double const rounded = value.to_double();
  if (!(std::abs(rounded) < 1e15)) return value.to_text();
  auto const hundredths = std::llround(rounded * 100);
  auto const size = hundredths < 0 ? -hundredths : hundredths;
  auto text = (hundredths < 0 ? "-" : "") + std::to_string(size / 100);
  if (size % 100 != 0) {
    text += "." + std::to_string(size % 100 / 10);
    if (size % 10 != 0) text += std::to_string(size % 10);
  }
  return text;
}

/// The colour of tree number `i`. The first colours differ well on white; later ones go round the
/// colour circle.
[[nodiscard]] inline std::string tree_colour(std::size_t i) {
  constexpr std::array<std::string_view, 12> first{"#1464b4", "#e0501e", "#149650", "#a028b4",
                                                   "#dca000", "#00aacd", "#c81450", "#6e5028",
                                                   "#78a000", "#4646d2", "#ff82b4", "#006464"};
  if (i < first.size()) return std::string(first[i]);
  constexpr std::size_t golden_angle = 137;  // degrees, so that successive trees differ
  return "hsl(" + std::to_string(i * golden_angle % 360) + ",70%," +
         std::to_string(30 + i % 3 * 12) + "%)";
}

}}}  // namespace blink::BLINK_ABI::detail
