// SPDX-License-Identifier: Apache-2.0
#include <blink/running/connections/connection.hpp>
#include <blink/running/connections/message_times.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstdint>
#include <limits>

namespace message_times_test {

// A time that does not fit into the clock's number must not become zero.
TEST(message_times, links_that_are_slower_than_the_clock_can_report_hold_messages_up) {
  constexpr std::uint64_t hour = 3'600'000'000'000;
  for (double const nanoseconds_per_byte : {1e18, 1e300, std::numeric_limits<double>::infinity()}) {
    std::uint64_t free_at = 0;
    blink::route_link hop{0, nanoseconds_per_byte, &free_at};
    std::array<std::uint64_t, 2> due{};
    blink::shared_connection connection;
    connection.window = 2;
    connection.due = due.data();
    connection.route = &hop;
    connection.route_length = 1;
    for (std::uint64_t message = 0; message < 8; ++message) {
      blink::stamp_message(connection, message, 1000, hour, 0);
      EXPECT_FALSE(blink::is_due(connection, message, 2 * hour)) << message;
    }
  }
}

}  // namespace message_times_test
