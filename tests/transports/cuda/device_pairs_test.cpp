// SPDX-License-Identifier: Apache-2.0
// Sends and receives between devices of several processes: the places of their connections, random
// pieces with windows and slots of all sizes, refusals, and recovery after sizes that differ.

#include <blink/transports/cuda/p2p/device_pairs.hpp>
#include <blink/transports/cuda/p2p/pair_layout.hpp>
#include <blink/transports/cuda/p2p/piece_call.hpp>
#include <blink/transports/cuda/ranks/device_ranks.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>
#include <blink/transports/host/communicator_bootstrap.hpp>
#include <blink/transports/host/processes.hpp>

#include "support/device_process.hpp"
#include "support/emulated_devices.hpp"
#include "support/expect_error.hpp"
#include "support/forked_ranks.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// The sources of a folder may be compiled as one.
namespace device_pairs_test { namespace {

using blink_test::emulated_devices;
using blink_test::error_of;
using blink_test::forked_ranks;
using all_ranks = blink::basic_device_ranks<emulated_devices, blink::slot_peer_transport>;

// --- places of connections ---

/// Devices of ranks by process, at least 1 process with 1 rank.
std::vector<std::vector<int>> random_places(std::mt19937_64& random) {
  std::vector<std::vector<int>> result(1 + random() % 4);
  for (auto& ranks : result) {
    ranks.resize(1 + random() % 4);
    for (int& device : ranks) device = static_cast<int>(random() % 3);
  }
  return result;
}

TEST(pair_layout, connections_do_not_overlap_and_both_ends_find_them) {
  for (std::uint64_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    blink::rank_placement const where(random_places(random), 0);
    blink::pair_options const wanted{.ways = 1 + static_cast<std::uint32_t>(random() % 3),
                                     .most_bytes = random() % 2 == 0 ? 20000U : 1U << 26};
    auto const window = 1 + static_cast<std::uint32_t>(random() % 4);
    blink::pair_layout const layout(where, wanted, window, 1 + random() % 5000);
    EXPECT_EQ(layout.slot_bytes() % 128, 0U);
    std::map<std::size_t, std::vector<std::pair<std::size_t, std::size_t>>> consumed;  // by place
    std::size_t connections = 0;
    for (int sender = 0; sender < static_cast<int>(where.place_of.size()); ++sender) {
      for (int receiver = 0; receiver < static_cast<int>(where.place_of.size()); ++receiver) {
        auto const from =
            static_cast<std::size_t>(where.place_of[static_cast<std::size_t>(sender)]);
        auto const to =
            static_cast<std::size_t>(where.place_of[static_cast<std::size_t>(receiver)]);
        if (where.places[from].process == where.places[to].process) continue;
        for (std::uint32_t way = 0; way < wanted.ways; ++way) {
          auto const& a = layout.ends_of(from)[layout.first_end(sender, receiver, true) + way];
          auto const& b = layout.ends_of(to)[layout.first_end(sender, receiver, false) + way];
          EXPECT_TRUE(a.sends && !b.sends);
          EXPECT_EQ(std::pair(a.sender, a.receiver), std::pair(sender, receiver));
          EXPECT_EQ(std::pair(b.sender, b.receiver), std::pair(sender, receiver));
          EXPECT_EQ(std::pair(a.head, a.slots), std::pair(b.head, b.slots));
          EXPECT_EQ(a.is_first, way == 0);
          EXPECT_LT(a.head, layout.head_bytes_at(to));
          consumed[to].emplace_back(a.head, a.head + sizeof(blink::pair_head));
          consumed[to].emplace_back(a.slots, a.slots + window * layout.stride());
          connections += 2;
        }
      }
    }
    std::size_t ends = 0;
    for (std::size_t place = 0; place < where.places.size(); ++place) {
      ends += layout.ends_of(place).size();
      auto& all = consumed[place];
      std::sort(all.begin(), all.end());
      std::size_t end = 0;
      for (auto const& [first, last] : all) {
        EXPECT_EQ(first, end);  // and there is no gap
        EXPECT_EQ(first % 128, 0U);
        end = last;
      }
      EXPECT_EQ(end, layout.bytes_at(place));
    }
    EXPECT_EQ(ends, connections);
  }
}

TEST(pair_layout, parts_of_a_piece_are_no_more_than_ways_and_none_is_empty) {
  blink::rank_placement const where({{0}, {0}}, 0);
  for (std::uint32_t const ways : {1U, 2U, 7U, 64U}) {
    blink::pair_layout const layout(where, {.ways = ways}, 4, 1 << 18);
    for (std::size_t const bytes :
         {std::size_t{1}, std::size_t{65535}, std::size_t{65536}, std::size_t{131072},
          std::size_t{7 * 65536 + 1}, std::size_t{64 * 65536}, (std::size_t{1} << 32) + 5}) {
      std::size_t const part = layout.part_bytes(bytes);
      EXPECT_LE((bytes + part - 1) / part, ways) << bytes;
    }
  }
  EXPECT_ERROR(blink::pair_layout(where, {.ways = 0}, 4, 1), "ways out of range, expected 1 to 64");
}

TEST(pair_layout, messages_fill_no_more_than_a_slot) {
  for (std::uint64_t bytes = 0; bytes < 200000; bytes += 77) {
    for (std::uint64_t const slot : {128U, 16384U, 20096U, 262144U}) {
      auto const message = blink::message_bytes(bytes, slot);
      EXPECT_TRUE(message > 0 && message <= slot) << bytes;
      EXPECT_TRUE(message == slot || message % 128 == 0);
    }
  }
}

// --- pieces ---

struct part : blink_test::device_process<all_ranks> {
  part(std::string const& path, int process, blink::device_options const& options,
       emulated_devices::options const& what = {.devices = 3})
      : device_process(path, process, options, what) {
    for (std::size_t k = 0; k < all.devices().size(); ++k) on.push_back(machine.make_stream());
  }
  /// Waits until this process knows that a call has failed; returns the error.
  std::string failure() {
    while (!all.has_failed()) std::this_thread::sleep_for(std::chrono::milliseconds(1));
    return error_of([&] { all.check(); });
  }

  all_ranks::streams on;
};

blink::device_options options_of(std::vector<int> devices) {
  blink::device_options options;
  options.devices = std::move(devices);
  options.deadline = std::chrono::seconds(60);
  return options;
}

/// Pieces between any ranks of different processes, drawn from the seed by every process.
std::string random_pieces(std::string const& path, int process, int processes, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<std::vector<int>> devices(static_cast<std::size_t>(processes));
  std::vector<int> process_of;
  for (int owner = 0; owner < processes; ++owner) {
    auto& own = devices[static_cast<std::size_t>(owner)];
    own.resize(1 + random() % 3);
    for (int& device : own) device = static_cast<int>(random() % 2);
    process_of.insert(process_of.end(), own.size(), owner);
  }
  auto options = options_of(devices[static_cast<std::size_t>(process)]);
  options.window = 1 + static_cast<std::uint32_t>(random() % 4);
  options.slot_bytes = 1 + random() % 3000;
  part mine(path, process, options,
            {.devices = 2,
             .room = 128U * (1U + static_cast<std::uint32_t>(random() % 6)),
             .threads_each = seed % 3 == 0 ? 3U : 1U});
  mine.all.prepare_pairs({.ways = 1 + static_cast<std::uint32_t>(random() % 3)});
  for (std::size_t round = 0; round < 4; ++round) {
    std::vector<blink::device_piece> pieces;
    std::vector<std::vector<std::byte>> sent, expected, got;  // one for each piece here
    std::size_t const many = random() % (round == 3 ? 150 : 10);
    for (std::size_t k = 0; k < many; ++k) {
      auto const from = random() % process_of.size(), to = random() % process_of.size();
      std::size_t const bytes = random() % (k % 7 == 0 ? 30000 : 500);
      auto const fill = static_cast<unsigned>(random());
      if (process_of[from] == process_of[to]) continue;
      std::vector<std::byte> data(bytes);
      for (std::size_t at = 0; at < bytes; ++at) data[at] = std::byte((fill + at * 31) & 0xff);
      for (bool const sends : {true, false}) {
        if (process_of[sends ? from : to] != process) continue;
        auto const own = static_cast<int>(sends ? from : to),
                   peer = static_cast<int>(sends ? to : from);
        auto& buffer = (sends ? sent : got).emplace_back(data);
        if (!sends) {
          expected.push_back(data);
          std::fill(buffer.begin(), buffer.end(), std::byte{0xee});
        }
        pieces.push_back({own, peer, sends, buffer.data(), bytes});
      }
    }
    mine.all.send_and_receive(pieces, mine.on);
    mine.all.wait(mine.on);
    if (got != expected) return "wrong in round " + std::to_string(round);
  }
  return "right";
}
TEST(device_pairs, random_pieces_come_as_they_were) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    int const processes = 2 + static_cast<int>(seed % 2);
    forked_ranks all(processes);
    all.start([&](int process) { return random_pieces(all.path(), process, processes, seed); });
    for (auto const& end : all.finish()) EXPECT_EQ(end.text, "right");
  }
}

template <class Body>
std::vector<std::string> run(blink::device_options const& options, Body const& body) {
  return blink_test::run_device_processes<part>(2, options, body);
}

TEST(device_pairs, all_begin_anew_after_sizes_that_differ) {
  auto const texts = run(options_of({0, 0}), [](part& mine, int process) {
    mine.all.prepare_pairs({.ways = 2});
    std::vector<std::byte> data(200000, std::byte(process + 1));
    int const own = process == 0 ? 1 : 2, peer = 3 - own;
    auto const move = [&](std::size_t bytes) {
      mine.all.send_and_receive({{own, peer, process == 0, data.data(), bytes}}, mine.on);
    };
    move(process == 0 ? 200000 : 199999);
    std::string text = mine.failure();
    if (error_of([&] { move(1); }) != text) text += "; it goes on";
    mine.all.recover();
    move(150000);
    mine.all.wait(mine.on);
    return text + "; then " + std::to_string(static_cast<int>(data[149999]));
  });
  for (auto const& text : texts) {
    EXPECT_EQ(text,
              "ranks disagree: rank 1 (process 0, device 0) sends 200000 bytes to rank 2 (process "
              "1, device 0), which expects 199999; then 1");
  }
}

TEST(device_pairs, what_is_wrong_is_refused_before_anything_runs) {
  auto const texts = run(options_of({0, 0}), [](part& mine, int process) {
    auto const send = [&](int rank, int peer) {
      return error_of(
          [&] { mine.all.send_and_receive({{rank, peer, true, nullptr, 0}}, mine.on); });
    };
    int const own = 2 * process;
    std::string text = send(own, 2 - own);
    mine.all.prepare_pairs();
    text += "|" + send(own, own + 1) + "|" + send(own, 4);
    text += "|" + error_of([&] { mine.all.prepare_pairs(); });
    return text;
  });
  for (std::size_t process = 0; process < 2; ++process) {
    EXPECT_SAYS(texts[process], "expected an earlier call of prepare_pairs");
    auto const own = std::to_string(2 * process);
    EXPECT_SAYS(texts[process], "|send of rank " + own + ": rank " +
                                    std::to_string(2 * process + 1) + " is not of another process");
    EXPECT_SAYS(texts[process], "|send of rank " + own + ": rank 4 is not of another process");
    EXPECT_SAYS(texts[process], "prepare_pairs: called again");
  }
}

TEST(device_pairs, options_that_differ_and_memory_that_is_too_little_are_refused_to_all) {
  auto options = options_of({0, 0});
  auto const differ = run(options, [](part& mine, int process) {
    return error_of([&] { mine.all.prepare_pairs({.ways = 1U + static_cast<unsigned>(process)}); });
  });
  for (auto const& text : differ) EXPECT_SAYS(text, "pair_options differ between processes");
  options.memory_cap = 1 << 20;
  auto const little =
      run(options, [](part& mine, int) { return error_of([&] { mine.all.prepare_pairs(); }); });
  for (auto const& text : little) EXPECT_SAYS(text, "sends and receives needs ");
  auto const smaller = run(options, [](part& mine, int) {
    return error_of([&] { mine.all.prepare_pairs({.most_bytes = 1 << 19}); });
  });
  for (auto const& text : smaller) EXPECT_EQ(text, "no error");
}

}}  // namespace device_pairs_test
