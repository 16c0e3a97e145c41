// SPDX-License-Identifier: Apache-2.0
#pragma once

// Checks of the structures that programs pass. Each begins with its size, a magic number and the
// version of NCCL that the program was compiled with. Newer versions of NCCL extend them.

#include <blink/core/detail/input_text.hpp>

#include "abi.hpp"
#include "errors.hpp"

#include <cstddef>
#include <string>

namespace blink_nccl {

/// least:  bytes that every version has
/// Throws: refusal if the structure was not set with its initializer, or lacks bytes.
template <class Structure>
void expect_structure(char const* what, Structure const& given,
                      std::size_t least = sizeof(Structure)) {
  std::string const begin = std::string("the ") + what;
  if (given.magic != Structure::expected_magic) {
    refuse_argument(begin + " begins with the magic number " + std::to_string(given.magic) +
                    ", expected " + std::to_string(Structure::expected_magic) +
                    ": set it to its initializer first");
  }
  if (given.version < Structure::first_version) {
    refuse_argument(begin + " is of version " + std::to_string(given.version) +
                    ", expected at least " + std::to_string(Structure::first_version));
  }
  if (given.size < least) {
    refuse_argument(begin + " has " + std::to_string(given.size) + " bytes, expected at least " +
                    std::to_string(least));
  }
}

/// True if a communicator with this configuration blocks. The other fields have no effect.
///
/// config:    null: none
/// otherwise: the result without a configuration
/// Throws:    refusal if the configuration is invalid.
[[nodiscard]] inline bool blocks(configuration const* config, bool otherwise = true) {
  if (config == nullptr) return otherwise;
  expect_structure("configuration", *config);
  int const asked = config->blocking;
  if (asked != 0 && asked != 1 && asked != unset_number) {
    refuse_argument("the configuration's field blocking is " + std::to_string(asked) +
                    ", expected 0 or 1");
  }
  return asked != 0;
}

/// Fields that choose resources, and options of other vendors, have no effect.
///
/// config: null: none
/// Throws: refusal if the configuration is invalid, or demands an algorithm of NCCL or an event.
inline void expect_covered(collective_configuration const* config) {
  if (config == nullptr) return;
  expect_structure("configuration of the call", *config);
  bool const has_choice = config->algorithms != nullptr && *config->algorithms != '\0';
  if (has_choice && config->forces_algorithms != 0) {
    refuse_usage("the configuration's field algSelection is " +
                 blink::detail::in_quotes(config->algorithms) +
                 ", but none of NCCL's algorithms exist here: expected NULL, or 0 in "
                 "forceAlgSelection");
  }
  if (config->launch_event != nullptr) {
    refuse_usage("the configuration's field launchCompletionEvent is not supported, expected NULL");
  }
}

}  // namespace blink_nccl
