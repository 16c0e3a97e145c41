// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <bit>
#include <cstdint>
#include <string_view>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A 64-bit hash of a sequence of values, the same in every process. Different sequences have
/// different hashes, except for rare collisions.
///
/// Source: the mixing step of G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number
///         generators", OOPSLA 2014.
class hash {
 public:
  [[nodiscard]] constexpr std::uint64_t value() const { return state_; }

  constexpr void add(std::uint64_t word) {
    std::uint64_t mixed = (state_ ^ word) + 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ mixed >> 30) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ mixed >> 27) * 0x94d049bb133111ebu;
    state_ = mixed ^ mixed >> 31;
  }
  constexpr void add(int number) { add(static_cast<std::uint64_t>(number)); }
  constexpr void add(double number) { add(std::bit_cast<std::uint64_t>(number)); }
  constexpr void add(std::string_view text) {
    add(std::uint64_t{text.size()});
    for (char const letter : text) add(static_cast<std::uint64_t>(letter));
  }
  template <class = when_used>
  void add(std::vector<int> const& numbers) {
    add(std::uint64_t{numbers.size()});
    for (int const number : numbers) add(static_cast<std::uint64_t>(number));
  }

 private:
  std::uint64_t state_ = 0;
};

}}}  // namespace blink::BLINK_ABI::detail
