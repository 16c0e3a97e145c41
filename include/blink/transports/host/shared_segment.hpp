// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/detail/host_threads.hpp>
#include <blink/core/error.hpp>
#include <blink/core/version.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/host/detail/file_claims.hpp>
#include <blink/transports/host/detail/shared_memory_limit.hpp>
#include <blink/transports/host/shared_addresses.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <bit>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Memory that the processes of one communicator share, and their failure detector.
///
/// It is a memory file without a name (Linux: memfd). Peers open it through the file table of the
/// process that made it. It is freed with the last process that maps it, however processes end, and
/// the size of `/dev/shm` is no limit. Each rank holds a lock on one byte of the file, which the
/// system releases when the process ends. So peers need no answer from a rank to find that it has
/// died, and reused process numbers do no harm.
///
/// Everything in it is found by offsets, begins as 0 and changes by single atomic steps, because a
/// process may be killed at any instruction.
class shared_segment final : public failure_detector {
 public:
  /// Makes memory for a communicator without ranks so far. Only used parts take memory.
  ///
  /// Throws: precondition_error if `rank_count < 1` or `bytes` is too small for the state;
  ///         resource_error if the system has no such memory.
  [[nodiscard]] static shared_segment create(int rank_count, std::size_t bytes = default_bytes()) {
    expects(rank_count >= 1,
            "shared_segment: the number of ranks is not positive, expected at least 1");
    std::size_t const first = first_block(rank_count);
    bytes = bytes / page * page;
    expects(bytes >= first + page,
            "shared_segment: too few bytes for the state of the ranks, expected more");
    int const file = beyond_standard_files(memfd_create("blink", MFD_CLOEXEC));
    if (file < 0) refuse("shared memory", "memfd_create");
    shared_segment result(file);
    struct rlimit largest{};
    if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && bytes > largest.rlim_cur) {
      throw resource_error("shared memory of " + std::to_string(bytes) +
                           " bytes: the largest file is " + std::to_string(largest.rlim_cur) +
                           " bytes (ulimit -f), expected less (blink run --memory)");
    }
    if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
      refuse("shared memory of " + std::to_string(bytes) + " bytes", "ftruncate");
    }
    result.map(bytes);
    result.back(0, first);
    auto& head = result.at<segment_head>(0);
    head.version = version();
    head.bytes = bytes;
    head.rank_count = rank_count;
    head.used.store(first);
    return result;
  }

  /// Maps memory that another process made.
  ///
  /// path:   the result of `path()` in that process
  /// Throws: input_error if there is no such file or it is none of this version of blink.
  [[nodiscard]] static shared_segment open(std::string const& path) {
    auto const name = "shared memory '" + path + "' (BLINK_SEGMENT where a launcher made it)";
    int const file = beyond_standard_files(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    if (file < 0) {
      throw input_error(name + ": cannot be opened: " + std::strerror(errno) +
                        ", expected a running process that made it");
    }
    shared_segment result(file);
    struct stat known{};
    bool const is_sound = fstat(file, &known) == 0 && S_ISREG(known.st_mode) &&
                          known.st_size >= static_cast<off_t>(page);
    if (is_sound) result.map(static_cast<std::size_t>(known.st_size));
    if (!is_sound || result.at<segment_head>(0).version != version() ||
        result.at<segment_head>(0).bytes != result.bytes_) {
      throw input_error(name + ": not that of a communicator of this version of blink (" +
                        BLINK_VERSION_TEXT + ")");
    }
    return result;
  }

  shared_segment(shared_segment&& other) noexcept
      : file_(std::exchange(other.file_, -1)),
        memory_(std::exchange(other.memory_, nullptr)),
        bytes_(other.bytes_),
        claimed_(std::exchange(other.claimed_, {})) {}
  shared_segment& operator=(shared_segment&&) = delete;
  ~shared_segment() {
    if (memory_ != nullptr) munmap(memory_, bytes_);
    if (file_ < 0) return;
    auto& claims = detail::file_claims::of_process();
    for (int const rank : claimed_) claims.release(file_, rank);
    claims.close(file_);  // another segment of this process may be a rank in the same memory
  }

  /// Returns the name under which other processes of the same user open it, as long as this process
  /// lives. Call it before a fork.
  [[nodiscard]] std::string path() const {
    return "/proc/" + std::to_string(getpid()) + "/fd/" + std::to_string(file_);
  }
  [[nodiscard]] int rank_count() const { return at<segment_head>(0).rank_count; }
  [[nodiscard]] std::size_t bytes() const { return bytes_; }

  /// The state of the communicator of all ranks.
  [[nodiscard]] shared_state state() const {
    return {rank_count(), memory_ + state_offset(rank_count())};
  }

  /// Makes this process rank `rank`, until the segment is destroyed.
  ///
  /// Throws: input_error if there is no such rank or a process is, or was, this rank;
  ///         resource_error if the system refuses the lock.
  void claim(int rank) {
    if (rank < 0 || rank >= rank_count()) {
      throw input_error("rank " + std::to_string(rank) + ": expected 0 to " +
                        std::to_string(rank_count() - 1));
    }
    auto const refuse_taken = [&] {
      throw input_error("rank " + std::to_string(rank) + " is taken by process " +
                        std::to_string(process_of(rank).load()));
    };
    std::lock_guard const lock(own_memory_);
    auto& claims = detail::file_claims::of_process();
    errno = claims.claim(file_, rank);
    if (errno == EAGAIN) refuse_taken();
    if (errno != 0) refuse("a lock on shared memory", "fcntl");
    std::int32_t nobody = 0;
    if (!process_of(rank).compare_exchange_strong(nobody, getpid())) {
      claims.release(file_, rank);
      refuse_taken();
    }
    claimed_.push_back(rank);
  }

  /// Returns memory that all callers with the same key share, all 0 at first.
  ///
  /// The first caller takes it from the system and the others wait for it, because each would need
  /// as long. After a second without it, another caller does, as the first may have died.
  ///
  /// Pre:    all callers with the same key ask for the same number of bytes.
  /// Throws: resource_error if the memory is used up.
  [[nodiscard]] void* find_or_make(std::uint64_t key, std::size_t bytes) {
    auto& block = block_of(key, bytes);
    expects(block.bytes == bytes, "shared_segment: one key with two sizes, expected one size");
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
          detail::yield_core();
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
  [[nodiscard]] void* hold(std::uint64_t key, std::size_t bytes) {
    std::size_t const pages = in_class(whole_pages(bytes) / page);
    void* const memory = find_or_make(key, pages * page);
    block_of(key, pages * page).holders.fetch_add(1);
    return memory;
  }
  /// Releases memory of `hold`. The last holder returns it to the system.
  void let_go(std::uint64_t key) {
    auto const found = find(key, at<segment_head>(0).first_block.load(), 0);
    if (found == 0) return;
    auto& block = at<block_head>(found);
    if (block.holders.fetch_sub(1) != 1) return;
    block.key.store(no_key);
    // Its bytes are 0 when they are used again. Without support of the system they stay taken.
    if (fallocate(file_, FALLOC_FL_PUNCH_HOLE | FALLOC_FL_KEEP_SIZE,
                  static_cast<off_t>(block.begin.load()), static_cast<off_t>(block.bytes)) != 0) {
      return;
    }
    auto& free = at<segment_head>(0).free_ranges[class_of(block.bytes / page)];
    std::uint64_t first = free.load(), own = 0;
    do {
      block.next_free = first & low_word;
      own = ((first >> 32) + 1) << 32 | found / alignof(block_head);
    } while (!free.compare_exchange_weak(first, own));
  }

  /// Allocates memory of this process that peers reach. Its bytes are 0 unless it was released
  /// before.
  ///
  /// Pre:    bytes <= PTRDIFF_MAX
  /// Throws: resource_error if the memory is used up.
  [[nodiscard]] void* allocate(int rank, std::size_t bytes) {
    std::size_t const whole = whole_pages(bytes);
    std::uint64_t number = 0;
    {
      std::lock_guard const lock(own_memory_);
      for (auto& block : released_) {
        if (block.bytes != whole) continue;
        void* const memory = block.memory;
        block = released_.back();
        released_.pop_back();
        return memory;
      }
      number = ++allocations_;
    }
    detail::hash key;
    for (std::uint64_t const part :
         {std::uint64_t{0xa110ca7e}, static_cast<std::uint64_t>(rank), number}) {
      key.add(part);
    }
    return find_or_make(key.value(), whole);
  }
  /// Keeps memory from `allocate` for later allocations of the same number of pages.
  void release(void* memory, std::size_t bytes) {
    std::lock_guard const lock(own_memory_);
    released_.push_back({memory, whole_pages(bytes)});
  }
  /// True if peers reach all of these bytes. Pre: bytes > 0.
  [[nodiscard]] bool contains(void const* memory, std::size_t bytes) const {
    auto const* const at = static_cast<std::byte const*>(memory);
    if (at < memory_ || at >= memory_ + bytes_) {
      return addresses_.contains(reinterpret_cast<std::uintptr_t>(memory), bytes);
    }
    return bytes <= static_cast<std::size_t>(memory_ + bytes_ - at);
  }
  [[nodiscard]] void* begin() const { return memory_; }

  /// The addresses at which this process maps pages of this memory a second time.
  [[nodiscard]] shared_addresses& addresses() { return addresses_; }
  /// Maps the pages from `home` on a second time at `to`, in place of the pages there.
  ///
  /// Throws: resource_error if the system refuses.
  void map_again(void* to, void const* home, std::size_t bytes) const {
    auto const offset = static_cast<off_t>(static_cast<std::byte const*>(home) - memory_);
    void* const got = mmap(to, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED | MAP_POPULATE,
                           file_, offset);
    if (got == MAP_FAILED) refuse("memory at addresses that a buffer has", "mmap");
  }
  /// The number of the file, as the system names it.
  [[nodiscard]] std::uint64_t file_number() const {
    struct stat known{};
    return fstat(file_, &known) == 0 ? known.st_ino : 0;
  }

  [[nodiscard]] bool is_dead(int rank) const override {
    std::int32_t const process = process_of(rank).load();
    // The rank has not joined, or is this process, which does not see its own locks.
    if (process == 0 || process == getpid()) return false;
    struct flock lock = detail::file_claims::lock_of(rank, F_WRLCK);
    return fcntl(file_, F_GETLK, &lock) == 0 && lock.l_type == F_UNLCK;
  }
  [[nodiscard]] std::string describe(int rank) const override {
    std::int32_t const process = process_of(rank).load();
    if (process == 0) return "not started";
    std::string const number = std::to_string(process);
    std::unique_ptr<std::FILE, int (*)(std::FILE*)> const file(
        std::fopen(("/proc/" + number + "/stat").c_str(), "r"), std::fclose);
    char state = ' ';
    if (file && std::fscanf(file.get(), "%*d (%*[^)]) %c", &state) == 1) {
      if (state == 'T' || state == 't') return "process " + number + ", stopped";
    }
    return "process " + number;
  }

  /// The bytes of a segment unless others are asked for.
  [[nodiscard]] static std::size_t default_bytes() { return detail::shared_memory_limit(); }

 private:
  static constexpr std::size_t page = 4096;
  struct alignas(128) segment_head {
    std::uint64_t version;
    std::uint64_t bytes;
    std::int32_t rank_count;
    std::atomic<std::uint64_t> used;         // bytes dealt out, from the begin of the file
    std::atomic<std::uint64_t> first_block;  // offset; 0: none
    // By size class, stacks of blocks whose memory is free: a count of the changes in the upper
    // word, and in the lower one the offset of the first block, in alignments of a block.
    std::array<std::atomic<std::uint64_t>, 8 * 32> free_ranges;
  };
  struct alignas(128) block_head {
    std::uint64_t next;              // offset; 0: none
    std::atomic<std::uint64_t> key;  // `no_key`: it has been released
    std::uint64_t bytes;
    std::uint64_t next_free;             // as in `free_ranges`
    std::atomic<std::uint32_t> holders;  // see `hold`
    std::atomic<std::uint32_t> makers;   // callers that began to take its memory from the system
    std::atomic<std::uint64_t> begin;    // offset of its memory; 0: not yet, or `refused`
  };
  static constexpr std::uint64_t refused = 1;
  static constexpr std::uint64_t no_key = 0, low_word = 0xffffffff;

  // Blocks that are used again have sizes of eight classes between powers of two.
  [[nodiscard]] static constexpr std::size_t in_class(std::size_t pages) {
    std::size_t const step = std::bit_floor(pages) < 8 ? 1 : std::bit_floor(pages) / 8;
    return (pages + step - 1) / step * step;
  }
  // Pre: pages == in_class(pages), at least 1.
  [[nodiscard]] static constexpr std::size_t class_of(std::size_t pages) {
    auto const power = static_cast<std::size_t>(std::bit_width(pages)) - 1;
    return 8 * power + (power < 3 ? 0 : (pages >> (power - 3)) & 7) +
           (power < 3 ? pages - (std::size_t{1} << power) : 0);
  }

  // The head, the process of each rank, the state of the communicator, then blocks.
  [[nodiscard]] static std::size_t state_offset(int rank_count) {
    std::size_t const ids =
        sizeof(std::atomic<std::int32_t>) * static_cast<std::size_t>(rank_count);
    return (sizeof(segment_head) + ids + 127) / 128 * 128;
  }
  [[nodiscard]] static std::size_t first_block(int rank_count) {
    return whole_pages(state_offset(rank_count) + shared_state::bytes(rank_count));
  }
  [[nodiscard]] static std::uint64_t version() {
    detail::hash all;
    all.add(BLINK_VERSION_TEXT);
    all.add(std::uint64_t{sizeof(segment_head) + sizeof(block_head)});
    all.add(std::uint64_t{shared_state::bytes(1)});
    return all.value();
  }

  [[nodiscard]] static constexpr std::size_t whole_pages(std::size_t bytes) {
    return (bytes + page - 1) / page * page;
  }
  explicit shared_segment(int file) : file_(file) {}

  // The same file under a number that is not that of standard input, output or error.
  [[nodiscard]] static int beyond_standard_files(int file) {
    if (file < 0 || file > 2) return file;
    int const other = fcntl(file, F_DUPFD_CLOEXEC, 3);
    ::close(file);
    return other;
  }

  void map(std::size_t bytes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file_, 0);
    if (memory == MAP_FAILED) {
      refuse(std::to_string(bytes) + " bytes of addresses (blink run --memory takes less)", "mmap");
    }
    memory_ = static_cast<std::byte*>(memory);
    bytes_ = bytes;
  }
  // Makes the system provide the bytes now, because missing memory would later raise a signal
  // instead of an error.
  void back(std::size_t offset, std::size_t bytes) {
    int failure = 0;
    do {
      failure = posix_fallocate(file_, static_cast<off_t>(offset), static_cast<off_t>(bytes));
    } while (failure == EINTR);
    errno = failure;
    if (failure != 0) refuse(std::to_string(bytes) + " bytes of shared memory", "posix_fallocate");
  }
  // Deals out bytes at a multiple of `alignment`.
  [[nodiscard]] std::uint64_t deal(std::size_t bytes, std::size_t alignment) {
    auto& used = at<segment_head>(0).used;
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
  [[nodiscard]] block_head& block_of(std::uint64_t key, std::size_t bytes) {
    auto& head = at<segment_head>(0);
    std::uint64_t first = head.first_block.load();
    if (auto const found = find(key, first, 0)) return at<block_head>(found);
    std::uint64_t const own = deal(sizeof(block_head), sizeof(block_head));
    back(own, sizeof(block_head));
    auto& block = at<block_head>(own);
    block.key = key;
    block.bytes = bytes;
    for (std::uint64_t searched = 0;;) {
      // Another caller may have made it meanwhile. Then this head is lost.
      if (auto const found = find(key, first, searched)) return at<block_head>(found);
      block.next = searched = first;
      if (head.first_block.compare_exchange_strong(first, own)) return block;
    }
  }
  void make(block_head& block) {
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
  [[nodiscard]] std::uint64_t free_range(std::size_t bytes) {
    std::size_t const pages = bytes / page;
    if (pages != in_class(pages)) return 0;
    auto& free = at<segment_head>(0).free_ranges[class_of(pages)];
    for (std::uint64_t first = free.load(); (first & low_word) != 0;) {
      auto const& block = at<block_head>((first & low_word) * alignof(block_head));
      std::uint64_t const next = ((first >> 32) + 1) << 32 | block.next_free;
      if (free.compare_exchange_weak(first, next)) return block.begin.load();
    }
    return 0;
  }
  [[nodiscard]] std::uint64_t find(std::uint64_t key, std::uint64_t from, std::uint64_t end) const {
    for (std::uint64_t at_block = from; at_block != end; at_block = at<block_head>(at_block).next) {
      if (at<block_head>(at_block).key == key) return at_block;
    }
    return 0;
  }
  template <class T>
  [[nodiscard]] T& at(std::size_t offset) const {
    return *reinterpret_cast<T*>(memory_ + offset);
  }
  [[nodiscard]] std::atomic<std::int32_t>& process_of(int rank) const {
    return at<std::atomic<std::int32_t>>(sizeof(segment_head) +
                                         sizeof(std::int32_t) * static_cast<std::size_t>(rank));
  }
  [[noreturn]] static void refuse(std::string const& what, char const* call) {
    throw resource_error("the system refuses " + what + ": " + call + ": " + std::strerror(errno));
  }

  struct released_block {
    void* memory;
    std::size_t bytes;
  };
  int file_;
  std::byte* memory_ = nullptr;
  std::size_t bytes_ = 0;
  shared_addresses addresses_;
  std::mutex own_memory_;  // a queue's thread and the caller's
  std::uint64_t allocations_ = 0;
  std::vector<released_block> released_;
  std::vector<int> claimed_;  // ranks
};

}}  // namespace blink::BLINK_ABI
