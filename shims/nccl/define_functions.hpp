// SPDX-License-Identifier: Apache-2.0
#pragma once

// All functions of the library, on `blink_nccl::chosen_platform`, each also under its second name,
// `pnccl...`. A profiler that defines `nccl...` calls the function by that. Included by one source.

#include "define_calls.hpp"
#include "define_communicators.hpp"
#include "define_derived.hpp"
#include "define_memory.hpp"
#include "define_queries.hpp"
#include "define_unsupported.hpp"
#include "function_list.hpp"

#ifndef __CUDA_ARCH__  // names of the host
// nvcc refuses the attribute `alias`.
#define BLINK_NCCL_ALIAS(type, name, parameters) \
  asm(".globl pnccl" #name "\n.type pnccl" #name ", @function\n.set pnccl" #name ", nccl" #name);
BLINK_NCCL_FUNCTIONS(BLINK_NCCL_ALIAS)
#undef BLINK_NCCL_ALIAS
#endif
