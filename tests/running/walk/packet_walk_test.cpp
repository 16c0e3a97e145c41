// SPDX-License-Identifier: Apache-2.0
// The steps of one thread of a walk with packets while its peers are absent.

#include <blink/reducers/arithmetic.hpp>
#include <blink/reducers/order.hpp>
#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/running/walk/packet.hpp>
#include <blink/running/walk/packet_walk.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/emulated_blocks.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>

// A folder may be compiled as one source.
namespace packet_walk_test { namespace {

constexpr std::size_t count = 5;

/// The task of rank 1 of a chain from rank 0, in a broadcast of some words.
struct receiver {
  explicit receiver(int ranks)
      : prepared(blink::chain_schedule(ranks, 0), layout(), {}),
        here(*prepared.tables().tasks(1, blink::collective::broadcast).first) {
    prepared.set_call(here, blink::collective::broadcast, {0, 0, count}, {4, 4},
                      blink::order_of<blink::sum>, &blink::cut_by<blink::scheduled_chunks>);
    transport.connections = prepared.tables().connections();
    transport.abort = &abort;
    transport.bytes_of_slot = prepared.tables().layout().slot_bytes;
    transport.own_rank = 1;
    transport.ranks = ranks;
    blink::open_task(blink::lone_thread{}, transport, here, 4);
  }
  static blink::connection_layout layout() {
    blink::connection_layout result;
    result.has_packets = true;
    result.slot_bytes = 128;
    result.memory = blink_test::zeroed_memory();
    return result;
  }
  [[nodiscard]] blink::packet* arriving() const {
    return reinterpret_cast<blink::packet*>(transport.outbox(here.in[0].connection, 0));
  }

  blink::prepared_schedule prepared;
  blink::counter abort = 0;
  blink::tree_task& here;
  blink::slot_peer_transport transport{};
  std::array<std::uint32_t, count> output{};
};

/// Sends the next word after three rounds without progress.
struct late_sender {
  blink::packet* words;
  std::size_t sent = 0;
  int idle = 0;

  blink::status on_progress() {
    idle = 0;
    return blink::status::ok;
  }
  blink::status on_idle() {
    if (++idle < 3) return blink::status::ok;
    if (idle > 3) return blink::status::timed_out;  // the word before did not count as progress
    blink::detail::store_packet(words[sent], static_cast<std::uint32_t>(100 + sent), 1);
    ++sent;
    return blink::status::ok;
  }
  std::uint64_t now() { return 0; }
};
static_assert(blink::wait_policy<late_sender>);

TEST(packet_walk, every_word_that_comes_is_progress) {
  receiver rank(2);
  late_sender wait{rank.arriving()};
  blink::call_buffers<std::uint32_t> const buffers{nullptr, rank.output.data()};
  EXPECT_EQ(
      walk_packets(blink::lone_thread{}, rank.transport, rank.here, buffers, blink::sum{}, wait),
      blink::status::ok);
  EXPECT_EQ(wait.sent, count);
  for (std::size_t k = 0; k < count; ++k) EXPECT_EQ(rank.output[k], 100 + k);
  EXPECT_EQ(rank.here.blocked_on, nullptr);
}

/// Gives up at once.
struct no_time {
  blink::status on_progress() { return blink::status::ok; }
  blink::status on_idle() { return blink::status::timed_out; }
  std::uint64_t now() { return 0; }
};

// Missing data is not forwarded, and the connection where it is missing is reported.
TEST(packet_walk, who_gives_up_sends_nothing) {
  receiver rank(3);
  blink::detail::store_packet(rank.arriving()[0], 7, 1);
  blink::detail::store_packet(rank.arriving()[1], 8, 1);
  no_time wait;
  blink::call_buffers<std::uint32_t> const buffers{nullptr, rank.output.data()};
  EXPECT_EQ(
      walk_packets(blink::lone_thread{}, rank.transport, rank.here, buffers, blink::sum{}, wait),
      blink::status::timed_out);
  EXPECT_EQ(rank.here.blocked_on, &rank.here.in[0]);
  ASSERT_EQ(rank.here.out_count, 1U);
  auto const* const words =
      reinterpret_cast<blink::packet const*>(rank.transport.outbox(rank.here.out[0].connection, 0));
  EXPECT_EQ(words[0], (std::uint64_t{1} << 32) + 7);
  EXPECT_EQ(words[1], (std::uint64_t{1} << 32) + 8);
  for (std::size_t k = 2; k < count; ++k) EXPECT_EQ(words[k], 0U);
}

}}  // namespace packet_walk_test
