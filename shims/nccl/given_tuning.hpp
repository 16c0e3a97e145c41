// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trees that were planned for the machine, from files that the user names: BLINK_TUNING.

#include <blink/schedule/tuning_table.hpp>

#include <cstdint>
#include <vector>

namespace blink_nccl {

struct given_tuning {
  std::vector<blink::tuning_table> tables{};
  std::uint64_t hash = 0;  ///< of all of them; 0: none were given
};

/// Reads the files that BLINK_TUNING names now, `:` between them. Compiled apart from all that has kernels, as JSON
/// takes its time.
///
/// Throws: input_error with the file and what is wrong there, or if this library was built without nlohmann-json.
[[nodiscard]] given_tuning read_given_tuning();

}  // namespace blink_nccl
