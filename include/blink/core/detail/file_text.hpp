// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <cstddef>
#include <fstream>
#include <string>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// What a file holds.
///
/// kind:   what it should hold, for errors
/// most:   bytes; far above every file of its kind, as devices have no end
/// Throws: input_error if it cannot be opened or read, or has more.
[[nodiscard]] inline std::string file_text(std::string const& path, std::string const& kind,
                                           std::size_t most = std::size_t{1} << 30) {
  std::ifstream stream(path, std::ios::binary);
  if (!stream) throw input_error(path + ": cannot be opened, expected " + kind);
  std::string text;
  char buffer[1 << 14];
  // Not by iterators: what they throw where a folder was opened is no error of blink.
  while (stream.read(buffer, sizeof buffer) || stream.gcount() > 0) {
    text.append(buffer, static_cast<std::size_t>(stream.gcount()));
    if (text.size() > most) {
      throw input_error(path + ": more than " + std::to_string(most) + " bytes, expected " + kind);
    }
  }
  if (stream.bad()) throw input_error(path + ": cannot be read, expected " + kind);
  return text;
}

}}}  // namespace blink::BLINK_ABI::detail
