// SPDX-License-Identifier: Apache-2.0
#include "everything.hpp"

std::size_t second_unit();

std::size_t second_unit() {
  return blink::planner_names.size();
}
