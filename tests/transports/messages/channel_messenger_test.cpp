// SPDX-License-Identifier: Apache-2.0
// Sends and receives of two ranks over a message channel, and failures from any thread.

#include <blink/collectives.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/host/split_communicator.hpp>

#include "support/expect_error.hpp"
#include "support/message_ranks.hpp"
#include "support/message_traffic.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace channel_messenger_test { namespace {

using namespace std::chrono_literals;
using blink::any_source;
using blink::any_tag;
using blink_test::cause_of;
using blink_test::run_over_messages;
using blink_test::thread_communicator;
using cause = blink::message_error::cause;

static_assert(blink::messaging_communicator<thread_communicator>);

constexpr std::size_t piece = std::size_t{1} << 18;  // bytes
constexpr std::size_t large = 3 * piece / sizeof(int) + 5;

blink_test::message_options within(std::chrono::milliseconds deadline, int ranks_of_host = 1) {
  blink_test::message_options result;
  result.options.waits.deadline = deadline;
  result.ranks_of_host = ranks_of_host;
  return result;
}

TEST(channel_messenger, a_receive_states_source_tag_and_bytes) {
  run_over_messages(3, within(20s), [](thread_communicator& comm) {
    for (std::size_t const bytes :
         {std::size_t{0}, std::size_t{1}, std::size_t{967}, std::size_t{968}, std::size_t{969},
          std::size_t{1000}, piece - 1, piece, piece + 1, 6 * piece, 9 * piece + 7}) {
      int const peer = comm.rank() == 0 ? 2 : 0;
      std::vector<unsigned char> got(bytes + 2, 255);
      if (comm.rank() == 1) continue;
      std::vector<unsigned char> data(bytes);
      for (std::size_t k = 0; k < bytes; ++k) data[k] = static_cast<unsigned char>(k % 251);
      auto sent = blink::start_send(comm, peer, data.data(), bytes, 17);
      auto const what = blink::receive(comm, peer, got.data(), bytes + 1, 17);
      sent.wait();
      EXPECT_EQ(what.source, peer);
      EXPECT_EQ(what.tag, 17);
      EXPECT_EQ(what.bytes, bytes);
      data.resize(bytes + 2, 255);
      EXPECT_EQ(got, data) << bytes;
    }
  });
}

TEST(channel_messenger, a_rank_sends_to_itself) {
  run_over_messages(1, within(20s), [](thread_communicator& comm) {
    std::vector<int> const data(large, 7);
    for (bool const receives_first : {false, true}) {
      std::vector<int> got(large);
      blink::started_receive receive;
      if (receives_first) receive = blink::start_receive(comm, 0, got.data(), large);
      blink::send(comm, 0, data.data(), large);
      if (!receives_first) receive = blink::start_receive(comm, any_source, got.data(), large);
      EXPECT_EQ(receive.wait().source, 0);
      EXPECT_EQ(got, data);
    }
  });
}

// Small messages and messages in pieces.
TEST(channel_messenger, tags_choose_and_the_first_receive_gets_the_message) {
  for (std::size_t const count : {std::size_t{1}, large}) {
    run_over_messages(2, within(20s), [&](thread_communicator& comm) {
      std::vector<std::vector<int>> data;
      for (int k = 0; k < 5; ++k) data.emplace_back(count, 10 + k);
      if (comm.rank() == 1) {
        std::vector<blink::started_send> sends;
        blink::barrier(comm);
        for (int k = 0; k < 5; ++k) {  // tags 0 1 0 1 0
          auto const& one = data[static_cast<std::size_t>(k)];
          sends.push_back(blink::start_send(comm, 0, one.data(), count, k % 2));
        }
        for (auto& one : sends) one.wait();
        return;
      }
      std::vector<blink::started_receive> receives;
      int const sources[] = {1, any_source, 1, any_source, 1};
      int const tags[] = {1, any_tag, 0, 1, any_tag};
      for (std::size_t k = 0; k < 5; ++k) {
        receives.push_back(blink::start_receive(comm, sources[k], data[k].data(), count, tags[k]));
      }
      blink::barrier(comm);
      for (auto one = receives.rbegin(); one != receives.rend(); ++one) one->wait();
      int const expected[] = {11, 10, 12, 13, 14};
      for (std::size_t k = 0; k < 5; ++k) {
        EXPECT_EQ(data[k], std::vector<int>(count, expected[k])) << k;
      }
    });
  }
}

TEST(channel_messenger, a_message_that_is_too_long_is_an_error_and_dropped) {
  run_over_messages(2, within(20s), [](thread_communicator& comm) {
    for (bool const is_early : {false, true}) {
      for (std::size_t const count : {std::size_t{2}, large}) {
        std::vector<int> data(count, comm.rank());
        if (comm.rank() == 0) {
          if (!is_early) blink::barrier(comm);
          auto first = blink::start_send(comm, 1, data.data(), count, 3);
          if (is_early) blink::barrier(comm);
          first.wait();
          blink::send(comm, 1, data.data(), count, 3);
          continue;
        }
        blink::started_receive early;
        if (is_early) {
          blink::barrier(comm);
        } else {
          early = blink::start_receive(comm, 0, data.data(), count - 1, 3);
          blink::barrier(comm);
        }
        EXPECT_EQ(cause_of(
                      [&] {
                        if (is_early) early = blink::start_receive(comm, 0, data.data(), 1, 3);
                        early.wait();
                      },
                      "the message of rank 0 with tag 3 has "),
                  cause::too_long);
        EXPECT_EQ(data[0], 1);
        blink::receive(comm, 0, data.data(), count, 3);
        EXPECT_EQ(data, std::vector<int>(count, 0));
      }
    }
  });
}

TEST(channel_messenger, crossed_sends_end) {
  run_over_messages(3, within(20s), [](thread_communicator& comm) {
    int const right = (comm.rank() + 1) % 3, left = (comm.rank() + 2) % 3;
    for (std::size_t const count : {std::size_t{3}, large, 8 * large}) {
      std::vector<int> const data(count, comm.rank());
      std::vector<int> got(count);
      blink::send(comm, right, data.data(), count);
      blink::receive(comm, left, got.data(), count);
      EXPECT_EQ(got, std::vector<int>(count, left));
    }
  });
}

TEST(channel_messenger, a_started_send_moves_while_its_rank_is_in_a_collective) {
  for (int const ranks_of_host : {1, 2}) {
    run_over_messages(2, within(20s, ranks_of_host), [](thread_communicator& comm) {
      std::vector<int> data(8 * large, comm.rank());
      if (comm.rank() == 0) {
        auto sent = blink::start_send(comm, 1, data.data(), data.size());
        blink::barrier(comm);
        sent.wait();
      } else {
        blink::receive(comm, 0, data.data(), data.size());
        EXPECT_EQ(data, std::vector<int>(data.size(), 0));
        blink::barrier(comm);
      }
    });
  }
}

TEST(channel_messenger, a_send_ends_at_its_time_and_the_receiver_learns_of_it) {
  run_over_messages(2, within(20s), [](thread_communicator& comm) {
    std::vector<int> data(8 * large, comm.rank());
    if (comm.rank() == 0) {
      EXPECT_EQ(cause_of([&] { blink::send(comm, 1, data.data(), data.size(), 5, 50ms); },
                         "rank 0, send to rank 1, tag 5: rank 1 takes no more than 0 of "),
                cause::timed_out);
      std::fill(data.begin(), data.end(), 9);  // it is the caller's again
      blink::barrier(comm);
      blink::send(comm, 1, data.data(), 2, 6);
    } else {
      blink::barrier(comm);
      EXPECT_EQ(cause_of([&] { blink::receive(comm, 0, data.data(), data.size(), 5); },
                         "rank 0 gave the message up after 1048576 of "),
                cause::withdrawn);
      EXPECT_EQ(std::count(data.begin(), data.begin() + 1048576 / 4, 0), 1048576 / 4);
      EXPECT_EQ(blink::receive(comm, 0, data.data(), data.size(), 6).bytes, 8U);
    }
    blink::barrier(comm);
  });
}

TEST(channel_messenger, a_time_that_is_over_names_what_came_instead) {
  run_over_messages(3, within(20s), [](thread_communicator& comm) {
    std::vector<int> data(10, comm.rank());
    if (comm.rank() == 0) {
      EXPECT_EQ(cause_of([&] { blink::receive(comm, 1, data.data(), 10, 7, 40ms); },
                         "rank 0, receive from rank 1, tag 7: no message (waited "),
                cause::timed_out);
      blink::barrier(comm);
      blink::receive(comm, 2, data.data() + 5, 5, 8);
      EXPECT_SAYS(
          blink_test::error_of([&] { blink::receive(comm, any_source, data.data(), 10, 9, 20ms); }),
          "expected one; no receive has asked for 1 message, the first from rank 2 with tag 7");
      EXPECT_EQ(blink::receive(comm, 2, data.data(), 10, 7).bytes, 4U);
    } else {
      blink::barrier(comm);
      if (comm.rank() == 2) blink::send(comm, 0, data.data(), 1, 7);
      if (comm.rank() == 2) blink::send(comm, 0, data.data(), 1, 8);
    }
    blink::barrier(comm);
  });
}

TEST(channel_messenger, a_receive_that_is_destroyed_leaves_its_message_to_the_next_one) {
  run_over_messages(2, within(20s), [](thread_communicator& comm) {
    std::vector<int> data(large, comm.rank());
    if (comm.rank() == 1) {
      blink::barrier(comm);
      blink::send(comm, 0, data.data(), large, 0);
      auto second = blink::start_send(comm, 0, data.data(), large, 1);
      blink::barrier(comm);
      return second.wait();  // a rank that leaves takes what still comes
    }
    {
      auto const never_asked = blink::start_receive(comm, 1, data.data(), large, 0);
    }
    blink::barrier(comm);
    blink::receive(comm, 1, data.data(), large, 0);
    EXPECT_EQ(data, std::vector<int>(large, 1));
    {  // dropped after its match
      std::vector<int> other(large);
      auto second = blink::start_receive(comm, 1, other.data(), large, 1);
      static_cast<void>(second.test());
    }
    blink::barrier(comm);
  });
}

TEST(channel_messenger, a_rank_that_has_left_is_named_after_its_messages) {
  run_over_messages(2, within(20s), [](thread_communicator& comm) {
    int data = 8;
    if (comm.rank() == 1) return blink::send(comm, 0, &data, 1);
    EXPECT_EQ(cause_of(
                  [&] {
                    for (;;) blink::receive(comm, any_source, &data, 1);
                  },
                  "rank 1 has left, as all others, expected its message"),
              cause::peer_lost);
    EXPECT_EQ(data, 8);
    EXPECT_EQ(cause_of([&] { blink::send(comm, 1, &data, 1); },
                       "send to rank 1, tag 0: rank 1 has left, expected a receiver"),
              cause::peer_lost);
  });
}

// The connection between ranks 0 and 1 ends while they send; rank 2 is not concerned.
TEST(channel_messenger, a_lost_peer_ends_messages_with_it_and_no_others) {
  blink_test::thread_network network(3);
  std::atomic<int> are_inside = 0;
  blink_test::run_over(network, 3, within(20s), [&](thread_communicator& comm) {
    std::vector<int> data(8 * large, comm.rank());
    if (comm.rank() == 2) {
      while (are_inside < 2) std::this_thread::yield();
      std::this_thread::sleep_for(5ms);
      network.cut(0, 1);
      for (int peer = 0; peer < 2; ++peer) blink::receive(comm, peer, data.data(), data.size());
      EXPECT_EQ(data, std::vector<int>(data.size(), 1));
      return;
    }
    ++are_inside;
    auto const text = "rank " + std::to_string(1 - comm.rank()) + " died, expected ";
    if (comm.rank() == 0) {
      EXPECT_EQ(cause_of(
                    [&] {
                      for (;;) blink::send(comm, 1, data.data(), data.size());
                    },
                    text),
                cause::peer_lost);
    } else {
      EXPECT_EQ(cause_of(
                    [&] {
                      for (;;) blink::receive(comm, 0, data.data(), data.size());
                    },
                    text),
                cause::peer_lost);
      std::fill(data.begin(), data.end(), 1);
    }
    blink::send(comm, 2, data.data(), data.size());
  });
}

TEST(channel_messenger, a_failure_from_another_thread_ends_calls_and_messages_of_all_ranks) {
  for (int const ranks_of_host : {1, 3}) {
    for (bool const is_in_call : {true, false}) {
      run_over_messages(3, within(20s, ranks_of_host), [&](thread_communicator& comm) {
        std::vector<int> data(10, 1);
        blink::all_reduce(comm, data);
        auto const begun = std::chrono::steady_clock::now();
        std::thread other;
        if (comm.rank() == 0) {
          other = std::thread([&] {
            if (is_in_call) std::this_thread::sleep_for(30ms);
            comm.fail(std::string("enough"));
          });
          if (!is_in_call) other.join();
        }
        if (comm.rank() == 2) {  // waits for a message, and learns of the failure there
          EXPECT_SAYS(blink_test::error_of([&] { blink::receive(comm, 1, data.data(), 1); }),
                      "rank 0 gave up: enough");
        }
        EXPECT_SAYS(blink_test::error_of([&] {
                      for (;;) blink::all_reduce(comm, data);
                    }),
                    "rank 0 gave up: enough");
        EXPECT_SAYS(blink_test::error_of([&] { blink::send(comm, 0, data.data(), 1); }),
                    "rank 0 gave up: enough");
        if (other.joinable()) other.join();
        EXPECT_LT(std::chrono::steady_clock::now() - begun, 10s);
      });
    }
  }
}

TEST(channel_messenger, threads_of_a_rank_and_collectives_do_not_disturb_each_other) {
  run_over_messages(3, within(60s), [](thread_communicator& comm) {
    EXPECT_EQ(blink_test::exchange_beside_collectives(comm, 3, 40, large), "");
  });
}

TEST(channel_messenger, parts_and_ranks_that_remain_have_messages_of_their_own) {
  run_over_messages(3, within(20s), [](thread_communicator& comm) {
    int const rank = comm.rank();
    if (auto part = blink::split(comm, rank == 1 ? -1 : 0, 0)) {  // ranks 0 and 2
      std::vector<int> data(large, rank), got(large);
      blink::send(*part, 1 - part->rank(), data.data(), large);
      blink::receive(*part, any_source, got.data(), large);
      EXPECT_EQ(got, std::vector<int>(large, 2 - rank));
    }
    if (rank == 0) return;  // the others go on without it
    int value = rank;
    EXPECT_SAYS(blink_test::error_of([&] { blink::all_reduce(comm, &value, 1); }), "rank 0");
    auto rest = comm.shrink();
    int const own = rest.rank();
    blink::send(rest, 1 - own, &own, 1);
    blink::receive(rest, any_source, &value, 1, any_tag);
    EXPECT_EQ(value, 1 - own);
  });
}

TEST(channel_messenger, random_traffic_keeps_contents_and_order) {
  std::uint64_t const seeds = blink_test::has_thread_sanitizer ? 8 : 30;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    SCOPED_TRACE(seed);
    int const count = 1 + static_cast<int>(seed % 5);
    std::size_t const most = seed % 3 == 0 ? std::size_t{1} << 21 : 20'000;
    blink_test::message_traffic const traffic(count, 40 * static_cast<std::size_t>(count), most,
                                              seed);
    run_over_messages(count, within(60s), [&](thread_communicator& comm) {
      for (int run = 0; run < 2; ++run) {
        EXPECT_EQ(traffic.run(comm), "");
        blink::barrier(comm);
      }
    });
  }
}

}}  // namespace channel_messenger_test
