// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <stdexcept>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// What every exception of blink derives from.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The caller broke a `Pre:` of a function.
struct precondition_error : error {
  using error::error;
};

/// Input from outside (a file, the environment, an argument) is not what it should be. The text
/// says where, what was found and what was expected.
struct input_error : error {
  using error::error;
};

/// No plan of the wanted kind exists for the machine (disconnected ranks, no ring, …).
struct planning_error : error {
  using error::error;
};

/// A number left the range in which the computation is exact.
struct overflow_error : error {
  using error::error;
};

/// The operating system refuses what is needed: memory, a file, a process.
struct resource_error : error {
  using error::error;
};

/// Throws `precondition_error` with `message` unless `condition` holds.
constexpr void expects(bool condition, char const* message) {
  if (!condition) throw precondition_error(message);
}

}}  // namespace blink::BLINK_ABI
