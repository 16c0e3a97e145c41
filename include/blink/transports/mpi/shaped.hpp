// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/running/connections/connection_tables.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/transport.hpp>
#include <blink/schedule/pipeline.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/host/host_processes.hpp>
#include <blink/transports/host/shaped.hpp>
#include <blink/transports/messages/message_communicator.hpp>
#include <blink/transports/mpi/bootstrap.hpp>
#include <blink/transports/mpi/channel.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include <chrono>

namespace blink { inline namespace BLINK_ABI {

/// An MPI transport whose messages arrive as late as over the physical links of a schedule.
using shaped_mpi_transport = shaped<mpi_transport>;
static_assert(transport<shaped_mpi_transport> && !reaching_transport<shaped_mpi_transport>);

/// Arrival times of messages, in memory shared by all ranks of the host. It is shared because one
/// link may carry messages of several ranks.
template <>
class arrival_times<shaped_mpi_transport> {
 public:
  /// Makes the shared memory. Collective.
  ///
  /// Throws: precondition_error if the ranks are not processes of one host; resource_error.
  arrival_times(mpi_channel const& channel, std::chrono::nanoseconds longest)
      : arrival_times(mpi_bootstrap(channel.comm()), longest) {}

  /// Returns the memory for the times of a schedule: the same on all ranks, in whatever order they
  ///                          prepare schedules.
  ///
  /// Pre:    `validate(schedule)` passed.
  [[nodiscard]] void* of(schedule const& source, connection_layout const& layout,
                         pipeline_costs const& costs) {
    return ranks_.common_memory(hash(source, layout, costs),
                                connection_tables::time_bytes(source, layout));
  }

 private:
  arrival_times(mpi_bootstrap all, std::chrono::nanoseconds longest) : ranks_(all, longest) {}

  host_processes ranks_;
};

/// A communicator of processes on one host, whose links have the rates of its schedules.
/// `shaped_mpi_communicator comm(MPI_COMM_WORLD);` There are no eager payloads: small inputs also
/// take the links.
using shaped_mpi_communicator = basic_mpi_communicator<shaped_mpi_transport>;

}}  // namespace blink::BLINK_ABI
