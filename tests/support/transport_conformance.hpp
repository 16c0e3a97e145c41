// SPDX-License-Identifier: Apache-2.0
#pragma once

// The requirements of every transport, as tests of two links. A new transport is a fixture and one
// line.
//
// A fixture is default-constructible and has these members:
//   using transport = …;             the model of `transport`;
//   int sender_rank(), receiver_rank();
//   at_sender(f), at_receiver(f);    f(transport) at an end of `connection()`, within one call.
//                                    They return after earlier work at the other end is done;
//   together(f, g);                  the same for both ends at once;
//   std::uint32_t connection();      a connection whose messages go through slots;
//   std::uint64_t window();
//   void abort();

#include <blink/running/call/communicator_options.hpp>
#include <blink/running/walk/transport.hpp>

#include "becomes_true.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstring>

namespace blink_test {

/// Options of a communicator for the suite: a window and slots smaller than what the tests send.
inline blink::communicator_options conformance_options() {
  blink::communicator_options result;
  result.window = 3;
  result.slot_bytes = 200;
  return result;
}

template <class Fixture>
class transport_conformance : public testing::Test {
 protected:
  static_assert(blink::transport<typename Fixture::transport>);
  Fixture both_;
};
TYPED_TEST_SUITE_P(transport_conformance);

TYPED_TEST_P(transport_conformance, ends_know_each_other) {
  auto& both = this->both_;
  ASSERT_NE(both.sender_rank(), both.receiver_rank());
  both.at_sender([&](auto const a) {
    EXPECT_EQ(a.rank(), both.sender_rank());
    EXPECT_GT(a.rank_count(), std::max(both.sender_rank(), both.receiver_rank()));
    EXPECT_TRUE(becomes_true([&] { return a.is_present(both.receiver_rank()); }));
    EXPECT_GE(a.slot_bytes(), 1U);
  });
  both.at_receiver([&](auto const b) {
    EXPECT_EQ(b.rank(), both.receiver_rank());
    EXPECT_TRUE(becomes_true([&] { return b.is_present(both.sender_rank()); }));
  });
}

TYPED_TEST_P(transport_conformance, nothing_arrives_before_it_is_posted) {
  auto& both = this->both_;
  auto const connection = both.connection();
  both.at_receiver([&](auto const b) { EXPECT_FALSE(b.has_arrived(connection, 0)); });
  both.at_sender([&](auto const a) {
    ASSERT_TRUE(becomes_true([&] { return a.has_credit(connection, 0); }));
    std::memset(a.outbox(connection, 0), 7, a.slot_bytes());
  });
  both.at_receiver([&](auto const b) { EXPECT_FALSE(b.has_arrived(connection, 0)); });
  both.at_sender([&](auto const a) { a.post(connection, 0, a.slot_bytes()); });
  both.at_receiver([&](auto const b) {
    ASSERT_TRUE(becomes_true([&] { return b.has_arrived(connection, 0); }));
    EXPECT_FALSE(b.has_arrived(connection, 1));
    EXPECT_EQ(b.inbox(connection, 0)[b.slot_bytes() - 1], std::byte{7});
  });
}

TYPED_TEST_P(transport_conformance, the_window_bounds_what_is_under_way) {
  auto& both = this->both_;
  auto const connection = both.connection();
  auto const window = both.window();
  both.at_sender([&](auto const a) {
    for (std::uint64_t message = 0; message < window; ++message) {
      ASSERT_TRUE(becomes_true([&] { return a.has_credit(connection, message); }));
      a.outbox(connection, message)[0] = static_cast<std::byte>(message + 1);
      a.post(connection, message, 1);
    }
    EXPECT_FALSE(a.has_credit(connection, window));
  });
  both.at_receiver([&](auto const b) {
    ASSERT_TRUE(becomes_true([&] { return b.has_arrived(connection, window - 1); }));
    for (std::uint64_t message = 0; message < window; ++message) {  // slots do not overlap
      EXPECT_TRUE(b.has_arrived(connection, message));
      EXPECT_EQ(b.inbox(connection, message)[0], static_cast<std::byte>(message + 1));
    }
  });
  both.at_sender([&](auto const a) { EXPECT_FALSE(a.consumed(connection, 0)); });
  both.at_receiver([&](auto const b) { b.consume(connection, 0); });
  both.at_sender([&](auto const a) {
    ASSERT_TRUE(becomes_true([&] { return a.consumed(connection, 0); }));
    EXPECT_TRUE(becomes_true([&] { return a.has_credit(connection, window); }));
    EXPECT_FALSE(a.has_credit(connection, window + 1));
    EXPECT_FALSE(a.consumed(connection, 1));
  });
}

TYPED_TEST_P(transport_conformance, bytes_arrive_in_order) {
  auto& both = this->both_;
  auto const connection = both.connection();
  constexpr std::uint64_t messages = 300;
  auto const byte_of = [](std::uint64_t message, std::size_t k) {
    return static_cast<std::byte>(message * 31 + k);
  };
  both.together(
      [&](auto const a) {
        for (std::uint64_t message = 0; message < messages; ++message) {
          if (!becomes_true([&] { return a.has_credit(connection, message); })) return;
          auto* const slot = a.outbox(connection, message);
          for (std::size_t k = 0; k < a.slot_bytes(); ++k) slot[k] = byte_of(message, k);
          a.post(connection, message, a.slot_bytes());
        }
      },
      [&](auto const b) {
        for (std::uint64_t message = 0; message < messages; ++message) {
          ASSERT_TRUE(becomes_true([&] { return b.has_arrived(connection, message); })) << message;
          auto const* const slot = b.inbox(connection, message);
          std::size_t wrong = 0;
          for (std::size_t k = 0; k < b.slot_bytes(); ++k) {
            wrong += slot[k] == byte_of(message, k) ? 0U : 1U;
          }
          ASSERT_EQ(wrong, 0U) << message;
          b.consume(connection, message);
        }
      });
}

TYPED_TEST_P(transport_conformance, giving_up_reaches_both_ends) {
  auto& both = this->both_;
  both.at_sender([&](auto const a) { EXPECT_FALSE(a.is_aborted()); });
  both.at_receiver([&](auto const b) { EXPECT_FALSE(b.is_aborted()); });
  both.abort();
  both.at_sender([&](auto const a) { EXPECT_TRUE(becomes_true([&] { return a.is_aborted(); })); });
  both.at_receiver(
      [&](auto const b) { EXPECT_TRUE(becomes_true([&] { return b.is_aborted(); })); });
}

REGISTER_TYPED_TEST_SUITE_P(transport_conformance, ends_know_each_other,
                            nothing_arrives_before_it_is_posted,
                            the_window_bounds_what_is_under_way, bytes_arrive_in_order,
                            giving_up_reaches_both_ends);

}  // namespace blink_test
