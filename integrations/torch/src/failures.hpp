// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/error.hpp>

#include "c10d_names.hpp"

#include <exception>
#include <stdexcept>
#include <string>

namespace blink_torch {

/// True unless the failure is a mistake in the arguments of one message.
[[nodiscard]] inline bool ends_group(blink::error const& failure) {
  return dynamic_cast<blink::precondition_error const*>(&failure) == nullptr;
}

/// Throws what PyTorch calls a DistBackendError; in PyTorch 1.13 a RuntimeError.
[[noreturn]] inline void throw_failure(std::string const& text) {
#if TORCH_VERSION_MAJOR >= 2
  C10_THROW_ERROR(DistBackendError, text);
#else
  throw std::runtime_error(text);
#endif
}
[[nodiscard]] inline std::exception_ptr failure_of(std::string const& text) {
  try {
    throw_failure(text);
  } catch (...) {
    return std::current_exception();
  }
}

}  // namespace blink_torch
