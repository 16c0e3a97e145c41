# SPDX-License-Identifier: Apache-2.0
# tests/transports/ucx/*_test.cpp: ranks that UCX joins, as threads and as processes.
file(GLOB ucx_sources CONFIGURE_DEPENDS transports/ucx/*_test.cpp)
add_executable(blink_ucx_tests ${ucx_sources})
target_include_directories(blink_ucx_tests PRIVATE ${CMAKE_CURRENT_SOURCE_DIR})
target_link_libraries(blink_ucx_tests PRIVATE blink_development blink_ucx GTest::gtest_main)
gtest_discover_tests(blink_ucx_tests TEST_PREFIX ucx. DISCOVERY_MODE PRE_TEST PROPERTIES TIMEOUT 300)
