// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <mpi.h>

/// The function of MPI 4 that makes a collective persistent; null before MPI 4.
#if MPI_VERSION >= 4
#define BLINK_PMPI_INIT(name) PMPI_##name##_init
#else
#define BLINK_PMPI_INIT(name) nullptr
#endif

namespace blink_pmpi {

/// The MPI library's functions for one collective. They take the same arguments, then a request, or
/// an info and a request.
template <class Call, class Start, class Make>
struct library_functions {
  Call call;    ///< waits for the end
  Start start;  ///< nonblocking
  Make make;    ///< persistent
};

}  // namespace blink_pmpi
