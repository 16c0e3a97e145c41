// SPDX-License-Identifier: Apache-2.0
#pragma once

// Names of communicators that are being made, and whether they come from this process.

#include "abi.hpp"
#include <unistd.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <random>
#include <set>
#include <string>
#include <string_view>

namespace blink_nccl {

/// Those of this process; the caller holds the lock of the library.
class unique_ids {
 public:
  /// A new one of our own: it says which process made it.
  unique_id make() {
    own made{};
    std::memcpy(made.magic, expected_magic.data(), expected_magic.size());
    made.process = getpid();
    std::random_device random;
    for (auto& word : made.random) word = random();
    unique_id id{};
    std::memcpy(id.bytes, &made, sizeof made);
    return remember(id);
  }
  /// One that another library has made.
  unique_id remember(unique_id const& id) {
    made_here_.insert(text_of(id));
    return id;
  }
  [[nodiscard]] bool knows(unique_id const& id) const { return made_here_.contains(text_of(id)); }

  /// For people: who made it?
  [[nodiscard]] static std::string maker_of(unique_id const& id) {
    own read{};
    std::memcpy(&read, id.bytes, sizeof read);
    if (!std::equal(expected_magic.begin(), expected_magic.end(), read.magic)) {
      return "another library, or it was never set";
    }
    return "process " + std::to_string(read.process);
  }
  [[nodiscard]] static std::string text_of(unique_id const& id) {
    return {id.bytes, sizeof id.bytes};
  }

 private:
  static constexpr std::string_view expected_magic{"blinknccl"};
  struct own {
    char magic[16];
    std::int64_t process;
    std::uint32_t random[4];
  };
  static_assert(sizeof(own) <= sizeof(unique_id));

  std::set<std::string> made_here_;
};

}  // namespace blink_nccl
