// SPDX-License-Identifier: Apache-2.0
#pragma once

// Collectives among processes of several hosts that UCX joins. Needs UCX 1.13 or newer.

#include <blink/core/detail/undefine_macros.hpp>  // first

#include <blink/collectives.hpp>
#include <blink/transports/host/file_bootstrap.hpp>
#include <blink/transports/host/launcher_bootstrap.hpp>
#include <blink/transports/host/split_communicator.hpp>
#include <blink/transports/ucx/ucx_communicator.hpp>

#include <blink/core/detail/restore_macros.hpp>  // last
