# SPDX-License-Identifier: Apache-2.0
# tests/mpi/*_test.cpp run on the ranks of each MPI library that is there.
include(${PROJECT_SOURCE_DIR}/cmake/blink-mpi-libraries.cmake)
file(GLOB mpi_sources CONFIGURE_DEPENDS mpi/*.cpp)
add_custom_target(blink_mpi_tests)
foreach(name IN ITEMS openmpi mpich)
  if(NOT name IN_LIST BLINK_MPI_LIBRARIES)
    add_test(NAME mpi.${name} COMMAND sh -c "echo 'no mpicc.${name} or mpirun.${name}'; exit 77")
    set_tests_properties(mpi.${name} PROPERTIES SKIP_RETURN_CODE 77)
    continue()
  endif()
  set(target blink_mpi_tests_${name})
  add_executable(${target} ${mpi_sources})
  target_include_directories(${target} PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
  target_link_libraries(${target} PRIVATE blink_development mpi_${name} GTest::gtest)
  blink_compile_together(${target} 1)
  add_dependencies(blink_mpi_tests ${target})
  # Much of it is waiting for ranks that hang. The fast tests have each number with one library.
  if(BLINK_TEST_SLOW)
    set(numbers_of_ranks 2 3 4)
  elseif(name STREQUAL openmpi)
    set(numbers_of_ranks 3)
  else()
    set(numbers_of_ranks 2)
  endif()
  foreach(ranks IN LISTS numbers_of_ranks)
    add_test(NAME mpi.${name}.${ranks}_ranks COMMAND_EXPAND_LISTS
             COMMAND ${BLINK_MPI_LAUNCH_${name}} ${ranks} $<TARGET_FILE:${target}>
                     $<$<EQUAL:${ranks},3>:multiple>)
    set_tests_properties(mpi.${name}.${ranks}_ranks PROPERTIES TIMEOUT 300 PROCESSORS ${ranks})
    # Ranks of MPICH do not yield: where they share cores each fault takes seconds.
    if(name STREQUAL mpich AND ranks GREATER 2)
      set_tests_properties(mpi.${name}.${ranks}_ranks PROPERTIES ENVIRONMENT BLINK_FAULTS=96)
    endif()
  endforeach()
  # Between hosts. Not with MPICH 4.0.2, whose MPI_Finalize does not always end there, not even that of a program of a few sends.
  if(BLINK_TEST_SLOW AND name STREQUAL openmpi)
    add_test(NAME mpi.${name}.2_hosts
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/mpi/hosts.sh ${name} $<TARGET_FILE:${target}>
                     "--gtest_filter=mpi/transport_conformance/0*:mpi_cases/0.*:mpi_session.*:\
mpi_lent_buffers.*:mpi_faults.*:mpi_shrink.*:mpi_split.*")
    set_tests_properties(mpi.${name}.2_hosts PROPERTIES TIMEOUT 300 PROCESSORS 4 SKIP_RETURN_CODE 77)
  endif()
  # The example that stands between a program and its library.
  add_library(blink_pmpi_${name} MODULE ${PROJECT_SOURCE_DIR}/examples/pmpi/blink_pmpi.cpp
                                        ${PROJECT_SOURCE_DIR}/examples/pmpi/copies.cpp)
  target_link_libraries(blink_pmpi_${name} PRIVATE blink_development mpi_${name})
  add_dependencies(blink_mpi_tests blink_pmpi_${name})
  set(all_calls "Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Gather Gatherv \
Reduce Reduce_scatter Reduce_scatter_block Scatter Scatterv")
  set(habits "Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Gather Gatherv Reduce \
Reduce_scatter Reduce_scatter_block Scatterv")
  foreach(program IN ITEMS program sweep habits)
    add_executable(pmpi_${program}_${name} pmpi/${program}.cpp)
    target_link_libraries(pmpi_${program}_${name} PRIVATE blink_development mpi_${name})
    add_dependencies(blink_mpi_tests pmpi_${program}_${name})
  endforeach()
  # test(NAME PROGRAM RANKS CALLS VARIABLE=VALUE [LEVEL OF THREADS])
  function(blink_add_pmpi_test test program ranks calls variable)
    add_test(NAME pmpi.${name}.${test}.${ranks}_ranks
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/pmpi/pmpi_test.sh $<TARGET_FILE:blink_pmpi_${name}>
                     "$<TARGET_FILE:pmpi_${program}_${name}> ${ARGN}" "${calls}" ${variable}
                     ${BLINK_MPI_LAUNCH_${name}} ${ranks})
    set_tests_properties(pmpi.${name}.${test}.${ranks}_ranks PROPERTIES
                         TIMEOUT 300 PROCESSORS ${ranks})
  endfunction()
  foreach(ranks IN ITEMS 2 3)
    blink_add_pmpi_test(program program ${ranks} "${all_calls}" BLINK_PMPI_LEAST=0)
    blink_add_pmpi_test(habits habits ${ranks} "${habits}" BLINK_PMPI_LEAST=0)
  endforeach()
  if(NOT BLINK_TEST_SLOW AND name STREQUAL mpich)
    continue()
  endif()
  blink_add_pmpi_test(sweep sweep 2 "${all_calls}" BLINK_DEADLINE=100)
  blink_add_pmpi_test(program program 4 "${all_calls}" BLINK_PMPI_LEAST=0)
  blink_add_pmpi_test(serialized habits 2 "${habits}" BLINK_PMPI_LEAST=0 serialized)
  blink_add_pmpi_test(multiple habits 2 "${habits}" BLINK_PMPI_LEAST=0 multiple)
  # Messages of the library, as among hosts.
  blink_add_pmpi_test(program_by_messages program 3 "${all_calls}" BLINK_PMPI_SHARED=0)
  blink_add_pmpi_test(sweep_by_messages sweep 2 "${all_calls}" BLINK_PMPI_SHARED=0)
  blink_add_pmpi_test(habits_by_messages habits 2 "${habits}" BLINK_PMPI_SHARED=0)
  blink_add_pmpi_test(multiple_by_messages habits 2 "${habits}" BLINK_PMPI_SHARED=0 multiple)
  blink_add_pmpi_test(no_number habits 2 "" BLINK_PMPI_LEAST=many)
  blink_add_pmpi_test(no_deadline habits 2 "" BLINK_DEADLINE=never)
  blink_add_pmpi_test(no_report habits 2 "" BLINK_PMPI_REPORT=yes)
  blink_add_pmpi_test(no_choice habits 2 "" BLINK_PMPI_SHARED=maybe)
endforeach()
