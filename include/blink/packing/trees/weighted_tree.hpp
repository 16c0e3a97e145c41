// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <unordered_map>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// A tree of a packing, with its exact weight.
struct weighted_tree {
  rational weight;
  std::vector<int> edges;  ///< positions in `edges(graph)`, ascending
};

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Distinct sets of edges, numbered from 0 in the order of insertion.
class tree_set {
 public:
  /// Returns the number of the set. A new set gets the previous `size()`.
  std::size_t insert(std::span<int const> edges) {
    key_.assign(edges.begin(), edges.end());
    std::ranges::sort(key_);
    std::uint64_t hash = 0x9e3779b97f4a7c15U;
    for (int const e : key_) hash = (hash ^ static_cast<std::uint64_t>(e)) * 0x100000001b3U;
    hash ^= hash >> 29;
    auto const [first, last] = by_hash_.equal_range(hash);
    for (auto it = first; it != last; ++it) {
      if (std::ranges::equal((*this)[it->second], key_)) return it->second;
    }
    by_hash_.emplace(hash, first_.size() - 1);
    edges_.insert(edges_.end(), key_.begin(), key_.end());
    first_.push_back(edges_.size());
    return first_.size() - 2;
  }

  [[nodiscard]] std::size_t size() const { return first_.size() - 1; }
  /// Positions of the edges, in ascending order.
  [[nodiscard]] std::span<int const> operator[](std::size_t i) const {
    return {edges_.data() + first_[i], first_[i + 1] - first_[i]};
  }

 private:
  std::vector<int> edges_;  // all sets, one after the other
  // position at which each set begins, with one more at the end
  std::vector<std::size_t> first_{0};
  std::unordered_multimap<std::uint64_t, std::size_t> by_hash_;
  std::vector<int> key_;
};

}}}  // namespace blink::BLINK_ABI::detail
