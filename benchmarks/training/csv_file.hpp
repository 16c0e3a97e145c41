// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/detail/input_text.hpp>

#include <string>
#include <utility>

namespace blink_bench {

/// Rows in a file, if one is wanted. It is complete after each row.
class csv_file {
 public:
  /// name:   empty for no file
  /// Throws: blink::input_error if the file cannot be written; `add` also.
  csv_file(std::string name, std::string const& head) : name_(std::move(name)) { add(head); }

  /// rows: with the ends of their lines
  void add(std::string const& rows) {
    text_ += rows;
    if (!name_.empty()) blink::detail::write_text(name_, text_);
  }

 private:
  std::string name_;
  std::string text_;
};

}  // namespace blink_bench
