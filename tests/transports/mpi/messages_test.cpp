// SPDX-License-Identifier: Apache-2.0
// Sends and receives of ranks that MPI joins. tests/transports/messages/channel_messenger_test.cpp
// has the cases that depend on no library.

#include <blink/collectives.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/host/split_communicator.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>
#include <blink/transports/mpi/shaped.hpp>

#include "support/expect_error.hpp"
#include "support/message_traffic.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace mpi_messages_test { namespace {

using namespace std::chrono_literals;
using blink::mpi_communicator;
using blink_test::cause_of;
using cause = blink::message_error::cause;

static_assert(blink::messaging_communicator<mpi_communicator>);
static_assert(blink::messaging_communicator<blink::shaped_mpi_communicator>);

blink::communicator_options within(std::chrono::milliseconds deadline) {
  auto result = blink::message_options();
  result.waits.deadline = deadline;
  return result;
}

TEST(mpi_messages, random_traffic_keeps_contents_and_order) {
  mpi_communicator comm(MPI_COMM_WORLD, within(60s));
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    std::size_t const most = seed % 2 == 0 ? std::size_t{3} << 20 : 20'000;
    auto const count = comm.rank_count();
    blink_test::message_traffic const traffic(count, 30 * static_cast<std::size_t>(count), most,
                                              seed);
    EXPECT_EQ(traffic.run(comm), "");
    blink::barrier(comm);  // receives from any rank would take messages of the next seed
  }
}

TEST(mpi_messages, threads_send_beside_collectives) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  mpi_communicator comm(MPI_COMM_WORLD, within(60s));
  if (level < MPI_THREAD_MULTIPLE || comm.rank_count() != 3) {
    GTEST_SKIP() << "needs three ranks, whose threads may all call MPI";
  }
  EXPECT_EQ(blink_test::exchange_beside_collectives(comm, 2, 60, 300'000), "");
}

TEST(mpi_messages, belong_to_the_thread_that_may_call_the_library) {
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level >= MPI_THREAD_SERIALIZED) GTEST_SKIP() << "any thread may call MPI";
  mpi_communicator comm(MPI_COMM_WORLD);
  int const mine = 7;
  int got = 0;
  auto tested = blink::start_receive(comm, comm.rank(), &got, 1);
  auto awaited = blink::start_receive(comm, comm.rank(), &got, 1);
  std::thread([&] {
    auto const refused = [&](auto const& call) {
      EXPECT_SAYS(blink_test::error_of(call), "called by another thread, expected the main thread");
    };
    refused([&] { static_cast<void>(blink::start_send(comm, comm.rank(), &mine, 1)); });
    refused([&] { static_cast<void>(blink::start_receive(comm, comm.rank(), &got, 1)); });
    refused([&] { static_cast<void>(tested.test()); });
    refused([&] { static_cast<void>(awaited.wait()); });
  }).join();
  blink::send(comm, comm.rank(), &mine, 1);  // both receives have ended
  blink::receive(comm, comm.rank(), &got, 1);
  EXPECT_EQ(got, 7);
}

TEST(mpi_messages, without_a_partner_end_at_their_time) {
  mpi_communicator comm(MPI_COMM_WORLD, within(60s));
  int const rank = comm.rank(), next = (rank + 1) % comm.rank_count();
  std::vector<int> data(1'000'000, rank), got(1'000'000);
  EXPECT_EQ(cause_of([&] { blink::receive(comm, blink::any_source, got.data(), 1, 5, 20ms); },
                     "from any rank"),
            cause::timed_out);
  blink::barrier(comm);  // no rank waits for a message any more
  if (rank == 0 && next != 0) {
    EXPECT_EQ(cause_of([&] { blink::send(comm, next, data.data(), data.size(), 6, 20ms); },
                       "to rank " + std::to_string(next)),
              cause::timed_out);
  }
  blink::barrier(comm);
  auto incoming = blink::start_receive(comm, blink::any_source, got.data(), got.size(), 7);
  blink::send(comm, next, data.data(), data.size(), 7);
  EXPECT_EQ(got.size() * sizeof(int), incoming.wait().bytes);
  EXPECT_EQ(got.back(), (rank + comm.rank_count() - 1) % comm.rank_count());
}

TEST(mpi_messages, end_with_a_failure_and_go_on_among_the_rest) {
  mpi_communicator comm(MPI_COMM_WORLD, within(20s));
  std::vector<int> got(1'000'000);
  auto const begun = std::chrono::steady_clock::now();
  if (comm.rank() == 0) comm.fail(std::string("enough"));
  if (comm.rank() != 0) {
    EXPECT_SAYS(blink_test::error_of([&] { blink::receive(comm, 0, got.data(), got.size()); }),
                "enough");
  }
  EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
  auto rest = comm.shrink();
  auto const exchange = [](auto& among) {
    blink_test::message_traffic const traffic(among.rank_count(), 30, 600'000, 17);
    EXPECT_EQ(traffic.run(among), "");
  };
  exchange(rest);
  auto part = blink::split(rest, rest.rank() % 2, 0);
  exchange(*part);
}

TEST(mpi_messages, communicators_end_with_messages_that_no_rank_takes) {
  std::vector<int> data(1'000'000, 3), got(data.size());
  for (std::size_t const count : {std::size_t{1}, data.size()}) {
    std::optional<mpi_communicator> one(std::in_place, MPI_COMM_WORLD, within(60s));
    std::optional<mpi_communicator> other(std::in_place, MPI_COMM_WORLD, within(60s));
    int const rank = one->rank(), next = (rank + 1) % one->rank_count();
    for (auto* comm : {&*one, &*other}) {
      auto sent = blink::start_send(*comm, next, data.data(), count, 3);
      auto never = blink::start_receive(*comm, blink::any_source, got.data(), count, 4);
      EXPECT_FALSE(never.test());
      blink::barrier(*comm);  // none has left when the others send
    }
    (rank == 0 ? one : other).reset();
  }
}

TEST(mpi_messages, may_be_left_out) {
  auto options = within(20s);
  options.point_to_point = false;
  mpi_communicator comm(MPI_COMM_WORLD, options);
  int one = 1;
  EXPECT_SAYS(blink_test::error_of([&] { blink::send(comm, 0, &one, 1); }),
              "its option point_to_point is false, expected true for sends and receives");
  blink::all_reduce(comm, &one, 1);
  EXPECT_EQ(one, comm.rank_count());
}

}}  // namespace mpi_messages_test
