# SPDX-License-Identifier: Apache-2.0
# Checks OBJECTS (separated by |). The object of the source `defining` holds each of the kernels in
# kernels.cuh, and the object of `launching` holds none: neither host stubs nor machine code, which
# is not compressed here.
string(REPLACE "|" ";" objects "${OBJECTS}")
list(LENGTH objects object_count)
if(NOT object_count EQUAL 2)
  message(FATAL_ERROR "two objects were expected: ${OBJECTS}")
endif()
foreach(object IN LISTS objects)
  foreach(kernel IN ITEMS "11call_kernelI[A-Za-z0-9_]*19slot_peer_transportEf" "11call_kernelI[A-Za-z0-9_]*23reaching_peer_transportEf"
                          "11walk_kernelI[A-Za-z0-9_]*19slot_peer_transportEf")
    file(STRINGS ${object} names REGEX "${kernel}")
    list(LENGTH names name_count)
    if(object MATCHES "/defining" AND name_count EQUAL 0)
      message(FATAL_ERROR "no kernel ${kernel} in ${object}")
    elseif(object MATCHES "/launching" AND name_count GREATER 0)
      message(FATAL_ERROR "a kernel that is only declared is in ${object}: ${names}")
    endif()
  endforeach()
endforeach()
