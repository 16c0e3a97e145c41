// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>

#include <cstdlib>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Returns the value of a variable that is 0 or 1.
///
/// Throws: input_error for a value that is neither.
[[nodiscard]] inline bool environment_flag(char const* name, bool unless_set) {
  char const* const text = std::getenv(name);
  if (text == nullptr) return unless_set;
  std::string_view const all(text);
  if (all != "0" && all != "1") {
    throw input_error(std::string(name) + " is '" + std::string(all) + "', expected 0 or 1");
  }
  return all == "1";
}

}}}  // namespace blink::BLINK_ABI::detail
