// SPDX-License-Identifier: Apache-2.0
// Sends and receives of two ranks that are threads. For processes see
// tests/transports/host/process_messages_test.cpp.

#include <blink/collectives.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/host/split_communicator.hpp>
#include <blink/transports/host/thread_messengers.hpp>

#include "support/expect_error.hpp"
#include "support/message_traffic.hpp"
#include "support/sanitizers.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace point_to_point_test { namespace {

using namespace std::chrono_literals;
using blink::any_source;
using blink::any_tag;
using blink_test::cause_of;
using clock_type = std::chrono::steady_clock;
using cause = blink::message_error::cause;

static_assert(blink::messaging_communicator<blink::thread_ranks::communicator_type>);
static_assert(blink::messaging_communicator<blink::shaped_thread_ranks::communicator_type>);
static_assert(!blink::messaging_communicator<blink::thread_ranks>);

blink::communicator_options within(std::chrono::milliseconds deadline,
                                   std::size_t kept = std::size_t{1} << 30) {
  blink::communicator_options options;
  options.waits.deadline = deadline;
  options.kept_message_bytes = kept;
  return options;
}

std::vector<int> numbers(std::size_t count, int first) {
  std::vector<int> result(count);
  std::iota(result.begin(), result.end(), first);
  return result;
}

/// Counts of elements around the limits of records, pieces and blocks of memory.
std::vector<std::size_t> telling_counts() {
  return {0, 1, 7, 8, 9, 15, 16, 17, 511, 512, 513, 4095, 4096, 4097, 8192, 100'000};
}

TEST(point_to_point, a_receive_states_source_tag_and_bytes) {
  blink::thread_ranks ranks(3);
  ranks.run([&](auto& comm) {
    for (auto const count : telling_counts()) {
      if (comm.rank() == 2) {
        auto const data = numbers(count, 5);
        blink::send(comm, 0, data.data(), count, 17);
      } else if (comm.rank() == 0) {
        std::vector<int> data(count + 3, -1);
        auto const got = blink::receive(comm, 2, data.data(), count + 2, 17);
        EXPECT_EQ(got.source, 2);
        EXPECT_EQ(got.tag, 17);
        EXPECT_EQ(got.bytes, count * sizeof(int));
        auto expected = numbers(count, 5);
        expected.resize(count + 3, -1);
        EXPECT_EQ(data, expected) << count;
      }
    }
  });
}

TEST(point_to_point, a_rank_sends_to_itself) {
  blink::thread_ranks ranks(1, within(20s, 1 << 18));
  ranks.run([&](auto& comm) {
    for (auto const count : telling_counts()) {
      auto const data = numbers(count, 5);
      std::vector<int> got(count);
      blink::send(comm, 0, data.data(), count);
      EXPECT_EQ(blink::receive(comm, any_source, got.data(), count, any_tag).source, 0);
      EXPECT_EQ(got, data);
    }
    // More than a sender may keep: its own wait takes it in.
    std::vector<int> const large(1'000'000, 7);
    std::vector<int> got(large.size());
    blink::send(comm, 0, large.data(), large.size());
    blink::receive(comm, 0, got.data(), got.size());
    EXPECT_EQ(got, large);
  });
}

TEST(point_to_point, arguments_out_of_range_are_refused) {
  blink::thread_ranks ranks(2);
  ranks.run([&](auto& comm) {
    if (comm.rank() != 0) return;
    int data = 0;
    int* const none = nullptr;
    EXPECT_ERROR(blink::send(comm, 2, &data, 1),
                 "start_send on rank 0: the other rank is 2, expected a rank of the communicator");
    EXPECT_ERROR(blink::send(comm, -1, &data, 1), "the other rank is -1");
    EXPECT_ERROR(blink::send(comm, 1, &data, 1, any_tag), "the tag is -1, expected at least 0");
    EXPECT_ERROR(blink::send(comm, 1, none, 1),
                 "start_send on rank 0: the buffer of 1 elements is null, expected their address");
    EXPECT_ERROR(blink::send(comm, 1, &data, SIZE_MAX / 4),
                 "elements of 4 bytes are more than an address can name");
    EXPECT_ERROR(blink::send(comm, 1, &data, 1, 0, -1s), "the longest time of a wait is negative");
    EXPECT_ERROR(blink::receive(comm, -2, &data, 1), "start_receive on rank 0: the other rank is");
    EXPECT_ERROR(blink::receive(comm, 1, &data, 1, -2), "the tag is -2");
    EXPECT_ERROR(blink::receive(comm, 1, none, 1), "is null");
    EXPECT_ERROR(blink::receive(comm, 1, none, 0, 0, -1s), "negative");
    blink::started_receive nothing;
    EXPECT_ERROR(nothing.wait(), "not started");
    EXPECT_ERROR((void)nothing.test(), "not started");
    EXPECT_TRUE(blink::started_send().test());
    EXPECT_ERROR(blink::started_send().wait(-1s), "negative");
  });
}

TEST(point_to_point, a_message_that_is_too_long_is_an_error_and_dropped) {
  for (bool const comes_first : {true, false}) {
    blink::thread_ranks ranks(2);
    ranks.run([&](auto& comm) {
      for (std::size_t const count : {3U, 600U, 10'000U}) {
        auto const data = numbers(count, 0);
        std::vector<int> small(count, -1);
        if (comm.rank() == 1) {
          if (!comes_first) blink::barrier(comm);
          blink::send(comm, 0, data.data(), count, 3);
          blink::send(comm, 0, data.data(), count - 1, 3);
          if (comes_first) blink::barrier(comm);
          continue;
        }
        if (comes_first) blink::barrier(comm);
        auto first = blink::start_receive(comm, 1, small.data(), count - 1, 3);
        if (!comes_first) blink::barrier(comm);
        auto const sizes = std::to_string(4 * count) + " bytes and is dropped, expected at most " +
                           "the buffer's " + std::to_string(4 * (count - 1));
        EXPECT_EQ(cause_of([&] { first.wait(); }, sizes), cause::too_long);
        EXPECT_ERROR(first.wait(), "has failed");
        EXPECT_EQ(small, std::vector<int>(count, -1));
        EXPECT_EQ(blink::receive(comm, 1, small.data(), count, 3).bytes, 4 * (count - 1));
        EXPECT_TRUE(std::equal(small.begin(), small.end() - 1, data.begin()));
      }
    });
  }
}

// A message that was kept because a later one was asked for first.
TEST(point_to_point, a_kept_message_that_is_too_long_is_an_error_and_dropped) {
  blink::thread_ranks ranks(2);
  ranks.run([&](auto& comm) {
    std::vector<int> data(10'000, 4), small(9'999, -1);
    if (comm.rank() == 1) {
      blink::send(comm, 0, data.data(), data.size(), 1);
      blink::send(comm, 0, data.data(), 1, 2);
      blink::send(comm, 0, data.data(), 2, 1);
      return;
    }
    blink::receive(comm, 1, small.data(), small.size(), 2);
    EXPECT_EQ(cause_of([&] { blink::receive(comm, 1, small.data() + 1, 9'998, 1); },
                       "has 40000 bytes and is dropped, expected at most the buffer's 39992"),
              cause::too_long);
    EXPECT_EQ(small[1], -1);
    EXPECT_EQ(blink::receive(comm, 1, small.data(), small.size(), 1).bytes, 8U);
  });
}

TEST(point_to_point, tags_choose_among_messages_in_any_order) {
  blink::thread_ranks ranks(2);
  ranks.run([&](auto& comm) {
    constexpr int tags = 40;
    if (comm.rank() == 0) {
      for (int tag = 0; tag < tags; ++tag) {
        std::vector<int> const data(static_cast<std::size_t>(tag) * 400, tag);
        blink::send(comm, 1, data.data(), data.size(), tag);
      }
      return;
    }
    for (int tag = tags - 1; tag >= 0; tag -= 2) {
      std::vector<int> data(static_cast<std::size_t>(tag) * 400);
      blink::receive(comm, 0, data.data(), data.size(), tag);
      EXPECT_EQ(std::count(data.begin(), data.end(), tag), tag * 400);
    }
    std::vector<int> data(tags * 400);
    for (int tag = 0; tag < tags; tag += 2) {  // the rest in the order of the sends
      EXPECT_EQ(blink::receive(comm, 0, data.data(), data.size(), any_tag).tag, tag);
    }
  });
}

TEST(point_to_point, the_receive_that_was_started_first_gets_the_message) {
  blink::thread_ranks ranks(2);
  ranks.run([&](auto& comm) {
    int const rank = comm.rank();
    int data[5] = {10, 11, 12, 13, 14};
    if (rank == 1) {
      blink::barrier(comm);
      for (int k = 0; k < 5; ++k) blink::send(comm, 0, data + k, 1, k % 2);  // tags 0 1 0 1 0
      return;
    }
    int got[5] = {};
    auto odd = blink::start_receive(comm, 1, got, 1, 1);
    auto any = blink::start_receive(comm, any_source, got + 1, 1, any_tag);
    auto even = blink::start_receive(comm, 1, got + 2, 1, 0);
    auto other_odd = blink::start_receive(comm, any_source, got + 3, 1, 1);
    auto last = blink::start_receive(comm, 1, got + 4, 1, any_tag);
    blink::barrier(comm);
    for (auto* one : {&last, &other_odd, &even, &any, &odd}) one->wait();
    EXPECT_EQ(got[0], 11);
    EXPECT_EQ(got[1], 10);
    EXPECT_EQ(got[2], 12);
    EXPECT_EQ(got[3], 13);
    EXPECT_EQ(got[4], 14);
    EXPECT_EQ(any.wait().tag, 0);  // a second wait gives the same result
    EXPECT_TRUE(any.test());
  });
}

// Neither rank receives before its own send has ended.
TEST(point_to_point, crossed_sends_of_any_size_end) {
  constexpr std::size_t count = blink_test::has_thread_sanitizer ? 400'000 : 4'000'000;
  for (std::size_t const kept : {std::size_t{0}, std::size_t{1} << 20, std::size_t{1} << 30}) {
    blink::thread_ranks ranks(2, within(60s, kept));
    ranks.run([&](auto& comm) {
      int const peer = 1 - comm.rank();
      for (int round = 0; round < 3; ++round) {
        std::vector<int> const data(count, comm.rank() + 10 * round);
        std::vector<int> got(count);
        if (round == 1) {
          auto sent = blink::start_send(comm, peer, data.data(), count);
          blink::receive(comm, peer, got.data(), count);
          sent.wait();
        } else {
          blink::send(comm, peer, data.data(), count);
          blink::receive(comm, peer, got.data(), count);
        }
        EXPECT_EQ(got, std::vector<int>(count, peer + 10 * round));
      }
    });
  }
}

// Three ranks in a circle, beyond the memory of each: each waits in a send or in another receive.
TEST(point_to_point, a_receive_from_another_rank_takes_in_what_a_sender_cannot_keep) {
  blink::thread_ranks ranks(3, within(60s, 0));
  ranks.run([&](auto& comm) {
    std::vector<int> data(500'000, comm.rank()), small(1);
    switch (comm.rank()) {
      case 0:
        blink::send(comm, 1, data.data(), data.size());
        blink::send(comm, 2, small.data(), 1);
        break;
      case 1:  // waits for rank 2, which waits for rank 0, which waits for this one
        blink::receive(comm, 2, small.data(), 1);
        blink::receive(comm, 0, data.data(), data.size());
        EXPECT_EQ(std::count(data.begin(), data.end(), 0), 500'000);
        break;
      default:
        blink::receive(comm, 0, small.data(), 1);
        blink::send(comm, 1, small.data(), 1);
    }
  });
}

// A send needs its receiver neither in a receive nor in any other call.
TEST(point_to_point, a_large_send_ends_before_a_barrier_that_comes_before_the_receive) {
  blink::thread_ranks ranks(2);
  ranks.run([&](auto& comm) {
    std::vector<int> data(2'000'000, 3);
    if (comm.rank() == 0) {
      auto sent = blink::start_send(comm, 1, data.data(), data.size());
      EXPECT_TRUE(sent.test());
      std::fill(data.begin(), data.end(), 4);
      blink::barrier(comm);
    } else {
      std::fill(data.begin(), data.end(), 0);
      blink::barrier(comm);
      blink::receive(comm, 0, data.data(), data.size());
      EXPECT_EQ(std::count(data.begin(), data.end(), 3), 2'000'000);
    }
  });
}

TEST(point_to_point, a_send_beyond_its_memory_ends_at_its_time_and_the_receiver_learns_of_it) {
  blink::thread_ranks ranks(2, within(20s, 0));
  ranks.run([&](auto& comm) {
    std::vector<int> data(1'000'000, 3);
    if (comm.rank() == 0) {
      auto const start = clock_type::now();
      EXPECT_EQ(cause_of([&] { blink::send(comm, 1, data.data(), data.size(), 5, 50ms); },
                         "rank 0, send to rank 1, tag 5: rank 1 takes no more than 262144 of "
                         "4000000 bytes"),
                cause::timed_out);
      EXPECT_GE(clock_type::now() - start, 50ms);
      auto queued = blink::start_send(comm, 1, data.data(), data.size(), 5);
      EXPECT_FALSE(queued.test());
      auto last = blink::start_send(comm, 1, data.data(), 2, 6);
      EXPECT_FALSE(last.test());  // behind the one before
      {
        auto const given_up = std::move(queued);
      }
      last.wait();
      blink::barrier(comm);
      return;
    }
    std::vector<int> got(data.size());
    std::this_thread::sleep_for(100ms);
    EXPECT_EQ(cause_of([&] { blink::receive(comm, 0, got.data(), got.size(), 5); },
                       "rank 0 gave the message up after 262144 of 4000000 bytes"),
              cause::withdrawn);
    EXPECT_EQ(blink::receive(comm, 0, got.data(), got.size(), 6).bytes, 8U);
    blink::barrier(comm);
  });
}

TEST(point_to_point, a_time_that_is_over_names_the_peer_and_withdraws_the_receive) {
  blink::thread_ranks ranks(3, within(20s));
  ranks.run([&](auto& comm) {
    std::vector<int> data(10, -1);
    if (comm.rank() == 0) {
      auto const start = clock_type::now();
      EXPECT_EQ(cause_of([&] { blink::receive(comm, 1, data.data(), 10, 7, 40ms); },
                         "rank 0, receive from rank 1, tag 7: no message (waited "),
                cause::timed_out);
      auto const waited = clock_type::now() - start;
      EXPECT_GE(waited, 40ms);
      EXPECT_LT(waited, 10s);
      EXPECT_EQ(cause_of([&] { blink::receive(comm, any_source, data.data(), 10, any_tag, 20ms); },
                         "receive from any rank, any tag: no message"),
                cause::timed_out);
      blink::barrier(comm);                            // the communicator goes on
      blink::receive(comm, 2, data.data() + 5, 5, 8);  // finds the message of tag 7 on its way
      EXPECT_SAYS(
          blink_test::error_of([&] { blink::receive(comm, 1, data.data(), 10, 9, 20ms); }),
          "expected one; no receive has asked for 1 message, the first from rank 2 with tag 7");
      EXPECT_EQ(data[0], -1);
      EXPECT_EQ(blink::receive(comm, 2, data.data(), 10, 7).bytes, 4U);
      EXPECT_EQ(data[0], 2);
    } else {
      blink::barrier(comm);
      int const rank = comm.rank();
      if (rank == 2) blink::send(comm, 0, &rank, 1, 7);
      if (rank == 2) blink::send(comm, 0, &rank, 1, 8);
    }
    blink::barrier(comm);
  });
}

// The sender adds messages as fast as the receiver takes them in.
TEST(point_to_point, other_messages_without_end_do_not_extend_the_time_of_a_receive) {
  blink::thread_ranks ranks(2, within(20s, 1 << 18));
  std::atomic<bool> is_over = false;
  ranks.run([&](auto& comm) {
    std::vector<int> data(16'000);
    if (comm.rank() == 0) {
      while (!is_over) blink::send(comm, 1, data.data(), data.size(), 1);
      blink::send(comm, 1, data.data(), 1, 3);
      return;
    }
    for (int const source : {0, any_source}) {
      auto const start = clock_type::now();
      EXPECT_EQ(cause_of([&] { blink::receive(comm, source, data.data(), 1, 2, 30ms); },
                         "no receive has asked for "),
                cause::timed_out);
      EXPECT_LT(clock_type::now() - start, 5s);
    }
    is_over = true;
    blink::receive(comm, 0, data.data(), 1, 3);
  });
}

TEST(point_to_point, a_receive_that_is_destroyed_leaves_its_message_to_the_next_one) {
  blink::thread_ranks ranks(2);
  ranks.run([&](auto& comm) {
    int data[2] = {-1, -1};
    if (comm.rank() == 0) {
      {
        auto const never_asked = blink::start_receive(comm, 1, data, 1);
        auto moved = blink::start_receive(comm, 1, data, 1);
        moved = blink::start_receive(comm, 1, data, 1);
      }
      blink::barrier(comm);
      blink::receive(comm, 1, data + 1, 1);
      EXPECT_EQ(data[0], -1);
      EXPECT_EQ(data[1], 6);
    } else {
      blink::barrier(comm);
      int const six = 6;
      blink::send(comm, 0, &six, 1);
    }
  });
}

TEST(point_to_point, messages_of_a_rank_that_has_left_come_before_the_error) {
  blink::thread_ranks ranks(2, within(20s));
  std::atomic<bool> has_left = false;
  ranks.run([&](auto& comm) {
    std::vector<int> data(300'000, 8);
    if (comm.rank() == 1) {
      blink::send(comm, 0, data.data(), data.size());
      has_left = true;
      return;
    }
    while (!has_left) std::this_thread::yield();
    std::this_thread::sleep_for(20ms);
    blink::receive(comm, 1, data.data(), data.size());
    auto const start = clock_type::now();
    EXPECT_EQ(cause_of([&] { blink::receive(comm, 1, data.data(), 1); },
                       "rank 0, receive from rank 1, tag 0: rank 1 has left, expected its message"),
              cause::peer_lost);
    auto started = blink::start_receive(comm, 1, data.data(), 1);
    EXPECT_EQ(cause_of(
                  [&] {
                    while (!started.test()) std::this_thread::yield();
                  },
                  "rank 1 has left"),
              cause::peer_lost);
    EXPECT_EQ(cause_of([&] { blink::send(comm, 1, data.data(), 1); },
                       "send to rank 1, tag 0: rank 1 has left, expected a receiver"),
              cause::peer_lost);
    EXPECT_LT(clock_type::now() - start, 10s);
  });
}

TEST(point_to_point, messages_stay_from_one_run_to_the_next) {
  blink::thread_ranks ranks(2);
  ranks.run([&](auto& comm) {
    int const rank = comm.rank();
    blink::send(comm, 1 - rank, &rank, 1);
    blink::barrier(comm);  // a rank that has left receives nothing
  });
  ranks.run([&](auto& comm) {
    int got = -1;
    blink::receive(comm, any_source, &got, 1);
    EXPECT_EQ(got, 1 - comm.rank());
  });
}

TEST(point_to_point, a_failure_of_the_communicator_ends_all_waits) {
  blink::thread_ranks ranks(3, within(20s, 0));
  auto const start = clock_type::now();
  auto const text_of_run = blink_test::error_of([&] {
    ranks.run([&](auto& comm) {
      std::vector<int> data(1'000'000);
      std::string text;
      if (comm.rank() == 0) {
        std::thread other([&] {
          std::this_thread::sleep_for(50ms);
          comm.fail(std::string("the user stops it"));
        });
        text = blink_test::error_of([&] { blink::receive(comm, 1, data.data(), 1); });
        other.join();
      } else if (comm.rank() == 1) {  // rank 2 does not take it
        text = blink_test::error_of([&] { blink::send(comm, 2, data.data(), data.size()); });
      } else {
        auto started = blink::start_receive(comm, 1, data.data(), 1, 99);
        while (comm.failure().rank < 0) std::this_thread::yield();
        text = blink_test::error_of([&] {
          while (!started.test()) std::this_thread::yield();
        });
      }
      EXPECT_SAYS(text, "ended because: rank 0 gave up: the user stops it");
      EXPECT_ERROR(blink::send(comm, 0, data.data(), 1), "the user stops it");
      EXPECT_ERROR(blink::receive(comm, 0, data.data(), 1), "the user stops it");
      try {
        blink::send(comm, 0, data.data(), 1);
      } catch (blink::collective_error const& failure) {
        EXPECT_TRUE(failure.rank == comm.rank() && failure.peer == 0);
        throw;
      }
    });
  });
  EXPECT_SAYS(text_of_run, "the user stops it");
  EXPECT_LT(clock_type::now() - start, 10s);
}

TEST(point_to_point, ranks_that_remain_and_parts_have_messages_of_their_own) {
  blink::thread_ranks ranks(4, within(20s));
  ranks.run([&](auto& comm) {
    int const rank = comm.rank();
    int got = -1;
    auto part = blink::split(comm, rank % 2, 0);
    blink::send(comm, (rank + 2) % 4, &rank, 1);
    int const half = rank / 2;
    blink::send(*part, 1 - half, &half, 1);
    blink::receive(*part, any_source, &got, 1, any_tag);
    EXPECT_EQ(got, 1 - half);
    blink::receive(comm, any_source, &got, 1, any_tag);
    EXPECT_EQ(got, (rank + 2) % 4);
    blink::barrier(comm);
    blink::send(comm, (rank + 1) % 4, &rank, 1);  // no rank of the smaller communicator gets it
    blink::barrier(comm);
    if (rank == 3) return;
    auto rest = comm.shrink();
    int const next = (rank + 1) % 3;
    blink::send(rest, next, &rank, 1);
    auto const from = blink::receive(rest, any_source, &got, 1, any_tag).source;
    EXPECT_EQ(got, (rank + 2) % 3);
    EXPECT_EQ(from, got);
    if (rank > 0) return;
    EXPECT_EQ(cause_of([&] { blink::receive(rest, any_source, &got, 1); },
                       "rank 2 has left, as all others, expected its message"),
              cause::peer_lost);
  });
}

TEST(point_to_point, an_exception_of_a_rank_ends_the_waits_of_the_others) {
  blink::thread_ranks ranks(2, within(20s));
  auto const start = clock_type::now();
  auto const text_of_run = blink_test::error_of([&] {
    ranks.run([&](auto& comm) {
      int data = 0;
      if (comm.rank() == 0) throw blink::input_error("no such file");
      EXPECT_ERROR(blink::receive(comm, 0, &data, 1),
                   "rank 0 left with an exception: no such file");
    });
  });
  EXPECT_SAYS(text_of_run, "no such file");
  EXPECT_LT(clock_type::now() - start, 10s);
}

// Threads of a rank send and receive at once, each with its own tag. Another thread runs
// collectives, and one has a queue of them on a part.
TEST(point_to_point, threads_of_a_rank_and_collectives_do_not_disturb_each_other) {
  constexpr int rounds = blink_test::has_thread_sanitizer ? 60 : 300;
  blink::thread_ranks ranks(3, within(60s, 1 << 20));
  ranks.run([&](auto& comm) {
    EXPECT_EQ(blink_test::exchange_beside_collectives(comm, 3, rounds, 20'000), "");
  });
}

TEST(point_to_point, many_ranks_send_around_and_to_one) {
  constexpr int count = 64;
  blink::thread_ranks ranks(count, within(120s));
  ranks.run([&](auto& comm) {
    int const rank = comm.rank();
    int const right = (rank + 1) % count, left = (rank + count - 1) % count;
    int value = rank;
    for (int step = 0; step < count; ++step) {  // each number goes round once
      auto incoming = blink::start_receive(comm, left, &value, 1);
      int const own = value;
      blink::send(comm, right, &own, 1);
      incoming.wait();
    }
    EXPECT_EQ(value, rank);
    if (rank > 0) {
      blink::send(comm, 0, &rank, 1, rank);
      return;
    }
    std::vector<int> seen;
    for (int k = 1; k < count; ++k) {
      auto const got = blink::receive(comm, any_source, &value, 1, any_tag);
      EXPECT_TRUE(got.source == value && got.tag == value);
      seen.push_back(value);
    }
    std::sort(seen.begin(), seen.end());
    EXPECT_EQ(seen, numbers(count - 1, 1));
  });
}

TEST(point_to_point, random_traffic_keeps_contents_and_order) {
  std::uint64_t const seeds = blink_test::has_thread_sanitizer ? 12 : 60;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    int const count = 1 + static_cast<int>(seed % 5);
    std::size_t const most = seed % 3 == 0 ? std::size_t{1} << 20 : 20'000;
    std::size_t const kept = seed % 2 == 0 ? std::size_t{1} << 30 : seed % 4 == 1 ? 0 : 1 << 18;
    blink_test::message_traffic const traffic(count, 40 * static_cast<std::size_t>(count), most,
                                              seed);
    blink::thread_ranks ranks(count, within(60s, kept));
    for (int run = 0; run < 2; ++run) {
      ranks.run([&](auto& comm) { EXPECT_EQ(traffic.run(comm), ""); });
    }
  }
}

}}  // namespace point_to_point_test
