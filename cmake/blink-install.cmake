# SPDX-License-Identifier: Apache-2.0
# Installs the headers and the package files for find_package(blink [COMPONENTS cuda mpi ucx]).
include(CMakePackageConfigHelpers)

install(TARGETS blink blink_cuda EXPORT blinkTargets
        FILE_SET HEADERS DESTINATION ${CMAKE_INSTALL_INCLUDEDIR})
foreach(header IN LISTS blink_device_headers blink_mpi_headers blink_ucx_headers)
  file(RELATIVE_PATH name "${PROJECT_SOURCE_DIR}/include" "${header}")
  get_filename_component(folder "${name}" DIRECTORY)
  install(FILES "${header}" DESTINATION "${CMAKE_INSTALL_INCLUDEDIR}/${folder}")
endforeach()
install(EXPORT blinkTargets NAMESPACE blink:: DESTINATION ${CMAKE_INSTALL_DATADIR}/cmake/blink)
configure_package_config_file(cmake/blinkConfig.cmake.in blinkConfig.cmake
                              INSTALL_DESTINATION ${CMAKE_INSTALL_DATADIR}/cmake/blink)
write_basic_package_version_file(blinkConfigVersion.cmake COMPATIBILITY SameMinorVersion
                                 ARCH_INDEPENDENT)
install(FILES ${PROJECT_BINARY_DIR}/blinkConfig.cmake ${PROJECT_BINARY_DIR}/blinkConfigVersion.cmake
        DESTINATION ${CMAKE_INSTALL_DATADIR}/cmake/blink)
