// SPDX-License-Identifier: Apache-2.0
// Calls over a communicator of NCCL. See scripts/check_pages.
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/reducers.hpp>
#if __has_include(<nccl.h>)
#include <blink/transports/nccl.cuh>
#endif

#include <cstddef>

#if __has_include(<nccl.h>)
inline void block(blink::topology const& machine, blink::plan const& plan, ncclComm_t communicator,
                  cudaStream_t stream, float* input, float* output, std::size_t count) {
#include BLOCK
}
#endif
