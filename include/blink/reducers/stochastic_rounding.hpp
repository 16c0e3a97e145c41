// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>
#include <blink/reducers/small_float.hpp>

#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// 32 pseudo-random bits, determined by an element, a rank and a seed.
///
/// Source: G. Steele, D. Lea and C. Flood, "Fast splittable pseudorandom number generators",
///         OOPSLA 2014 (the mixing function).
[[nodiscard]] BLINK_HOST_DEVICE constexpr std::uint32_t random_bits(std::uint64_t seed,
                                                                    element_place const& place) {
  auto const mix = [](std::uint64_t bits) {
    bits = (bits ^ bits >> 30) * 0xbf58476d1ce4e5b9U;
    bits = (bits ^ bits >> 27) * 0x94d049bb133111ebU;
    return bits ^ bits >> 31;
  };
  std::uint64_t const of_rank = mix(seed + 0x9e3779b97f4a7c15U) +
                                static_cast<std::uint64_t>(place.rank) * 0xd1b54a32d192ed03U;
  return static_cast<std::uint32_t>(mix(mix(of_rank) + place.index) >> 32);
}

}  // namespace detail

/// The sum of floats that cross links as `Storage`, rounded up or down at random so that the mean
/// is kept. Equal seeds give equal bits. Use another seed for each call.
///
/// Error: at most an ulp of `Storage` for each link between a leaf and the root, 0 in the mean.
///        Where ranks read each other's buffers, leaves are not rounded.
template <class Storage>
struct stochastic_sent_sum {
  static constexpr bool is_commutative = true;
  std::uint64_t seed = 0;

  BLINK_HOST_DEVICE constexpr float operator()(float a, float b) const { return a + b; }
  BLINK_HOST_DEVICE constexpr Storage send(float total, element_place const& place) const {
    return Storage::at_random(total, detail::random_bits(seed, place));
  }
  BLINK_HOST_DEVICE constexpr float recv(Storage sent) const { return sent; }
};

/// The sum of `Storage` numbers in `float`, also on links, rounded at random at the root. The mean
/// is kept when sums are added repeatedly, as in training.
///
/// Equal seeds give equal bits. Use another seed for each call, equal on all ranks, which calls
/// check.
///
/// Error: that of the sum in `float`, and less than an ulp of `Storage`, 0 in the mean.
template <class Storage>
struct stochastic_storage_sum {
  static constexpr bool is_commutative = true;
  std::uint64_t seed = 0;

  [[nodiscard]] std::uint64_t common_state() const { return seed; }
  BLINK_HOST_DEVICE constexpr float lift(Storage value) const { return value; }
  BLINK_HOST_DEVICE constexpr float operator()(float a, float b) const { return a + b; }
  /// Rounds independently of the rank, so that any root gives the same bits.
  BLINK_HOST_DEVICE constexpr Storage finish(float total, int, element_place const& place) const {
    return Storage::at_random(total, detail::random_bits(seed, {place.index, -1}));
  }
};

static_assert(reducer_for<stochastic_sent_sum<bfloat16>, float>);
static_assert(reducer_for<stochastic_storage_sum<float8_e5m2>, float8_e5m2>);
static_assert(!reducer_for<stochastic_sent_sum<bfloat16>, float16*>);

}}  // namespace blink::BLINK_ABI
