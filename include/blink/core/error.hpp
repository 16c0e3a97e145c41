// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <stdexcept>
#include <string>

namespace blink { inline namespace BLINK_ABI {

/// The base of every exception that blink throws.
struct error : std::runtime_error {
  using std::runtime_error::runtime_error;
};

/// The caller violated a `Pre:` of a function.
struct precondition_error : error {
  using error::error;
};

/// Input from outside (a file, the environment, an argument) is invalid. The text names the place,
/// the value found and the value expected.
struct input_error : error {
  using error::error;
};

/// The machine has no plan of the requested kind, for example because ranks are disconnected.
struct planning_error : error {
  using error::error;
};

/// A number exceeds the range in which the computation is exact.
struct overflow_error : error {
  using error::error;
};

/// The operating system refuses a resource: memory, a file, a process.
struct resource_error : error {
  using error::error;
};

/// Throws `precondition_error` with `message` unless `condition` holds.
constexpr void expects(bool condition, char const* message) {
  if (!condition) throw precondition_error(message);
}

}}  // namespace blink::BLINK_ABI
