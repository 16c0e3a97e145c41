// SPDX-License-Identifier: Apache-2.0
#pragma once

// Trees that were planned for the machine, from files that the user names: BLINK_NCCL_METHODS.

#include <blink/collectives/method_table.hpp>

#include <cstdint>
#include <string>
#include <vector>

namespace blink_nccl {

struct given_methods {
  std::vector<blink::method_table> tables{};
  std::string problem{};          ///< why they cannot be used; as a rule empty
  std::uint64_t fingerprint = 0;  ///< of all this; 0: none were given
};

/// Reads the files that BLINK_NCCL_METHODS names now, `:` between them. Compiled apart from all that has kernels, as JSON
/// takes its time.
///
/// Post: `problem` names the file and what is wrong there, or says that this library was built without nlohmann-json:
///       several processes first have to tell each other.
[[nodiscard]] given_methods read_given_methods();

}  // namespace blink_nccl
