// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/schedule/tuning_table.hpp>

#include <string>
#include <vector>

namespace gpu_suite {

/// The tables of a file of algorithms. Compiled in a separate source, because JSON takes long to
/// compile with nvcc.
std::vector<blink::tuning_table> read_tuning(std::string const& file);

}  // namespace gpu_suite
