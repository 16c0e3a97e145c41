// SPDX-License-Identifier: Apache-2.0
// Kernels at namespace scope: explicit instantiations stand outside of the block's namespace. See
// scripts/check_pages.
#include <blink/reducers.hpp>
#include <blink/transports/cuda/kernels/walk_kernel.cuh>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

}  // namespace line_NUMBER
#include BLOCK
namespace after_kernels {
