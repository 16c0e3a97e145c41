// SPDX-License-Identifier: Apache-2.0
// libnccl.so.2 over blink: programs for NCCL whose ranks are GPUs of one host run unchanged, see docs/nccl.md.
//
//   LD_LIBRARY_PATH=$PWD/build/cuda/shims/nccl/blink_nccl ./all_reduce_perf -g 4
//
//   BLINK_NCCL_FALLBACK=PATH   another libnccl, to which all else is handed on, such as ranks on several hosts
//   BLINK_NCCL_PROCESSES=0     that, too, if ranks are in several processes
//   BLINK_TUNING=FILES   which trees for which size, as `blink schedule --algorithms` writes them, `:` between files
//   BLINK_DEADLINE=SECONDS     a call fails that waits so long for other ranks; 600 unless set
//   NCCL_DEBUG=WARN            what is refused is reported on the error stream, too
//
// Each rank's call is queued; the thread that brings the last part of a call puts it into the streams of all ranks of
// its process.

#include "built_types.hpp"
#include "cuda_platform.cuh"
#include "reduce_elements.hpp"

// The kernels of each type are compiled in a translation unit of their own.
#define BLINK_NCCL_ELSEWHERE(name) BLINK_NCCL_REDUCTIONS(extern, blink_nccl::cuda_platform, name)
BLINK_NCCL_BUILT_TYPES(BLINK_NCCL_ELSEWHERE)

#include "define_calls.hpp"
#include "define_communicators.hpp"
#include "define_rest.hpp"
