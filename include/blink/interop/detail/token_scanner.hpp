// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/input_text.hpp>
#include <blink/core/error.hpp>

#include <charconv>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Reads one line as words, numbers and signs, with blanks between them or not.
class token_scanner {
 public:
  /// where: the beginning of errors, such as "file:12"
  token_scanner(std::string_view line, std::string where) : rest_(line), where_(std::move(where)) {
    skip_blanks();
  }

  [[nodiscard]] bool is_at_end() const { return rest_.empty(); }
  [[nodiscard]] std::string_view rest() const { return rest_; }
  void skip(std::size_t characters) {
    rest_.remove_prefix(characters);
    skip_blanks();
  }

  /// Takes signs, such as "=" or "//", if they come next.
  bool take_sign(std::string_view sign) {
    if (!rest_.starts_with(sign)) return false;
    skip(sign.size());
    return true;
  }
  /// Takes the next word if it is this one.
  bool take_word(std::string_view word) {
    if (next_word() != word) return false;
    skip(word.size());
    return true;
  }
  /// Takes the next word: a letter, then letters, digits and underscores.
  std::string_view word(char const* expected) {
    auto const result = next_word();
    if (result.empty()) fail(expected);
    skip(result.size());
    return result;
  }
  /// Takes an integer from 0 to `most`.
  std::int64_t number(std::int64_t most, char const* expected) {
    std::int64_t value = 0;
    auto const [end, failure] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
    if (failure != std::errc{} || rest_.starts_with('-') || value > most) {
      fail(std::string(expected) + " up to " + std::to_string(most));
    }
    skip(static_cast<std::size_t>(end - rest_.data()));
    return value;
  }

  void require_sign(std::string_view sign) {
    if (!take_sign(sign)) fail("'" + std::string(sign) + "'");
  }
  void require_word(std::string_view word) {
    if (!take_word(word)) fail("'" + std::string(word) + "'");
  }
  void require_end(std::string const& expected = "the end of the line") const {
    if (!is_at_end()) fail(expected);
  }

  /// Throws: input_error with the place and what stands there.
  [[noreturn]] void fail(std::string const& expected) const {
    throw input_error(where_ + ": " + (is_at_end() ? "the line ends" : in_quotes(rest_)) +
                      ", expected " + expected);
  }

 private:
  [[nodiscard]] static bool is_letter(char c) {
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
  }
  [[nodiscard]] std::string_view next_word() const {
    if (rest_.empty() || !is_letter(rest_.front())) return {};
    std::size_t size = 1;
    while (size < rest_.size() && (is_letter(rest_[size]) || rest_[size] == '_' ||
                                   (rest_[size] >= '0' && rest_[size] <= '9'))) {
      ++size;
    }
    return rest_.substr(0, size);
  }
  void skip_blanks() {
    while (!rest_.empty() && (rest_.front() == ' ' || rest_.front() == '\t')) {
      rest_.remove_prefix(1);
    }
  }

  std::string_view rest_;
  std::string where_;
};

}}}  // namespace blink::BLINK_ABI::detail
