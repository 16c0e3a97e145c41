// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/located.hpp>
#include <blink/reducers/reducer.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// The k largest values so far, with their indices. Larger values come first; among equal values
/// the lower index comes first. Entries from `size` on are unspecified.
template <class Value, std::size_t K, class Index = std::int64_t>
struct largest_values {
  static_assert(K > 0, "blink: at least one value is kept");
  located<Value, Index> entries[K]{};
  std::uint32_t size = 0;

  [[nodiscard]] BLINK_HOST_DEVICE static constexpr bool goes_before(
      located<Value, Index> const& a, located<Value, Index> const& b) {
    auto const larger = [](Value const& x, Value const& y) { return y < x; };
    return a.index != b.index &&
           detail::better_of(a, b, tie::lowest_index, larger).index == a.index;
  }

  /// Inserts an entry if it is among the k largest.
  BLINK_HOST_DEVICE constexpr void add(located<Value, Index> const& entry) {
    std::size_t at = size;
    while (at > 0 && goes_before(entry, entries[at - 1])) --at;
    if (at == K) return;
    if (size < K) ++size;
    for (std::size_t k = size - 1; k > at; --k) entries[k] = entries[k - 1];
    entries[at] = entry;
  }
};

/// Merges lists of the k largest values. The bits do not depend on the order if indices are
/// distinct.
///
/// Time: O(k) for each combination; short lists on devices O(k^2) moves between registers.
struct merge_largest {
  static constexpr bool is_commutative = true;
  template <class Value, std::size_t K, class Index>
    requires requires(Value const a, Value const b) { static_cast<bool>(a < b); }
  BLINK_HOST_DEVICE constexpr largest_values<Value, K, Index> operator()(
      largest_values<Value, K, Index> const& a, largest_values<Value, K, Index> const& b) const {
    using list = largest_values<Value, K, Index>;
    list result;
#if BLINK_DEVICE_PASS
    if constexpr (K <= 16) {  // constant indices, so that lists stay in registers
      list left = a;
      list right = b;
      BLINK_UNROLL
      for (std::size_t k = 0; k < K; ++k) {
        bool const takes_a =
            right.size == 0 ||
            (left.size != 0 && !list::goes_before(right.entries[0], left.entries[0]));
        if (left.size + right.size == 0) continue;
        result.entries[k] = takes_a ? left.entries[0] : right.entries[0];
        ++result.size;
        left.size -= takes_a ? 1 : 0;
        right.size -= takes_a ? 0 : 1;
        BLINK_UNROLL
        for (std::size_t i = 1; i < K; ++i) {
          left.entries[i - 1] = takes_a ? left.entries[i] : left.entries[i - 1];
          right.entries[i - 1] = takes_a ? right.entries[i - 1] : right.entries[i];
        }
      }
      return result;
    }
#endif
    std::uint32_t of_a = 0;
    std::uint32_t of_b = 0;
    while (result.size < K && (of_a < a.size || of_b < b.size)) {
      bool const takes_a =
          of_b == b.size || (of_a < a.size && !list::goes_before(b.entries[of_b], a.entries[of_a]));
      result.entries[result.size++] = takes_a ? a.entries[of_a++] : b.entries[of_b++];
    }
    return result;
  }
};

static_assert(combines_elements<merge_largest, largest_values<float, 8>>);
static_assert(!reducer_for<merge_largest, float>, "merges lists, not numbers");

}}  // namespace blink::BLINK_ABI
