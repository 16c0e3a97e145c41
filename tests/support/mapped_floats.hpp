// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <sys/mman.h>

#include <algorithm>
#include <cstddef>
#include <new>

namespace blink_test {

/// Separate pages that hold ones: an access after their release crashes.
class mapped_floats {
 public:
  explicit mapped_floats(std::size_t count) : bytes_(count * sizeof(float)) {
    void* const got =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (got == MAP_FAILED) throw std::bad_alloc();
    first_ = static_cast<float*>(got);
    std::fill_n(first_, count, 1.0F);
  }
  mapped_floats(mapped_floats const&) = delete;
  mapped_floats& operator=(mapped_floats const&) = delete;
  ~mapped_floats() { munmap(first_, bytes_); }
  [[nodiscard]] float* data() const { return first_; }

 private:
  std::size_t bytes_;
  float* first_ = nullptr;
};

}  // namespace blink_test
