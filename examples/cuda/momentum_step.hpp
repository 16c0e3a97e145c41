// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <cstddef>
#include <cstdint>

namespace example {

/// momentum = decay * momentum + gradient; weight -= rate * momentum
struct momentum_step {
  float* weights;
  float* momenta;
  float rate;
  float decay;

  template <class Group>
  BLINK_HOST_DEVICE void operator()(Group const group, float const* gradients, std::uint64_t index,
                                    std::size_t count) const {
    for (std::size_t k = group.thread_rank(); k < count; k += group.size()) {
      float const momentum = decay * momenta[index + k] + gradients[k];
      momenta[index + k] = momentum;
      weights[index + k] -= rate * momentum;
    }
  }
};

}  // namespace example
