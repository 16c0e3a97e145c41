# SPDX-License-Identifier: Apache-2.0
# shims/nccl on emulated devices: a library, a program that calls it, and one that has another libnccl beside it.
file(GLOB nccl_library CONFIGURE_DEPENDS shims/nccl/library.cpp shims/nccl/reductions_*.cpp)
file(GLOB nccl_tests CONFIGURE_DEPENDS shims/nccl/*_test.cpp)
add_library(blink_nccl_emulated OBJECT ${nccl_library}
            ${PROJECT_SOURCE_DIR}/shims/nccl/given_tuning.cpp)
target_include_directories(blink_nccl_emulated PUBLIC
  ${CMAKE_CURRENT_SOURCE_DIR} ${PROJECT_SOURCE_DIR}/shims/nccl)
target_link_libraries(blink_nccl_emulated PUBLIC blink_development ${CMAKE_DL_LIBS})

add_executable(blink_nccl_tests ${nccl_tests})
target_link_libraries(blink_nccl_tests PRIVATE blink_nccl_emulated GTest::gtest_main)
target_compile_definitions(blink_nccl_tests PRIVATE
  BLINK_TEST_DATA_DIR="${PROJECT_SOURCE_DIR}/tests/data")
set_target_properties(blink_nccl_tests PROPERTIES ENABLE_EXPORTS ON)  # it finds functions by name
blink_compile_together(blink_nccl_emulated 2)
blink_compile_together(blink_nccl_tests 1)
gtest_discover_tests(blink_nccl_tests TEST_PREFIX nccl. DISCOVERY_MODE PRE_TEST
                     PROPERTIES TIMEOUT 300)

add_library(blink_nccl_other MODULE shims/nccl/fallback/other_library.cpp)
target_include_directories(blink_nccl_other PRIVATE ${PROJECT_SOURCE_DIR}/shims/nccl)
target_link_libraries(blink_nccl_other PRIVATE blink_development)
add_executable(blink_nccl_fallback_tests shims/nccl/fallback/fallback_test.cpp)
target_link_libraries(blink_nccl_fallback_tests PRIVATE blink_nccl_emulated GTest::gtest_main)
add_dependencies(blink_nccl_fallback_tests blink_nccl_other)
add_test(NAME nccl.fallback COMMAND ${CMAKE_COMMAND} -E env
         BLINK_NCCL_FALLBACK=$<TARGET_FILE:blink_nccl_other> $<TARGET_FILE:blink_nccl_fallback_tests>)
set_tests_properties(nccl.fallback PROPERTIES TIMEOUT 120)
