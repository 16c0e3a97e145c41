// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace blink::inline BLINK_ABI {

/// Which rank is where: equal for all schedules of a communicator.
struct rank_placement {
  std::vector<int> device_of;              ///< by rank
  std::vector<int> devices;                ///< each once, in the order of their first rank
  std::vector<std::vector<int>> ranks_of;  ///< by position in `devices`

  explicit rank_placement(std::vector<int> by_rank) : device_of(std::move(by_rank)) {
    for (std::size_t rank = 0; rank < device_of.size(); ++rank) {
      auto const found = std::find(devices.begin(), devices.end(), device_of[rank]);
      auto const position = static_cast<std::size_t>(found - devices.begin());
      if (found == devices.end()) {
        devices.push_back(device_of[rank]);
        ranks_of.emplace_back();
      }
      ranks_of[position].push_back(static_cast<int>(rank));
    }
  }
};

}  // namespace blink::inline BLINK_ABI
