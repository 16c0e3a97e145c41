// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trees planned for the machine, from files that the user names in BLINK_TUNING.

#include <blink/schedule/tuning_table.hpp>

#include <cstdint>
#include <vector>

namespace blink_nccl {

struct given_tuning {
  std::vector<blink::tuning_table> tables{};
  std::uint64_t hash = 0;  ///< of all tables; 0: there are none
};

/// Reads the files that BLINK_TUNING names now, with `:` between them. It is compiled apart from
/// the kernels, because JSON takes long to compile.
///
/// Throws: input_error with the file and the error in it, or if this library was built without
///         nlohmann-json.
[[nodiscard]] given_tuning read_given_tuning();

}  // namespace blink_nccl
