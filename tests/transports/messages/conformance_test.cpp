// SPDX-License-Identifier: Apache-2.0
// The transport over a message channel of threads.

#include <blink/running/call/call_description.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/counter.hpp>
#include <blink/schedule/default_schedules.hpp>

#include "support/message_ranks.hpp"
#include "support/transport_conformance.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <thread>

// A folder may be compiled as one source.
namespace message_conformance_test {

namespace {

constexpr int ranks = 3;

/// Rank 1 sends to rank 0 along a chain of all ranks, in their first call.
///
/// RanksOfHost: that share memory
template <int RanksOfHost>
class two_of_three_ranks {
 public:
  using transport = blink_test::thread_message_transport;

  two_of_three_ranks() {
    blink_test::run_threads(ranks, [&](int rank) {
      auto& comm = at(rank);
      comm.emplace(blink_test::thread_channel(network_, rank), blink_test::conformance_options());
      auto& prepared = comm->prepare(blink::chain_schedule(ranks, 0));
      blink::call_record record;
      record.parameters.schedule_hash = prepared.hash();
      EXPECT_EQ(comm->enter(prepared, record), blink::status::ok);
      comm->suspend();  // its thread ends, and others use it
      if (rank == 1) prepared_ = &prepared;
    });
  }
  two_of_three_ranks(two_of_three_ranks const&) = delete;
  two_of_three_ranks& operator=(two_of_three_ranks const&) = delete;
  ~two_of_three_ranks() {
    blink_test::run_threads(ranks, [&](int rank) { at(rank).reset(); });
  }

  int sender_rank() { return 1; }
  int receiver_rank() { return 0; }
  template <class Function>
  void at_sender(Function const& function) {
    function(at(1)->transport());
  }
  template <class Function>
  void at_receiver(Function const& function) {
    function(at(0)->transport());
  }
  template <class Sending, class Receiving>
  void together(Sending const& send, Receiving const& receive) {
    std::jthread const sending([&] { send(at(1)->transport()); });
    receive(at(0)->transport());
  }
  std::uint32_t connection() {  // the reduce connection of rank 1 in tree 0
    auto const [ends, count] = prepared_->tables().ends(1);
    for (std::size_t k = 0; k < count; ++k) {
      if (ends[k].sends && ends[k].peer == 0) return ends[k].connection;
    }
    return UINT32_MAX;
  }
  std::uint64_t window() { return prepared_->tables().layout().window; }
  void abort() { at(0)->fail("enough"); }

 private:
  std::optional<blink_test::thread_communicator>& at(int rank) {
    return comms_[static_cast<std::size_t>(rank)];
  }

  blink_test::thread_network network_{ranks, RanksOfHost};
  std::array<std::optional<blink_test::thread_communicator>, ranks> comms_;
  blink::prepared_schedule* prepared_ = nullptr;
};

}  // namespace

using namespace blink_test;

using hosts = testing::Types<two_of_three_ranks<1>, two_of_three_ranks<2>, two_of_three_ranks<3>>;
INSTANTIATE_TYPED_TEST_SUITE_P(messages, transport_conformance, hosts);

}  // namespace message_conformance_test
