// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <CLI/CLI.hpp>

#include <cstdlib>
#include <limits>
#include <sstream>
#include <string>

// Checks of options that are numbers. The checks of CLI11 print all digits of a range's end in
// their errors.

namespace blink::tools {

/// Returns the fault of a number's text; empty if there is none.
[[nodiscard]] inline std::string wrong_number(std::string const& text, bool may_be_0,
                                              double most = std::numeric_limits<double>::max()) {
  char* end = nullptr;
  double const number = std::strtod(text.c_str(), &end);
  bool const is_number = !text.empty() && *end == '\0';
  bool const is_in_range = number > 0 || (may_be_0 && number == 0);
  if (is_number && is_in_range && number <= most) return "";
  std::ostringstream expected;
  expected << (may_be_0 ? "number that is not negative" : "positive number");
  if (most < std::numeric_limits<double>::max()) expected << ", at most " << most;
  return "found '" + text + "', expected a " + expected.str();
}

[[nodiscard]] inline CLI::Validator positive_number(
    double most = std::numeric_limits<double>::max()) {
  return {[most](std::string& text) { return wrong_number(text, false, most); }, "POSITIVE"};
}
[[nodiscard]] inline CLI::Validator number_from_0() {
  return {[](std::string& text) { return wrong_number(text, true); }, "NONNEGATIVE"};
}

}  // namespace blink::tools
