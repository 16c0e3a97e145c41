// SPDX-License-Identifier: Apache-2.0
#pragma once

namespace blink_pmpi {

/// True if calls of Fortran pass through this library. Otherwise a program might complete a request
/// of which the MPI library knows nothing, so all started calls are left to that library.
[[nodiscard]] bool sees_fortran();

}  // namespace blink_pmpi
