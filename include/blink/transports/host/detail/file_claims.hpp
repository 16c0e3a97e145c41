// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <mutex>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The bytes of files that this process has locked, and the descriptors that it may not close yet.
///
/// When a process closes a descriptor of a file, the system releases all its locks in that file,
/// also those from other descriptors. So a descriptor stays open as long as the process has locked
/// a byte of its file. Locks that belong to descriptors (F_OFD_SETLK) have no such trap. But a rank
/// that forks would share them with its child, and seem to live as long as the child.
class file_claims {
 public:
  /// The claims of this process.
  [[nodiscard]] static file_claims& of_process() {
    static auto& all =
        *new file_claims;  // never destroyed, because communicators may be destroyed later
    return all;
  }

  /// Locks a byte. Returns 0, or the error: EAGAIN if a process, which may be this one, has locked
  /// it.
  [[nodiscard]] int claim(int file, off_t byte) {
    std::lock_guard const lock(access_);
    struct stat known{};
    if (fstat(file, &known) != 0) return errno;
    auto at = find(known);
    if (at != files_.end() && std::count(at->bytes.begin(), at->bytes.end(), byte) != 0) {
      return EAGAIN;
    }
    if (set(file, byte, F_WRLCK) != 0) return errno == EACCES ? EAGAIN : errno;
    if (at == files_.end()) at = files_.insert(at, {known.st_dev, known.st_ino, {}, {}});
    at->bytes.push_back(byte);
    return 0;
  }
  /// Unlocks a byte. If it was the last one of its file, closes descriptors that wait for that.
  /// Pre: this process, or its parent before a fork, has locked it.
  void release(int file, off_t byte) {
    std::lock_guard const lock(access_);
    static_cast<void>(set(file, byte, F_UNLCK));
    struct stat known{};
    auto const at = fstat(file, &known) == 0 ? find(known) : files_.end();
    if (at == files_.end()) return;
    std::erase(at->bytes, byte);
    if (!at->bytes.empty()) return;
    for (int const waiting : at->given_up) ::close(waiting);
    files_.erase(at);
  }
  /// Closes a descriptor, now or once this process has no byte of its file locked.
  void close(int file) {
    std::lock_guard const lock(access_);
    struct stat known{};
    auto const at = fstat(file, &known) == 0 ? find(known) : files_.end();
    if (at == files_.end()) {
      ::close(file);
    } else {
      at->given_up.push_back(file);
    }
  }

  /// Describes a lock on one byte, for `fcntl`.
  [[nodiscard]] static struct flock lock_of(off_t byte, short type) {
    struct flock lock{};
    lock.l_type = type;
    lock.l_whence = SEEK_SET;
    lock.l_start = byte;
    lock.l_len = 1;
    return lock;
  }

 private:
  struct known_file {
    dev_t device;
    ino_t number;
    std::vector<off_t> bytes;   // that are locked, at least one
    std::vector<int> given_up;  // descriptors to close once no byte is locked
  };

  file_claims() = default;
  [[nodiscard]] static int set(int file, off_t byte, short type) {
    struct flock lock = lock_of(byte, type);
    return fcntl(file, F_SETLK, &lock);
  }
  [[nodiscard]] std::vector<known_file>::iterator find(struct stat const& known) {
    return std::find_if(files_.begin(), files_.end(), [&](known_file const& one) {
      return one.device == known.st_dev && one.number == known.st_ino;
    });
  }

  std::mutex access_;
  std::vector<known_file> files_;
};

}}}  // namespace blink::BLINK_ABI::detail
