// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/error.hpp>

#include <fcntl.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string>
#include <thread>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Throws: resource_error with the present `errno` of a call of the system.
[[noreturn]] inline void refuse_by_system(std::string const& what, char const* call) {
  throw resource_error("the system refuses " + what + ": " + call + ": " + std::strerror(errno));
}

/// Blocks of memory that processes share, found by keys. Each process has its own object.
///
/// Everything in the memory is found by offsets, begins as 0 and changes by single atomic steps. So
/// a process may be killed at any instruction.
class shared_blocks {
 public:
  static constexpr std::size_t page = 4096;
  [[nodiscard]] static constexpr std::size_t whole_pages(std::size_t bytes) {
    return (bytes + page - 1) / page * page;
  }

  /// The words by which processes find the blocks, at one place of the memory.
  struct directory {
    std::atomic<std::uint64_t> used;         // bytes dealt out, from the begin of the memory
    std::atomic<std::uint64_t> first_block;  // offset; 0: none
    // By size class, stacks of blocks whose memory is free: the offset of the first block in
    // alignments of a block, and above these `place_bits` bits a count of the changes.
    std::array<std::atomic<std::uint64_t>, 8 * 32> free_ranges;
  };

  /// file: of which `bytes` bytes are mapped at `memory`
  /// head: in that memory
  shared_blocks(int file, std::byte* memory, std::size_t bytes, directory& head)
      : file_(file), memory_(memory), bytes_(bytes), head_(&head) {}

  /// Bytes of the words that each block has besides its memory.
  [[nodiscard]] static constexpr std::size_t bytes_of_head() { return sizeof(block_head); }

  /// Takes the first bytes from the system, which belong to no block and hold the directory. Called
  /// once, by the process that made the memory.
  ///
  /// Throws: resource_error
  void begin(std::size_t first) const {
    back(0, first);
    head_->used.store(first);
  }

  /// True if all blocks lie within the memory, and the list of them ends. Time: O(blocks).
  [[nodiscard]] bool are_sound() const {
    std::size_t const most = bytes_ / sizeof(block_head);
    std::size_t blocks = 0;
    if (head_->used.load() > bytes_) return false;
    for (auto found = head_->first_block.load(); found != 0; found = at(found).next) {
      bool const is_inside =
          found % alignof(block_head) == 0 && found <= bytes_ - sizeof(block_head);
      if (!is_inside || ++blocks > most) return false;
      auto const begin = at(found).begin.load();
      bool const has_memory = begin != 0 && begin != refused;
      if (has_memory && (begin > bytes_ || at(found).bytes > bytes_ - begin)) return false;
    }
    return true;
  }

  /// Returns memory that all callers with the same key share, all 0 at first.
  ///
  /// The first caller takes it from the system and the others wait for it, because each would need
  /// as long. After a second without it, another caller does, as the first may have died.
  ///
  /// Pre:    all callers with the same key ask for the same number of bytes.
  /// Throws: resource_error if the memory is used up.
  [[nodiscard]] void* find_or_make(std::uint64_t key, std::size_t bytes) const {
    auto& block = block_of(key, bytes);
    expects(block.bytes == bytes, "shared memory: one key with two sizes, expected one size");
    constexpr int quick_turns = 100, late_turns = 10000;  // the others take 100 us
    std::uint32_t seen = 0;
    for (int turn = 0;; ++turn) {
      auto const begin = block.begin.load();
      if (begin == refused) {
        throw resource_error("shared memory full: " + std::to_string(bytes) +
                             " bytes more are needed, which another rank did not get");
      }
      if (begin != 0) return memory_ + begin;
      auto maker = block.makers.load();
      if (maker != seen) turn = 0;  // another one began
      seen = maker;
      if (maker != 0 && turn < late_turns) {
        if (turn < quick_turns) {
          yield_core();
        } else {
          std::this_thread::sleep_for(std::chrono::microseconds(100));
        }
      } else if (block.makers.compare_exchange_strong(maker, maker + 1)) {
        make(block);
      }
    }
  }

  /// The same for memory that is used again once every holder has released it.
  ///
  /// Pre: no caller asks for the key after another one has released it.
  [[nodiscard]] void* hold(std::uint64_t key, std::size_t bytes) const {
    std::size_t const pages = in_class(whole_pages(bytes) / page);
    void* const memory = find_or_make(key, pages * page);
    block_of(key, pages * page).holders.fetch_add(1);
    return memory;
  }
  /// Releases memory of `hold`. The last holder returns it to the system.
  void let_go(std::uint64_t key) const {
    auto const found = find(key, head_->first_block.load(), 0);
    if (found == 0) return;
    auto& block = at(found);
    if (block.holders.fetch_sub(1) != 1) return;
    block.key.store(no_key);
    // Its bytes are 0 when they are used again. Without support of the system they stay taken.
    if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(block.begin.load()), static_cast<off_t>(block.bytes)) != 0) {
      return;
    }
    auto& free = head_->free_ranges[class_of(block.bytes / page)];
    std::uint64_t first = free.load(), own = 0;
    do {
      block.next_free.store(first & place, std::memory_order_relaxed);
      own = ((first >> place_bits) + 1) << place_bits | found / alignof(block_head);
    } while (!free.compare_exchange_weak(first, own));
  }

 private:
  struct alignas(128) block_head {
    std::uint64_t next;              // offset; 0: none
    std::atomic<std::uint64_t> key;  // `no_key`: it has been released
    std::uint64_t bytes;
    std::atomic<std::uint64_t> next_free;  // as in `free_ranges`
    std::atomic<std::uint32_t> holders;    // see `hold`
    std::atomic<std::uint32_t> makers;     // callers that began to take its memory from the system
    std::atomic<std::uint64_t> begin;      // offset of its memory; 0: not yet, or `refused`
  };

  static constexpr std::uint64_t refused = 1;
  static constexpr std::uint64_t no_key = 0;
  static constexpr int place_bits = 41;  // for 256 TiB, beyond the addresses of a process
  static constexpr std::uint64_t place = (std::uint64_t{1} << place_bits) - 1;

  // Blocks that are used again have sizes of eight classes between powers of two.
  [[nodiscard]] static constexpr std::size_t in_class(std::size_t pages) {
    std::size_t const step = std::bit_floor(pages) < 8 ? 1 : std::bit_floor(pages) / 8;
    return (pages + step - 1) / step * step;
  }
  // Pre: pages == in_class(pages), at least 1.
  [[nodiscard]] static constexpr std::size_t class_of(std::size_t pages) {
    auto const power = static_cast<std::size_t>(std::bit_width(pages)) - 1;
    return pages < 8 ? pages : 8 * (power - 2) + (pages >> (power - 3) & 7);
  }

  // Makes the system provide the bytes now, because missing memory would later raise a signal
  // instead of an error.
  void back(std::size_t offset, std::size_t bytes) const {
    int failure = 0;
    do {
      failure = posix_fallocate(file_, static_cast<off_t>(offset), static_cast<off_t>(bytes));
    } while (failure == EINTR);
    errno = failure;
    if (failure != 0)
      refuse_by_system(std::to_string(bytes) + " bytes of shared memory", "posix_fallocate");
  }
  // Deals out bytes at a multiple of `alignment`.
  [[nodiscard]] std::uint64_t deal(std::size_t bytes, std::size_t alignment) const {
    auto& used = head_->used;
    std::uint64_t before = used.load(), own = 0;
    do {
      own = (before + alignment - 1) / alignment * alignment;
      if (own > bytes_ || bytes > bytes_ - own) {
        throw resource_error("shared memory full: " + std::to_string(bytes) +
                             " bytes more are needed, " + std::to_string(before) + " of " +
                             std::to_string(bytes_) +
                             " are used (blink run --memory sets how much there is)");
      }
    } while (!used.compare_exchange_weak(before, own + bytes));
    return own;
  }
  // The block with this key, which is made if there is none.
  [[nodiscard]] block_head& block_of(std::uint64_t key, std::size_t bytes) const {
    std::uint64_t first = head_->first_block.load();
    if (auto const found = find(key, first, 0)) return at(found);
    std::uint64_t const own = deal(sizeof(block_head), sizeof(block_head));
    back(own, sizeof(block_head));
    auto& block = at(own);
    block.key = key;
    block.bytes = bytes;
    for (std::uint64_t searched = 0;;) {
      // Another caller may have made it meanwhile. Then this head is lost.
      if (auto const found = find(key, first, searched)) return at(found);
      block.next = searched = first;
      if (head_->first_block.compare_exchange_strong(first, own)) return block;
    }
  }
  void make(block_head& block) const {
    std::uint64_t none = 0;
    try {
      std::size_t const bytes = whole_pages(std::max(block.bytes, std::uint64_t{1}));
      std::uint64_t own = free_range(bytes);
      if (own == 0) own = deal(bytes, page);
      back(own, bytes);
      block.begin.compare_exchange_strong(none, own);
    } catch (resource_error const&) {
      if (!block.begin.compare_exchange_strong(none, refused) && none != refused) return;
      throw;
    }
  }
  // A range of released memory of that size, whose bytes are 0; 0: none.
  [[nodiscard]] std::uint64_t free_range(std::size_t bytes) const {
    std::size_t const pages = bytes / page;
    if (bytes > bytes_ || pages != in_class(pages)) return 0;
    auto& free = head_->free_ranges[class_of(pages)];
    for (std::uint64_t first = free.load(); (first & place) != 0;) {
      auto const& block = at((first & place) * alignof(block_head));
      std::uint64_t const next = ((first >> place_bits) + 1) << place_bits |
                                 block.next_free.load(std::memory_order_relaxed);
      if (free.compare_exchange_weak(first, next)) return block.begin.load();
    }
    return 0;
  }
  [[nodiscard]] std::uint64_t find(std::uint64_t key, std::uint64_t from, std::uint64_t end) const {
    for (std::uint64_t at_block = from; at_block != end; at_block = at(at_block).next) {
      if (at(at_block).key == key) return at_block;
    }
    return 0;
  }
  [[nodiscard]] block_head& at(std::size_t offset) const {
    return *reinterpret_cast<block_head*>(memory_ + offset);
  }

  int file_;
  std::byte* memory_;
  std::size_t bytes_;
  directory* head_;
};

}}}  // namespace blink::BLINK_ABI::detail
