// SPDX-License-Identifier: Apache-2.0
#pragma once

// The second name of each function, `pnccl...`. A profiler that defines `nccl...` calls the
// function by it. Included by one source, after the definitions.

#include "function_list.hpp"

#ifndef __CUDA_ARCH__  // names of the host
// nvcc refuses the attribute `alias`.
#define BLINK_NCCL_ALIAS_AS(type, name, parameters) \
  asm(".globl pnccl" #name "\n.type pnccl" #name ", @function\n.set pnccl" #name ", nccl" #name);
#define BLINK_NCCL_ALIAS(name, parameters) BLINK_NCCL_ALIAS_AS(result, name, parameters)
BLINK_NCCL_FUNCTIONS(BLINK_NCCL_ALIAS)
BLINK_NCCL_TEAM_FUNCTIONS(BLINK_NCCL_ALIAS_AS)
BLINK_NCCL_OTHER_FUNCTIONS(BLINK_NCCL_ALIAS_AS)
#undef BLINK_NCCL_ALIAS
#undef BLINK_NCCL_ALIAS_AS
#endif
