// SPDX-License-Identifier: Apache-2.0
// The parts of slots that messages use in rotation, and the number of slots of a connection.

#include <blink/running/connections/slot_rotation.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/host/basic_thread_ranks.hpp>
#include <blink/transports/host/slots.hpp>

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <random>
#include <utility>
#include <vector>

namespace {

TEST(slot_rotation, parts_hold_the_message_and_are_whole_lines) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20000; ++round) {
    std::size_t const slot = 128 * (1 + random() % 4096);
    std::size_t const message = random() % (slot + 1);
    std::uint32_t const slot_subdivision = blink::slot_subdivision_of(slot, message);
    std::size_t const part = blink::part_of_slot(slot, slot_subdivision);
    ASSERT_EQ(part % 128, 0U);
    ASSERT_GE(part, message) << slot;
    ASSERT_LE(part << slot_subdivision, slot) << message;
    ASSERT_LT(slot >> slot_subdivision, 4 * (message < 128 ? 128 : message))
        << slot << ' ' << message;
  }
  EXPECT_EQ(blink::slot_subdivision_of(1 << 18, 1 << 18), 0U);
  EXPECT_EQ(blink::slot_subdivision_of(1 << 18, (1 << 17) + 1), 0U);
  EXPECT_EQ(blink::slot_subdivision_of(1 << 18, 1 << 17), 1U);
  EXPECT_EQ(blink::slot_subdivision_of(1 << 18, 0), 11U);
}

TEST(slot_rotation, few_connections_have_more_slots) {
  std::size_t const slot = std::size_t{1} << 18;
  EXPECT_EQ(blink::default_window(blink::star_schedule(2), slot), 4U);     // 2 in: 1 MiB each
  EXPECT_EQ(blink::default_window(blink::flat_schedule(2, 0), slot), 8U);  // 1 in
  EXPECT_EQ(blink::default_window(blink::star_schedule(8), slot), 2U);     // 14 in
  EXPECT_EQ(blink::default_window(blink::flat_schedule(2, 0), 64), 8U);    // the maximum
  EXPECT_EQ(blink::default_window(blink::star_schedule(2), std::size_t{1} << 40), 2U);
  EXPECT_EQ(blink::default_window(blink::star_schedule(1), slot), 2U);
}

TEST(slot_rotation, many_connections_have_smaller_slots) {
  using transport = blink::slot_transport;
  auto const bytes = [](int ranks, blink::communicator_options const& options) {
    auto const source = blink::star_schedule(ranks);
    auto const layout = blink::connection_layout_of<transport>(options, source);
    return std::pair(layout.slot_bytes, blink::connection_tables::shared_bytes(source, layout));
  };
  EXPECT_EQ(bytes(8, {}).first, std::size_t{1} << 18);
  for (int const ranks : {12, 16, 32, 64}) {
    EXPECT_LE(bytes(ranks, {}).second, std::size_t{140} << 20) << ranks;
    EXPECT_GE(bytes(ranks, {}).first, std::size_t{1} << 13) << ranks;
  }
  EXPECT_EQ(bytes(128, {}).first, std::size_t{1} << 13);  // the least
  blink::communicator_options own;
  own.slot_bytes = std::size_t{1} << 17;
  EXPECT_EQ(bytes(64, own).first, own.slot_bytes);  // as asked
}

// Messages in flight have separate places, for all sizes of parts.
TEST(slot_rotation, messages_in_flight_do_not_meet) {
  using ranks_type = blink::basic_thread_ranks<blink::slot_transport>;
  std::mt19937_64 random(2);
  for (int round = 0; round < 200; ++round) {
    blink::communicator_options options;
    options.window = 1 + static_cast<std::uint32_t>(random() % 5);
    options.slot_bytes = 128 * (1 + random() % 40);
    ranks_type threads(2, options);
    threads.run([&](auto& comm) {
      if (comm.rank() != 0) return;
      auto& prepared = comm.prepare(blink::star_schedule(2));
      auto const transport =
          blink::slot_transport(blink::transport_parts{nullptr, &prepared, nullptr, 1, 0, nullptr});
      auto const* const begin = transport.outbox(0, 0);
      std::vector<std::pair<std::size_t, std::size_t>> places;  // begin and end, by message
      for (std::uint64_t message = 0; message < 100; ++message) {
        std::size_t const bytes = random() % (options.slot_bytes + 1);
        auto const slot_subdivision = blink::slot_subdivision_of(options.slot_bytes, bytes);
        auto const at =
            static_cast<std::size_t>(transport.outbox(0, message, slot_subdivision) - begin);
        ASSERT_LE(at + bytes, options.window * options.slot_bytes);
        ASSERT_EQ(transport.inbox(0, message, slot_subdivision), begin + at);
        for (std::uint64_t other = message; other-- > 0 && message - other < options.window;) {
          auto const [first, last] = places[other];
          ASSERT_TRUE(at + bytes <= first || last <= at) << message << ' ' << other;
        }
        places.emplace_back(at, at + bytes);
      }
    });
  }
}

}  // namespace
