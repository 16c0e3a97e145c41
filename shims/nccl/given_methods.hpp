// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trees that were planned for the machine, from files that the user names: BLINK_NCCL_METHODS.

#include <blink/schedule/method_table.hpp>

#include <cstdint>
#include <vector>

namespace blink_nccl {

struct given_methods {
  std::vector<blink::method_table> tables{};
  std::uint64_t fingerprint = 0;  ///< of all of them; 0: none were given
};

/// Reads the files that BLINK_NCCL_METHODS names now, `:` between them. Compiled apart from all that has kernels, as JSON
/// takes its time.
///
/// Throws: input_error with the file and what is wrong there, or if this library was built without nlohmann-json.
[[nodiscard]] given_methods read_given_methods();

}  // namespace blink_nccl
