// SPDX-License-Identifier: Apache-2.0
// The message channel of threads, and its cut connections.

#include "support/message_channel_conformance.hpp"
#include "support/message_ranks.hpp"
#include "support/thread_channel.hpp"
#include <gtest/gtest.h>

#include <cstddef>
#include <vector>

// A folder may be compiled as one source.
namespace message_channel_test {

namespace {

class three_threads {
 public:
  using channel = blink_test::thread_channel;
  template <class Function>
  void run(Function const& function) {
    constexpr int ranks = 3;
    blink_test::thread_network network(ranks);
    blink_test::run_threads(ranks, [&](int rank) {
      channel own(network, rank);
      function(own);
    });
  }
};

TEST(thread_channel, sends_to_a_lost_peer_end_and_receives_from_it_when_they_are_cancelled) {
  blink_test::thread_network network(2);
  blink_test::thread_channel a(network, 0);
  blink_test::thread_channel b(network, 1);
  std::vector<int> const large(10000, 1);
  std::vector<int> got(10000, 0);
  int early = 5;
  blink_test::thread_channel::request sending, receiving, first;
  b.send(&early, sizeof(early), 0, 2, first);  // arrives before the connection is cut
  a.send(large.data(), large.size() * sizeof(int), 1, 1, sending);
  a.receive(got.data(), got.size() * sizeof(int), 1, 1, receiving);
  EXPECT_FALSE(a.is_done(sending));
  EXPECT_FALSE(a.is_lost(1));
  a.abandon(1);
  EXPECT_TRUE(a.is_lost(1));
  EXPECT_TRUE(b.is_lost(0));
  EXPECT_TRUE(a.duplicate().is_lost(1));
  EXPECT_TRUE(a.is_done(sending));
  EXPECT_FALSE(a.is_done(receiving));
  a.cancel(receiving);
  EXPECT_TRUE(a.is_done(receiving));
  early = 0;
  a.receive(&early, sizeof(early), 1, 2, receiving);
  EXPECT_TRUE(a.is_done(receiving));
  EXPECT_EQ(early, 5);
  b.receive(got.data(), got.size() * sizeof(int), 0, 1, receiving);
  EXPECT_FALSE(b.is_done(receiving));
  b.cancel(receiving);
}

}  // namespace

using namespace blink_test;

INSTANTIATE_TYPED_TEST_SUITE_P(threads, message_channel_conformance, three_threads);

}  // namespace message_channel_test
