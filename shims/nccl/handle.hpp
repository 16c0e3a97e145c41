// SPDX-License-Identifier: Apache-2.0
#pragma once

// The object that a program's `ncclComm_t` points to.

#include "abi.hpp"
#include "errors.hpp"
#include "premultiplied_sum.hpp"
#include "request.hpp"
#include "team.hpp"

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace blink_nccl {

struct communicator {};

/// One rank's part of a communicator; guarded by the lock of the library.
template <platform P>
struct handle : communicator {
  int rank = 0;
  int rank_count = 0;
  int device = 0;
  bool blocks = true;  ///< true if calls return after all ranks have made them
  bool is_finalized = false;
  std::shared_ptr<team<P>> all{};                      ///< null until all ranks have joined
  communicator* forwarded = nullptr;                   ///< of the other library, instead of a team
  std::shared_ptr<batch<P>> latest{};                  ///< of a communicator that does not block
  outcome trouble{};                                   ///< of its construction
  std::vector<std::optional<given_factor>> factors{};  ///< of operations that the program made
  std::vector<void*> registered{};
  std::string reported{};  ///< the text that `ncclGetLastError` returned

  /// Adds an operation with this factor, and returns its number.
  [[nodiscard]] operation add_operation(given_factor const& factor) {
    auto place = std::find(factors.begin(), factors.end(), std::nullopt);
    if (place == factors.end()) place = factors.emplace(factors.end());
    *place = factor;
    return static_cast<operation>(operation_count + (place - factors.begin()));
  }
  /// Throws: refusal if there is no such operation.
  [[nodiscard]] std::optional<given_factor>& factor_of(operation what) {
    auto const number = static_cast<std::size_t>(static_cast<int>(what) - operation_count);
    if (!is_own(what) || number >= factors.size() || !factors[number]) {
      refuse_argument("operation " + std::to_string(static_cast<int>(what)) +
                      " does not exist, expected one of this communicator");
    }
    return factors[number];
  }
};

/// True if a communicator with this configuration blocks.
///
/// Throws: refusal if the configuration is invalid.
[[nodiscard]] inline bool blocks(configuration const* config) {
  if (config == nullptr) return true;
  if (config->magic != configuration::expected_magic) {
    refuse_argument("the configuration begins with the magic number " +
                    std::to_string(config->magic) + ", expected " +
                    std::to_string(configuration::expected_magic) +
                    ": set it to NCCL_CONFIG_INITIALIZER first");
  }
  if (config->size < offsetof(configuration, blocking) + sizeof config->blocking) return true;
  int const asked = config->blocking;
  if (asked != 0 && asked != 1 && asked != unset_number) {
    refuse_argument("the configuration's field blocking is " + std::to_string(asked) +
                    ", expected 0 or 1");
  }
  return asked != 0;
}

}  // namespace blink_nccl
