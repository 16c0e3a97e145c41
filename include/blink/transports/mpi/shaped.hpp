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
#include <blink/transports/mpi/bootstrap.hpp>
#include <blink/transports/mpi/channel.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include <chrono>

namespace blink { inline namespace BLINK_ABI {

/// Messages that arrive as late as over the physical links that a schedule names.
using shaped_mpi_transport = shaped<mpi_transport>;
static_assert(transport<shaped_mpi_transport> && !reaching_transport<shaped_mpi_transport>);

/// When messages arrive, in memory of the host that all ranks of a communicator have: one link may carry
/// what several of them send.
template <>
class mpi_times<shaped_mpi_transport> {
 public:
  /// Collective.
  ///
  /// Throws: precondition_error if the ranks are not processes of one host; resource_error.
  mpi_times(mpi_channel const& channel, std::chrono::nanoseconds longest)
      : mpi_times(mpi_bootstrap(channel.comm()), longest) {}

  /// For a schedule: the same memory on all ranks, in whatever order they come to prepare it.
  ///
  /// Pre: `validate(schedule)` passed.
  [[nodiscard]] void* of(schedule const& source, connection_layout const& layout,
                         pipeline_costs const& costs) {
    return ranks_.common_memory(hash(source, layout, costs),
                                connection_tables::time_bytes(source, layout));
  }

 private:
  mpi_times(mpi_bootstrap all, std::chrono::nanoseconds longest) : ranks_(all, longest) {}

  host_processes ranks_;
};

/// A communicator whose ranks are processes of one host and whose links have the rates that its schedules
/// name: `shaped_mpi_communicator comm(MPI_COMM_WORLD);` Small inputs are not shown, but follow the links.
using shaped_mpi_communicator = basic_mpi_communicator<shaped_mpi_transport>;

}}  // namespace blink::BLINK_ABI
