// SPDX-License-Identifier: Apache-2.0
#include <blink/running/call/call_signature.hpp>

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <string>
#include <string_view>
#include <unordered_set>

namespace call_signature_test {

using blink::call_signature;
using blink::call_terms;

constexpr std::uint64_t call_terms::* parts[] = {
    &call_terms::kind,  &call_terms::plan,   &call_terms::count, &call_terms::element_bytes,
    &call_terms::types, &call_terms::blocks, &call_terms::state};

TEST(call_signature, any_other_part_is_another_fingerprint) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 200; ++round) {
    call_terms one;
    for (auto const part : parts) one.*part = random();
    for (auto const part : parts) {
      for (int bit = 0; bit < 64; ++bit) {
        auto other = one;
        other.*part ^= std::uint64_t{1} << bit;
        EXPECT_NE(one.fingerprint(), other.fingerprint());
      }
    }
  }
}

TEST(call_signature, calls_of_a_program_have_fingerprints_of_their_own) {
  std::unordered_set<std::uint64_t> seen;
  std::size_t calls = 0;
  call_terms one;
  for (one.kind = 0; one.kind < 11; ++one.kind) {
    for (one.element_bytes = 1; one.element_bytes <= 16; one.element_bytes *= 2) {
      for (one.state = 0; one.state < 4; ++one.state) {
        for (one.count = 0; one.count < 1000; ++one.count, ++calls) seen.insert(one.fingerprint());
      }
    }
  }
  EXPECT_EQ(seen.size(), calls);
}

TEST(call_signature, names_end_with_a_zero) {
  std::string const lengthy(1000, 'x');
  for (std::string_view const names :
       {std::string_view(), std::string_view("float"), std::string_view(lengthy)}) {
    auto const letters = call_signature::beginning_of(names);
    std::string_view const begin(letters.data());
    EXPECT_EQ(begin, names.substr(0, letters.size() - 1));
  }
}

}  // namespace call_signature_test
