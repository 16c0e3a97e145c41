// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks a part of an error's text.

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
    EXPECT_NE(said.find(part), std::string::npos) << "text: " << said; \
  } while (false)
#define EXPECT_ERROR(call, part) EXPECT_SAYS(blink_test::error_of([&] { call; }), part)
