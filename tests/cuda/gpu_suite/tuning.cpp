// SPDX-License-Identifier: Apache-2.0
#include "tuning.hpp"

#include <blink/schedule/tuning_file.hpp>

namespace gpu_suite {

std::vector<blink::tuning_table> read_tuning(std::string const& file) {
  return blink::read_tuning_file(file);
}

}  // namespace gpu_suite
