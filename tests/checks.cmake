# SPDX-License-Identifier: Apache-2.0
# Checks of the package as a whole: users' projects, the command's behaviour, the pages.

# --- users' projects ---------------------------------------------------------------------------------
set(consumer ${PROJECT_BINARY_DIR}/consumer)
set(consumer_options -G ${CMAKE_GENERATOR} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER})

if(BLINK_INSTALL AND NOT BLINK_SANITIZE)
  add_test(NAME consumer.install
           COMMAND ${CMAKE_COMMAND} --install ${PROJECT_BINARY_DIR} --prefix ${consumer}/prefix)
  set_tests_properties(consumer.install PROPERTIES FIXTURES_SETUP installed)
  add_test(NAME consumer.find_package
           COMMAND ${CMAKE_CTEST_COMMAND}
                   --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/consumer/app ${consumer}/find_package
                   --build-generator ${CMAKE_GENERATOR}
                   --build-options -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
                                   -DCMAKE_PREFIX_PATH=${consumer}/prefix
                   --test-command ${consumer}/find_package/consumer)
  set_tests_properties(consumer.find_package PROPERTIES FIXTURES_REQUIRED installed)
  add_test(NAME consumer.fetch_content
           COMMAND ${CMAKE_CTEST_COMMAND}
                   --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/consumer/app ${consumer}/fetch_content
                   --build-generator ${CMAKE_GENERATOR}
                   --build-options -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
                                   -DBLINK_SOURCE=${PROJECT_SOURCE_DIR}
                   --test-command ${consumer}/fetch_content/consumer)
  # The component mpi, with each library that is there; for one of them by FetchContent, too.
  foreach(name IN LISTS BLINK_MPI_LIBRARIES)
    find_program(BLINK_MPICXX_${name} mpicxx.${name} REQUIRED)
    mark_as_advanced(BLINK_MPICXX_${name})
    set(ways find_package)
    list(GET BLINK_MPI_LIBRARIES 0 first)
    if(name STREQUAL first)
      list(APPEND ways fetch_content)
    endif()
    set(option_find_package -DCMAKE_PREFIX_PATH=${consumer}/prefix)
    set(option_fetch_content -DBLINK_SOURCE=${PROJECT_SOURCE_DIR})
    foreach(way IN LISTS ways)
      set(folder ${consumer}/${way}_${name})
      add_test(NAME consumer.mpi.${way}.${name}
               COMMAND ${CMAKE_CTEST_COMMAND}
                       --build-and-test ${CMAKE_CURRENT_SOURCE_DIR}/consumer/mpi ${folder}
                       --build-generator ${CMAKE_GENERATOR}
                       --build-options -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
                                       -DMPI_CXX_COMPILER=${BLINK_MPICXX_${name}} ${option_${way}}
                       --test-command ${BLINK_MPI_LAUNCH_${name}} 2 ${folder}/mpi_consumer)
      set_tests_properties(consumer.mpi.${way}.${name} PROPERTIES FIXTURES_REQUIRED installed)
    endforeach()
  endforeach()
  # Without a library the component is missing, and it is said so.
  add_test(NAME consumer.mpi.none
           COMMAND ${CMAKE_COMMAND} -S ${CMAKE_CURRENT_SOURCE_DIR}/consumer/mpi -B ${consumer}/no_mpi
                   --fresh -G ${CMAKE_GENERATOR} -DCMAKE_CXX_COMPILER=${CMAKE_CXX_COMPILER}
                   -DCMAKE_PREFIX_PATH=${consumer}/prefix -DCMAKE_DISABLE_FIND_PACKAGE_MPI=ON)
  set_tests_properties(consumer.mpi.none PROPERTIES FIXTURES_REQUIRED installed
                       PASS_REGULAR_EXPRESSION "component mpi: no MPI library")
  # What took a third of a second of every unit does not come back.
  add_test(NAME package.includes
           COMMAND ${CMAKE_CXX_COMPILER} -std=c++20 -M -I${PROJECT_SOURCE_DIR}/include
                   ${PROJECT_SOURCE_DIR}/include/blink/collectives.hpp)
  set_tests_properties(package.includes PROPERTIES
    PASS_REGULAR_EXPRESSION "blink/collectives/all_reduce\\.hpp"
    FAIL_REGULAR_EXPRESSION "/(chrono|thread|memory|mutex|algorithm|functional|optional|sstream|iostream|map|future|emmintrin\\.h)[ \n]")
  # Nor does what is compiled where ranks are made come back into units that call.
  add_test(NAME package.one_call
           COMMAND sh -c "'${CMAKE_CXX_COMPILER}' -std=c++20 -O2 -I'${PROJECT_SOURCE_DIR}/include' -S -o - \
'${CMAKE_CURRENT_SOURCE_DIR}/consumer/one_call.cpp' | grep '^_Z.*:'")
  set_tests_properties(package.one_call PROPERTIES
    PASS_REGULAR_EXPRESSION "collective_call"
    FAIL_REGULAR_EXPRESSION "begin_call|check_call|tuning_tables|check_buffers|set_call|shared_state|wait_long|text_of|throw_failure")
  # The running side needs the headers alone: no CMake, no Boost, no Eigen.
  set(compiler_plain_include ${CMAKE_CXX_COMPILER})
  find_program(BLINK_CLANG clang++-19)
  mark_as_advanced(BLINK_CLANG)
  set(compiler_plain_include_by_clang ${BLINK_CLANG})
  foreach(test IN ITEMS plain_include plain_include_by_clang)
    if(NOT compiler_${test})
      continue()
    endif()
    add_test(NAME consumer.${test}
             COMMAND sh -c "mkdir -p '${consumer}' && '${compiler_${test}}' -std=c++20 -O1 -Wall -Wextra -Werror \
-I'${PROJECT_SOURCE_DIR}/include' main.cpp other.cpp -pthread -o '${consumer}/${test}' && '${consumer}/${test}'"
             WORKING_DIRECTORY ${CMAKE_CURRENT_SOURCE_DIR}/consumer/app)
  endforeach()
endif()

# --- the command --------------------------------------------------------------------------------------
if(TARGET blink_command)
  add_test(NAME command.behaviour
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/command_test.sh $<TARGET_FILE:blink_command>
                   ${PROJECT_SOURCE_DIR}/data)
  add_test(NAME command.report
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/report_test.sh $<TARGET_FILE:blink_command>
                   ${PROJECT_SOURCE_DIR}/data)
  set_tests_properties(command.report PROPERTIES TIMEOUT 600)
  add_test(NAME command.report_pages  # in headless Chromium, where there is one
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/page_test.py $<TARGET_FILE:blink_command>)
  set_tests_properties(command.report_pages PROPERTIES TIMEOUT 600 SKIP_RETURN_CODE 77)
  find_package(nlohmann_json 3.11 REQUIRED)
  set(loops training_loop)
  if(TARGET blink_ucx AND NOT BLINK_SANITIZE)  # as in examples/
    list(APPEND loops training_loop_of_hosts)
  endif()
  foreach(loop IN LISTS loops)
    add_executable(${loop} tools/training_loop.cpp)
    target_link_libraries(${loop} PRIVATE blink_development nlohmann_json::nlohmann_json)
  endforeach()
  set(stalls_arguments $<TARGET_FILE:training_loop> $<TARGET_FILE:blink_command>)
  if(TARGET training_loop_of_hosts)
    target_compile_definitions(training_loop_of_hosts PRIVATE BLINK_TEST_UCX)
    target_link_libraries(training_loop_of_hosts PRIVATE blink_ucx)
    list(APPEND stalls_arguments $<TARGET_FILE:training_loop_of_hosts>)
  endif()
  add_test(NAME command.stalls
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/stalls_test.sh ${stalls_arguments})
  set_tests_properties(command.stalls PROPERTIES TIMEOUT 300)
endif()

if(TARGET blink_command AND BLINK_BUILD_EXAMPLES)
  add_test(NAME command.run
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/run_test.sh $<TARGET_FILE:example_processes>
                   $<TARGET_FILE:blink_command> run)
  if(TARGET blink_ucx AND NOT BLINK_SANITIZE)  # as in examples/
    add_executable(restarted tools/restarted.cpp)
    target_link_libraries(restarted PRIVATE blink_development blink_ucx)
    add_test(NAME command.hosts
             COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/tools/hosts_test.sh $<TARGET_FILE:example_ucx_hosts>
                     $<TARGET_FILE:restarted> $<TARGET_FILE:blink_command>)
    set_tests_properties(command.hosts PROPERTIES TIMEOUT 300)
  endif()
endif()

# --- the pages ------------------------------------------------------------------------------------------
find_program(BLINK_PYTHON python3)
mark_as_advanced(BLINK_PYTHON)
if(TARGET blink_command AND BLINK_PYTHON)
  set(pages_options --blink $<TARGET_FILE:blink_command> --compiler ${CMAKE_CXX_COMPILER})
  if(BLINK_MPI_LIBRARIES)
    list(GET BLINK_MPI_LIBRARIES 0 first)
    list(APPEND pages_options --mpi mpicxx.${first},mpirun.${first})
  endif()
  find_program(BLINK_NVCC nvcc HINTS /usr/local/cuda/bin)
  mark_as_advanced(BLINK_NVCC)
  if(BLINK_NVCC AND BLINK_TEST_SLOW)  # half a minute of a core
    list(APPEND pages_options --nvcc ${BLINK_NVCC})
  endif()
  add_test(NAME pages.code
           COMMAND ${BLINK_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/check_pages ${pages_options})
  add_test(NAME pages.tables
           COMMAND ${BLINK_PYTHON} ${PROJECT_SOURCE_DIR}/scripts/make_tables --check
                   --blink $<TARGET_FILE:blink_command>)
  add_test(NAME pages.pictures COMMAND ${PROJECT_SOURCE_DIR}/scripts/make_pictures --check)
  set_tests_properties(pages.pictures PROPERTIES ENVIRONMENT BLINK=$<TARGET_FILE:blink_command>)
endif()

# --- two translation units with everything ------------------------------------------------------------
if(NOT BLINK_TEST_SLOW)
  return()
endif()
# The lists of headers are written when CMake runs. They are in two orders, because a name of one header
# may hide another's only where it comes first.
function(blink_write_includes file)
  set(text "#pragma once\n")
  foreach(header IN LISTS ARGN)
    file(RELATIVE_PATH name ${PROJECT_SOURCE_DIR}/include ${header})
    string(APPEND text "#include <${name}>\n")
  endforeach()
  file(CONFIGURE OUTPUT ${PROJECT_BINARY_DIR}/units/${file} CONTENT "${text}")
endfunction()
set(planner_headers ${blink_headers})
list(FILTER planner_headers INCLUDE REGEX "/blink/(simulation|planning|packing)/")
list(REVERSE planner_headers)
blink_write_includes(everything.hpp ${blink_headers})
blink_write_includes(planner_first.hpp ${planner_headers} ${blink_headers})
add_executable(blink_two_units units/first.cpp units/second.cpp)
target_include_directories(blink_two_units PRIVATE ${PROJECT_BINARY_DIR}/units)
target_link_libraries(blink_two_units PRIVATE blink_development)
add_test(NAME units.link COMMAND blink_two_units)
