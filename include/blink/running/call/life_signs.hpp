// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <string>

namespace blink { inline namespace BLINK_ABI {

/// What is known of the other ranks beside what they say themselves. Threads of one process live
/// and die together; processes do not.
class life_signs {
 public:
  /// Has the rank come to its end without saying so? Asked by ranks that have waited for a while.
  [[nodiscard]] virtual bool has_died(int rank) const = 0;

  /// What else is known, such as "process 4711, stopped by a signal"; may be empty.
  [[nodiscard]] virtual std::string describe(int rank) const = 0;

 protected:
  ~life_signs() = default;
};

}}  // namespace blink::BLINK_ABI
