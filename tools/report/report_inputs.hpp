// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace blink::tools {

/// The inputs of a report, by their contents.
struct report_inputs {
  std::optional<std::string> machine, plan, program;
  std::string plan_text, program_text;
  std::vector<std::string> records;
};

/// Sorts what a command names by the contents of files. What is no file is a machine.
///
/// Throws: input_error for inputs that do not go together, or a file that cannot be read.
[[nodiscard]] report_inputs sort_inputs(std::vector<std::string> const& names);

}  // namespace blink::tools
