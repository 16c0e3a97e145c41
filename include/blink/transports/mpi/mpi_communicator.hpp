// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/call/detail/eager_inputs.hpp>
#include <blink/running/call/survivor_agreement.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/running/walk/tree_walk.hpp>
#include <blink/running/walk/zero_copy.hpp>
#include <blink/transports/messages/control_messages.hpp>
#include <blink/transports/messages/message_communicator.hpp>
#include <blink/transports/messages/message_transport.hpp>
#include <blink/transports/messages/message_wait.hpp>
#include <blink/transports/mpi/channel.hpp>

// Needs an MPI library of version 3 or newer.

namespace blink { inline namespace BLINK_ABI {

/// The transport of an MPI communicator, which copies data through messages.
using mpi_transport = message_transport<mpi_channel>;
static_assert(zero_copy_transport<mpi_transport> && !reaching_transport<mpi_transport>);
static_assert(tested_wait_policy<message_wait<mpi_channel>>);
BLINK_MODELS(survivor_words<control_messages<mpi_channel>>);

/// `mpi_communicator` over a transport derived from `mpi_transport`, such as
/// `shaped_mpi_transport`.
template <transport Transport>
using basic_mpi_communicator = basic_message_communicator<Transport>;

/// This process as a rank of an MPI communicator: `mpi_communicator comm(MPI_COMM_WORLD);
/// all_reduce(comm, trees, input, output, count, sum{});`
///
/// Several of them may exist side by side, also over one MPI communicator. Only the main thread
/// uses one, unless MPI was initialised with MPI_THREAD_SERIALIZED or more; then one thread at a
/// time. With MPI_THREAD_MULTIPLE any thread may send and receive beside it. All ranks prepare the
/// same schedules in the same order. A call along a new schedule prepares it. Communicators end
/// before MPI_Finalize. Their options are `message_options()` unless others are given.
using mpi_communicator = basic_mpi_communicator<mpi_transport>;
static_assert(detail::eager_communicator<mpi_communicator>);
static_assert(host_aware_communicator<mpi_communicator> &&
              forgetting_communicator<mpi_communicator>);

}}  // namespace blink::BLINK_ABI
