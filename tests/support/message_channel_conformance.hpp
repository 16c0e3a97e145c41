// SPDX-License-Identifier: Apache-2.0
#pragma once

// The requirements of every message channel, as tests of at least two ranks. A new channel is a
// fixture and one line.
//
// A fixture is default-constructible and has these members:
//   using channel = …;   the model of `message_channel`;
//   run(f);              f(channel) on each rank of this process, all ranks at once, each with a
//                        fresh channel of all ranks.

#include <blink/transports/messages/message_channel.hpp>

#include "becomes_true.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <vector>

namespace blink_test {

template <class Fixture>
class message_channel_conformance : public testing::Test {
 protected:
  using channel = typename Fixture::channel;
  using request = typename channel::request;
  static_assert(blink::message_channel<channel>);
  Fixture all_;
  static bool ends(channel& on, request& one) {
    return becomes_true([&] { return on.is_done(one); });
  }
  static bool sends(channel& on, int value, int peer, int tag) {
    request one;
    on.send(&value, sizeof(value), peer, tag, one);
    return ends(on, one);
  }
  /// The next number with a tag from a peer; -1: none came.
  static int next(channel& on, int peer, int tag) {
    int value = -1;
    request one;
    on.receive(&value, sizeof(value), peer, tag, one);
    EXPECT_TRUE(ends(on, one));
    return value;
  }
  /// Returns when all ranks have come here.
  static void meet(channel& on) {
    constexpr int tag = 77;
    for (int peer = 1; on.rank() == 0 && peer < on.rank_count(); ++peer) next(on, peer, tag);
    if (on.rank() != 0) {
      EXPECT_TRUE(sends(on, 0, 0, tag));
      next(on, 0, tag);
    }
    for (int peer = 1; on.rank() == 0 && peer < on.rank_count(); ++peer) sends(on, 0, peer, tag);
  }
};
TYPED_TEST_SUITE_P(message_channel_conformance);

TYPED_TEST_P(message_channel_conformance, ranks_know_their_number) {
  this->all_.run([&](auto& on) {
    ASSERT_GE(on.rank_count(), 2);
    EXPECT_GE(on.rank(), 0);
    EXPECT_LT(on.rank(), on.rank_count());
    EXPECT_GE(on.largest_tag(), 32767);
    EXPECT_TRUE(on.is_intact()) << on.problem();
    EXPECT_EQ(on.host(), on.duplicate().host());
    typename TestFixture::request none;
    EXPECT_FALSE(none.is_pending());
    EXPECT_TRUE(on.is_done(none));
    on.cancel(none);
    this->meet(on);
  });
}

TYPED_TEST_P(message_channel_conformance, all_ranks_find_the_same_eager_size) {
  this->all_.run([&](auto& on) {
    int const found = static_cast<int>(on.eager_bytes());
    if (on.rank() != 0) {
      EXPECT_TRUE(this->sends(on, found, 0, 1));
    }
    for (int peer = 1; on.rank() == 0 && peer < on.rank_count(); ++peer) {
      EXPECT_EQ(this->next(on, peer, 1), found);
    }
    this->meet(on);
  });
}

TYPED_TEST_P(message_channel_conformance, messages_of_a_tag_match_in_order) {
  this->all_.run([&](auto& on) {
    constexpr std::size_t messages = 40;
    auto const bytes_of = [](std::size_t message) { return message * message * 40; };
    std::vector<std::vector<std::uint8_t>> data(messages);
    std::vector<typename TestFixture::request> requests(messages);
    for (std::size_t k = 0; k < messages; ++k) {
      bool const sends = on.rank() == 1;
      data[k].assign(bytes_of(k) + 1, static_cast<std::uint8_t>(sends ? k : 255));
      if (sends) on.send(data[k].data(), bytes_of(k) + 1, 0, 3, requests[k]);
    }
    for (std::size_t k = 0; on.rank() == 0 && k < messages; ++k) {
      on.receive(data[k].data(), data[k].size(), 1, 3, requests[k]);
    }
    for (std::size_t k = 0; k < messages; ++k) {
      ASSERT_TRUE(this->ends(on, requests[k])) << k;
      EXPECT_FALSE(requests[k].is_pending());
      if (on.rank() > 1) continue;
      EXPECT_EQ(data[k], std::vector<std::uint8_t>(bytes_of(k) + 1, static_cast<std::uint8_t>(k)));
    }
    this->meet(on);
  });
}

TYPED_TEST_P(message_channel_conformance, tags_and_peers_are_separate) {
  this->all_.run([&](auto& on) {
    int const count = on.rank_count();
    if (on.rank() != 0) {
      EXPECT_TRUE(this->sends(on, 10 * on.rank(), 0, 5));
      EXPECT_TRUE(this->sends(on, 10 * on.rank() + 1, 0, on.largest_tag()));
    } else {
      for (int peer = count - 1; peer > 0; --peer) {
        EXPECT_EQ(this->next(on, peer, on.largest_tag()), 10 * peer + 1);
        EXPECT_EQ(this->next(on, peer, 5), 10 * peer);
      }
    }
    this->meet(on);
  });
}

TYPED_TEST_P(message_channel_conformance, messages_of_any_rank_are_received) {
  this->all_.run([&](auto& on) {
    if (on.rank() != 0) {
      EXPECT_TRUE(this->sends(on, on.rank(), 0, 6));
    }
    std::vector<int> from;
    for (int k = 1; on.rank() == 0 && k < on.rank_count(); ++k) {
      int value = 0;
      typename TestFixture::request one;
      on.receive_from_any(&value, sizeof(value), 6, one);
      EXPECT_TRUE(this->ends(on, one));
      from.push_back(value);
    }
    std::sort(from.begin(), from.end());
    for (std::size_t k = 0; k < from.size(); ++k) EXPECT_EQ(from[k], static_cast<int>(k) + 1);
    this->meet(on);
  });
}

TYPED_TEST_P(message_channel_conformance, a_cancelled_receive_ends_and_takes_no_later_message) {
  this->all_.run([&](auto& on) {
    int value = 7;
    typename TestFixture::request one;
    if (on.rank() == 0) {
      on.receive(&value, sizeof(value), 1, 8, one);
      EXPECT_FALSE(on.is_done(one));
      on.cancel(one);
      EXPECT_TRUE(this->ends(on, one));
      EXPECT_EQ(value, 7);
    }
    this->meet(on);
    if (on.rank() == 1) {
      EXPECT_TRUE(this->sends(on, 9, 0, 8));
    }
    if (on.rank() == 0) {
      EXPECT_EQ(this->next(on, 1, 8), 9);
      EXPECT_EQ(value, 7);
    }
    this->meet(on);
  });
}

TYPED_TEST_P(message_channel_conformance, what_no_receive_takes_is_dropped_and_its_sender_freed) {
  this->all_.run([&](auto& on) {
    constexpr int kept = 4;
    auto outside = on.duplicate();  // its messages are not dropped
    std::vector<std::uint8_t> const large(std::size_t{1} << 20, 1);
    int signal = 0;
    typename TestFixture::request one;
    if (on.rank() == 0) {
      on.receive(&signal, sizeof(signal), 1, 5, one);
      EXPECT_TRUE(becomes_true([&] {
        on.drop_unmatched(kept);
        return on.is_done(one);
      }));
      EXPECT_EQ(this->next(on, 1, kept), 40);
    } else if (on.rank() == 1) {
      on.send(large.data(), large.size(), 0, 3, one);
      EXPECT_TRUE(this->ends(on, one));
      EXPECT_TRUE(this->sends(on, 1, 0, 5));
      EXPECT_TRUE(this->sends(on, 40, 0, kept));
    }
    this->meet(outside);
  });
}

TYPED_TEST_P(message_channel_conformance, duplicates_do_not_share_messages) {
  this->all_.run([&](auto& on) {
    auto second = on.duplicate();
    auto third = second.duplicate();
    EXPECT_EQ(third.rank(), on.rank());
    EXPECT_EQ(third.rank_count(), on.rank_count());
    if (on.rank() == 1) {
      EXPECT_TRUE(this->sends(on, 1, 0, 2));
      EXPECT_TRUE(this->sends(second, 2, 0, 2));
      EXPECT_TRUE(this->sends(third, 3, 0, 2));
    }
    if (on.rank() == 0) {
      EXPECT_EQ(this->next(third, 1, 2), 3);
      EXPECT_EQ(this->next(on, 1, 2), 1);
      EXPECT_EQ(this->next(second, 1, 2), 2);
    }
    this->meet(on);
  });
}

TYPED_TEST_P(message_channel_conformance, parts_are_numbered_in_the_order_of_their_members) {
  this->all_.run([&](auto& on) {
    for (int round = 0; round < 3; ++round) {
      if (on.rank() < 2) {  // the other ranks do not call
        auto part = on.among({1, 0});
        EXPECT_EQ(part.rank_count(), 2);
        EXPECT_EQ(part.rank(), 1 - on.rank());
        if (part.rank() == 0) {
          EXPECT_TRUE(this->sends(part, round, 1, 2));
        } else {
          EXPECT_EQ(this->next(part, 0, 2), round);
        }
        this->meet(part);
      }
    }
    this->meet(on);
  });
}

REGISTER_TYPED_TEST_SUITE_P(message_channel_conformance, ranks_know_their_number,
                            all_ranks_find_the_same_eager_size, messages_of_a_tag_match_in_order,
                            tags_and_peers_are_separate, messages_of_any_rank_are_received,
                            a_cancelled_receive_ends_and_takes_no_later_message,
                            what_no_receive_takes_is_dropped_and_its_sender_freed,
                            duplicates_do_not_share_messages,
                            parts_are_numbered_in_the_order_of_their_members);

}  // namespace blink_test
