// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <atomic>
#include <cstdint>
#include <utility>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A reference-counted owner, like `std::shared_ptr`. The last copy destroys the object. It exists
/// because `<memory>` is slow to compile.
template <class T>
class counted {
 public:
  counted() = default;
  /// Makes an object from `arguments`, with one owner.
  template <class... Arguments>
  [[nodiscard]] static counted make(Arguments&&... arguments) {
    counted result;
    result.owned_ = new owned{T(std::forward<Arguments>(arguments)...), {1}};
    return result;
  }
  counted(counted const& other) : owned_(other.owned_) {
    if (owned_ != nullptr) owned_->owners.fetch_add(1, std::memory_order_relaxed);
  }
  counted(counted&& other) noexcept : owned_(std::exchange(other.owned_, nullptr)) {}
  counted& operator=(counted other) noexcept {
    std::swap(owned_, other.owned_);
    return *this;
  }
  ~counted() {
    if (owned_ != nullptr && owned_->owners.fetch_sub(1, std::memory_order_acq_rel) == 1) {
      delete owned_;
    }
  }

  [[nodiscard]] explicit operator bool() const { return owned_ != nullptr; }
  [[nodiscard]] T* operator->() const { return &owned_->value; }
  [[nodiscard]] T& operator*() const { return owned_->value; }

 private:
  struct owned {
    T value;
    std::atomic<std::uint32_t> owners;
  };
  owned* owned_ = nullptr;
};

}}}  // namespace blink::BLINK_ABI::detail
