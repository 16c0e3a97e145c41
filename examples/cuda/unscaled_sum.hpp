// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

namespace example {

/// `lift` is applied to each element once, before the sum.
struct unscaled_sum {
  float scale;
  BLINK_HOST_DEVICE float lift(float gradient) const { return gradient / scale; }
  BLINK_HOST_DEVICE float operator()(float a, float b) const { return a + b; }
};

}  // namespace example
