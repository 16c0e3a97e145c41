// SPDX-License-Identifier: Apache-2.0
#include "planner_first.hpp"

std::size_t second_unit();

std::size_t second_unit() {
  return blink::planner_names.size();
}
