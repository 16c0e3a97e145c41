// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace blink_pmpi {

/// How many bytes of their blocks ranks show all others together with the sizes: what sufficed in the last calls, so that
/// small exchanges take one step and large ones do not carry what is sent in the second. The same on all ranks, as
/// all know all sizes.
class eager_room {
 public:
  static constexpr std::size_t most = 1024;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// After an exchange.
  ///
  /// needed: bytes that the rank with the most of them had for the others
  void report(std::size_t needed) {
    if (needed > most) needed = 0;  // goes in a second step in any case
    needed_lately_ = std::max(needed_lately_, needed);
    if (needed <= bytes_ && ++calls_ < lately) return;
    bytes_ = needed_lately_ == 0 ? 0 : std::bit_ceil(needed_lately_);
    needed_lately_ = 0;
    calls_ = 0;
  }

 private:
  static constexpr int lately = 8;  // calls: a program may do a few things in turn

  std::size_t bytes_ = most;
  std::size_t needed_lately_ = 0;
  int calls_ = 0;
};

}  // namespace blink_pmpi
