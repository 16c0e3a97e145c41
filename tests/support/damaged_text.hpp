// SPDX-License-Identifier: Apache-2.0
#pragma once

// Damages a text at random and reads it.

#include <blink/core/error.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <exception>
#include <random>
#include <string>
#include <vector>

namespace blink_test {

/// The text with up to three changes: letters replaced, removed or put in, lines repeated or lost.
inline std::string damaged(std::string text, std::mt19937& random) {
  std::string const letters = "0123456789.-+eE,:[]{}\"'<>/=# \t\nXinfGB\x01\x80\xff";
  auto const below = [&](std::size_t n) { return static_cast<std::size_t>(random()) % n; };
  for (auto changes = 1 + below(3); changes > 0 && !text.empty(); --changes) {
    auto const at = below(text.size());
    auto const end = text.find('\n', at);
    auto const begin = end == std::string::npos ? at : text.rfind('\n', at) + 1;
    auto const line = text.substr(begin, end == std::string::npos ? end : end - begin + 1);
    switch (below(6)) {
      case 0:
        text[at] = letters[below(letters.size())];
        break;
      case 1:
        text.erase(at, 1 + below(9));
        break;
      case 2:
        text.insert(at, 1, letters[below(letters.size())]);
        break;
      case 3:
        text.insert(begin, line);
        break;
      case 4:
        text.erase(begin, line.size());
        break;
      default:
        text.insert(below(text.size()), text.substr(at, 1 + below(40)));
    }
  }
  return text;
}

/// Calls `read` with 1000 damaged texts and each beginning of the text. Returns how many of the
/// damaged ones are read. Only `input_error` may be thrown, with a text that starts with `file`.
template <class Read>
int read_damaged(std::string const& text, Read const& read, std::string const& file = "t.") {
  int result = 0;
  auto const read_one = [&](std::string const& one) {
    try {
      read(one);
      return 1;
    } catch (blink::input_error const& fault) {
      EXPECT_EQ(std::string(fault.what()).substr(0, file.size()), file) << fault.what() << one;
    } catch (std::exception const& other) {
      ADD_FAILURE() << other.what() << " for\n" << one;
    }
    return 0;
  };
  for (std::size_t length = 0; length < text.size(); length += 1 + text.size() / 500) {
    (void)read_one(text.substr(0, length));
  }
  for (unsigned seed = 0; seed < 1000; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    result += read_one(damaged(text, random));
  }
  return result;
}

}  // namespace blink_test
