// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>

namespace blink_pmpi {

/// The number of bytes of blocks that each rank sends eagerly with the sizes. It follows the needs
/// of the last calls. So small exchanges take one step, and large ones send no data twice. It is
/// equal on all ranks, because all ranks know all sizes.
class eager_room {
 public:
  static constexpr std::size_t most = 1024;

  [[nodiscard]] std::size_t bytes() const { return bytes_; }
  /// Updates the room after an exchange.
  ///
  /// needed: the largest number of bytes that a rank had for its peers
  void report(std::size_t needed) {
    if (needed > most) needed = 0;  // takes a second step in any case
    needed_lately_ = std::max(needed_lately_, needed);
    if (needed <= bytes_ && ++calls_ < lately) return;
    bytes_ = needed_lately_ == 0 ? 0 : std::bit_ceil(needed_lately_);
    needed_lately_ = 0;
    calls_ = 0;
  }

 private:
  static constexpr int lately = 8;  // calls, because programs repeat a few calls

  std::size_t bytes_ = most;
  std::size_t needed_lately_ = 0;
  int calls_ = 0;
};

}  // namespace blink_pmpi
