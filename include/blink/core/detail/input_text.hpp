// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>

#include <unistd.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <limits>
#include <numeric>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace blink { inline namespace BLINK_ABI {

/// Limits of the size and nesting of a machine file, far above every machine that exists.
struct input_limits {
  std::size_t bytes = std::size_t{64} << 20;
  int depth = 100;               ///< levels of elements or values inside each other
  std::size_t keys = 100;        ///< in one JSON object
  std::size_t processors = 256;  ///< of a host, with devices; each two have a link
};

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Throws an input_error with the place in the file.
[[noreturn]] inline void fail_at(std::string const& file, int line, std::string const& what) {
  throw input_error(file + ":" + std::to_string(line) + ": " + what);
}

/// The number of bytes of the UTF-8 character at the beginning of a text; 0 for other bytes, and
/// for control characters, which a terminal obeys.
inline std::size_t printable_bytes(std::string_view text) {
  auto const at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  if (at(0) < 0x80) return at(0) >= 0x20 && at(0) != 0x7f ? 1 : 0;
  std::size_t const count = at(0) >= 0xf0 ? 4 : at(0) >= 0xe0 ? 3 : 2;
  if (at(0) < 0xc2 || at(0) > 0xf4 || text.size() < count) return 0;
  for (std::size_t i = 1; i < count; ++i) {
    if (at(i) >> 6 != 2) return 0;
  }
  bool const is_control = count == 2 && at(0) == 0xc2 && at(1) < 0xa0;
  return is_control ? 0 : count;
}

/// Foreign text as it may be shown in a terminal: each control character and each byte that is no
/// UTF-8 becomes a question mark.
///
/// kept: control characters that stay
inline std::string printable(std::string_view text, std::string_view kept = {}) {
  std::string result;
  while (!text.empty()) {
    auto const bytes = printable_bytes(text);
    if (bytes == 0) {
      result += kept.find(text[0]) == std::string_view::npos ? '?' : text[0];
    } else {
      result += text.substr(0, bytes);
    }
    text.remove_prefix(bytes == 0 ? 1 : bytes);
  }
  return result;
}

/// Input text for an error message: quoted, on one line, at most `longest` bytes.
inline std::string in_quotes(std::string_view text, std::size_t longest = 40) {
  return "'" + printable(text.substr(0, longest)) + (text.size() > longest ? "...'" : "'");
}

/// Reads a number in decimal notation ("12.5", "1e3") as an exact fraction with at most
/// `max_decimals` decimals. Returns nothing for any other text and for numbers of more than 18
/// digits.
inline std::optional<rational> read_decimal(std::string_view text, int max_decimals) {
  bool const negative = !text.empty() && text.front() == '-';
  if (negative) text.remove_prefix(1);
  std::int64_t mantissa = 0;
  int decimals = 0;
  bool seen_point = false;
  bool seen_digit = false;
  std::size_t i = 0;
  for (; i < text.size() && text[i] != 'e' && text[i] != 'E'; ++i) {
    if (text[i] == '.' && !seen_point) {
      seen_point = true;
      continue;
    }
    if (text[i] < '0' || text[i] > '9') return std::nullopt;
    if (mantissa > std::numeric_limits<std::int64_t>::max() / 10 - 1) return std::nullopt;
    mantissa = mantissa * 10 + (text[i] - '0');
    seen_digit = true;
    if (seen_point) ++decimals;
  }
  if (!seen_digit) return std::nullopt;
  if (i < text.size()) {  // an exponent
    auto exponent = text.substr(i + 1);
    bool const down = !exponent.empty() && exponent.front() == '-';
    if (down || (!exponent.empty() && exponent.front() == '+')) exponent.remove_prefix(1);
    if (exponent.empty() || exponent.size() > 2) return std::nullopt;
    int value = 0;
    for (char const c : exponent) {
      if (c < '0' || c > '9') return std::nullopt;
      value = value * 10 + (c - '0');
    }
    decimals += down ? value : -value;
  }
  for (; decimals > 0 && mantissa % 10 == 0 && mantissa != 0; --decimals) mantissa /= 10;
  if (mantissa == 0) return rational(0);
  if (decimals > max_decimals) return std::nullopt;
  std::int64_t scale = 1;
  for (; decimals > 0; --decimals) scale *= 10;
  for (; decimals < 0; ++decimals) {
    if (mantissa > std::numeric_limits<std::int64_t>::max() / 10) return std::nullopt;
    mantissa *= 10;
  }
  return rational(negative ? -mantissa : mantissa, scale);
}

/// The least common multiple of `a` and `b`, or nothing if it exceeds `most`.
inline std::optional<std::int64_t> common_steps(std::int64_t a, std::int64_t b, std::int64_t most) {
  std::int64_t const factor = b / std::gcd(a, b);
  if (a > most / factor) return std::nullopt;
  return a * factor;
}

/// The contents of a file.
///
/// kind:   the expected contents, for error messages
/// most:   limit in bytes, far above every such file, because reading a device may never end
/// Throws: input_error if the file cannot be opened or read, or has more than `most` bytes.
[[nodiscard]] inline std::string file_text(std::string const& path, std::string const& kind,
                                           std::size_t most = std::size_t{1} << 30) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw input_error(path + ": cannot be opened, expected " + kind);
  std::string text;
  char buffer[1 << 14];
  // Iterators are not used because they throw other exceptions than blink's if `path` is a folder.
  while (stream.read(buffer, sizeof buffer) || stream.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most) {
      throw input_error(path + ": more than " + std::to_string(most) + " bytes, expected " + kind);
    }
  }
  if (stream.bad()) throw input_error(path + ": cannot be read, expected " + kind);
  return text;
}

/// Writes a file: beside its place first, then renamed, so that none is ever half written. What is
/// no regular file, such as a pipe, is written directly.
///
/// Throws: input_error if it cannot be written.
inline void write_text(std::string const& path, std::string_view text) {
  std::error_code fault;
  auto const there = std::filesystem::status(path, fault).type();
  // /dev/stdout may be a file, which others write as well.
  bool const is_file =
      !path.starts_with("/dev/") && (there == std::filesystem::file_type::regular ||
                                     there == std::filesystem::file_type::not_found);
  // A link stays one.
  auto const target = is_file && there == std::filesystem::file_type::regular
                          ? std::filesystem::canonical(path, fault).string()
                          : path;
  auto const beside = is_file ? target + ".part" + std::to_string(::getpid()) : path;
  auto const give_up = [&] {
    if (is_file) std::filesystem::remove(beside, fault);
    throw input_error(path + ": cannot be written, expected a writable file");
  };
  {
    std::ofstream stream(beside, std::ios::binary);
    stream << text << std::flush;
    if (!stream) give_up();
  }
  if (is_file && std::rename(beside.c_str(), target.c_str()) != 0) give_up();
}

}}}  // namespace blink::BLINK_ABI::detail
