// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <memory_resource>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// Memory that the processes of a communicator share, for containers, so that a
/// `direct_process_communicator` accepts their elements:
///
///     shared_memory_resource memory(comm);
///     std::pmr::vector<float> gradients(count, &memory);
///
/// Each block takes whole pages (4 KiB). After its release it is used again for a block of as many
/// pages. For small blocks put a pool of the standard library in between:
/// `std::pmr::unsynchronized_pool_resource pool(&memory)`. Any thread of the process may use the
/// resource. It may outlive the communicator.
///
/// Throws: resource_error from `allocate` if the memory is used up.
class shared_memory_resource : public std::pmr::memory_resource {
 public:
  /// comm: a communicator whose ranks are processes of one host
  template <class Ranks>
  explicit shared_memory_resource(Ranks const& comm)
      : segment_(comm.segment()), member_(comm.member()) {}

 private:
  static constexpr std::size_t page = 4096;

  void* do_allocate(std::size_t bytes, std::size_t alignment) override {
    if (alignment > page || bytes > PTRDIFF_MAX) {
      throw resource_error(
          "shared memory: blocks are aligned to at most 4096 bytes, and have at most " +
          std::to_string(PTRDIFF_MAX));
    }
    return segment_->allocate(member_, bytes);
  }
  void do_deallocate(void* memory, std::size_t bytes, std::size_t) override {
    segment_->release(memory, bytes);
  }
  [[nodiscard]] bool do_is_equal(std::pmr::memory_resource const& other) const noexcept override {
    return this == &other;
  }

  std::shared_ptr<shared_segment> segment_;
  int member_;
};

}}  // namespace blink::BLINK_ABI
