// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>

#include <bit>
#include <cstddef>
#include <new>
#include <utility>

namespace blink::inline BLINK_ABI::detail {

/// Where scratch memory comes from: the heap, or memory that peers reach where they read it.
struct scratch_source {
  void* owner = nullptr;
  std::byte* (*allocate)(void* owner, std::size_t bytes) = from_heap;
  void (*release)(void* owner, std::byte* memory, std::size_t bytes) noexcept = to_heap;

 private:
  static constexpr std::align_val_t alignment{128};
  static std::byte* from_heap(void*, std::size_t bytes) {
    return static_cast<std::byte*>(::operator new(bytes, alignment));
  }
  static void to_heap(void*, std::byte* memory, std::size_t) noexcept {
    ::operator delete(memory, alignment);
  }
};

/// Memory that grows when asked and stays: a rank's own, for calls that need a place beside the
/// caller's buffers.
class scratch {
 public:
  explicit scratch(scratch_source const& source = {}) : source_(source) {}
  scratch(scratch&& other) noexcept
      : source_(other.source_),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  scratch& operator=(scratch&&) = delete;
  ~scratch() { release(); }

  /// At least this much, aligned for every element; what it held before is lost if it grows.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > bytes_) {
      release();
      bytes = std::bit_ceil(bytes);  // so that what one releases fits others
      memory_ = source_.allocate(source_.owner, bytes);
      bytes_ = bytes;
    }
    return memory_;
  }
  [[nodiscard]] std::byte* data() const { return memory_; }

 private:
  void release() {
    if (memory_ != nullptr) source_.release(source_.owner, memory_, bytes_);
    memory_ = nullptr;
    bytes_ = 0;
  }

  scratch_source source_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

}  // namespace blink::inline BLINK_ABI::detail
