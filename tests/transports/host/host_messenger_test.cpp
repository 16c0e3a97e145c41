// SPDX-License-Identifier: Apache-2.0
// Messengers of ranks that share memory, all in one thread: nothing here waits for a peer.

#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/host/detail/message_pool.hpp>
#include <blink/transports/host/host_messenger.hpp>
#include <blink/transports/host/shared_state.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <new>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace host_messenger_test { namespace {

using namespace std::chrono_literals;

/// Memory that counts its bytes, and refuses more than `most`.
class counted_memory final : public blink::detail::message_memory {
 public:
  [[nodiscard]] std::byte* row(int receiver, std::size_t bytes) override {
    auto const rank = static_cast<std::size_t>(receiver);
    if (rows.size() <= rank) rows.resize(rank + 1);
    if (rows[rank].data() == nullptr) {
      rows[rank] = blink::memory_block(blink::memory_source{}, bytes);
      std::memset(rows[rank].data(), 0, bytes);
      used += bytes;
    }
    return rows[rank].data();
  }
  [[nodiscard]] blink::memory_source of_messages() override {
    return {this,
            [](void* own, std::size_t bytes) {
              auto& all = *static_cast<counted_memory*>(own);
              if (all.used + bytes > all.most) throw std::bad_alloc();
              all.used += bytes;
              return blink::memory_source{}.allocate(nullptr, bytes);
            },
            [](void* own, void* memory, std::size_t bytes) noexcept {
              static_cast<counted_memory*>(own)->used -= bytes;
              blink::memory_source{}.release(nullptr, memory, bytes);
            }};
  }

  std::vector<blink::memory_block> rows;
  std::size_t used = 0;
  std::size_t most = SIZE_MAX;
};

/// One rank's communicator, as far as sends and receives need it.
class lone_rank {
 public:
  lone_rank(int its_rank, blink::shared_state& state, blink::communicator_options const& options,
            counted_memory& memory)
      : rank_(its_rank), ranks_(state.rank_count()), own_(state, options, its_rank, memory) {}

  [[nodiscard]] int rank() const { return rank_; }
  [[nodiscard]] int rank_count() const { return ranks_; }
  [[nodiscard]] blink::messenger& messages() { return own_; }

 private:
  int rank_, ranks_;
  blink::host_messenger own_;
};
static_assert(blink::messaging_communicator<lone_rank>);

struct all_ranks {
  explicit all_ranks(int count, blink::communicator_options const& its_options = {})
      : state(count), options(its_options) {
    for (int rank = 0; rank < count; ++rank) {
      ranks.push_back(std::make_unique<lone_rank>(rank, state, options, memory));
    }
  }
  [[nodiscard]] lone_rank& operator[](int rank) { return *ranks[static_cast<std::size_t>(rank)]; }

  blink::shared_state state;
  blink::communicator_options options;
  counted_memory memory;
  std::vector<std::unique_ptr<lone_rank>> ranks;
};

TEST(host_messenger, memory_of_pairs_is_made_when_they_are_used) {
  constexpr int count = 512;
  all_ranks all(count);
  std::size_t const at_first = all.memory.used;
  EXPECT_LE(at_first, count * (count * 8 + 512));  // a word for each pair, and one row a rank
  for (int step : {1, 2, 30}) {
    for (int rank = 0; rank < count; ++rank) {
      int const value = rank * step;
      blink::send(all[rank], (rank + step) % count, &value, 1, step);
    }
  }
  for (int rank = 0; rank < count; ++rank) {
    for (int step : {30, 1, 2}) {
      int value = -1;
      auto const got = blink::receive(all[rank], blink::any_source, &value, 1, step);
      EXPECT_EQ(got.source, (rank + count - step) % count);
      EXPECT_EQ(value, got.source * step);
    }
  }
  EXPECT_LE(all.memory.used - at_first, count * 8 * blink::detail::message_pool::piece_bytes);
}

// A line of a stream is used again for records. What it held before may look like the stamp of the
// record that comes there.
TEST(host_messenger, contents_that_look_like_records_are_not_taken_for_them) {
  using blink::detail::message_pool;
  using blink::detail::message_record;
  constexpr std::size_t usable_lines = message_pool::piece_bytes / sizeof(message_record) - 2;
  std::mt19937_64 random(3);
  for (int round = 0; round < 20; ++round) {
    blink::communicator_options options;
    options.kept_message_bytes = 0;  // few blocks, used again soon
    all_ranks all(2, options);
    std::vector<std::uint64_t> data(6000), got(data.size());
    std::uint64_t records = 0;
    std::size_t line = 0;
    for (int number = 0; number < 3000; ++number) {
      auto const kind = random() % 9;
      std::size_t const words = kind == 0 ? random() % 6000 : kind < 4 ? 256 : random() % 20;
      bool const is_whole = words <= 256;
      std::size_t const lines = is_whole ? message_record::lines(words * 8)
                                         : (words * 8 - 1) / message_pool::piece_bytes + 1;
      if (line + lines > usable_lines) {
        ++records;
        line = 0;
      }
      records += is_whole ? 1 : lines;
      line += lines;
      for (std::size_t k = 0; k < words; ++k) data[k] = records + random() % 50;
      auto early = blink::start_receive(all[1], 0, got.data(), got.size());
      ASSERT_FALSE(early.test()) << number;
      blink::send(all[0], 1, data.data(), words);
      ASSERT_TRUE(early.test()) << number;
      ASSERT_EQ(early.wait().bytes, words * 8) << number;
      ASSERT_EQ(std::memcmp(data.data(), got.data(), words * 8), 0) << number;
    }
    EXPECT_LT(all.memory.used, std::size_t{1} << 19);
  }
}

// A block of records is full when the receiver has consumed all of them, but not yet gone on to the
// next block.
TEST(host_messenger, a_block_is_not_used_again_before_its_receiver_has_left_it) {
  for (int before = 0; before < 40; ++before) {
    all_ranks all(2);
    std::vector<int> data(512), got(data.size());
    auto const send = [&](int number) {
      std::fill(data.begin(), data.end(), number);
      blink::send(all[0], 1, data.data(), data.size());
    };
    auto const receive = [&](int number) {
      blink::receive(all[1], 0, got.data(), got.size());
      ASSERT_EQ(got, std::vector<int>(512, number)) << before;
    };
    for (int number = 0; number < before; ++number) {
      send(number);
      receive(number);
    }
    for (int number = 0; number < 300; ++number) send(number);
    for (int number = 0; number < 300; ++number) receive(number);
  }
}

// The sender takes a new block for the next piece of a message, and lacks memory for the piece.
TEST(host_messenger, a_new_block_is_not_read_before_it_has_a_record) {
  blink::communicator_options options;
  options.kept_message_bytes = 0;
  // Blocks end at records 255, 510 and so on. Of the 25 pieces of a message, 16 are under way at
  // once, so some number of records before the first message brings both together.
  for (std::uint64_t before = 0; before < 25; ++before) {
    for (std::uint64_t const stamp : {256U, 511U, 766U}) {
      all_ranks all(2, options);
      std::vector<std::uint64_t> const data(50'000, stamp);
      std::vector<std::uint64_t> got(data.size());
      for (std::uint64_t k = 0; k < before; ++k) {
        blink::send(all[0], 1, data.data(), 1);
        blink::receive(all[1], 0, got.data(), 1);
      }
      for (int k = 0; k < 33; ++k) {
        got.assign(data.size(), 0);
        auto sent = blink::start_send(all[0], 1, data.data(), data.size());
        auto incoming = blink::start_receive(all[1], 0, got.data(), got.size());
        while (!incoming.test()) static_cast<void>(sent.test());
        ASSERT_EQ(got, data);
      }
    }
  }
}

TEST(host_messenger, messages_in_any_number_wait_for_their_receives) {
  std::mt19937_64 random(4);
  all_ranks all(2);
  for (int round = 0; round < 20; ++round) {
    std::vector<std::vector<int>> sent;
    auto const count = 1 + random() % 700;
    for (std::size_t k = 0; k < count; ++k) {
      auto& data = sent.emplace_back(random() % 10 == 0 ? random() % 30'000 : random() % 700);
      std::iota(data.begin(), data.end(), static_cast<int>(k));
      blink::send(all[0], 1, data.data(), data.size(), static_cast<int>(k % 3));
    }
    for (int const tag : {2, 0, 1}) {
      for (std::size_t k = static_cast<std::size_t>(tag); k < count; k += 3) {
        std::vector<int> got(30'000);
        auto const bytes = blink::receive(all[1], 0, got.data(), got.size(), tag).bytes;
        got.resize(bytes / sizeof(int));
        ASSERT_EQ(got, sent[k]) << k;
      }
    }
  }
  EXPECT_LT(all.memory.used, std::size_t{64} << 20);
}

TEST(host_messenger, memory_that_the_system_refuses_delays_a_send_until_some_comes_back) {
  all_ranks all(3);
  std::vector<int> const data(300'000, 6);
  std::vector<int> got(data.size());
  int const small = 1;
  blink::send(all[0], 1, &small, 1);  // the pair has memory
  all.memory.most = all.memory.used;
  auto started = blink::start_send(all[0], 1, data.data(), data.size(), 1);
  auto behind = blink::start_send(all[0], 1, &small, 1, 2);
  EXPECT_FALSE(started.test());
  EXPECT_FALSE(behind.test());
  EXPECT_ERROR(blink::send(all[2], 1, &small, 1), "no memory for messages to another rank: ");
  EXPECT_ERROR(started.wait(1ms), "takes no more than ");
  EXPECT_TRUE(started.test());  // has ended with the error
  EXPECT_TRUE(behind.test());
  auto incoming = blink::start_receive(all[1], 0, got.data(), got.size(), 1);
  EXPECT_ERROR(
      while (!incoming.test()) { static_cast<void>(behind.test()); }, "gave the message up after ");
  started = blink::start_send(all[0], 1, data.data(), data.size(), 1);
  incoming = blink::start_receive(all[1], 0, got.data(), got.size(), 1);
  while (!incoming.test()) static_cast<void>(started.test());
  EXPECT_EQ(got, data);
  behind.wait();
  EXPECT_EQ(blink::receive(all[1], 0, got.data(), 1, 2).bytes, 4U);
  EXPECT_EQ(blink::receive(all[1], 0, got.data(), 1, 0).bytes, 4U);
}

TEST(host_messenger, a_receive_takes_over_a_message_of_which_a_part_was_kept) {
  blink::communicator_options options;
  options.kept_message_bytes = 0;
  all_ranks all(2, options);
  std::vector<int> data(300'000);
  std::iota(data.begin(), data.end(), 0);
  std::vector<int> got(data.size());
  for (bool const withdraws : {false, true}) {
    auto large = blink::start_send(all[0], 1, data.data(), data.size(), 1);
    auto small = blink::start_send(all[0], 1, data.data(), 1, 2);
    EXPECT_FALSE(large.test());
    auto other = blink::start_receive(all[1], 0, got.data(), 1, 2);
    EXPECT_FALSE(other.test());  // a part of the large message is kept
    EXPECT_FALSE(large.test());
    if (withdraws) {
      large = {};
      other.wait();
      auto late = blink::start_receive(all[1], 0, got.data(), got.size(), 1);
      EXPECT_FALSE(late.test());  // the message is gone
    } else {
      auto taken = blink::start_receive(all[1], 0, got.data(), got.size(), 1);
      while (!taken.test()) static_cast<void>(large.test());
      EXPECT_EQ(got, data);
      small.wait();
      other.wait();
    }
  }
}

}}  // namespace host_messenger_test
