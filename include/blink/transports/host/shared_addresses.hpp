// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Addresses at which a process maps pages of shared memory a second time, see `registered_memory`.
class shared_addresses {
 public:
  /// The bytes from `begin` to `end` are those from `home` on in the memory that all ranks share.
  struct range {
    std::uintptr_t begin = 0;
    std::uintptr_t end = 0;
    std::uintptr_t home = 0;
  };

  [[nodiscard]] bool is_empty() const { return ranges_.empty(); }

  /// Returns the same byte's address in the shared memory; `address` itself if it is in no range.
  ///
  /// Time: O(ranges)
  [[nodiscard]] std::uintptr_t home_of(std::uintptr_t address) const {
    for (auto const& one : ranges_) {
      if (address >= one.begin && address < one.end) return one.home + (address - one.begin);
    }
    return address;
  }
  /// True if one range contains all of these bytes.
  [[nodiscard]] bool contains(std::uintptr_t begin, std::size_t bytes) const {
    for (auto const& one : ranges_) {
      if (begin >= one.begin && begin < one.end) return bytes <= one.end - begin;
    }
    return false;
  }
  [[nodiscard]] bool overlaps(std::uintptr_t begin, std::uintptr_t end) const {
    for (auto const& one : ranges_) {
      if (begin < one.end && one.begin < end) return true;
    }
    return false;
  }

  /// Pre: the range overlaps no other.
  void add(range const& fresh) { ranges_.push_back(fresh); }
  void remove(std::uintptr_t begin) {
    std::erase_if(ranges_, [&](range const& one) { return one.begin == begin; });
  }

 private:
  std::vector<range> ranges_;
};

}}  // namespace blink::BLINK_ABI
