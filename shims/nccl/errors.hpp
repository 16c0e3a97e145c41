// SPDX-License-Identifier: Apache-2.0
#pragma once

// Conversion of exceptions to NCCL's codes, and the text that `ncclGetLastError` returns.

#include <blink/core/error.hpp>
#include <blink/running/call/collective_error.hpp>
#include <blink/transports/cuda/runtime/device_runtime.hpp>

#include "abi.hpp"

#include <cstdlib>
#include <exception>
#include <new>
#include <string>

namespace blink_nccl {

/// True if refused calls are printed to the error stream: as in NCCL, if NCCL_DEBUG is set.
[[nodiscard]] inline bool reports_errors() {
  char const* const level = std::getenv("NCCL_DEBUG");
  return level != nullptr && *level != '\0' && std::string(level) != "VERSION";
}

/// The result code of a call, and the reason.
struct outcome {
  result code = result::success;
  std::string text{};
};

/// True for a call that has succeeded or goes on.
[[nodiscard]] inline bool is_well(outcome const& how) {
  return how.code == result::success || how.code == result::in_progress;
}

/// A refused call, with the code for its kind.
struct refusal : blink::error {
  refusal(result kind, std::string const& text) : blink::error(text), code(kind) {}
  result code;
};
[[noreturn]] inline void refuse_argument(std::string const& text) {
  throw refusal(result::invalid_argument, text);
}
[[noreturn]] inline void refuse_usage(std::string const& text) {
  throw refusal(result::invalid_usage, text);
}

/// The outcome that corresponds to the exception being handled.
[[nodiscard]] inline outcome current_outcome() {
  try {
    throw;
  } catch (refusal const& problem) {
    return {problem.code, problem.what()};
  } catch (blink::precondition_error const& problem) {
    return {result::invalid_argument, problem.what()};
  } catch (blink::input_error const& problem) {
    return {result::invalid_usage, problem.what()};
  } catch (blink::collective_error const& problem) {
    return {problem.disagrees ? result::invalid_usage : result::remote_error, problem.what()};
  } catch (blink::device_error const& problem) {
    return {result::cuda_error, problem.what()};
  } catch (blink::resource_error const& problem) {
    return {result::system_error, problem.what()};
  } catch (std::bad_alloc const&) {
    return {result::system_error, "out of memory on the host"};
  } catch (std::exception const& problem) {
    return {result::internal_error, problem.what()};
  }
}

[[nodiscard]] inline char const* to_text(result code) {
  switch (code) {
    case result::success:
      return "no error";
    case result::cuda_error:
      return "a call of the CUDA driver or runtime failed";
    case result::system_error:
      return "the system refused memory or another resource";
    case result::internal_error:
      return "internal error";
    case result::invalid_argument:
      return "invalid argument";
    case result::invalid_usage:
      return "invalid usage";
    case result::remote_error:
      return "another rank did not come, made no progress, or gave up";
    case result::in_progress:
      return "in progress";
    case result::timeout:
      return "timeout";
  }
  return "unknown result code";
}

/// The error text of this thread's last failed call.
inline std::string& last_error() {
  thread_local std::string text;
  return text;
}

}  // namespace blink_nccl
