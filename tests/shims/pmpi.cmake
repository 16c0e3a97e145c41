# SPDX-License-Identifier: Apache-2.0
# shims/pmpi between programs that know nothing of blink and each MPI library that is there.
if(NOT TARGET Boost::context)
  return()
endif()
foreach(name IN LISTS BLINK_MPI_LIBRARIES)
  blink_add_pmpi(blink_pmpi_${name} ${name})
  target_link_libraries(blink_pmpi_${name} PRIVATE blink_development)
  add_dependencies(blink_mpi_tests blink_pmpi_${name})
  set(all_calls "Allgather Allgatherv Allreduce Alltoall Alltoallv Barrier Bcast Gather Gatherv \
Reduce Reduce_scatter Reduce_scatter_block Scatter Scatterv")
  foreach(program IN ITEMS program sweep habits order worlds started)
    add_executable(pmpi_${program}_${name} shims/pmpi/${program}.cpp)
    target_link_libraries(pmpi_${program}_${name} PRIVATE blink_development mpi_${name})
    add_dependencies(blink_mpi_tests pmpi_${program}_${name})
  endforeach()
  find_program(BLINK_MPIFORT_${name} mpifort.${name})
  mark_as_advanced(BLINK_MPIFORT_${name})
  if(BLINK_MPIFORT_${name})
    set(source ${CMAKE_CURRENT_SOURCE_DIR}/shims/pmpi/fortran.f90)
    set(program ${CMAKE_CURRENT_BINARY_DIR}/pmpi_fortran_${name})
    file(MAKE_DIRECTORY ${program}.modules)
    add_custom_command(OUTPUT ${program} DEPENDS ${source}
                       COMMAND ${BLINK_MPIFORT_${name}} -w -J${program}.modules ${source} -o ${program})
    add_custom_target(blink_pmpi_fortran_${name} ALL DEPENDS ${program})
    add_dependencies(blink_mpi_tests blink_pmpi_fortran_${name})
  endif()
  # test(NAME PROGRAM RANKS CALLS VARIABLE=VALUE [LEVEL OF THREADS])
  function(blink_add_pmpi_test test program ranks calls variable)
    add_test(NAME pmpi.${name}.${test}.${ranks}_ranks
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/shims/pmpi/pmpi_test.sh $<TARGET_FILE:blink_pmpi_${name}>
                     "${CMAKE_CURRENT_BINARY_DIR}/pmpi_${program}_${name} ${ARGN}" "${calls}" ${variable}
                     ${BLINK_MPI_LAUNCH_${name}} ${ranks})
    set_tests_properties(pmpi.${name}.${test}.${ranks}_ranks PROPERTIES
                         TIMEOUT 300 PROCESSORS ${ranks})
  endfunction()
  foreach(ranks IN ITEMS 2 3)
    blink_add_pmpi_test(program program ${ranks} "${all_calls}" BLINK_PMPI_LEAST=0)
    blink_add_pmpi_test(habits habits ${ranks} "${all_calls}" BLINK_PMPI_LEAST=0)
    blink_add_pmpi_test(started started ${ranks} "${all_calls}" BLINK_PMPI_LEAST=0)
  endforeach()
  if(BLINK_TEST_SLOW OR NOT name STREQUAL mpich)  # messages of the library, as among hosts
    blink_add_pmpi_test(program_by_messages program 3 "${all_calls}" BLINK_SHARED_MEMORY=0)
  endif()
  if(BLINK_MPIFORT_${name})
    blink_add_pmpi_test(fortran fortran 3 "Allgather Allreduce Barrier Bcast Reduce Reduce_scatter_block"
                        BLINK_PMPI_LEAST=0)
  endif()
  if(name STREQUAL mpich)  # counts of 64 bits are of MPI 4
    add_executable(pmpi_large_counts_${name} shims/pmpi/large_counts.cpp)
    target_link_libraries(pmpi_large_counts_${name} PRIVATE blink_development mpi_${name})
    add_dependencies(blink_mpi_tests pmpi_large_counts_${name})
    foreach(way IN ITEMS waits started made)
      blink_add_pmpi_test(large_counts_${way} large_counts 2
        "Allgather Allreduce Alltoall Bcast Gather Reduce Reduce_scatter_block Scatter"
        BLINK_PMPI_LEAST=0 ${way})
    endforeach()
  endif()
  blink_add_pmpi_test(started_by_messages started 3 "${all_calls}" BLINK_SHARED_MEMORY=0)
  blink_add_pmpi_test(started_by_threads started 2 "${all_calls}" BLINK_PMPI_LEAST=0 multiple)
  # Four ranks: one after the other is another order than along the tree.
  foreach(way IN ITEMS info environment)
    set(variable $<IF:$<STREQUAL:${way},info>,BLINK_PMPI_LEAST=0,BLINK_ORDER=ranks>)
    add_test(NAME pmpi.${name}.order_by_${way}.4_ranks
             COMMAND ${BLINK_MPI_LAUNCH_${name}} 4 env LD_PRELOAD=$<TARGET_FILE:blink_pmpi_${name}>
                     ${variable} $<TARGET_FILE:pmpi_order_${name}> ${way})
    set_tests_properties(pmpi.${name}.order_by_${way}.4_ranks PROPERTIES TIMEOUT 300 PROCESSORS 4)
  endforeach()
  if(TARGET blink_command)
    add_test(NAME pmpi.${name}.records
             COMMAND sh -c "rm -f records.${name}.*; '$<JOIN:${BLINK_MPI_LAUNCH_${name}},' '>' 2 env \
BLINK_RECORD_FILE=records.${name}.%p LD_PRELOAD='$<TARGET_FILE:blink_pmpi_${name}>' \
'$<TARGET_FILE:pmpi_order_${name}>' environment; \
'$<TARGET_FILE:blink_command>' report records.${name}.*")
    set_tests_properties(pmpi.${name}.records PROPERTIES
                         PASS_REGULAR_EXPRESSION "calls of 2 ranks.*no rank often late|late in")
  endif()
  set(preloaded env LD_PRELOAD=$<TARGET_FILE:blink_pmpi_${name}>)
  foreach(way IN ITEMS "" started)
    add_test(NAME pmpi.${name}.errors_${way}
             COMMAND ${BLINK_MPI_LAUNCH_${name}} 2 ${preloaded} $<TARGET_FILE:pmpi_worlds_${name}>
                     errors ${way})
    add_test(NAME pmpi.${name}.late_${way}
             COMMAND ${BLINK_MPI_LAUNCH_${name}} 2 ${preloaded} BLINK_DEADLINE=1
                     $<TARGET_FILE:pmpi_worlds_${name}> late ${way})
  endforeach()
  if(name STREQUAL openmpi)  # Debian's MPICH starts no further processes
    foreach(way IN ITEMS "" with)  # the library in parents only, and in all
      add_test(NAME pmpi.${name}.spawned_ranks_${way}
               COMMAND ${BLINK_MPI_LAUNCH_${name}} 2 ${preloaded} $<TARGET_FILE:pmpi_worlds_${name}>
                       spawned ${way})
    endforeach()
    add_test(NAME pmpi.${name}.programs_without
             COMMAND ${BLINK_MPI_LAUNCH_${name}} 1 $<TARGET_FILE:pmpi_worlds_${name}> programs :
                     -n 1 ${preloaded} $<TARGET_FILE:pmpi_worlds_${name}> programs)
    add_test(NAME pmpi.${name}.programs_with
             COMMAND ${BLINK_MPI_LAUNCH_${name}} 1 ${preloaded} BLINK_PMPI_ALL_PROGRAMS=1
                     $<TARGET_FILE:pmpi_worlds_${name}> programs :
                     -n 1 ${preloaded} BLINK_PMPI_ALL_PROGRAMS=1 $<TARGET_FILE:pmpi_worlds_${name}> programs)
  endif()
  if(name STREQUAL mpich)
    continue()  # the rest are paths of the shim alone
  endif()
  blink_add_pmpi_test(sweep sweep 2 "${all_calls}" BLINK_DEADLINE=100)
  blink_add_pmpi_test(program program 4 "${all_calls}" BLINK_PMPI_LEAST=0)
  blink_add_pmpi_test(serialized habits 2 "${all_calls}" BLINK_PMPI_LEAST=0 serialized)
  blink_add_pmpi_test(multiple habits 2 "${all_calls}" BLINK_PMPI_LEAST=0 multiple)
  blink_add_pmpi_test(sweep_by_messages sweep 2 "${all_calls}" BLINK_SHARED_MEMORY=0)
  blink_add_pmpi_test(habits_by_messages habits 2 "${all_calls}" BLINK_SHARED_MEMORY=0)
  blink_add_pmpi_test(multiple_by_messages habits 2 "${all_calls}" BLINK_SHARED_MEMORY=0 multiple)
  blink_add_pmpi_test(no_number habits 2 "" BLINK_PMPI_LEAST=many)
  blink_add_pmpi_test(no_deadline habits 2 "" BLINK_DEADLINE=never)
  blink_add_pmpi_test(no_order habits 2 "" BLINK_ORDER=rank)
  blink_add_pmpi_test(no_report habits 2 "" BLINK_PMPI_REPORT=yes)
  blink_add_pmpi_test(no_choice habits 2 "" BLINK_SHARED_MEMORY=maybe)
endforeach()

# The binary interface of MPI 5: one library and one build of each program, under MPICH 5 and Intel
# MPI. Neither names the MPI library that it is built for, and finds it by the path at the start.
# Results must be those of MPICH 5 alone.
if("mpich5" IN_LIST BLINK_MPI_WHEELS AND "impi" IN_LIST BLINK_MPI_WHEELS)
  blink_add_pmpi(blink_pmpi_abi mpich5)
  target_link_libraries(blink_pmpi_abi PRIVATE blink_development)
  set_target_properties(blink_pmpi_abi PROPERTIES SKIP_BUILD_RPATH ON)
  add_dependencies(blink_mpi_tests blink_pmpi_abi)
  foreach(program IN ITEMS program started sweep all_reduce)
    set(source shims/pmpi/${program}.cpp)
    if(program STREQUAL all_reduce)
      set(source ${PROJECT_SOURCE_DIR}/examples/mpi_all_reduce.cpp)
    endif()
    add_executable(pmpi_${program}_abi ${source})
    target_link_libraries(pmpi_${program}_abi PRIVATE blink_development mpi_mpich5)
    set_target_properties(pmpi_${program}_abi PROPERTIES SKIP_BUILD_RPATH ON)
    add_dependencies(blink_mpi_tests pmpi_${program}_abi)
    foreach(name IN ITEMS mpich5 impi)
      add_test(NAME pmpi.abi.${program}.${name}
               COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/shims/pmpi/abi_test.sh ${PROJECT_SOURCE_DIR}/build/mpi
                       ${name} $<TARGET_FILE:blink_pmpi_abi> $<TARGET_FILE:pmpi_${program}_abi>)
      set_tests_properties(pmpi.abi.${program}.${name} PROPERTIES TIMEOUT 300 PROCESSORS 3)
    endforeach()
  endforeach()
endif()
