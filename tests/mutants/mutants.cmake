# SPDX-License-Identifier: Apache-2.0
# Plants ordering bugs, one at a time, and expects that ThreadSanitizer or the comparison of results
# notices each, and nothing without them. Needs COMPILER, SOURCE (the project) and OUTPUT.

# plant(NAME HEADER OLD NEW): a copy of the header with the bug, found before the right one.
function(plant name header old new)
  file(READ ${SOURCE}/include/blink/${header} text)
  string(REPLACE "${old}" "${new}" mutated "${text}")
  if(mutated STREQUAL text)
    message(FATAL_ERROR "${name}: '${old}' is no longer in ${header}")
  endif()
  file(WRITE ${OUTPUT}/${name}/blink/${header} "${mutated}")
  set(mutants ${mutants} ${name} PARENT_SCOPE)
endfunction()

# build_and_run(NAME RESULT SAID)
function(build_and_run name result said)
  execute_process(
    COMMAND ${COMPILER} -std=c++20 -O0 -g1 -fsanitize=thread -I${OUTPUT}/${name} -I${SOURCE}/include
            -I${SOURCE}/tests ${SOURCE}/tests/mutants/emulated_walk.cpp -pthread -o ${OUTPUT}/${name}.out
    RESULT_VARIABLE failed OUTPUT_VARIABLE log ERROR_VARIABLE log)
  if(failed)
    message(FATAL_ERROR "${name} does not compile: ${log}")
  endif()
  set(ENV{TSAN_OPTIONS} "halt_on_error=1")
  execute_process(COMMAND ${OUTPUT}/${name}.out RESULT_VARIABLE code OUTPUT_VARIABLE log ERROR_VARIABLE log
                  TIMEOUT 120)
  set(${result} "${code}" PARENT_SCOPE)
  set(${said} "${log}" PARENT_SCOPE)
endfunction()

file(REMOVE_RECURSE ${OUTPUT})
file(MAKE_DIRECTORY ${OUTPUT})
set(mutants)
plant(relaxed_post collectives/counter.hpp
      "counter_reference(word).store(value, detail::release_order)"
      "counter_reference(word).store(value, detail::relaxed_order)")
plant(relaxed_wait collectives/counter.hpp
      ".load(detail::acquire_order)" ".load(detail::relaxed_order)")
plant(window_too_large transports/cuda/peer_memory.hpp
      "observe(wires[wire].counters->taken) + wires[wire].window"
      "observe(wires[wire].counters->taken) + wires[wire].window + 1")
plant(no_barrier_before_post collectives/tree_walk.hpp
      "    group.sync();\n    if (leads) detail::hand_over" "    if (leads) detail::hand_over")
plant(no_barrier_before_take collectives/packet_walk.hpp
      "if (group.any(row.result != status::ok))" "if (row.result != status::ok)")
plant(no_barrier_after_take collectives/packet_walk.hpp
      "if (leads) detail::hand_over_packets(link, here, sizes);\n    group.sync();"
      "if (leads) detail::hand_over_packets(link, here, sizes);")
plant(packets_without_room collectives/packet_walk.hpp
      "if (!link.has_room(" "if (here.done > here.chunks && !link.has_room(")
plant(flags_that_come_again collectives/packet.hpp
      "static_cast<std::uint32_t>(message + 1)" "static_cast<std::uint32_t>(message % 2 + 1)")
plant(relaxed_packets collectives/packet.hpp
      "publish(to, word)" "counter_reference(to).store(word, relaxed_order)")
plant(no_barrier_before_epilogue collectives/epilogue.hpp
      "    group.sync();  // what other threads have written" "")
plant(return_before_peers_have_read collectives/tree_walk.hpp
      "if (pulls && !link.was_taken(" "if (pulls && here.done < here.chunks && !link.was_taken(")

build_and_run(none code said)
if(NOT code EQUAL 0)
  message(FATAL_ERROR "without a bug: ${code}\n${said}")
endif()
foreach(name IN LISTS mutants)
  build_and_run(${name} code said)
  if(said MATCHES "WARNING: ThreadSanitizer: ([a-z ]+)")
    set(how "ThreadSanitizer: ${CMAKE_MATCH_1}")
  elseif(code EQUAL 1)
    set(how "wrong results")
  else()
    message(FATAL_ERROR "${name}: not noticed (${code})\n${said}")
  endif()
  message(STATUS "${name}: noticed, ${how}")
endforeach()
