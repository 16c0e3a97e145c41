// SPDX-License-Identifier: Apache-2.0
// One of two translation units that include everything. Linking both shows that nothing is defined
// twice.
#include "everything.hpp"

std::size_t second_unit();

int main() {
  return second_unit() == blink::planner_names.size() ? 0 : 1;
}
