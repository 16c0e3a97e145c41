# SPDX-License-Identifier: Apache-2.0
# Compiles KERNEL by clang for ARCHITECTURE, which nvcc does not know (any more), and looks for accesses of
# 16 bytes and for flags: acquire and release from sm_70 on, fences before; arguments are not in local memory.
execute_process(
  COMMAND ${CLANG} -x cuda -std=c++20 -O3 --cuda-device-only --cuda-gpu-arch=sm_${ARCHITECTURE} -S
          --cuda-path=${CUDA} -isystem ${CUDA}/include/cccl -isystem ${SHIM} -I${INCLUDE}
          -Wall -Wextra -Werror -Wno-unknown-cuda-version ${KERNEL} -o ${OUTPUT}
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "clang: ${said}")
endif()
file(READ ${OUTPUT} ptx)
set(wanted ld.global.v4.u32 st.global.v4.u32)
if(ARCHITECTURE LESS 70)
  list(APPEND wanted membar.sys)
else()
  list(APPEND wanted ld.acquire.sys st.release.sys)
endif()
foreach(instruction IN LISTS wanted)
  string(FIND "${ptx}" "${instruction}" place)
  if(place LESS 0)
    message(FATAL_ERROR "sm_${ARCHITECTURE}: no ${instruction}")
  endif()
endforeach()
string(FIND "${ptx}" "ld.global.nc" place)
if(place GREATER_EQUAL 0)
  message(FATAL_ERROR "sm_${ARCHITECTURE}: found ld.global.nc")
endif()
# What is left there are addresses and flags of one lane.
string(REGEX MATCHALL "__local_depot[0-9]+\\[[0-9]+\\]" frames "${ptx}")
foreach(frame IN LISTS frames)
  string(REGEX REPLACE ".*\\[([0-9]+)\\]" "\\1" bytes "${frame}")
  if(bytes GREATER 256)
    message(FATAL_ERROR "sm_${ARCHITECTURE}: ${frame}: ${bytes} bytes of local memory, at most 256")
  endif()
endforeach()
