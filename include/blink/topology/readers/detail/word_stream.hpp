// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <string_view>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The text behind a byte order mark, if there is one.
[[nodiscard]] constexpr std::string_view without_byte_order_mark(std::string_view text) {
  if (text.starts_with("\xef\xbb\xbf")) text.remove_prefix(3);
  return text;
}

/// True for blanks, tabs and ends of lines.
[[nodiscard]] constexpr bool is_blank(char c) {
  return c == ' ' || ('\t' <= c && c <= '\r');
}

/// The words of a text one after the other. As in C++ streams, ends of lines are blanks.
class word_stream {
 public:
  explicit word_stream(std::string_view text) : text_(without_byte_order_mark(text)) {}

  /// The next word; empty at the end of the text.
  std::string_view next() {
    skip_blanks();
    auto const begin = at_;
    while (at_ < text_.size() && !is_blank(text_[at_])) ++at_;
    return text_.substr(begin, at_ - begin);
  }
  /// The text from the next word to the end of its line.
  [[nodiscard]] std::string_view rest_of_line() {
    skip_blanks();
    return text_.substr(at_, text_.find('\n', at_) - at_);
  }
  /// The line of the last word.
  [[nodiscard]] int line() const { return line_; }

 private:
  void skip_blanks() {
    for (; at_ < text_.size() && is_blank(text_[at_]); ++at_) line_ += text_[at_] == '\n' ? 1 : 0;
  }

  std::string_view text_;
  std::size_t at_ = 0;
  int line_ = 1;
};

}}}  // namespace blink::BLINK_ABI::detail
