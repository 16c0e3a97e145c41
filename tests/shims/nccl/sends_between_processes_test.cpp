// SPDX-License-Identifier: Apache-2.0
// Sends and receives between ranks of several processes: pairs, rings, all to all, random groups
// beside collectives, from nothing to more than all slots. They are also captured. Sizes differ, or
// peers die, leave, abort or never call.

#include "forked_program.hpp"
#include "support/expect_error.hpp"

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <vector>

// The sources of a folder may be compiled as one.
namespace sends_between_processes_test { namespace {

using namespace blink_test;

/// A piece of a program that all processes know.
struct piece {
  std::size_t from = 0, to = 0, count = 0;
};
unsigned char byte_of(std::size_t round, std::size_t number, std::size_t at) {
  std::size_t const mixed = (round * 977 + number * 131 + at) * std::size_t{0x9e3779b97f4a7c15u};
  return static_cast<unsigned char>(mixed >> 56);
}

/// The buffers of this process for pieces, in the order of the list.
struct pieces_here {
  std::vector<piece> list;
  own_ranks const& ranks;
  std::size_t round;
  std::vector<std::unique_ptr<elements<unsigned char>>> in, out;

  pieces_here(std::vector<piece> all, own_ranks const& own, std::size_t number)
      : list(std::move(all)), ranks(own), round(number), in(list.size()), out(list.size()) {
    for (std::size_t k = 0; k < list.size(); ++k) {
      auto const& one = list[k];
      if (is_here(one.from)) in[k] = make(one.from, one.count);
      if (is_here(one.to)) out[k] = make(one.to, one.count);
      for (std::size_t at = 0; in[k] && at < one.count; ++at) (*in[k])[at] = byte_of(round, k, at);
    }
  }
  [[nodiscard]] bool is_here(std::size_t rank) const {
    return rank >= ranks.first && rank < ranks.first + ranks.size();
  }
  [[nodiscard]] std::unique_ptr<elements<unsigned char>> make(std::size_t rank,
                                                              std::size_t count) const {
    return std::make_unique<elements<unsigned char>>(ranks.device[rank - ranks.first], count,
                                                     static_cast<unsigned char>(0xee));
  }
  /// Makes the calls of one rank for the pieces from `first` to `end` of the list.
  void call(std::size_t rank, communicator* comm, std::size_t first, std::size_t end) const {
    for (std::size_t k = first; k < end; ++k) {
      auto const& one = list[k];
      auto const stream = program::stream(rank);
      if (one.to == rank) {
        (void)ncclRecv(out[k]->data(), one.count, data_type::uint8, static_cast<int>(one.from),
                       comm, stream);
      }
      if (one.from == rank) {
        (void)ncclSend(in[k]->data(), one.count, data_type::uint8, static_cast<int>(one.to), comm,
                       stream);
      }
    }
  }
  /// Makes all calls in one group.
  [[nodiscard]] result in_one_group() const {
    return ranks.in_group([&](std::size_t rank, communicator* comm) {
      call(rank, comm, 0, list.size());
      return result::success;
    });
  }
  /// Waits for the pieces and compares them. Returns the first error; empty if all are as sent.
  [[nodiscard]] std::string wrong() const {
    ranks.synchronize();
    for (std::size_t k = 0; k < list.size(); ++k) {
      for (std::size_t at = 0; out[k] && at < list[k].count; ++at) {
        if ((*out[k])[at] == byte_of(round, k, at)) continue;
        return "round " + std::to_string(round) + ", piece " + std::to_string(k) + " from " +
               std::to_string(list[k].from) + " to " + std::to_string(list[k].to) + " of " +
               std::to_string(list[k].count) + " bytes: wrong at " + std::to_string(at);
      }
    }
    return "";
  }
};

/// Runs rounds of pieces on ranks of all processes. Returns "right" or the error of each process.
std::vector<std::string> run_rounds(std::vector<int> const& by_process,
                                    std::vector<std::vector<piece>> const& rounds) {
  return run_processes(static_cast<int>(by_process.size()), [&](own_process& mine) -> std::string {
    auto ranks = ranks_of(mine, by_process);
    if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
    for (std::size_t round = 0; round < rounds.size(); ++round) {
      pieces_here const here(rounds[round], ranks, round);
      if (auto const code = here.in_one_group(); code != result::success) return said(code);
      if (auto const text = here.wrong(); !text.empty()) return text;
    }
    auto const code = ranks.destroy();
    return code == result::success ? "right" : said(code);
  });
}
void expect_right(std::vector<int> const& by_process,
                  std::vector<std::vector<piece>> const& rounds) {
  for (auto const& text : run_rounds(by_process, rounds)) EXPECT_EQ(text, "right");
}

TEST(nccl_sends_between_processes, a_pair_in_one_direction_and_in_both) {
  expect_right({1, 1}, {{{0, 1, 12}}, {{1, 0, 5}}, {{0, 1, 100}, {1, 0, 999}}});
}

// A connection has four slots of 256 KiB, and two ranks have two connections for each direction.
TEST(nccl_sends_between_processes, all_sizes_from_nothing_to_more_than_all_slots) {
  std::vector<std::vector<piece>> rounds;
  for (std::size_t const count : std::vector<std::size_t>{
           0, 1, 15, 16, 17, 4095, 16384, 16385, 65535, 65537, 131071, 131072, 262145, 1048577}) {
    rounds.push_back({{0, 1, count}, {1, 0, count + 1}});
  }
  rounds.push_back({{0, 1, (std::size_t{5} << 20) + 13}, {1, 0, (std::size_t{3} << 20) + 1}});
  expect_right({1, 1}, rounds);
}

TEST(nccl_sends_between_processes, pieces_of_a_pair_come_in_their_order) {
  std::vector<piece> many;  // more parts than fit into the argument of a kernel
  for (std::size_t k = 0; k < 260; ++k) {
    many.push_back({k % 3 == 0 ? std::size_t{1} : 0, k % 3 == 0 ? std::size_t{0} : 1, k * 37 % 91});
  }
  many.push_back({0, 1, 300001});
  many.push_back({0, 1, 2});
  std::vector<piece> more = many;
  more.insert(more.end(), many.begin(), many.end());
  expect_right({1, 1}, {many, more, many});
}

TEST(nccl_sends_between_processes, a_ring_of_processes) {
  std::vector<piece> ring;
  for (std::size_t rank = 0; rank < 4; ++rank) ring.push_back({rank, (rank + 1) % 4, 70001});
  expect_right({1, 1, 1, 1}, {ring, ring, ring});
}

TEST(nccl_sends_between_processes, all_to_all_in_one_group) {
  std::vector<piece> all;
  for (std::size_t from = 0; from < 6; ++from) {
    for (std::size_t to = 0; to < 6; ++to) all.push_back({from, to, 1000 * from + 10 * to + 1});
  }
  expect_right({2, 3, 1}, {all, all});
}

TEST(nccl_sends_between_processes, few_blocks_take_turns_among_many_connections) {
  std::vector<piece> all;
  for (std::size_t from = 0; from < 8; ++from) {
    for (std::size_t to = 0; to < 8; ++to) all.push_back({from, to, 70000 + 10 * from + to});
  }
  auto const texts = run_processes(2, [&](own_process& mine) -> std::string {
    emulated_platform::begin_in_fork({.devices = 1, .room = 256, .threads_each = 2});
    auto ranks = ranks_of(mine, {4, 4});
    ranks.device.assign(4, 0);
    if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
    pieces_here const here(all, ranks, 1);
    if (auto const code = here.in_one_group(); code != result::success) return said(code);
    auto text = here.wrong();
    (void)ranks.destroy();
    return text;
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

/// Random groups with sums before, in and after them, in the same streams.
std::string random_groups(own_process& mine, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<int> by_process;
  for (int process = 0; process < mine.count(); ++process) {
    by_process.push_back(1 + static_cast<int>(random() % 3));
  }
  auto ranks = ranks_of(mine, by_process);
  if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
  for (std::size_t round = 0; round < 4; ++round) {
    std::vector<piece> list;
    std::size_t const many = random() % 12;
    for (std::size_t k = 0; k < many; ++k) {
      std::size_t const most = random() % 4 == 0 ? 400000 : 700;
      list.push_back({random() % ranks.count, random() % ranks.count, random() % most});
    }
    std::size_t const before = random() % 2, within = random() % 2, behind = random() % 2;
    pieces_here const here(list, ranks, round);
    // Not in place: ThreadSanitizer does not see that data written by other processes comes after
    // the reads.
    std::vector<std::unique_ptr<elements<float>>> parameters, sums;
    for (int const device : ranks.device) {
      parameters.push_back(std::make_unique<elements<float>>(device, 3000, 1.0F));
      sums.push_back(std::make_unique<elements<float>>(device, 3000));
    }
    auto const sum = [&](std::size_t rank, communicator* comm) {
      std::size_t const own = rank - ranks.first;
      return ncclAllReduce(parameters[own]->data(), sums[own]->data(), 3000, data_type::float32,
                           operation::sum, comm, program::stream(rank));
    };
    auto code = result::success;
    if (before != 0) code = ranks.in_group(sum);
    if (code != result::success) return said(code);
    code = ranks.in_group([&](std::size_t rank, communicator* comm) {
      here.call(rank, comm, 0, list.size() / 2);
      if (within != 0) (void)sum(rank, comm);
      here.call(rank, comm, list.size() / 2, list.size());
      return result::success;
    });
    if (code == result::success && behind != 0) code = ranks.in_group(sum);
    if (code != result::success) return said(code);
    if (auto const text = here.wrong(); !text.empty()) return text;
    bool const is_any = before + within + behind > 0;
    float const expected = is_any ? static_cast<float>(ranks.count) : 0.0F;
    for (auto const& each : sums) {
      if ((*each)[2999] != expected) return "a wrong sum";
    }
  }
  auto const code = ranks.destroy();
  return code == result::success ? "right" : said(code);
}
TEST(nccl_sends_between_processes, random_groups_beside_sums) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    auto const texts = run_processes(2 + static_cast<int>(seed % 2),
                                     [&](own_process& mine) { return random_groups(mine, seed); });
    for (auto const& text : texts) EXPECT_EQ(text, "right");
  }
}

// Rank 0 sends to rank 1 of its process and at once receives from rank 2. Rank 2 sends only the
// data that it has got from rank 1, which rank 1 gets from the first piece. So no piece may wait
// for earlier work in the stream.
TEST(nccl_sends_between_processes, pieces_within_a_process_go_on_beside_others) {
  for (bool const receives_first : {true, false}) {
    auto const texts = run_processes(2, [&](own_process& mine) -> std::string {
      auto ranks = ranks_of(mine, {2, 1});
      if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
      auto const move = [&](bool sends, elements<float> const& data, int peer, std::size_t rank) {
        auto* const comm = ranks.comm[rank - ranks.first];
        auto const stream = program::stream(rank);
        return sends ? ncclSend(data.data(), 1, data_type::float32, peer, comm, stream)
                     : ncclRecv(data.data(), 1, data_type::float32, peer, comm, stream);
      };
      elements<float> const a(0, 1, 4.0F), b(mine.number() == 0 ? 1 : 0, 1), c(0, 1);
      if (mine.number() == 1) {
        (void)move(false, b, 1, 2);
        (void)move(true, b, 0, 2);
        ranks.synchronize();
      } else {
        std::jthread const other([&] {
          if (receives_first) devices().wait_for_kernel(0);  // the kernel of rank 0, which waits
          (void)move(false, b, 0, 1);
          (void)move(true, b, 2, 1);
        });
        (void)ncclGroupStart();
        (void)move(true, a, 1, 0);
        (void)move(false, c, 2, 0);
        (void)ncclGroupEnd();
      }
      ranks.synchronize();
      auto const text = std::to_string(static_cast<int>(c[0]));
      (void)ranks.destroy();
      return text;
    });
    EXPECT_EQ(texts[0], "4");
  }
}

TEST(nccl_sends_between_processes, captured_pieces_are_replayed_beside_others) {
  auto const texts = run_processes(2, [](own_process& mine) -> std::string {
    auto ranks = ranks_of(mine, {1, 1});
    if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
    elements<int> const in(0, 100000), out(0, 100000, -1);
    auto const both_ways = [&] {
      int const peer = 1 - mine.number();
      (void)ncclGroupStart();
      (void)ncclSend(in.data(), 100000, data_type::int32, peer, ranks.comm[0], stream_number(1));
      (void)ncclRecv(out.data(), 100000, data_type::int32, peer, ranks.comm[0], stream_number(1));
      return ncclGroupEnd();
    };
    devices().begin_capture({1});
    auto code = both_ways();
    auto const graph = devices().end_capture({1});
    std::string text = said(code);
    for (int round = 0; round < 4; ++round) {
      for (int k = 0; k < 100000; ++k) in[static_cast<std::size_t>(k)] = k + round;
      if (round == 2) {
        code = both_ways();
      } else {
        devices().replay(graph);
      }
      devices().synchronize(0);
      for (int k = 0; k < 100000; ++k) {
        if (out[static_cast<std::size_t>(k)] != k + round) return "wrong";
      }
      mine.match();  // before the sent data is overwritten
    }
    (void)ranks.destroy();
    return text + said(code);
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"0: 0: ", "0: 0: "}));
}

// --- failures ---

/// Makes a rank in each of two processes, runs a successful piece from 1 to 0, and then `body(mine,
/// comm, data)`.
template <class Body>
std::vector<std::string> after_a_piece(Body const& body) {
  auto const piece = [](own_process& mine, communicator* comm, elements<float> const& data) {
    return mine.number() == 0
               ? ncclRecv(data.data(), 16, data_type::float32, 1, comm, stream_number(1))
               : ncclSend(data.data(), 16, data_type::float32, 0, comm, stream_number(1));
  };
  return after_first_call(
      2, piece,
      [&](own_process& mine, communicator* comm, elements<float> const& data) -> std::string {
        mine.match();  // sent data may be overwritten
        return body(mine, comm, data);
      });
}

TEST(nccl_sends_between_processes, sizes_that_differ_are_reported_to_both) {
  for (std::size_t const sent : std::vector<std::size_t>{0, 3, 16}) {
    auto const texts =
        after_a_piece([&](own_process& mine, communicator* comm, elements<float> const& data) {
          auto const code =
              mine.number() == 0
                  ? ncclSend(data.data(), sent, data_type::float32, 1, comm, stream_number(1))
                  : ncclRecv(data.data(), 4, data_type::float32, 0, comm, stream_number(1));
          auto text = ending_of(code, comm);
          mine.match();
          (void)ncclCommAbort(comm);
          return text;
        });
    for (auto const& text : texts) {
      EXPECT_SAYS(text, "5: ");
      EXPECT_SAYS(text, "ranks disagree: rank 0 (process 0, device 0) sends " +
                            std::to_string(4 * sent) +
                            " bytes to rank 1 (process 1, device 0), "
                            "which expects 16");
    }
  }
}

TEST(nccl_sends_between_processes, who_never_calls_is_named_after_the_deadline) {
  setenv("BLINK_DEADLINE", "1.5", 1);
  for (bool const sends : {true, false}) {
    auto const texts = after_a_piece([&](own_process& mine, communicator* comm,
                                         elements<float> const&) {
      std::string text;
      elements<float> const large(0, 4 << 20);  // more than all slots
      if (mine.number() == 0) {
        auto const code =
            sends ? ncclSend(large.data(), 4 << 20, data_type::float32, 1, comm, stream_number(1))
                  : ncclRecv(large.data(), 4 << 20, data_type::float32, 1, comm, stream_number(1));
        text = ending_of(code, comm);
      }
      mine.match();
      if (mine.number() == 1) text = said(failure_of(comm), comm);  // also reported here
      (void)ncclCommAbort(comm);
      return text;
    });
    for (auto const& text : texts) {
      EXPECT_SAYS(text, "6: ");
      EXPECT_SAYS(text, std::string("rank 0 (process 0, device 0) ") +
                            (sends ? "sends" : "receives") + " 16777216 bytes, message ");
      EXPECT_SAYS(text, std::string("waits for rank 1 (process 1, device 0) to ") +
                            (sends ? "take it" : "send it"));
    }
  }
  unsetenv("BLINK_DEADLINE");
}

TEST(nccl_sends_between_processes, who_dies_before_it_calls_is_named_at_once) {
  auto const texts =
      after_a_piece([](own_process& mine, communicator* comm, elements<float> const& data) {
        if (mine.number() == 1) (void)raise(SIGKILL);
        auto const code = ncclRecv(data.data(), 16, data_type::float32, 1, comm, stream_number(1));
        auto text = ending_of(code, comm);
        devices().synchronize(0, 1);  // the kernel ends
        (void)ncclCommAbort(comm);
        return text;
      });
  EXPECT_SAYS(texts[0], "6: ");
  EXPECT_SAYS(texts[0], "rank 0 has called 2 receives from rank 1, whose process 1 (process ");
  EXPECT_SAYS(texts[0], ") has died after 1 sends");
}

TEST(nccl_sends_between_processes, who_dies_within_a_piece_is_named_after_the_deadline) {
  setenv("BLINK_DEADLINE", "1.5", 1);
  auto const texts =
      after_a_piece([](own_process& mine, communicator* comm, elements<float> const&) {
        elements<float> const large(0, 4 << 20);
        if (mine.number() == 1) {
          devices().hold_stream(0, 1);  // it has called, and its kernel never runs
          (void)ncclSend(large.data(), 4 << 20, data_type::float32, 0, comm, stream_number(1));
          mine.match();
          (void)raise(SIGKILL);
        }
        auto const code =
            ncclRecv(large.data(), 4 << 20, data_type::float32, 1, comm, stream_number(1));
        mine.match();
        auto text = ending_of(code, comm);
        (void)ncclCommAbort(comm);
        return text;
      });
  unsetenv("BLINK_DEADLINE");
  EXPECT_SAYS(texts[0], "6: ");
  EXPECT_SAYS(texts[0], "rank 0 (process 0, device 0) receives 16777216 bytes, message 0 of ");
  EXPECT_SAYS(texts[0], "to send it; process 1 (process ");
  EXPECT_SAYS(texts[0], ") has died (waited 1.5");
}

TEST(nccl_sends_between_processes, who_destroys_instead_of_calling_is_named) {
  auto const texts =
      after_a_piece([](own_process& mine, communicator* comm, elements<float> const& data) {
        if (mine.number() == 1) return said(ncclCommDestroy(comm));  // waits for both
        auto const code = ncclSend(data.data(), 16, data_type::float32, 1, comm, stream_number(1));
        auto text = ending_of(code, comm);
        (void)ncclCommDestroy(comm);
        return text;
      });
  EXPECT_EQ(texts[1], "0: ");
  EXPECT_SAYS(texts[0], "5: ");
  EXPECT_SAYS(texts[0], "rank 0 has called 1 sends to rank 1, whose process 1 (process ");
  EXPECT_SAYS(texts[0], ") has destroyed its communicator after 0 receives");
}

TEST(nccl_sends_between_processes, who_sends_and_destroys_at_once_has_sent) {
  auto const texts =
      after_a_piece([](own_process& mine, communicator* comm, elements<float> const& data) {
        if (mine.number() == 1) {
          data[3] = 9.0F;
          (void)ncclSend(data.data(), 16, data_type::float32, 0, comm, stream_number(1));
          devices().synchronize(0, 1);
          mine.match();
          return said(ncclCommDestroy(comm));
        }
        mine.match();
        auto const code = ncclRecv(data.data(), 16, data_type::float32, 1, comm, stream_number(1));
        devices().synchronize(0, 1);
        return said(code) + std::to_string(static_cast<int>(data[3])) + said(ncclCommDestroy(comm));
      });
  EXPECT_EQ(texts, (std::vector<std::string>{"0: 90: ", "0: "}));
}

TEST(nccl_sends_between_processes, an_abort_ends_what_others_wait_for) {
  auto const texts =
      after_a_piece([](own_process& mine, communicator* comm, elements<float> const& data) {
        if (mine.number() == 1) {
          mine.match();
          return said(ncclCommAbort(comm));
        }
        auto const code = ncclRecv(data.data(), 16, data_type::float32, 1, comm, stream_number(1));
        mine.match();
        auto text = ending_of(code, comm);
        devices().synchronize(0, 1);  // the kernel also ends
        (void)ncclCommAbort(comm);
        return text;
      });
  EXPECT_EQ(texts[1], "0: ");
  EXPECT_SAYS(texts[0], "6: ");
  EXPECT_SAYS(texts[0], "rank 1 has aborted the communicator");
}

TEST(nccl_sends_between_processes, wrong_arguments_are_reported_before_others_hear_of_them) {
  auto const texts =
      after_a_piece([](own_process& mine, communicator* comm, elements<float> const& data) {
        std::string text;
        if (mine.number() == 0) {
          float local = 0;
          text = said(ncclSend(nullptr, 1, data_type::float32, 1, comm, nullptr));
          text += "|" + said(ncclSend(&local, 1, data_type::float32, 1, comm, nullptr));
          text += "|" + said(ncclRecv(data.data(), 1, data_type::float32, 2, comm, nullptr));
        }
        auto const code =  // the communicator still works
            mine.number() == 0
                ? ncclSend(data.data(), 2, data_type::float32, 1, comm, stream_number(1))
                : ncclRecv(data.data(), 2, data_type::float32, 0, comm, stream_number(1));
        devices().synchronize(0, 1);
        (void)ncclCommDestroy(comm);
        return text + "|" + std::to_string(static_cast<int>(code));
      });
  EXPECT_SAYS(texts[0], "4: ncclSend: rank 0: sends to rank 1, a piece is null");
  EXPECT_SAYS(texts[0], "the buffer is memory of the host, expected memory of device 0");
  for (auto const& text : texts) EXPECT_SAYS(text, "|0");
}

TEST(nccl_sends_between_processes, devices_that_do_not_reach_each_other_are_named_on_both_sides) {
  auto const texts = run_processes(2, [](own_process& mine) -> std::string {
    // No device of process 0 can open memory of device 1 of process 1, but the other direction
    // works.
    if (mine.number() == 0) {
      emulated_platform::begin_in_fork({.devices = 2, .unreachable = {{0, 1}, {1, 1}}});
    }
    auto ranks = ranks_of(mine, {1, 2});
    if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
    elements<float> const data(mine.number(), 1, 3.0F);
    std::string text;
    auto* const comm = ranks.comm.back();
    if (mine.number() == 0) {
      text = said(ncclSend(data.data(), 1, data_type::float32, 2, comm, nullptr)) + "|";
      text += said(ncclRecv(data.data(), 1, data_type::float32, 2, comm, stream_number(1)));
    } else {
      text = said(ncclRecv(data.data(), 1, data_type::float32, 0, comm, nullptr)) + "|";
      text += said(ncclSend(data.data(), 1, data_type::float32, 0, comm, stream_number(1)));
    }
    devices().synchronize(mine.number(), 1);
    (void)ranks.destroy();
    return text;
  });
  for (auto const& text : texts) {
    EXPECT_SAYS(text, "4: ");
    EXPECT_SAYS(text,
                "the device of rank 0 (process 0, device 0) cannot open memory of that of "
                "rank 2 (process 1, device 1)");
    EXPECT_SAYS(text, "|0: ");
  }
}

}}  // namespace sends_between_processes_test
