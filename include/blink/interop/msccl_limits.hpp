// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/interop/detail/msccl_names.hpp>
#include <blink/interop/make_step_program.hpp>

namespace blink { inline namespace BLINK_ABI {

/// What the runtime that reads a dialect holds. The number of blocks is one for each multiprocessor of
/// an A100, since blocks that do not run side by side wait for each other for ever; the runtimes'
/// tables are larger.
[[nodiscard]] constexpr step_program_limits limits_of(msccl_dialect dialect) {
  step_program_limits limits;
  if (dialect == msccl_dialect::rccl) limits.steps = 64;
  return limits;
}

}}  // namespace blink::BLINK_ABI
