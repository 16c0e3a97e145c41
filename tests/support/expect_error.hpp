// SPDX-License-Identifier: Apache-2.0
#pragma once

// What an error says, by a part of its text.

#include <blink/core/error.hpp>

#include <gtest/gtest.h>

#include <string>

namespace blink_test {

template <class Call>
std::string error_of(Call const& call) {
  try {
    call();
  } catch (blink::error const& failure) {
    return failure.what();
  }
  return "no error";
}

}  // namespace blink_test

#define EXPECT_SAYS(text, part)                                        \
  do {                                                                 \
    std::string const said = (text);                                   \
    EXPECT_NE(said.find(part), std::string::npos) << "says: " << said; \
  } while (false)
#define EXPECT_ERROR(call, part) EXPECT_SAYS(blink_test::error_of([&] { call; }), part)
