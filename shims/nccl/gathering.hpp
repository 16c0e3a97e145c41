// SPDX-License-Identifier: Apache-2.0
#pragma once

// The ranks of one unique id in this process, until their communicator is made.

#include "errors.hpp"
#include "handle.hpp"
#include "meeting.hpp"
#include "platform.hpp"

#include <chrono>
#include <map>
#include <memory>
#include <string>

namespace blink_nccl {

/// The ranks of this process that have joined so far. Guarded by the lock of the library.
template <platform P>
struct gathering {
  std::string key{};  ///< text of the unique id
  int rank_count = 0;
  bool may_forward = false;          ///< true if the other library may make the communicator
  std::shared_ptr<meeting> place{};  ///< of all processes; null: all ranks are of this process
  std::map<int, handle<P>*> come{};  ///< by rank
  std::chrono::steady_clock::time_point begun = std::chrono::steady_clock::now();
  std::chrono::nanoseconds time_limit{};
  bool is_beginning = false;  ///< all have joined, and a thread makes the communicator
  bool is_over = false;
  bool is_forwarded = false;  ///< the other library makes it, also for ranks that join later
  outcome ending{};

  /// Returns the ranks that have not joined, as text. Without a meeting it knows only ranks of this
  /// process.
  [[nodiscard]] std::string missing() const {
    if (place != nullptr) return place->missing();
    std::string text;
    for (int rank = 0; rank < rank_count; ++rank) {
      if (!come.contains(rank)) text += (text.empty() ? "" : ", ") + std::to_string(rank);
    }
    return text;
  }
};

}  // namespace blink_nccl
