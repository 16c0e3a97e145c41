// SPDX-License-Identifier: Apache-2.0
// An epilogue over rows. The kernel that adds the partial results also adds the residual and
// normalises by the root mean square.

#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/transports/cuda/kernels/walk_kernel.cuh>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "host_ranks.hpp"
#include "residual_rms_norm.hpp"

using example::residual_rms_norm;
using sum_and_norm = blink::fused_reducer<blink::sum, residual_rms_norm>;

BLINK_DEFINE_WALK_KERNEL(blink::reaching_peer_transport, float, sum_and_norm);

int main() {
  constexpr std::size_t width = 16;
  constexpr std::size_t rows = 9;
  std::vector<float> const weight(width, 0.5F);
  std::vector<std::vector<float>> residual(example::ranks, std::vector<float>(rows * width, 1.0F));
  std::vector<std::vector<float>> normed(example::ranks, std::vector<float>(rows * width));
  example::all_reduce_on_host(rows * width, 4 * width, [&](int rank) {
    auto const own = static_cast<std::size_t>(rank);
    return blink::with_epilogue(
        blink::sum{},
        residual_rms_norm{residual[own].data(), normed[own].data(), weight.data(), width});
  });
  bool right = true;
  for (std::size_t row = 0; row < rows; ++row) {
    float squares = 0;
    auto const value = [&](std::size_t k) { return 1 + example::sum_of_inputs(row * width + k); };
    for (std::size_t k = 0; k < width; ++k) squares += value(k) * value(k);
    for (std::size_t k = 0; k < width; ++k) {
      float const expected = 0.5F * value(k) / std::sqrt(squares / width + 1e-6F);
      for (auto const& of_rank : normed) {
        right = right && example::is_near(of_rank[row * width + k], expected);
      }
    }
  }
  return example::report("residual and RMSNorm of sums", right);
}
