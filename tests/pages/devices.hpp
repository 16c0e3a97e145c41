// SPDX-License-Identifier: Apache-2.0
// Calls of ranks that are GPUs. See scripts/check_pages.
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/reducers.hpp>
#include <blink/reducers/epilogue.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda.cuh>
#include <blink/transports/host/launcher_bootstrap.hpp>

#include <cstddef>
#include <vector>

struct scale {
  template <class Group>
  BLINK_HOST_DEVICE void operator()(Group const& group, float* results, std::size_t index,
                                    std::size_t count) const {}
};

inline void block(blink::topology const& dgx1v, blink::plan const& plan,
                  blink::schedule const& trees, std::vector<blink::rank_buffers<float>>& buffers,
                  std::vector<cudaStream_t> const& streams, cudaStream_t stream, int gpu,
                  float* input, float* output, std::size_t count, scale rms_norm) {
  {
#include BLOCK
  }
}
