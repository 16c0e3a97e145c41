// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Some ranks of a world that go on as a world of their own, and as which of them this one does.
struct rank_selection {
  std::vector<int> members;  ///< by new rank, the rank in the world they come from
  int rank = 0;              ///< this one's new rank

  [[nodiscard]] bool is_first() const { return rank == 0 && !members.empty(); }
};

}}  // namespace blink::BLINK_ABI
