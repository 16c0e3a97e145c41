// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collectives among the ranks of an MPI communicator. Needs an MPI library of version 3 or newer.

#include <blink/core/detail/undefine_macros.hpp>  // first

#include <blink/collectives.hpp>
#include <blink/transports/host/split_communicator.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include <blink/core/detail/restore_macros.hpp>  // last
