# SPDX-License-Identifier: Apache-2.0
# tests/transports/mpi/*_test.cpp run on the ranks of each MPI library that is there.
include(${PROJECT_SOURCE_DIR}/cmake/blink-mpi-libraries.cmake)
file(GLOB mpi_sources CONFIGURE_DEPENDS transports/mpi/*.cpp)
add_custom_target(blink_mpi_tests)
# Much of the time is waiting for ranks that hang. Ranks of MPICH do not yield: where they share cores each
# fault takes seconds.
# Numbers of ranks that share memory, and that send messages alone.
set(ranks_of_openmpi 2)
set(ranks_of_mpich 2)
set(senders_of_openmpi 3)
set(senders_of_mpich)
if(BLINK_TEST_SLOW)
  set(ranks_of_openmpi 2 3 4)
  set(ranks_of_mpich 2 3)
  set(senders_of_openmpi 2 3 4)
  set(senders_of_mpich 2 3)
endif()
foreach(name IN ITEMS openmpi mpich)
  if(NOT name IN_LIST BLINK_MPI_LIBRARIES)
    add_test(NAME mpi.${name} COMMAND sh -c "echo 'no mpicc.${name} or mpirun.${name}, or not BLINK_TEST_SLOW'; exit 77")
    set_tests_properties(mpi.${name} PROPERTIES SKIP_RETURN_CODE 77)
    continue()
  endif()
  set(target blink_mpi_tests_${name})
  add_executable(${target} ${mpi_sources})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE blink_development mpi_${name} GTest::gtest)
  blink_compile_together(${target} 1)
  add_dependencies(blink_mpi_tests ${target})
  foreach(way IN ITEMS ranks senders)
    foreach(ranks IN LISTS ${way}_of_${name})
      set(test mpi.${name}.${ranks}_${way})
      add_test(NAME ${test} COMMAND_EXPAND_LISTS
               COMMAND ${BLINK_MPI_LAUNCH_${name}} ${ranks} $<TARGET_FILE:${target}>
                       $<$<EQUAL:${ranks},3>:multiple>)
      set(variables)
      if(way STREQUAL senders)
        list(APPEND variables BLINK_SHARED_MEMORY=0)
      endif()
      if(name STREQUAL mpich AND ranks GREATER 2)
        list(APPEND variables BLINK_FAULTS=48)
      endif()
      set_tests_properties(${test} PROPERTIES TIMEOUT 300 PROCESSORS ${ranks} ENVIRONMENT "${variables}")
    endforeach()
  endforeach()
  add_executable(example_mpi_${name} ${PROJECT_SOURCE_DIR}/examples/mpi_all_reduce.cpp)
  target_link_libraries(example_mpi_${name} PRIVATE blink_development mpi_${name})
  add_dependencies(blink_mpi_tests example_mpi_${name})
  add_test(NAME example.mpi_all_reduce.${name}
           COMMAND ${BLINK_MPI_LAUNCH_${name}} 2 $<TARGET_FILE:example_mpi_${name}>)
  set_tests_properties(example.mpi_all_reduce.${name} PROPERTIES
                       TIMEOUT 60 PROCESSORS 2 PASS_REGULAR_EXPRESSION "^1\n")
  if(NOT BLINK_TEST_SLOW)
    continue()
  endif()
  add_executable(probe_mpi_${name} ${PROJECT_SOURCE_DIR}/tools/mpi/probe.cpp)
  target_include_directories(probe_mpi_${name} PRIVATE ${PROJECT_SOURCE_DIR}/tools)
  target_link_libraries(probe_mpi_${name} PRIVATE blink_development mpi_${name})
  add_dependencies(blink_mpi_tests probe_mpi_${name})
  add_test(NAME mpi.${name}.probe
           COMMAND ${BLINK_MPI_LAUNCH_${name}} 2 $<TARGET_FILE:probe_mpi_${name}> --seconds 1 --bytes 65536)
  set_tests_properties(mpi.${name}.probe PROPERTIES
                       TIMEOUT 120 PROCESSORS 2 PASS_REGULAR_EXPRESSION "  exact  .*  ring  ")
  # Between hosts. Not with MPICH 4.0.2, whose MPI_Finalize does not always end there, not even that of a program of a few sends.
  if(name STREQUAL openmpi)
    add_test(NAME mpi.${name}.2_hosts
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/transports/mpi/hosts.sh ${name} $<TARGET_FILE:${target}>
                     "--gtest_filter=mpi/transport_conformance/0*:mpi_cases/0.*:mpi_communicator.*:\
mpi_lent_buffers.*:mpi_faults.*:mpi_messages.*:mpi_shrink.*:mpi_split.*")
    set_tests_properties(mpi.${name}.2_hosts PROPERTIES TIMEOUT 300 PROCESSORS 4 SKIP_RETURN_CODE 77)
  endif()
endforeach()
