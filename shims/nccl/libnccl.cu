// SPDX-License-Identifier: Apache-2.0
// libnccl.so.2 over blink. Programs for NCCL whose ranks are GPUs of one host run unchanged; see
// docs/nccl.md.
//
//   LD_LIBRARY_PATH=$PWD/build/cuda/shims/nccl/blink_nccl ./all_reduce_perf -g 4
//
//   BLINK_NCCL_FALLBACK=PATH   another libnccl, for example for ranks on several hosts.
//   BLINK_NCCL_PROCESSES=0     The other libnccl also serves ranks in several processes.
//   BLINK_TUNING=FILES         Trees for each size, as `blink schedule --algorithms` writes them.
//                              `:` separates files.
//   BLINK_DEADLINE=SECONDS     The longest time that a call waits for other ranks; default 600.
//   NCCL_DEBUG=WARN            Prints refused calls to the error stream.
//
// Each rank's call is queued. The thread that makes the last part of a call puts it into the
// streams of all ranks of its process.

#include "built_types.hpp"
#include "cuda_platform.cuh"
#include "reduce_elements.hpp"

// The kernels of each type are compiled in a separate translation unit.
#define BLINK_NCCL_ELSEWHERE(name) BLINK_NCCL_REDUCTIONS(extern, blink_nccl::cuda_platform, name)
BLINK_NCCL_BUILT_TYPES(BLINK_NCCL_ELSEWHERE)

#include "define_functions.hpp"
