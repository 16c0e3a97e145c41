# SPDX-License-Identifier: Apache-2.0
# Compiles KERNEL for ARCHITECTURE and inspects the result. It expects flags with acquire and
# release at system scope, and global accesses of 16 bytes. It expects no read-only loads (peers
# write during the kernel), nothing on the stack, and at most MOST_REGISTERS. It compiles without
# --expt-relaxed-constexpr, which is the choice of the user's build.
execute_process(
  COMMAND ${NVCC} -std=c++20 -O3 -ptx -arch=compute_${ARCHITECTURE} --Werror all-warnings
          -I${INCLUDE} ${KERNEL} -o ${OUTPUT}.ptx
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "nvcc: ${said}")
endif()
file(READ ${OUTPUT}.ptx ptx)
string(REPLACE ";" " " ptx "${ptx}")  # a semicolon would end an element of a list in CMake
# Each kernel is checked alone, so that one kernel cannot hide a fault of another.
string(REPLACE ".entry" ";" kernels "${ptx}")
list(POP_FRONT kernels)
list(LENGTH kernels kernel_count)
if(kernel_count EQUAL 0)
  message(FATAL_ERROR "no kernel in ${KERNEL}")
endif()
foreach(kernel IN LISTS kernels)
  string(REGEX MATCH "_Z[A-Za-z0-9_]+" name "${kernel}")
  set(wanted ld.acquire.sys st.release.sys ld.global.v4.u32 st.global.v4.u32)
  if(name MATCHES "13small_packets")
    set(wanted ld.relaxed.sys st.relaxed.sys ld.acquire.sys st.release.sys)
  elseif(name MATCHES "14largest_values|7moments")  # packs do not fill their size
    set(wanted ld.acquire.sys st.release.sys)
  elseif(name MATCHES "11step_kernel")  # does not wait; streams do
    set(wanted ld.global.v4.u32 st.global.v4.u32)
  elseif(name MATCHES "10list_batch")  # writes tables and does not wait
    set(wanted)
  endif()
  if(name MATCHES "shaped_peer_transport")  # messages reserve links by the clock of all blocks
    list(APPEND wanted atom.cas.relaxed.sys.b64 %globaltimer)
  endif()
  foreach(instruction IN LISTS wanted)
    string(FIND "${kernel}" "${instruction}" place)
    if(place LESS 0)
      message(FATAL_ERROR "sm_${ARCHITECTURE}: no ${instruction} in ${name}")
    endif()
  endforeach()
  # Only elements of one byte may be stored by bytes, and the task's flags. Aligned data must use
  # its alignment.
  if(name MATCHES "walk_kernel" AND NOT name MATCHES "transportEh|small_floatILi[45]ELi[23]E")
    string(REGEX MATCHALL "st[.](global[.])?[ub]8" bytes "${kernel}")
    list(LENGTH bytes byte_count)
    if(byte_count GREATER 2)
      message(FATAL_ERROR "sm_${ARCHITECTURE}: ${byte_count} stores of a byte in ${name}")
    endif()
  endif()
  foreach(unwanted IN ITEMS ld.global.nc .local)
    string(FIND "${kernel}" "${unwanted}" place)
    if(place GREATER_EQUAL 0)
      message(FATAL_ERROR "sm_${ARCHITECTURE}: ${unwanted} in ${name}")
    endif()
  endforeach()
endforeach()

get_filename_component(folder ${NVCC} DIRECTORY)
execute_process(
  COMMAND ${folder}/ptxas -v -arch=sm_${ARCHITECTURE} ${OUTPUT}.ptx -o ${OUTPUT}.cubin
  RESULT_VARIABLE failed OUTPUT_VARIABLE said ERROR_VARIABLE said)
if(failed)
  message(FATAL_ERROR "ptxas: ${said}")
endif()
string(REGEX MATCHALL "[^0-9]0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" clean "${said}")
list(LENGTH clean clean_count)
if(NOT clean_count EQUAL kernel_count)
  message(FATAL_ERROR "${clean_count} of ${kernel_count} kernels without stack and spills:\n${said}")
endif()
string(REGEX MATCHALL "Used [0-9]+ registers" registers "${said}")
foreach(used IN LISTS registers)
  string(REGEX MATCH "[0-9]+" used "${used}")
  if(used GREATER MOST_REGISTERS)
    message(FATAL_ERROR "sm_${ARCHITECTURE}: ${used} registers, expected at most ${MOST_REGISTERS}:\n${said}")
  endif()
endforeach()
message(STATUS "sm_${ARCHITECTURE}: ${kernel_count} kernels, no stack, no spills: ${registers}")
