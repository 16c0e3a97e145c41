// SPDX-License-Identifier: Apache-2.0
#include <blink/running/call/call_description.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>

namespace call_description_test {

using blink::call_description;
using blink::call_parameters;

constexpr std::uint64_t call_parameters::* parts[] = {
    &call_parameters::kind,          &call_parameters::schedule_hash, &call_parameters::count,
    &call_parameters::element_bytes, &call_parameters::types,         &call_parameters::blocks,
    &call_parameters::state};

TEST(call_description, any_other_part_changes_the_hash) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    call_parameters one;
    for (auto const part : parts) one.*part = random();
    for (auto const part : parts) {
      for (int bit = 0; bit < 64; ++bit) {
        auto other = one;
        other.*part ^= std::uint64_t{1} << bit;
        EXPECT_NE(one.hash(), other.hash());
      }
    }
  }
}

TEST(call_description, calls_of_a_program_have_distinct_hashes) {
  std::unordered_set<std::uint64_t> seen;
  std::size_t calls = 0;
  call_parameters one;
  for (one.kind = 0; one.kind < 11; ++one.kind) {
    for (one.element_bytes = 1; one.element_bytes <= 16; one.element_bytes *= 2) {
      for (one.state = 0; one.state < 4; ++one.state) {
        for (one.count = 0; one.count < 1000; ++one.count, ++calls) seen.insert(one.hash());
      }
    }
  }
  EXPECT_EQ(seen.size(), calls);
}

TEST(call_description, names_end_with_a_zero) {
  std::string const lengthy(1000, 'x');
  for (std::string_view const names :
       {std::string_view(), std::string_view("float"), std::string_view(lengthy)}) {
    auto const messages = call_description::beginning_of(names);
    std::string_view const begin(messages.data());
    EXPECT_EQ(begin, names.substr(0, messages.size() - 1));
  }
}

}  // namespace call_description_test
