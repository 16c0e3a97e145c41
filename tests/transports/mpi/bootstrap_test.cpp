// SPDX-License-Identifier: Apache-2.0
// Processes that MPI has started find each other and share memory of the host.

#include <blink/transports/host/communicator_bootstrap.hpp>
#include <blink/transports/host/host_processes.hpp>
#include <blink/transports/mpi/bootstrap.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>

namespace {

template <class Bootstrap>
void expect_messages(Bootstrap& bootstrap) {
  blink::host_processes all(bootstrap, std::chrono::seconds(60));
  for (int round = 0; round < 3; ++round) {
    auto const control = all.gather("round", 10 * round + all.process());
    for (int process = 0; process < all.count(); ++process) {
      EXPECT_EQ(control[static_cast<std::size_t>(process)], 10 * round + process);
    }
  }
  all.agree("end", [] {});
}

TEST(mpi_bootstrap, processes_find_each_other) {
  blink::mpi_bootstrap bootstrap(MPI_COMM_WORLD);
  expect_messages(bootstrap);
}

TEST(mpi_bootstrap, through_a_communicator_as_well) {
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  blink::communicator_bootstrap<blink::mpi_communicator> bootstrap(comm);
  expect_messages(bootstrap);
}

}  // namespace
