// SPDX-License-Identifier: Apache-2.0
// Sends and receives of two ranks that are processes of one host.

#include <blink/collectives.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/host/process_messengers.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/split_communicator.hpp>

#include "support/expect_error.hpp"
#include "support/forked_ranks.hpp"
#include "support/message_traffic.hpp"
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <sys/wait.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace process_messages_test { namespace {

using namespace std::chrono_literals;
using blink::any_source;
using blink::any_tag;
using blink_test::forked_ranks;
using clock_type = std::chrono::steady_clock;
using seconds = std::chrono::duration<double>;

static_assert(blink::messaging_communicator<blink::process_communicator>);
static_assert(blink::messaging_communicator<blink::direct_process_communicator>);

blink::communicator_options within(std::chrono::milliseconds deadline,
                                   std::size_t kept = std::size_t{1} << 30) {
  blink::communicator_options options;
  options.waits.deadline = deadline;
  options.kept_message_bytes = kept;
  return options;
}

/// Runs `function(comm)`, which returns a fault or nothing, in each of `count` processes.
template <class Comm = blink::process_communicator, class Function>
void expect_no_fault(int count, blink::communicator_options const& options,
                     Function const& function, std::size_t bytes = std::size_t{1} << 30) {
  forked_ranks ranks(count, bytes);
  ranks.start([&](int rank) {
    Comm comm(ranks.path(), rank, options);
    return function(comm);
  });
  for (auto const& end : ranks.finish()) EXPECT_EQ(end.text, "");
}

template <class Comm>
class process_messages : public testing::Test {};
using communicators =
    testing::Types<blink::process_communicator, blink::direct_process_communicator,
                   blink::shaped_process_communicator>;
TYPED_TEST_SUITE(process_messages, communicators);

TYPED_TEST(process_messages, random_traffic_keeps_contents_and_order) {
  for (std::uint64_t seed = 0; seed < 16; ++seed) {
    SCOPED_TRACE(seed);
    int const count = 1 + static_cast<int>(seed % 4);
    std::size_t const most = seed % 3 == 0 ? std::size_t{1} << 20 : 20'000;
    std::size_t const kept = seed % 2 == 0 ? std::size_t{1} << 30 : 0;
    blink_test::message_traffic const traffic(count, 40 * static_cast<std::size_t>(count), most,
                                              seed);
    expect_no_fault<TypeParam>(count, within(60s, kept),
                               [&](auto& comm) { return traffic.run(comm); });
  }
}

TEST(process_messages, crossed_sends_of_any_size_end) {
  for (std::size_t const kept : {std::size_t{0}, std::size_t{1} << 30}) {
    expect_no_fault(2, within(60s, kept), [&](auto& comm) {
      std::vector<int> const data(6'000'000, comm.rank());
      std::vector<int> got(data.size());
      blink::send(comm, 1 - comm.rank(), data.data(), data.size());
      blink::receive(comm, any_source, got.data(), got.size(), any_tag);
      bool const is_right = got == std::vector<int>(data.size(), 1 - comm.rank());
      return std::string(is_right ? "" : "other bytes");
    });
  }
}

TEST(process_messages, come_before_the_receiver_has_joined_and_after_the_sender_has_left) {
  forked_ranks ranks(2);
  ranks.start([&](int rank) -> std::string {
    std::vector<int> data(1'000'000, 9);
    if (rank == 0) {
      blink::process_communicator comm(ranks.path(), rank, within(20s));
      blink::send(comm, 1, data.data(), data.size(), 4);
      blink::send(comm, 1, data.data(), 1, 5);
      return "";
    }
    std::this_thread::sleep_for(200ms);
    blink::process_communicator comm(ranks.path(), rank, within(20s));
    blink::receive(comm, 0, data.data(), 1, 5);
    std::fill(data.begin(), data.end(), 0);
    blink::receive(comm, 0, data.data(), data.size(), 4);
    if (std::count(data.begin(), data.end(), 9) != 1'000'000) return "other bytes";
    return blink_test::error_of([&] { blink::receive(comm, 0, data.data(), 1, 5); });
  });
  auto const ends = ranks.finish();
  EXPECT_EQ(ends[0].text, "");
  EXPECT_SAYS(ends[1].text, "rank 1, receive from rank 0, tag 5: rank 0 (process ");
  EXPECT_SAYS(ends[1].text, ") has left, expected its message");
}

// Killed at a random time inside a send of many pieces, or inside a receive of them.
TEST(process_messages, a_killed_rank_is_named_by_the_other_within_its_deadline) {
  constexpr int repeats = 50;
  int inside = 0;  // of a message
  double longest = 0;
  for (int repeat = 0; repeat < repeats; ++repeat) {
    SCOPED_TRACE(repeat);
    int const victim = repeat % 2;
    bool const is_any = repeat % 3 == 0;
    forked_ranks ranks(2);
    ranks.start([&](int rank) -> std::string {
      blink::process_communicator comm(ranks.path(), rank, within(20s, 1 << 20));
      std::vector<int> data(8'000'000, rank);
      if (rank == victim) {
        std::thread([&] {
          std::this_thread::sleep_for(std::chrono::microseconds(2000 + 1733 * repeat));
          (void)raise(SIGKILL);
        }).detach();
      }
      auto last = clock_type::now();
      try {
        for (;;) {
          last = clock_type::now();
          if (rank == 1) {
            blink::send(comm, 0, data.data(), data.size(), 3);
          } else {
            blink::receive(comm, is_any ? any_source : 1, data.data(), data.size(), 3);
          }
        }
      } catch (blink::message_error const& failure) {
        if (failure.peer != victim || failure.why != blink::message_error::cause::peer_lost) {
          return std::string("other error: ") + failure.what();
        }
        return std::to_string(seconds(clock_type::now() - last).count()) + " " + failure.what();
      }
    });
    auto const ends = ranks.finish();
    EXPECT_TRUE(WIFSIGNALED(ends[static_cast<std::size_t>(victim)].status));
    auto const& text = ends[static_cast<std::size_t>(1 - victim)].text;
    EXPECT_SAYS(text, "rank " + std::to_string(victim) + " (process ");
    EXPECT_SAYS(text, ") died, expected ");
    if (text.empty() || text[0] < '0' || text[0] > '9') continue;
    ++inside;
    longest = std::max(longest, std::stod(text));
  }
  EXPECT_EQ(inside, repeats);
  // Includes the part of a message before the victim died. The deadline is 20 s.
  EXPECT_LT(longest, 10);
  RecordProperty("longest", std::to_string(longest));
}

TEST(process_messages, a_stopped_rank_is_named_at_the_time_of_the_call) {
  forked_ranks ranks(2);
  ranks.start([&](int rank) -> std::string {
    blink::process_communicator comm(ranks.path(), rank, within(20s));
    int data = 0;
    if (rank == 1) {
      blink::send(comm, 0, &data, 1);
      (void)raise(SIGSTOP);
    }
    blink::receive(comm, 1, &data, 1);
    std::this_thread::sleep_for(50ms);
    auto const start = clock_type::now();
    auto const text = blink_test::error_of([&] { blink::receive(comm, 1, &data, 1, 0, 100ms); });
    auto const waited = clock_type::now() - start;
    return (waited >= 100ms && waited < 10s ? "in time: " : "not in time: ") + text;
  });
  auto const ends = ranks.finish(1);
  EXPECT_SAYS(ends[0].text, "in time: rank 0, receive from rank 1, tag 0: no message (waited ");
}

TEST(process_messages, threads_of_processes_send_beside_collectives) {
  expect_no_fault(3, within(60s, 1 << 20), [&](auto& comm) {
    return blink_test::exchange_beside_collectives(comm, 2, 100, 30'000);
  });
}

TEST(process_messages, a_failure_of_the_communicator_ends_waits_in_all_processes) {
  auto const start = clock_type::now();
  forked_ranks ranks(2);
  ranks.start([&](int rank) -> std::string {
    blink::process_communicator comm(ranks.path(), rank, within(20s));
    int data = 0;
    if (rank == 1) {
      blink::receive(comm, 0, &data, 1);
      std::this_thread::sleep_for(50ms);
      comm.fail(std::string("enough"));
    } else {
      blink::send(comm, 1, &data, 1);
    }
    return blink_test::error_of([&] { blink::receive(comm, 1 - rank, &data, 1); });
  });
  for (auto const& end : ranks.finish())
    EXPECT_SAYS(end.text, "ended because: rank 1 gave up: enough");
  EXPECT_LT(clock_type::now() - start, 10s);
}

TEST(process_messages, ranks_that_remain_and_parts_have_messages_of_their_own) {
  forked_ranks ranks(3);
  ranks.start([&](int rank) -> std::string {
    blink::process_communicator comm(ranks.path(), rank, within(20s));
    int got = -1;
    int const old = 100 + rank;
    auto part = blink::split(comm, rank == 1 ? -1 : 0, 0);
    if (part) {  // ranks 0 and 2
      std::vector<int> large(500'000, rank);
      blink::send(*part, 1 - part->rank(), large.data(), large.size());
      blink::receive(*part, any_source, large.data(), large.size());
      if (large.back() != 2 - rank) return "part: other bytes";
      blink::barrier(*part);
      part.reset();
    }
    auto const text = blink_test::error_of([&] {
      blink::send(comm, (rank + 1) % 3, &old, 1);
      blink::send(comm, (rank + 2) % 3, &old, 1);
      if (rank == 0) (void)raise(SIGKILL);
      for (;;) blink::receive(comm, 0, &got, 1);
    });
    bool const is_named = text.find("rank 0 (process") != text.npos;
    if (!is_named && text.find("ended because: rank") == text.npos) return text;  // by shrink()
    auto rest = comm.shrink();
    int const own = rest.rank();
    blink::send(rest, 1 - own, &own, 1);
    blink::receive(rest, any_source, &got, 1, any_tag);
    return got == 1 - own ? "" : "remaining: other bytes";
  });
  auto const ends = ranks.finish();
  EXPECT_EQ(ends[1].text, "");
  EXPECT_EQ(ends[2].text, "");
}

TEST(process_messages, large_messages_cross_in_little_memory_and_what_does_not_fit_is_an_error) {
  expect_no_fault(
      2, within(60s),
      [&](auto& comm) -> std::string {
        std::vector<int> data(4'000'000, 5);  // more than all of the memory
        if (comm.rank() == 0) {
          blink::send(comm, 1, data.data(), data.size());
          auto const text = blink_test::error_of(
              [&] { blink::send(comm, 1, data.data(), data.size(), 1, 100ms); });
          blink::barrier(comm);
          return text.find("shared memory full") == text.npos ? text : "";
        }
        std::fill(data.begin(), data.end(), 0);
        blink::receive(comm, 0, data.data(), data.size());
        blink::barrier(comm);
        return std::count(data.begin(), data.end(), 5) == 4'000'000 ? "" : "other bytes";
      },
      std::size_t{4} << 20);
}

// Memory that many waiting messages took goes back to the system once they are received.
TEST(process_messages, memory_of_received_messages_is_given_back) {
  forked_ranks ranks(2);
  auto const used = [&] {
    struct stat known{};
    EXPECT_EQ(stat(ranks.path().c_str(), &known), 0);
    return static_cast<std::size_t>(known.st_blocks) * 512;
  };
  std::size_t most = 0;
  ranks.start([&](int rank) -> std::string {
    blink::process_communicator comm(ranks.path(), rank, within(60s));
    std::vector<char> data(1 << 20);
    constexpr int count = 100;
    if (rank == 0) {
      for (int k = 0; k < count; ++k) blink::send(comm, 1, data.data(), data.size());
    }
    blink::barrier(comm);
    std::string const before = std::to_string(used());
    if (rank == 1) {
      for (int k = 0; k < count; ++k) blink::receive(comm, 0, data.data(), data.size());
    }
    blink::barrier(comm);
    if (rank == 0) {  // the sender finds it at its next message
      blink::send(comm, 1, data.data(), data.size());
      return before + " " + std::to_string(used());
    }
    blink::receive(comm, 0, data.data(), data.size());
    return "";
  });
  auto const ends = ranks.finish();
  std::size_t parsed = 0;
  most = std::stoul(ends[0].text, &parsed);
  std::size_t const rest = std::stoul(ends[0].text.substr(parsed));
  EXPECT_GT(most, std::size_t{100} << 20);
  EXPECT_LT(rest, std::size_t{40} << 20);
}

}}  // namespace process_messages_test
