// SPDX-License-Identifier: Apache-2.0
// Device ranks whose processes find each other through MPI, beside an MPI communicator of the same
// processes. The devices' blocks are threads, and their memory is shared.

#include <blink/collectives.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/mpi/bootstrap.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <string>

// A folder may be compiled as one source.
namespace mpi_device_ranks_test { namespace {

using blink::collective;
using blink_test::case_of;
using blink_test::device_case;
using blink_test::emulated_devices;
using all_ranks = blink::basic_device_ranks<emulated_devices, blink::slot_peer_transport,
                                            blink::modelled_protocol>;

blink::device_options two_ranks_each() {
  auto options = blink_test::options_in_vectors({0, 1});
  options.deadline = std::chrono::seconds(20);
  return options;
}
emulated_devices::options shared() {
  return {.devices = 2, .shares_memory = true};
}

template <class T, class Reducer>
std::string run(all_ranks& all, collective kind, std::size_t count, blink::schedule const& trees,
                Reducer const& reduce) {
  device_case<T> now(case_of(kind, count, count), trees, all.first_rank(), all.ranks_here());
  now.enqueue(all, reduce);
  all.wait();
  return now.wrong(reduce);
}

TEST(mpi_device_ranks, calls_of_all_sizes_are_exact) {
  emulated_devices machine(shared());
  blink::mpi_bootstrap bootstrap(MPI_COMM_WORLD);
  all_ranks all(machine, two_ranks_each(), bootstrap);
  int processes = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &processes);
  int const ranks = 2 * processes;
  ASSERT_EQ(all.rank_count(), ranks);
  blink::mpi_communicator beside(MPI_COMM_WORLD);
  auto const star = blink::star_schedule(ranks);
  for (std::size_t const count : {1U, 70U, 5000U}) {
    SCOPED_TRACE(count);
    EXPECT_EQ(run<int>(all, collective::all_reduce, count, star, blink::sum{}), "");
    EXPECT_EQ(run<float>(all, collective::all_gather, count, star, blink::max{}), "");
    EXPECT_EQ(
        run<int>(all, collective::broadcast, count, blink::chain_schedule(ranks, 1), blink::sum{}),
        "");
    EXPECT_EQ(run<int>(all, collective::all_to_all, count, blink::all_to_all_schedule(ranks),
                       blink::sum{}),
              "");
    int const one = 1;
    int sum = 0;
    blink::all_reduce(beside, blink::star_schedule(processes), &one, &sum, 1, blink::sum{});
    EXPECT_EQ(sum, processes);
  }
}

TEST(mpi_device_ranks, another_count_is_reported_in_all_processes) {
  emulated_devices machine(shared());
  blink::mpi_bootstrap bootstrap(MPI_COMM_WORLD);
  all_ranks all(machine, two_ranks_each(), bootstrap);
  auto const star = blink::star_schedule(all.rank_count());
  std::size_t const count = bootstrap.process() == 0 ? 100 : 101;
  auto const failure = blink_test::error_of(
      [&] { (void)run<int>(all, collective::all_reduce, count, star, blink::sum{}); });
  EXPECT_NE(failure.find("100"), std::string::npos) << failure;
  EXPECT_NE(failure.find("101"), std::string::npos) << failure;
  all.recover();
  EXPECT_EQ(run<int>(all, collective::all_reduce, 100, star, blink::sum{}), "");
}

}}  // namespace mpi_device_ranks_test
