# SPDX-License-Identifier: Apache-2.0
# Enables CUDA for our own tests. Architectures have to be chosen before the language is enabled.
if(NOT DEFINED CMAKE_CUDA_ARCHITECTURES)
  set(CMAKE_CUDA_ARCHITECTURES 90-real)
endif()
include(CheckLanguage)
check_language(CUDA)
if(NOT CMAKE_CUDA_COMPILER)
  message(FATAL_ERROR "BLINK_ENABLE_CUDA is on, and no CUDA compiler was found. "
                      "Name one by CMAKE_CUDA_COMPILER, or turn the option off.")
endif()
enable_language(CUDA)
# CMake 3.25 does not know that nvcc has C++20 and would quietly fall back to C++17.
if(CMAKE_CUDA_COMPILER_ID STREQUAL "NVIDIA" AND NOT CMAKE_CUDA20_STANDARD_COMPILE_OPTION)
  set(CMAKE_CUDA20_STANDARD_COMPILE_OPTION "-std=c++20")
  set(CMAKE_CUDA20_EXTENSION_COMPILE_OPTION "-std=c++20")
endif()
