// SPDX-License-Identifier: Apache-2.0

#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>
#include <blink/transports/mpi/shaped.hpp>

#include "support/transport_conformance.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdint>

namespace {

/// Rank 1 sends to rank 0 along a chain of all ranks.
template <class Session>
class two_ranks {
 public:
  using transport = typename Session::transport_type;

  two_ranks()
      : me_(MPI_COMM_WORLD, blink_test::conformance_options()),
        plan_(me_.prepare(blink::chain_schedule(me_.rank_count(), 0))) {
    blink::call_record record;
    record.parameters.schedule_hash = plan_.hash();
    EXPECT_EQ(me_.enter(plan_, record), blink::status::ok);
    MPI_Barrier(MPI_COMM_WORLD);  // both have prepared, which a sender learns from `is_present`
  }
  int sender_rank() { return 1; }
  int receiver_rank() { return 0; }
  template <class Function>
  void at_sender(Function const& function) {
    if (me_.rank() == 1) function(me_.transport());
    MPI_Barrier(MPI_COMM_WORLD);
  }
  template <class Function>
  void at_receiver(Function const& function) {
    if (me_.rank() == 0) function(me_.transport());
    MPI_Barrier(MPI_COMM_WORLD);
  }
  template <class Sending, class Receiving>
  void together(Sending const& send, Receiving const& receive) {
    if (me_.rank() == 1) send(me_.transport());
    if (me_.rank() == 0) receive(me_.transport());
    MPI_Barrier(MPI_COMM_WORLD);
  }
  std::uint32_t connection() {  // the reduce connection of rank 1 in tree 0
    auto const [ends, count] = plan_.tables().ends(me_.rank());
    for (std::size_t k = 0; k < count; ++k) {
      bool const leads_up = ends[k].sends ? ends[k].peer == 0 : ends[k].peer == 1;
      if (leads_up && plan_.tables().places()[ends[k].connection].is_reduce)
        return ends[k].connection;
    }
    return UINT32_MAX;
  }
  std::uint64_t window() { return plan_.tables().layout().window; }
  void abort() {
    if (me_.rank() == 0) me_.fail("enough");
  }

 private:
  Session me_;
  blink::prepared_schedule& plan_;
};

}  // namespace

namespace blink_test {

using communicators =
    testing::Types<two_ranks<blink::mpi_communicator>, two_ranks<blink::shaped_mpi_communicator>>;
INSTANTIATE_TYPED_TEST_SUITE_P(mpi, transport_conformance, communicators);

}  // namespace blink_test
