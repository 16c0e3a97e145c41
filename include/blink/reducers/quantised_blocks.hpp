// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/reducers/reducer.hpp>

#include <cstddef>
#include <cstdint>

namespace blink { inline namespace BLINK_ABI {

/// Floats that share a scale when they are quantised: the element of a quantised collective. A
/// buffer of N * count floats is a buffer of `count` blocks.
template <std::size_t N>
struct float_block {
  float values[N];
};

/// A `float_block` as whole numbers from -127 to 127 and a common scale. A block with an infinity
/// or a NaN becomes NaN as a whole. A block whose numbers are all below 2^-119 becomes 0.
template <std::size_t N>
struct int8_block {
  float scale;
  std::int8_t values[N];

  int8_block() = default;
  /// Error: at most half a scale for each number, which is max |x| / 254.
  BLINK_HOST_DEVICE explicit constexpr int8_block(float_block<N> const& block) : scale(0) {
    float largest = 0;
    float poison = 0;  // NaN if one number is not finite
    for (std::size_t k = 0; k < N; ++k) {
      float const size = block.values[k] < 0 ? -block.values[k] : block.values[k];
      largest = largest < size ? size : largest;
      poison += block.values[k] * 0.0F;
    }
    bool const vanishes = largest < 0x1p-119F;  // scales below 2^-126 would lose digits
    scale = (vanishes ? 0.0F : largest / 127.0F) + poison;
    for (std::size_t k = 0; k < N; ++k) {
      float const wanted = scale > 0 ? block.values[k] / scale : 0.0F;
      values[k] = static_cast<std::int8_t>(wanted < 0 ? wanted - 0.5F : wanted + 0.5F);
    }
  }
  BLINK_HOST_DEVICE explicit constexpr operator float_block<N>() const {
    float_block<N> result{};
    for (std::size_t k = 0; k < N; ++k) result.values[k] = scale * static_cast<float>(values[k]);
    return result;
  }
};

/// The sum of blocks, added as floats and quantised on links. Buffers hold `float_block`s or
/// `int8_block`s. The latter also quarter the bytes on the way from the root.
///
/// Error: for each link between a leaf and the root, half a scale of the partial sum that crosses
///        it. Where ranks read each other's buffers, leaves are not quantised.
struct quantised_sum {
  static constexpr bool is_commutative = true;

  template <std::size_t N>
  BLINK_HOST_DEVICE constexpr float_block<N> lift(float_block<N> const& block) const {
    return block;
  }
  template <std::size_t N>
  BLINK_HOST_DEVICE constexpr float_block<N> lift(int8_block<N> const& block) const {
    return static_cast<float_block<N>>(block);
  }
  template <std::size_t N>
  BLINK_HOST_DEVICE constexpr float_block<N> operator()(float_block<N> const& a,
                                                        float_block<N> const& b) const {
    float_block<N> result{};
    for (std::size_t k = 0; k < N; ++k) result.values[k] = a.values[k] + b.values[k];
    return result;
  }
  template <std::size_t N>
  BLINK_HOST_DEVICE constexpr int8_block<N> send(float_block<N> const& total) const {
    return int8_block<N>(total);
  }
  template <std::size_t N>
  BLINK_HOST_DEVICE constexpr float_block<N> recv(int8_block<N> const& sent) const {
    return static_cast<float_block<N>>(sent);
  }
};

static_assert(reducer_for<quantised_sum, float_block<32>>);
static_assert(reducer_for<quantised_sum, int8_block<32>>);
static_assert(sizeof(sent_t<quantised_sum, float_block<32>>) == 36);
static_assert(!reducer_for<quantised_sum, float>, "a single number has no scale to share");

}}  // namespace blink::BLINK_ABI
