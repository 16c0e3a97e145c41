// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/transports/host/shared_segment.hpp>

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>

// The address map of this process as the system reports it (Linux: /proc/self/maps).

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Addresses that were mapped together.
struct mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  char rights[5] = {};       ///< such as "rw-p"; p: private to this process
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t file = 0;    ///< its number; 0: none
};

/// Calls `use(mapping)` for each mapping with some of these addresses, in rising order, until it
/// returns false.
///
/// Returns: true if the mappings cover all of them without a gap and `use` was always true; false
///          also where the system has no such map.
template <class Use>
[[nodiscard]] bool for_each_mapping(std::uintptr_t begin, std::uintptr_t end, Use const& use) {
  std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(std::fopen("/proc/self/maps", "r"),
                                                             std::fclose);
  if (!file) return false;
  char line[512];
  bool begins_line = true;
  while (begin < end && std::fgets(line, sizeof line, file.get()) != nullptr) {
    bool const is_first = begins_line;
    begins_line = std::strchr(line, '\n') != nullptr;
    if (!is_first) continue;  // the rest of a long name
    mapping one;
    constexpr auto* form = "%" SCNxPTR "-%" SCNxPTR " %4s %" SCNx64 " %*x:%*x %" SCNu64;
    int const read =
        std::sscanf(line, form, &one.begin, &one.end, one.rights, &one.offset, &one.file);
    if (read != 5 || one.end <= begin) continue;
    if (one.begin > begin || !use(one)) return false;
    begin = one.end;
  }
  return begin >= end;
}

/// True if some of these addresses are on the stack of this thread.
[[nodiscard]] inline bool is_of_stack(std::uintptr_t begin, std::uintptr_t end) {
  pthread_attr_t known;
  if (pthread_getattr_np(pthread_self(), &known) != 0) return false;
  void* lowest = nullptr;
  std::size_t bytes = 0;
  pthread_attr_getstack(&known, &lowest, &bytes);
  pthread_attr_destroy(&known);
  auto const first = reinterpret_cast<std::uintptr_t>(lowest);
  return begin < first + bytes && first < end;
}

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// Makes existing memory of a program, from any allocator, reachable for peers, so that a
/// `direct_process_communicator` accepts it:
///
///     std::vector<float> gradients(count);
///     blink::registered_memory const registered(comm, gradients.data(), gradients.size());
///
/// The pages of the elements move into the memory that the processes share, and stay at their
/// addresses. The destructor moves them back.
///
/// Pre:    while the constructor or the destructor runs, no call of this rank runs and no other
///         thread writes to these pages. They also hold the memory beside the elements. Between the
///         two the memory is read and written as usual, but not freed or resized. Calls that are
///         started repeatedly end before the destructor.
/// Limits: a child that is forked meanwhile shares these pages with its parent, including the
///         allocator's data in them. It should only start another program. Earlier pins of pages
///         (`cudaHostRegister`, network adapters) keep the old pages. `mlock` and `madvise` must be
///         called again.
/// Time:   O(bytes), twice: they are copied there and back.
/// Memory: up to an eighth more, which is used again.
class registered_memory {
 public:
  /// comm: a communicator whose ranks are processes of one host
  ///
  /// Throws: precondition_error for memory that cannot move: of a file, of this thread's stack,
  ///         shared, not writable, executable, or registered already; resource_error if the shared
  ///         memory is used up or the system refuses.
  template <class Ranks, class T>
  registered_memory(Ranks const& comm, T* data, std::size_t count)
      : segment_(comm.segment()), member_(comm.member()) {
    static_assert(std::is_trivially_copyable_v<T> && !std::is_const_v<T>,
                  "blink: processes share bytes that may be written");
    move_in(data, count, sizeof(T));
  }
  registered_memory(registered_memory const&) = delete;
  registered_memory& operator=(registered_memory const&) = delete;
  ~registered_memory() {
    if (bytes_ != 0) move_back();
  }

 private:
  using address = std::uintptr_t;

  /// Returns `bytes` or up to an eighth more, so that blocks are used again for others of the same
  /// size.
  [[nodiscard]] static std::size_t reused_size(std::size_t bytes, std::size_t page) {
    std::size_t const step = std::bit_floor(bytes) / 8 < page ? page : std::bit_floor(bytes) / 8;
    return (bytes + step - 1) / step * step;
  }

  /// Copies pages, including the memory beside the elements. Some of that has been freed, so
  /// address and thread sanitizers would report the reads.
  __attribute__((no_sanitize("address"), no_sanitize("thread"))) static void copy_pages(
      std::byte* to, std::byte const* from, std::size_t bytes) {
    for (std::size_t at = 0; at < bytes; at += sizeof(std::uint64_t)) {
      *reinterpret_cast<std::uint64_t*>(to + at) =
          *reinterpret_cast<std::uint64_t const*>(from + at);
      __asm__ volatile("" ::: "memory");  // otherwise it becomes a call of memcpy, which they check
    }
  }

  void move_in(void* data, std::size_t count, std::size_t element_bytes) {
    auto const what = "registered_memory: " + std::to_string(count) + " elements of " +
                      std::to_string(element_bytes) + " bytes";
    auto const refuse = [&](std::string const& why) {
      throw precondition_error(what + " cannot be shared: " + why);
    };
    auto const first = reinterpret_cast<address>(data);
    if (count > PTRDIFF_MAX / element_bytes || count * element_bytes > UINTPTR_MAX - first) {
      refuse("more than an address can name");
    }
    if (count == 0) return;
    auto const page = static_cast<address>(sysconf(_SC_PAGESIZE));
    address const begin = first / page * page;
    address const end = (first + count * element_bytes + page - 1) / page * page;
    if (end <= begin) refuse("more than an address can name");
    if (detail::is_of_stack(begin, end)) refuse("it is of this thread's stack");
    if (segment_->addresses().overlaps(begin, end)) {
      refuse("some of its pages are registered, for it or what lies beside it");
    }
    if (segment_->contains(data, 1)) refuse("it is shared already");
    char const* why = nullptr;
    bool const is_whole = detail::for_each_mapping(begin, end, [&](detail::mapping const& one) {
      why = one.file != 0 || one.rights[3] != 'p' ? "it is of a file, or shared"
            : std::strncmp(one.rights, "rw-", 3) != 0
                ? "it may not be read and written, or is executed"
                : nullptr;
      return why == nullptr;
    });
    if (!is_whole) {
      refuse(why != nullptr ? why : "it is not all of this process, as /proc/self/maps has it");
    }

    bytes_taken_ = reused_size(end - begin + page, page);
    taken_ = segment_->allocate(member_, bytes_taken_);
    auto const home = (reinterpret_cast<address>(taken_) + page - 1) / page * page;
    auto* const there = reinterpret_cast<std::byte*>(home);
    try {
      segment_->addresses().add({begin, end, home});
      // No allocation from here on, because the pages may hold the allocator's data.
      copy_pages(there, reinterpret_cast<std::byte const*>(begin), end - begin);
      segment_->map_again(reinterpret_cast<void*>(begin), there, end - begin);
    } catch (...) {
      segment_->addresses().remove(begin);
      segment_->release(taken_, bytes_taken_);
      throw;
    }
    begin_ = begin;
    bytes_ = end - begin;
    home_ = home;
  }

  // Moves the pages back if they are still those that were moved. Otherwise the program has freed
  // some, and other data may be there.
  void move_back() {
    segment_->addresses().remove(begin_);
    auto const file = segment_->file_number();
    address const offset = home_ - reinterpret_cast<address>(segment_->begin());
    bool const is_ours =
        detail::for_each_mapping(begin_, begin_ + bytes_, [&](detail::mapping const& one) {
          // Modulo 2^64: pages may be a part of a mapping, and the other way round.
          return one.file == file && one.offset - one.begin == offset - begin_;
        });
    // If the pages differ, or this is unknown, they stay as they are, and the shared memory is not
    // used again.
    if (!is_ours) return;
    auto* const to = reinterpret_cast<void*>(begin_);
    void* const own =
        mmap(nullptr, bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (own == MAP_FAILED) return;  // the pages stay where they are
    copy_pages(static_cast<std::byte*>(own), static_cast<std::byte const*>(to), bytes_);
    if (mremap(own, bytes_, bytes_, MREMAP_MAYMOVE | MREMAP_FIXED, to) == MAP_FAILED) {
      munmap(own, bytes_);
      return;
    }
    segment_->release(taken_, bytes_taken_);
  }

  std::shared_ptr<shared_segment> segment_;
  int member_;
  address begin_ = 0;  // of the pages
  std::size_t bytes_ = 0;
  address home_ = 0;  // of the same pages in the shared memory
  void* taken_ = nullptr;
  std::size_t bytes_taken_ = 0;
};

}}  // namespace blink::BLINK_ABI
