// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/detail/hash.hpp>
#include <blink/core/error.hpp>
#include <blink/core/version.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/host/detail/file_claims.hpp>
#include <blink/transports/host/detail/shared_blocks.hpp>
#include <blink/transports/host/detail/shared_memory_limit.hpp>
#include <blink/transports/host/shared_addresses.hpp>
#include <blink/transports/host/shared_state.hpp>

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
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
    int const file = beyond_standard_files(memfd_create("blink", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    if (file < 0) detail::refuse_by_system("shared memory", "memfd_create");
    shared_segment result(file);
    struct rlimit largest{};
    if (getrlimit(RLIMIT_FSIZE, &largest) == 0 && bytes > largest.rlim_cur) {
      throw resource_error("shared memory of " + std::to_string(bytes) +
                           " bytes: the largest file is " + std::to_string(largest.rlim_cur) +
                           " bytes (ulimit -f), expected less (blink run --memory)");
    }
    if (ftruncate(file, static_cast<off_t>(bytes)) != 0) {
      detail::refuse_by_system("shared memory of " + std::to_string(bytes) + " bytes", "ftruncate");
    }
    // A file that shrinks would raise signals in all ranks.
    if (fcntl(file, F_ADD_SEALS, kept) != 0)
      detail::refuse_by_system("shared memory", "F_ADD_SEALS");
    result.map(bytes);
    result.blocks().begin(first);
    auto& head = result.at<segment_head>(0);
    head.version = version();
    head.bytes = bytes;
    head.rank_count = rank_count;
    return result;
  }

  /// Maps memory that another process made.
  ///
  /// path:   the result of `path()` in that process. If the system refuses it, a descriptor of the
  ///         same number is used that this process has inherited (`leave_to_children`).
  /// Throws: input_error if there is no such file or it is none of this version of blink.
  [[nodiscard]] static shared_segment open(std::string const& path) {
    auto const name = "shared memory '" + path + "' (BLINK_SEGMENT where a launcher made it)";
    int file = beyond_standard_files(::open(path.c_str(), O_RDWR | O_CLOEXEC));
    int const reason = errno;
    if (file < 0) file = beyond_standard_files(inherited(path));
    errno = reason;
    if (file < 0) {
      throw input_error(name + ": cannot be opened: " + std::strerror(errno) +
                        ", expected a running process that made it");
    }
    shared_segment result(file);
    struct stat known{};
    bool const is_file = fstat(file, &known) == 0 && S_ISREG(known.st_mode) &&
                         known.st_size >= static_cast<off_t>(page);
    int const seals = fcntl(file, F_GET_SEALS);  // -1: a file that cannot have any
    if (is_file && seals >= 0 && (seals & kept) == kept) {
      result.map(static_cast<std::size_t>(known.st_size));
      if (result.is_sound()) return result;
    }
    throw input_error(name + ": not that of a communicator of this version of blink (" +
                      BLINK_VERSION_TEXT + ")");
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
  /// Lets children open the memory by the same path when they run another program. They may be of
  /// another user or have other process numbers.
  void leave_to_children() const { fcntl(file_, F_SETFD, 0); }
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
    if (errno != 0) detail::refuse_by_system("a lock on shared memory", "fcntl");
    std::int32_t nobody = 0;
    if (!process_of(rank).compare_exchange_strong(nobody, getpid())) {
      claims.release(file_, rank);
      refuse_taken();
    }
    claimed_.push_back(rank);
  }

  // Memory that all callers with the same key share, see `detail::shared_blocks`.

  [[nodiscard]] void* find_or_make(std::uint64_t key, std::size_t bytes) const {
    return blocks().find_or_make(key, bytes);
  }
  [[nodiscard]] void* hold(std::uint64_t key, std::size_t bytes) const {
    return blocks().hold(key, bytes);
  }
  void let_go(std::uint64_t key) const { blocks().let_go(key); }

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
    if (got == MAP_FAILED)
      detail::refuse_by_system("memory at addresses that a buffer has", "mmap");
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
  static constexpr std::size_t page = detail::shared_blocks::page;
  static constexpr int kept = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL;  // seals: of its size
  struct alignas(128) segment_head {
    std::uint64_t version;
    std::uint64_t bytes;
    std::int32_t rank_count;
    detail::shared_blocks::directory blocks;
  };
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
    all.add(std::uint64_t{sizeof(segment_head) + detail::shared_blocks::bytes_of_head()});
    all.add(std::uint64_t{shared_state::bytes(1)});
    return all.value();
  }

  [[nodiscard]] static constexpr std::size_t whole_pages(std::size_t bytes) {
    return detail::shared_blocks::whole_pages(bytes);
  }
  [[nodiscard]] detail::shared_blocks blocks() const {
    return {file_, memory_, bytes_, at<segment_head>(0).blocks};
  }
  explicit shared_segment(int file) : file_(file) {}

  // True if what a process needs to join lies within the memory.
  [[nodiscard]] bool is_sound() const {
    auto const& head = at<segment_head>(0);
    constexpr int most_ranks = 1 << 14;
    return head.version == version() && head.bytes == bytes_ && head.rank_count >= 1 &&
           head.rank_count <= most_ranks && first_block(head.rank_count) <= bytes_ &&
           blocks().are_sound();
  }
  // A new descriptor of the file NUMBER in the path "/proc/PID/fd/NUMBER"; -1: there is none.
  [[nodiscard]] static int inherited(std::string const& path) {
    int number = -1;
    char rest = 0;
    if (std::sscanf(path.c_str(), "/proc/%*d/fd/%d%c", &number, &rest) != 1) return -1;
    return fcntl(number, F_DUPFD_CLOEXEC, 3);
  }
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
      detail::refuse_by_system(
          std::to_string(bytes) + " bytes of addresses (blink run --memory takes less)", "mmap");
    }
    memory_ = static_cast<std::byte*>(memory);
    bytes_ = bytes;
  }
  template <class T>
  [[nodiscard]] T& at(std::size_t offset) const {
    return *reinterpret_cast<T*>(memory_ + offset);
  }
  [[nodiscard]] std::atomic<std::int32_t>& process_of(int rank) const {
    return at<std::atomic<std::int32_t>>(sizeof(segment_head) +
                                         sizeof(std::int32_t) * static_cast<std::size_t>(rank));
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
