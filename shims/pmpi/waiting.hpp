// SPDX-License-Identifier: Apache-2.0
#pragma once

// Waits of the program in calls of the library, during which started calls go on.

#include "call_stack.hpp"
#include "pending_calls.hpp"
#include <mpi.h>

namespace blink_pmpi {

inline pending_calls& started() {
  return pending_calls::the();
}
/// True if started calls must move while a call waits.
inline bool are_active() {
  return started().are_active() && !inside::is_inside();
}

/// Moves the started calls until `test(is_done)` sets `is_done` or fails. Returns its code.
template <class Test>
int wait_until(Test const& test) {
  int is_done = 0;
  int code = MPI_SUCCESS;
  started().progress_until([&] {
    code = test(&is_done);
    return is_done != 0 || code != MPI_SUCCESS;
  });
  return code;
}
/// Completes a request of the library while started calls go on.
inline int wait_for_library(int code, MPI_Request* request, MPI_Status* status) {
  if (code != MPI_SUCCESS) return code;
  return wait_until([&](int* is_done) { return PMPI_Test(request, is_done, status); });
}

}  // namespace blink_pmpi
