// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/schedule/method_table.hpp>

#include <string>
#include <vector>

namespace gpu_suite {

/// The tables of a file of methods. In a source of its own: JSON takes long to compile with nvcc.
std::vector<blink::method_table> read_methods(std::string const& file);

}  // namespace gpu_suite
