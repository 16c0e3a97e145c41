# SPDX-License-Identifier: Apache-2.0
# Plants ordering bugs, one at a time. Expects that ThreadSanitizer or the comparison of results
# notices each bug, and reports nothing without one. Needs COMPILER, SOURCE (the project) and
# OUTPUT.

# plant(NAME PROGRAMS HEADER OLD NEW): a copy of the header with the bug, which is found before the
# original. Each of the programs has to notice it.
function(plant name programs header old new)
  file(READ ${SOURCE}/include/blink/${header} text)
  string(REPLACE "${old}" "${new}" mutated "${text}")
  if(mutated STREQUAL text)
    message(FATAL_ERROR "${name}: '${old}' is no longer in ${header}")
  endif()
  file(WRITE ${OUTPUT}/${name}/blink/${header} "${mutated}")
  set(mutants ${mutants} ${name} PARENT_SCOPE)
  set(programs_of_${name} "${programs}" PARENT_SCOPE)
endfunction()

# build_and_run(NAME PROGRAM RESULT SAID)
function(build_and_run name program result said)
  execute_process(
    COMMAND ${COMPILER} -std=c++20 -O0 -g1 -fsanitize=thread -I${OUTPUT}/${name} -I${SOURCE}/include
            -I${SOURCE}/tests ${SOURCE}/tests/mutants/emulated_${program}.cpp -pthread -o ${OUTPUT}/${name}.out
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
plant(relaxed_post walk running/walk/counter.hpp
      "counter_reference(word).store(value, detail::release_order)"
      "counter_reference(word).store(value, detail::relaxed_order)")
plant(relaxed_wait walk running/walk/counter.hpp
      ".load(detail::acquire_order)" ".load(detail::relaxed_order)")
plant(window_too_large "walk;pieces;channels" transports/cuda/runtime/peer_memory.hpp
      "message + 1 - at.window" "message - at.window")
plant(no_barrier_before_post "walk;pieces" running/walk/tree_walk.hpp
      "here, buffers, reduce);\n    group.sync();\n    detail::on_connections"
      "here, buffers, reduce);\n    detail::on_connections")
plant(no_barrier_before_take walk running/walk/packet_walk.hpp
      "if (group.any(row.result != status::ok))" "if (row.result != status::ok)")
plant(no_barrier_after_take walk running/walk/packet_walk.hpp
      "detail::hand_over_packets(group, transport, here, done, sizes);\n    group.sync();"
      "detail::hand_over_packets(group, transport, here, done, sizes);")
plant(packets_without_credit walk running/walk/packet_walk.hpp
      "return !transport.has_credit(" "return here.done > here.chunks && !transport.has_credit(")
plant(flags_that_come_again walk running/walk/packet.hpp
      "static_cast<std::uint32_t>(message + 1)" "static_cast<std::uint32_t>(message % 2 + 1)")
plant(relaxed_packets walk running/walk/packet.hpp
      "publish(to, word)" "counter_reference(to).store(word, relaxed_order)")
plant(no_barrier_before_epilogue walk running/walk/detail/move_chunk.hpp
      "    group.sync();  // what other threads have written" "")
plant(return_before_peers_have_read walk running/walk/tree_walk.hpp
      "if (pulls && !transport.consumed(" "if (pulls && here.done < here.chunks && !transport.consumed(")
plant(tasks_without_barrier "walk;channels" transports/cuda/kernels/block_work.hpp
      "open_task(group, transport, tasks[k], sizeof(T));\n  group.sync();"
      "open_task(group, transport, tasks[k], sizeof(T));")
plant(pieces_without_barrier pieces transports/cuda/p2p/piece_call.hpp
      "call.part(first + k));\n  }\n  group.sync();" "call.part(first + k));\n  }")
plant(size_after_message pieces transports/cuda/runtime/peer_memory.hpp
      "    announced(connection, message) = whole;\n    begin_publishing();\n    slot_peer_transport::post(connection, message, bytes);"
      "    begin_publishing();\n    slot_peer_transport::post(connection, message, bytes);\n    announced(connection, message) = whole;")
plant(channels_that_share_tasks channels transports/cuda/channels/channel_call.hpp
      "own.tasks[list] + std::size_t{channel} * tasks" "own.tasks[list]")
plant(channels_that_share_states channels transports/cuda/channels/channel_call.hpp
      "* all.channels + channel];" "* all.channels];")
plant(channel_calls_numbered_anew channels transports/cuda/kernels/block_work.hpp
      "close_task(group, tasks[k]);" "(void)tasks[k];")

foreach(program walk pieces channels)
  build_and_run(none ${program} code said)
  if(NOT code EQUAL 0)
    message(FATAL_ERROR "without a bug: ${code}\n${said}")
  endif()
endforeach()
foreach(name IN LISTS mutants)
  foreach(program IN LISTS programs_of_${name})
    build_and_run(${name} ${program} code said)
    if(said MATCHES "(WARNING|ERROR): ThreadSanitizer: ([A-Za-z ]+)")
      set(how "ThreadSanitizer: ${CMAKE_MATCH_2}")
    elseif(code EQUAL 1)
      set(how "wrong results")
    else()
      message(FATAL_ERROR "${name}, ${program}: not noticed (${code})\n${said}")
    endif()
    message(STATUS "${name}, ${program}: noticed, ${how}")
  endforeach()
endforeach()
