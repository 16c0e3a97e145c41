// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/topology/detail/machine_builder.hpp>

#include <cstddef>
#include <string>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Remarks about the lines of a file, only the first ones.
class text_remarks {
 public:
  /// is_strict: a remark is an error
  text_remarks(std::string const& file, bool is_strict) : file_(file), is_strict_(is_strict) {}

  /// Throws: input_error with file and line if remarks are errors.
  void add(int line, std::string const& what) {
    constexpr std::size_t most = 20;
    if (is_strict_) fail_at(file_, line, what);
    if (texts_.size() < most) texts_.push_back("line " + std::to_string(line) + ": " + what);
  }
  void move_to(machine_builder& machine) const {
    for (auto const& text : texts_) machine.remark(text);
  }

 private:
  std::string const& file_;
  bool is_strict_;
  std::vector<std::string> texts_;
};

}}}  // namespace blink::BLINK_ABI::detail
