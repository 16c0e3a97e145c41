# SPDX-License-Identifier: Apache-2.0
# The MPI libraries that our own tests, examples and benchmarks use, several at once: Debian installs
# Open MPI and MPICH side by side and tells them apart by a suffix. For each that is found:
#   mpi_NAME                      an interface library
#   BLINK_MPI_LAUNCH_NAME         the start of a command line; the number of ranks follows
# and BLINK_MPI_LIBRARIES lists the names. Users' projects link `blink::mpi` instead.
include_guard(GLOBAL)  # so what is set must be seen in every folder
set(BLINK_MPI_LIBRARIES "" CACHE INTERNAL "")
set(options_openmpi --allow-run-as-root --oversubscribe --bind-to none)
set(options_mpich "")

find_package(Boost 1.74 COMPONENTS context QUIET)
if(NOT TARGET Boost::context)
  message(STATUS "shims/pmpi: not built, Boost.Context (libboost-context-dev) is not found")
endif()

foreach(name IN ITEMS openmpi mpich)
  find_program(BLINK_MPICC_${name} mpicc.${name})
  find_program(BLINK_MPIRUN_${name} mpirun.${name})
  mark_as_advanced(BLINK_MPICC_${name} BLINK_MPIRUN_${name})
  if(NOT BLINK_MPICC_${name} OR NOT BLINK_MPIRUN_${name})
    message(STATUS "MPI library ${name}: not found (mpicc.${name}, mpirun.${name})")
    continue()
  endif()
  if(BLINK_MPI_LIBRARIES AND NOT BLINK_TEST_SLOW)
    message(STATUS "MPI library ${name}: left out without BLINK_TEST_SLOW")
    continue()
  endif()
  # Both print the command that they would run; flags that are not about MPI do no harm.
  execute_process(COMMAND ${BLINK_MPICC_${name}} -show OUTPUT_VARIABLE command
                  OUTPUT_STRIP_TRAILING_WHITESPACE COMMAND_ERROR_IS_FATAL ANY)
  separate_arguments(words UNIX_COMMAND "${command}")
  add_library(mpi_${name} INTERFACE)
  foreach(word IN LISTS words)
    if(word MATCHES "^-I(.+)")
      target_include_directories(mpi_${name} SYSTEM INTERFACE ${CMAKE_MATCH_1})
    elseif(word MATCHES "^-(L|Wl,)")
      target_link_options(mpi_${name} INTERFACE ${word})
    elseif(word MATCHES "^-l")
      target_link_libraries(mpi_${name} INTERFACE ${word})
    endif()
  endforeach()
  # Without the C++ bindings, which both libraries have dropped since.
  target_compile_definitions(mpi_${name} INTERFACE OMPI_SKIP_MPICXX MPICH_SKIP_MPICXX)
  set(BLINK_MPI_LAUNCH_${name} ${BLINK_MPIRUN_${name}} ${options_${name}} -n CACHE INTERNAL "")
  set(BLINK_MPI_LIBRARIES ${BLINK_MPI_LIBRARIES} ${name} CACHE INTERNAL "")
  message(STATUS "MPI library ${name}: ${BLINK_MPICC_${name}}")
endforeach()

# Newer libraries from PyPI, if scripts/common.sh has installed them: mpi_NAME, and the names in
# BLINK_MPI_WHEELS.
# Programs for MPICH 5 and Intel MPI use the binary interface of MPI 5, of one header.
set(BLINK_MPI_WHEELS "" CACHE INTERNAL "")
foreach(name IN ITEMS openmpi5 mpich5 impi)
  set(folder ${PROJECT_SOURCE_DIR}/build/mpi)
  if(NOT EXISTS ${folder}/${name}/installed OR NOT EXISTS ${folder}/mpich5/installed)
    continue()
  endif()
  add_library(mpi_${name} INTERFACE)
  if(name STREQUAL openmpi5)
    target_include_directories(mpi_${name} SYSTEM INTERFACE ${folder}/${name}/include)
    target_link_libraries(mpi_${name} INTERFACE ${folder}/${name}/lib/libmpi.so)
  else()
    target_include_directories(mpi_${name} SYSTEM INTERFACE ${folder}/mpich5/include)
    target_compile_definitions(mpi_${name} INTERFACE MPI_ABI)
    target_link_libraries(mpi_${name} INTERFACE ${folder}/${name}/lib/libmpi_abi.so)
  endif()
  set(BLINK_MPI_WHEELS ${BLINK_MPI_WHEELS} ${name} CACHE INTERNAL "")
endforeach()

# blink_add_pmpi(TARGET NAME): shims/pmpi for that MPI library, as programs load it. It runs the calls
# that a program has started on stacks of Boost.Context; without it there is no TARGET Boost::context.
function(blink_add_pmpi target name)
  file(GLOB sources CONFIGURE_DEPENDS ${PROJECT_SOURCE_DIR}/shims/pmpi/*.cpp)
  add_library(${target} MODULE ${sources})
  target_link_libraries(${target} PRIVATE mpi_${name} Boost::context)
endfunction()
