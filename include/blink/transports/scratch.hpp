// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <cstddef>
#include <memory>
#include <new>

namespace blink::inline BLINK_ABI::detail {

/// Memory that grows when asked and stays: a rank's own, for calls that need a place beside the
/// caller's buffers.
class scratch {
 public:
  /// At least this much, aligned for every element; what it held before is lost if it grows.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > bytes_) {
      memory_.reset();
      bytes_ = 0;
      memory_.reset(static_cast<std::byte*>(::operator new(bytes, alignment)));
      bytes_ = bytes;
    }
    return memory_.get();
  }
  [[nodiscard]] std::byte* data() const { return memory_.get(); }

 private:
  static constexpr std::align_val_t alignment{128};
  struct release {
    void operator()(std::byte* memory) const noexcept { ::operator delete(memory, alignment); }
  };
  std::unique_ptr<std::byte, release> memory_;
  std::size_t bytes_ = 0;
};

}  // namespace blink::inline BLINK_ABI::detail
