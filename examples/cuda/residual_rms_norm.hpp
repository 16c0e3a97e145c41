// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>

namespace example {

/// Rows of `width` elements: residual += result, normed = weight * residual / rms(residual).
struct residual_rms_norm {
  float* residual;
  float* normed;
  float const* weight;
  std::size_t width;

  template <class Group>
  BLINK_HOST_DEVICE void operator()(Group const group, float const* results, std::uint64_t index,
                                    std::size_t count) const {
    // One thread for each row, for many short rows. A warp should share a long row.
    for (std::size_t row = group.thread_rank(); row < count / width; row += group.size()) {
      std::size_t const begin = index + row * width;
      float squares = 0;
      for (std::size_t k = 0; k < width; ++k) {
        float const value = residual[begin + k] + results[row * width + k];
        residual[begin + k] = value;
        squares += value * value;
      }
      float const factor = 1 / sqrtf(squares / static_cast<float>(width) + 1e-6F);
      for (std::size_t k = 0; k < width; ++k) {
        normed[begin + k] = weight[k] * residual[begin + k] * factor;
      }
    }
  }
};

}  // namespace example
