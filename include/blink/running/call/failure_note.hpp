// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/collective_error.hpp>

#include <array>
#include <cstdint>
#include <string_view>

namespace blink { inline namespace BLINK_ABI {

/// A failure as plain bytes in memory that processes share: written once by the rank that found it, and read by the others
/// when they are told that it is complete, which is not said here. Texts that are too long are cut.
struct failure_note {
  std::int32_t rank, peer, tree;
  long long chunk;
  bool disagrees;
  std::array<char, 1000> text;  // ends with a 0

  template <class = when_used>
  void write(collective_error const& failure) {
    rank = failure.rank;
    peer = failure.peer;
    tree = failure.tree;
    chunk = failure.chunk;
    disagrees = failure.disagrees;
    text = {};
    std::string_view(failure.what()).copy(text.data(), text.size() - 1);
  }
  template <class = when_used>
  [[nodiscard]] collective_error read() const {
    return {text.data(), rank, peer, tree, chunk, disagrees};
  }
};

}}  // namespace blink::BLINK_ABI
