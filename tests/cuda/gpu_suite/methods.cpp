// SPDX-License-Identifier: Apache-2.0
#include "methods.hpp"

#include <blink/schedule/method_file.hpp>

namespace gpu_suite {

std::vector<blink::method_table> read_methods(std::string const& file) {
  return blink::read_methods_file(file);
}

}  // namespace gpu_suite
