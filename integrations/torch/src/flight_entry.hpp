// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <string>

namespace blink_torch {

/// A call in PyTorch's flight recorder. PyTorch makes the entry before the call, and marks it as
/// completed after it. This marks it as started in between. Nothing before PyTorch 2.15.
class flight_entry {
 public:
  flight_entry() = default;
  /// The entry that PyTorch has made last in this thread; nothing if it is of another group.
  [[nodiscard]] static flight_entry newest(std::string const& backend, std::string const& group);

  void mark_started() const;

 private:
  void* recorder_ = nullptr;
  std::size_t id_ = 0;
  std::size_t epoch_ = 0;
};

}  // namespace blink_torch
