// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <utility>

namespace blink { inline namespace BLINK_ABI {

/// Elements in memory that the processes of a world share, so that peers reach them directly; all
/// bytes 0 at first. Belongs to one process, which reuses the memory when the array goes.
template <class T>
class shared_array {
  static_assert(std::is_trivially_copyable_v<T>, "blink: processes share bytes, not objects");

 public:
  /// Throws: resource_error if the memory is used up.
  shared_array(std::shared_ptr<shared_segment> segment, int rank, std::size_t count)
      : segment_(std::move(segment)), count_(count) {
    if (count > PTRDIFF_MAX / sizeof(T)) {
      throw resource_error("shared memory full: " + std::to_string(count) + " elements");
    }
    data_ = static_cast<T*>(segment_->allocate(rank, count * sizeof(T)));
    std::memset(static_cast<void*>(data_), 0, count * sizeof(T));
  }
  shared_array(shared_array&& other) noexcept
      : segment_(std::move(other.segment_)),
        data_(std::exchange(other.data_, nullptr)),
        count_(std::exchange(other.count_, 0)) {}
  shared_array& operator=(shared_array&& other) noexcept {
    std::swap(segment_, other.segment_);
    std::swap(data_, other.data_);
    std::swap(count_, other.count_);
    return *this;
  }
  ~shared_array() {
    if (data_ != nullptr) segment_->release(data_, count_ * sizeof(T));
  }

  [[nodiscard]] T* data() const { return data_; }
  [[nodiscard]] std::size_t size() const { return count_; }
  [[nodiscard]] T* begin() const { return data_; }
  [[nodiscard]] T* end() const { return data_ + count_; }
  [[nodiscard]] T& operator[](std::size_t index) const { return data_[index]; }

 private:
  std::shared_ptr<shared_segment> segment_;
  T* data_ = nullptr;
  std::size_t count_;
};

}}  // namespace blink::BLINK_ABI
