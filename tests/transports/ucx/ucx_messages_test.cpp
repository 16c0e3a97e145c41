// SPDX-License-Identifier: Apache-2.0
// Sends and receives of ranks that UCX joins. tests/transports/messages/channel_messenger_test.cpp
// has the cases that depend on no network.

#include <blink/collectives.hpp>
#include <blink/collectives/point_to_point.hpp>

#include "support/expect_error.hpp"
#include "support/message_traffic.hpp"
#include "ucx_ranks.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

namespace {

using namespace std::chrono_literals;
using blink::ucx_communicator;

blink::communicator_options within(std::chrono::milliseconds deadline, bool shares_memory) {
  auto result = blink::message_options();
  result.waits.deadline = deadline;
  result.shares_memory = shares_memory;
  return result;
}

TEST(ucx_messages, random_traffic_keeps_contents_and_order) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    int const count = 2 + static_cast<int>(seed % 3);
    std::size_t const most = seed % 2 == 0 ? std::size_t{3} << 20 : 20'000;
    blink_test::message_traffic const traffic(count, 30 * static_cast<std::size_t>(count), most,
                                              seed);
    blink_test::run_ucx_threads(count, [&](blink::file_bootstrap& all) {
      ucx_communicator comm(all, within(60s, seed % 3 == 0));
      for (int run = 0; run < 2; ++run) {
        EXPECT_EQ(traffic.run(comm), "");
        blink::barrier(comm);
      }
    });
  }
}

TEST(ucx_messages, threads_of_processes_send_beside_collectives) {
  for (bool const shares_memory : {false, true}) {
    auto const ends = blink_test::run_ucx_processes(3, [&](blink::file_bootstrap& all) {
      ucx_communicator comm(all, within(60s, shares_memory));
      auto const fault = blink_test::exchange_beside_collectives(comm, 2, 60, 300'000);
      if (!fault.empty()) std::fprintf(stderr, "rank %d: %s\n", comm.rank(), fault.c_str());
      return fault.empty() ? 0 : 1;
    });
    EXPECT_EQ(ends, std::vector<int>(3, 0));
  }
}

// One of three processes is killed at some time inside a message of many pieces. Its peer names it;
// the third rank's messages go on.
TEST(ucx_messages, a_killed_rank_is_named_by_its_peer) {
  for (int repeat = 0; repeat < 10; ++repeat) {
    SCOPED_TRACE(repeat);
    int const victim = repeat % 2;
    auto const ends = blink_test::run_ucx_processes(3, [&](blink::file_bootstrap& all) {
      ucx_communicator comm(all, within(20s, repeat % 3 == 0));
      int const rank = comm.rank();
      std::vector<int> data(2'000'000, rank);
      if (rank == victim) {
        std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(2000 + 3733 * repeat));
          (void)raise(SIGKILL);
        }).detach();
      }
      auto const begun = std::chrono::steady_clock::now();
      std::string text;
      if (rank != 2) {
        text = blink_test::error_of([&] {
          for (;;) {
            if (rank == 1) blink::send(comm, 0, data.data(), data.size(), 3);
            if (rank == 0) blink::receive(comm, 1, data.data(), data.size(), 3);
          }
        });
        std::fill(data.begin(), data.end(), 7);
        blink::send(comm, 2, data.data(), data.size());
      } else {
        blink::receive(comm, 1 - victim, data.data(), data.size());
      }
      bool const is_named =
          rank == 2 || text.find("rank " + std::to_string(victim) + " died") != text.npos;
      bool const is_soon = std::chrono::steady_clock::now() - begun < 15s;
      if (!is_named) std::fprintf(stderr, "rank %d: %s\n", rank, text.c_str());
      bool const is_right = std::count(data.begin(), data.end(), 7) == 2'000'000;
      return is_named && is_soon && is_right ? 0 : 1;
    });
    std::vector<int> expected(3, 0);
    expected[static_cast<std::size_t>(victim)] = -SIGKILL;
    EXPECT_EQ(ends, expected);
  }
}

TEST(ucx_messages, a_failure_from_another_thread_ends_a_call_in_all_processes) {
  for (bool const shares_memory : {false, true}) {
    auto const ends = blink_test::run_ucx_processes(2, [&](blink::file_bootstrap& all) {
      ucx_communicator comm(all, within(20s, shares_memory));
      std::vector<int> data(10, 1);
      std::thread other([&] {
        std::this_thread::sleep_for(50ms);
        if (comm.rank() == 0) comm.fail(std::string("enough"));
      });
      auto const begun = std::chrono::steady_clock::now();
      auto const text = blink_test::error_of([&] {
        if (comm.rank() == 0) blink::all_reduce(comm, data);
        blink::receive(comm, 0, data.data(), 1);
      });
      other.join();
      bool const is_soon = std::chrono::steady_clock::now() - begun < 10s;
      return is_soon && text.find("rank 0 gave up: enough") != text.npos ? 0 : 1;
    });
    EXPECT_EQ(ends, std::vector<int>(2, 0));
  }
}

}  // namespace
