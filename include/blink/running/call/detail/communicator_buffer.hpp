// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/communicator.hpp>

#include <cstddef>
#include <new>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// An allocator of memory that begins on a page. Measured times then do not depend on where the
/// heap places a buffer within a cache line.
template <class T>
struct page_allocator {
  using value_type = T;
  static constexpr std::align_val_t page{4096};

  page_allocator() = default;
  template <class U>
  page_allocator(page_allocator<U> const&) {}
  [[nodiscard]] T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), page));
  }
  void deallocate(T* first, std::size_t) { ::operator delete(first, page); }
  friend bool operator==(page_allocator const&, page_allocator const&) { return true; }
};

/// Returns an array of zeros for calls of a communicator. An `allocating_communicator` allocates
/// it; otherwise it comes from the heap.
template <class T, communicator Comm>
[[nodiscard]] auto communicator_buffer(Comm& comm, std::size_t count) {
  if constexpr (allocating_communicator<Comm>) {
    return comm.template allocate<T>(count);
  } else {
    return std::vector<T, page_allocator<T>>(count);
  }
}

}}}  // namespace blink::BLINK_ABI::detail
