# SPDX-License-Identifier: Apache-2.0
# tests/transports/ucx/*_test.cpp: ranks that UCX joins, as threads and as processes.
file(GLOB ucx_sources CONFIGURE_DEPENDS transports/ucx/*_test.cpp)
add_executable(blink_ucx_tests ${ucx_sources})
target_include_directories(blink_ucx_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(blink_ucx_tests PRIVATE blink_development blink_ucx GTest::gtest_main)
gtest_discover_tests(blink_ucx_tests TEST_PREFIX ucx. DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300)
if(BLINK_TEST_SLOW)
  add_executable(ucx_partition transports/ucx/partition.cpp)
  target_link_libraries(ucx_partition PRIVATE blink_development blink_ucx)
  add_test(NAME ucx.partition
           COMMAND ${CMAKE_CURRENT_SOURCE_DIR}/transports/ucx/partition.sh $<TARGET_FILE:ucx_partition>)
  set_tests_properties(ucx.partition PROPERTIES TIMEOUT 120 SKIP_RETURN_CODE 77)
endif()
