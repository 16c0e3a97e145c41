// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace example {

/// Quantises results to codes and scales, in blocks of 32 elements. The scale maps the largest
/// element of a block to 127.
struct quantise {
  static constexpr std::size_t block = 32;
  std::int8_t* codes;
  float* scales;  // one for each block

  template <class Group>
  BLINK_HOST_DEVICE void operator()(Group const group, float const* results, std::uint64_t index,
                                    std::size_t count) const {
    for (std::size_t b = group.thread_rank(); b < count / block; b += group.size()) {
      float largest = 0;
      for (std::size_t k = 0; k < block; ++k) {
        largest = fmaxf(largest, fabsf(results[b * block + k]));
      }
      float const scale = largest / 127;
      scales[index / block + b] = scale;
      for (std::size_t k = 0; k < block; ++k) {
        float const steps = scale == 0 ? 0 : results[b * block + k] / scale;
        codes[index + b * block + k] = static_cast<std::int8_t>(rintf(steps));
      }
    }
  }
};

}  // namespace example
