// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <pthread.h>

#include <cinttypes>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <memory>

// What the system says of the addresses of this process (Linux: /proc/self/maps).

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Addresses that were mapped together.
struct mapping {
  std::uintptr_t begin = 0;
  std::uintptr_t end = 0;
  char rights[5] = {};       ///< such as "rw-p", p: of this process alone
  std::uint64_t offset = 0;  ///< in the file
  std::uint64_t file = 0;    ///< its number; 0: none
};

/// Calls `use(mapping)` for each that has some of these addresses, in rising order, until it is false.
///
/// Returns: did it reach all of them, without a gap? Also false where the system does not tell.
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

/// Has the stack of this thread some of these addresses?
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
