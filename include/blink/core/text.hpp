// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <cstdio>
#include <initializer_list>
#include <string>
#include <string_view>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A piece of a text: words, a whole number, or a number with six decimals. It refers to its words,
/// which must outlive it.
class text_piece {
 public:
  constexpr text_piece(char const* words) : text_piece(std::string_view(words)) {}
  constexpr text_piece(std::string_view words) : words_(words.data()), size_(words.size()) {}
  text_piece(std::string const& words) : text_piece(std::string_view(words)) {}
  constexpr text_piece(int number) : text_piece(static_cast<long long>(number)) {}
  constexpr text_piece(long number) : text_piece(static_cast<long long>(number)) {}
  constexpr text_piece(long long number) : integer_(number), kind_(kind::integer) {}
  constexpr text_piece(unsigned number) : text_piece(static_cast<unsigned long long>(number)) {}
  constexpr text_piece(unsigned long number)
      : text_piece(static_cast<unsigned long long>(number)) {}
  constexpr text_piece(unsigned long long number) : natural_(number), kind_(kind::natural) {}
  constexpr text_piece(double number) : real_(number), kind_(kind::real) {}

  template <class = when_used>
  BLINK_COLD void append_to(std::string& text) const {
    if (kind_ == kind::words) {
      text.append(words_, size_);
      return;
    }
    char digits[352];  // a double has up to 309 digits before the point
    int const used = kind_ == kind::integer ? std::snprintf(digits, sizeof digits, "%lld", integer_)
                     : kind_ == kind::natural
                         ? std::snprintf(digits, sizeof digits, "%llu", natural_)
                         : std::snprintf(digits, sizeof digits, "%f", real_);
    text.append(digits, static_cast<std::size_t>(used));
  }

 private:
  enum class kind : unsigned char { words, integer, natural, real };

  union {
    char const* words_;
    long long integer_;
    unsigned long long natural_;
    double real_;
  };
  std::size_t size_ = 0;
  kind kind_ = kind::words;
};

/// Joins pieces into a text: `text_of({"rank ", rank, " calls ", name})`. A chain of `+` gives the
/// same text but more code, compiled in every unit that could raise the error.
template <class = when_used>
[[nodiscard]] BLINK_COLD std::string text_of(std::initializer_list<text_piece> pieces) {
  std::string text;
  for (auto const& piece : pieces) piece.append_to(text);
  return text;
}

}}}  // namespace blink::BLINK_ABI::detail
