// SPDX-License-Identifier: Apache-2.0
// Lists of sends and receives on devices: along a schedule, and without one between ranks of any
// processes.

#include <blink/collectives/exchange.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/transports/cuda/p2p/device_exchange.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include "support/device_case.hpp"
#include "support/device_process.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/forked_ranks.hpp"
#include <gtest/gtest.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <utility>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_exchange_test { namespace {

using blink_test::emulated_devices;
using blink_test::error_of;
using blink_test::options_in_vectors;
using all_ranks = blink::basic_device_ranks<emulated_devices, blink::reaching_peer_transport>;
using process_part = blink_test::device_process<
    blink::basic_device_ranks<emulated_devices, blink::slot_peer_transport>>;

TEST(device_exchange, moves_pieces_in_rounds_along_a_schedule) {
  emulated_devices machine({.devices = 2});
  auto options = options_in_vectors({0, 0, 1});
  all_ranks all(machine, options);
  auto const trees = blink::all_to_all_schedule(3);
  std::vector<int> out(30), in(30, -1);
  for (std::size_t k = 0; k < out.size(); ++k) out[k] = static_cast<int>(100 + k);
  std::vector<blink::transfers> list(3);
  list[0].send(1, out.data(), 5);
  list[0].send(1, out.data() + 5, 3);
  list[0].send(2, out.data() + 8, 1);
  list[2].send(0, out.data() + 20, 4);
  list[1].receive(0, in.data() + 10, 5);
  list[1].receive(0, in.data(), 3);
  list[2].receive(0, in.data() + 20, 1);
  list[0].receive(2, in.data() + 4, 4);
  blink::exchange(all, trees, list);
  all.wait();
  std::vector<int> expected(30, -1);
  for (int k = 0; k < 5; ++k) expected[static_cast<std::size_t>(10 + k)] = 100 + k;
  for (int k = 0; k < 3; ++k) expected[static_cast<std::size_t>(k)] = 105 + k;
  expected[20] = 108;
  for (int k = 0; k < 4; ++k) expected[static_cast<std::size_t>(4 + k)] = 120 + k;
  EXPECT_EQ(in, expected);
  list[1].clear();
  list[1].receive(0, in.data() + 10, 5);
  list[1].receive(0, in.data(), 2);
  EXPECT_ERROR(blink::exchange(all, trees, list),
               "rank 0 sends rank 1 12 bytes as piece 1, which expects 8");
  list[1].receive(0, in.data() + 15, 2);
  EXPECT_ERROR(blink::exchange(all, trees, list), "rank 0 sends rank 1 2 pieces, which expects 3");
  list[1].receive(1, in.data() + 20, 1);
  EXPECT_ERROR(blink::exchange(all, trees, list), "overlaps another piece");
}

/// Pieces between random ranks, of which those with `is_here(rank)` are listed. They are filled
/// from the seed, so that all processes know the expected data.
class random_lists {
 public:
  template <class IsHere>
  random_lists(std::mt19937_64& random, int ranks, IsHere const& is_here) {
    for (int rank = 0; rank < ranks; ++rank) {
      if (is_here(rank)) ++here_;
      if (here_ == 0) ++first_;
    }
    list.resize(static_cast<std::size_t>(here_));
    std::size_t const many = random() % 25;
    got_.reserve(many);
    sent_.reserve(many);
    for (std::size_t k = 0; k < many; ++k) {
      int const from = static_cast<int>(random() % static_cast<unsigned>(ranks));
      int const to = static_cast<int>(random() % static_cast<unsigned>(ranks));
      std::size_t const bytes = random() % (k % 5 == 0 ? 20000 : 300);
      auto const fill = static_cast<unsigned>(random());
      std::vector<std::byte> data(bytes);
      for (std::size_t at = 0; at < bytes; ++at) data[at] = std::byte((fill + at * 31) & 0xff);
      if (is_here(from)) {
        auto const& kept = sent_.emplace_back(data);
        list[static_cast<std::size_t>(from - first_)].send(to, kept.data(), bytes);
      }
      if (is_here(to)) {
        expected_.push_back(data);
        auto& place = got_.emplace_back(bytes, std::byte{0xee});
        list[static_cast<std::size_t>(to - first_)].receive(from, place.data(), bytes);
      }
    }
  }
  [[nodiscard]] bool has_arrived_at() const { return got_ == expected_; }

  std::vector<blink::transfers> list;

 private:
  int here_ = 0, first_ = 0;
  std::vector<std::vector<std::byte>> sent_, got_, expected_;
};

TEST(device_exchange, random_lists_of_one_process_come_as_they_were) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    std::vector<int> devices(1 + random() % 5);
    for (int& device : devices) device = static_cast<int>(random() % 3);
    emulated_devices machine({.devices = 3});
    all_ranks all(machine, options_in_vectors(devices));
    int const ranks = all.rank_count();
    auto const trees = blink::all_to_all_schedule(ranks);
    for (int round = 0; round < 3; ++round) {
      random_lists now(random, ranks, [](int) { return true; });
      if (round == 1) {
        blink::exchange(all, trees, now.list);
      } else {
        blink::exchange(all, now.list);
      }
      all.wait();
      EXPECT_TRUE(now.has_arrived_at()) << round;
    }
  }
}

// Earlier work in a stream comes before the send, and later work finds the received data.
TEST(device_exchange, keeps_its_place_in_streams) {
  emulated_devices machine({.devices = 3});
  all_ranks all(machine, options_in_vectors({0, 1, 2}));
  std::vector<int> data{1, 2, 3}, next(3), last(3);
  for (int round = 0; round < 50; ++round) {
    std::vector<blink::transfers> list(3), behind(3);
    for (int rank = 0; rank < 3; ++rank) {
      int const to = (rank + 1) % 3;
      auto const own = static_cast<std::size_t>(rank), there = static_cast<std::size_t>(to);
      list[own].send(to, &data[own], 1);
      list[there].receive(rank, &next[there], 1);
      behind[own].send(to, &next[own], 1);
      behind[there].receive(rank, &last[there], 1);
    }
    blink::exchange(all, list);
    blink::exchange(all, behind);
    all.wait();
    ASSERT_EQ(last, (std::vector<int>{data[1], data[2], data[0]}));
    for (int& one : data) one += 10 + round;
  }
}

TEST(device_exchange, what_ranks_of_one_process_disagree_about_is_named) {
  emulated_devices machine({.devices = 2});
  all_ranks all(machine, options_in_vectors({0, 1}));
  std::vector<int> data(10);
  std::vector<blink::transfers> list(2);
  list[0].send(1, data.data(), 3);
  EXPECT_ERROR(blink::exchange(all, list), "rank 0 sends rank 1 1 pieces, which expects 0");
  list[1].receive(0, data.data() + 5, 2);
  EXPECT_ERROR(blink::exchange(all, list),
               "rank 0 sends rank 1 12 bytes as piece 0, which expects 8");
  list[0].send(2, data.data(), 1);
  EXPECT_ERROR(blink::exchange(all, list), "sends to rank 2 of 2 ranks");
  EXPECT_ERROR(blink::exchange(all, {}), "lists of 0 ranks, expected 2");
}

TEST(device_exchange, random_lists_of_several_processes_come_as_they_were) {
  for (std::uint64_t seed = 0; seed < 5; ++seed) {
    SCOPED_TRACE(seed);
    int const processes = 2 + static_cast<int>(seed % 2);
    blink_test::forked_ranks forked(processes);
    forked.start([&](int process) -> std::string {
      std::mt19937_64 random(seed);
      std::vector<int> process_of, devices;
      for (int owner = 0; owner < processes; ++owner) {
        for (auto many = 1 + random() % 3; many > 0; --many) {
          auto const device = static_cast<int>(random() % 2);
          if (owner == process) devices.push_back(device);
          process_of.push_back(owner);
        }
      }
      auto options = options_in_vectors(devices);
      options.slot_bytes = 1 + random() % 3000;
      options.deadline = std::chrono::seconds(60);
      process_part mine(forked.path(), process, options, {.devices = 2});
      mine.all.prepare_pairs();
      for (int round = 0; round < 4; ++round) {
        random_lists now(random, static_cast<int>(process_of.size()), [&](int rank) {
          return process_of[static_cast<std::size_t>(rank)] == process;
        });
        blink::exchange(mine.all, now.list);
        mine.all.wait();
        if (!now.has_arrived_at()) return "wrong in round " + std::to_string(round);
      }
      return "right";
    });
    for (auto const& end : forked.finish()) EXPECT_EQ(end.text, "right");
  }
}

TEST(device_exchange, what_processes_need_first_and_disagree_about_is_reported) {
  auto options = options_in_vectors({0, 0});
  options.deadline = std::chrono::seconds(60);
  auto const texts = blink_test::run_device_processes<process_part>(
      2, options, [](process_part& mine, int process) {
        std::vector<std::byte> data(5000);
        std::vector<blink::transfers> list(2);
        if (process == 0) list[1].send(2, data.data(), 4000);
        if (process == 1) list[0].receive(1, data.data(), 5000);
        std::string text = error_of([&] { blink::exchange(mine.all, list); });
        text +=
            "|" + error_of([&] { blink::exchange(mine.all, blink::all_to_all_schedule(4), list); });
        mine.all.prepare_pairs();
        blink::exchange(mine.all, list);
        return text + "|" + error_of([&] {
                 for (;;) mine.all.check();
               });
      });
  for (auto const& text : texts) {
    EXPECT_SAYS(text, "expected an earlier call of prepare_pairs");
    EXPECT_SAYS(text, "|exchange: ranks of several processes, expected one process");
    EXPECT_SAYS(
        text,
        "ranks disagree: rank 1 (process 0, device 0) sends 4000 bytes to rank 2 (process 1, "
        "device 0), which expects 5000");
  }
}

}}  // namespace device_exchange_test
