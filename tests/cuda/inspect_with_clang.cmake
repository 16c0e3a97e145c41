# SPDX-License-Identifier: Apache-2.0
# Compiles KERNEL by clang for ARCHITECTURE, which nvcc does not know (any more), and inspects the
# result. It expects accesses of 16 bytes, flags, and no arguments in local memory. Flags use
# acquire and release from sm_70 on, and fences before.
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

# The code is then assembled for the oldest architecture that this toolkit knows. It expects no
# spills and no frame beyond the flags of one task. The two kernels that compare located elements
# may also hold two such elements in their frame.
execute_process(
  COMMAND ${CUDA}/bin/ptxas -arch=sm_75 -v ${OUTPUT} -o ${OUTPUT}.cubin
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "ptxas: ${said}")
endif()
string(REGEX MATCHALL "Function properties for [^\n]*\n[^\n]*\n[^\n]*" kernels "${said}")
list(LENGTH kernels number)
if(number EQUAL 0)
  message(FATAL_ERROR "ptxas reports no kernels: ${said}")
endif()
foreach(kernel IN LISTS kernels)
  string(REGEX MATCH "properties for ([^\n]*)" _ "${kernel}")
  set(name ${CMAKE_MATCH_1})
  set(most_frame 8)
  if(name MATCHES "merge_largest")
    set(most_frame 16)
  elseif(name MATCHES "min_location")
    set(most_frame 24)
  endif()
  string(REGEX MATCH "([0-9]+) bytes stack frame, ([0-9]+) bytes spill stores, ([0-9]+) bytes" _ "${kernel}")
  if(NOT CMAKE_MATCH_COUNT EQUAL 3 OR CMAKE_MATCH_1 GREATER most_frame OR CMAKE_MATCH_2 GREATER 0
     OR CMAKE_MATCH_3 GREATER 0)
    message(FATAL_ERROR "sm_${ARCHITECTURE}: expected ${most_frame} bytes of frame and no spills: ${kernel}")
  endif()
  string(REGEX MATCH "Used ([0-9]+) registers" _ "${kernel}")
  if(NOT CMAKE_MATCH_COUNT EQUAL 1 OR CMAKE_MATCH_1 GREATER 128)
    message(FATAL_ERROR "sm_${ARCHITECTURE}: expected at most 128 registers: ${kernel}")
  endif()
endforeach()
message(STATUS "sm_${ARCHITECTURE}: ${number} kernels")
