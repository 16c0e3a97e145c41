// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <bit>
#include <cstddef>
#include <new>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// The source of a transport's own memory: by default the heap, else memory that processes share,
/// or memory that a GPU reaches.
struct memory_source {
  void* owner = nullptr;  ///< passed to both functions; outlives all blocks
  void* (*allocate)(void* owner, std::size_t bytes) = from_heap;  ///< aligned to 128; may throw
  void (*release)(void* owner, void* memory, std::size_t bytes) noexcept = to_heap;

 private:
  static constexpr std::size_t line = 128;
  static constexpr std::align_val_t alignment{line};
  // Whole lines, because another rank's memory may follow.
  static void* from_heap(void*, std::size_t bytes) {
    return ::operator new((bytes + line - 1) / line * line, alignment);
  }
  static void to_heap(void*, void* memory, std::size_t) noexcept {
    ::operator delete(memory, alignment);
  }
};

/// Memory of a source, released at the end.
class memory_block {
 public:
  memory_block() = default;
  memory_block(memory_source const& source, std::size_t bytes)
      : source_(source), memory_(source.allocate(source.owner, bytes)), bytes_(bytes) {}
  memory_block(memory_block&& other) noexcept
      : source_(other.source_),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(std::exchange(other.bytes_, 0)) {}
  memory_block& operator=(memory_block&& other) noexcept {
    std::swap(source_, other.source_);
    std::swap(memory_, other.memory_);
    std::swap(bytes_, other.bytes_);
    return *this;
  }
  ~memory_block() {
    if (memory_ != nullptr) source_.release(source_.owner, memory_, bytes_);
  }

  [[nodiscard]] std::byte* data() const { return static_cast<std::byte*>(memory_); }
  [[nodiscard]] std::size_t size() const { return bytes_; }

 private:
  memory_source source_;
  void* memory_ = nullptr;
  std::size_t bytes_ = 0;
};

namespace detail {

/// Bytes rounded up to whole lines of 128: cores fetch cache lines in pairs.
[[nodiscard]] constexpr std::size_t whole_lines(std::size_t bytes) {
  constexpr std::size_t line = 128;
  return (bytes + line - 1) / line * line;
}

/// Touches each page of unused memory, so that the system maps it now. Then the first calls do not
/// wait for pages, and the tuner does not blame a store mode for them.
///
/// Time: one page fault for 4 KiB at most.
inline void map_now(std::byte* memory, std::size_t bytes) {
  constexpr std::size_t page = 4096;
  for (std::size_t at = 0; at < bytes; at += page) {
    const_cast<std::byte volatile&>(memory[at]) = std::byte{0};
  }
}

}  // namespace detail

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Memory that grows on demand and stays: a rank's own, for calls that need more than the caller's
/// buffers.
class scratch {
 public:
  explicit scratch(memory_source const& source = {}) : source_(source) {}

  /// Returns at least this much memory, aligned for every element. Its contents are lost if it
  /// grows.
  std::byte* at_least(std::size_t bytes) {
    if (bytes > block_.size()) {
      block_ = {};  // released before the next one is allocated
      // powers of two, so that released blocks fit other requests
      block_ = {source_, std::bit_ceil(bytes)};
    }
    return block_.data();
  }
  [[nodiscard]] std::byte* data() const { return block_.data(); }

 private:
  memory_source source_;
  memory_block block_;
};

}}}  // namespace blink::BLINK_ABI::detail
