// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "figures.hpp"

// The parts of the evaluation. Each plans, checks its plans, simulates, and returns its tables.

namespace blink::bench {

[[nodiscard]] part_result allocations_part();
[[nodiscard]] part_result minimisation_part();
[[nodiscard]] part_result switch_part();
[[nodiscard]] part_result hybrid_part();
[[nodiscard]] part_result servers_part();
[[nodiscard]] part_result chunks_part();
[[nodiscard]] part_result training_part();
[[nodiscard]] part_result phases_part();
[[nodiscard]] part_result degraded_part();
[[nodiscard]] part_result orders_part();
[[nodiscard]] part_result winners_part();

}  // namespace blink::bench
