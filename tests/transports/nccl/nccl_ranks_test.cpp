// SPDX-License-Identifier: Apache-2.0
// Schedules by sends and receives with the rules of NCCL, on devices whose streams are threads.
// Processes are also threads. The tests cover random schedules, rounds, memory, graphs, and
// failures.

#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/arithmetic.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/flow_schedules.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/p2p/device_exchange.hpp>
#include <blink/transports/nccl/nccl_ranks.hpp>

#include "support/collective_case.hpp"
#include "support/device_case.hpp"
#include "support/emulated_nccl.hpp"
#include "support/expect_error.hpp"
#include "support/nccl_processes.hpp"
#include "support/random_device_calls.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// The sources of a folder may be compiled as one.
namespace nccl_ranks_test { namespace {

using blink_test::below;
using blink_test::case_of;
using blink_test::collective_case;
using blink_test::device_case;
using blink_test::emulated_devices;
using blink_test::emulated_fabric;
using blink_test::emulated_nccl;
using blink_test::nccl_options_in_vectors;
using blink_test::nccl_process;
using blink_test::run_nccl_processes;
using all_ranks = blink_test::emulated_nccl_ranks;

std::vector<int> random_processes(std::mt19937_64& random, int ranks) {
  std::vector<int> result;
  for (int left = ranks; left > 0; left -= result.back()) result.push_back(1 + below(random, left));
  return result;
}

/// Some calls, none of which waits for the one before.
template <class T, class Reducer>
std::string random_calls(nccl_process& mine, std::uint64_t seed, int ranks, Reducer const& reduce) {
  std::mt19937_64 random(seed);  // all processes draw the same
  auto options = nccl_options_in_vectors();
  options.slot_bytes = 16 + random() % 2000;
  auto& all = mine.make_ranks(options);
  return blink_test::random_calls_in_a_row<T>(
      all, random, ranks, reduce,
      [&](auto const& what, auto const& source) { return mine.case_of<T>(what, source); });
}

template <class T, class Reducer>
void expect_exact(std::uint64_t seed, Reducer const& reduce) {
  SCOPED_TRACE(seed);
  std::mt19937_64 random(seed + 4711);
  int const ranks = 1 + below(random, 6);
  emulated_fabric fabric(ranks);
  auto const processes = random_processes(random, ranks);
  auto const texts = run_nccl_processes(fabric, processes, [&](nccl_process& mine) {
    return random_calls<T>(mine, seed, ranks, reduce);
  });
  for (auto const& text : texts) EXPECT_EQ(text, "");
}

TEST(nccl_ranks, random_calls_are_exact) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) expect_exact<std::int32_t>(seed, blink::avg{});
}

// Partial results on links have another size than elements.
TEST(nccl_ranks, random_calls_with_wider_sums_are_exact) {
  for (std::uint64_t seed = 100; seed < 115; ++seed) {
    expect_exact<std::uint8_t>(seed, blink::accumulate_in<std::uint32_t>(blink::sum{}));
  }
}

TEST(nccl_ranks, elements_of_a_users_own) {
  emulated_fabric fabric(4);
  auto const texts = run_nccl_processes(fabric, {1, 2, 1}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    auto own = mine.case_of<blink_test::triple>(case_of(blink::collective::all_reduce, 300, 5),
                                                blink::ring_schedule(4));
    own.enqueue(all, blink_test::triple_reducer{});
    auto in_order = mine.case_of<blink_test::affine>(case_of(blink::collective::all_reduce, 500, 6),
                                                     blink::star_schedule(4));
    in_order.enqueue(all, blink_test::compose{});
    all.wait();
    return own.wrong(blink_test::triple_reducer{}) + in_order.wrong(blink_test::compose{});
  });
  EXPECT_EQ(texts, std::vector<std::string>(3));
}

// --- rounds ---

// A receiver begins one round after its sender, so that arrived data is used in the next round. A
// tree takes its depth plus its chunks, not their product.
TEST(nccl_ranks, receivers_begin_a_round_behind_their_senders) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + below(random, 9);
    auto const kind = static_cast<blink::collective>(random() % 11);
    if (ranks == 1 && kind == blink::collective::send_to_next) continue;
    auto const source = blink_test::random_schedule(random, ranks, kind);
    emulated_devices machine({.devices = ranks});
    std::vector<int> devices;
    for (int rank = 0; rank < ranks; ++rank) devices.push_back(rank);
    blink::device_memory_budget budget(std::size_t{1} << 30);
    blink::rank_placement const where(devices);
    blink::nccl_schedule<emulated_devices> prepared(machine, where, budget, source, {}, {});
    auto tasks = prepared.tasks(kind);
    auto const connections = prepared.prepared().tables().connection_count();
    std::vector<std::uint64_t> sent(connections, 0), received(connections, 0);
    std::vector<std::uint64_t> last(source.trees.size(), 0);
    for (auto& each : tasks) {
      each.at.here->chunks = 1;
      last[each.at.here->tree] = std::max(last[each.at.here->tree], each.begins);
    }
    auto const ends = blink::ends_in_order(tasks);
    for (std::size_t k = 0; k < ends.size(); ++k) {
      auto const& each = ends[k];
      (each.end->sends ? sent : received)[each.end->connection] = each.begins + 1;
      if (k > 0) {
        EXPECT_LE(ends[k - 1].end->connection, each.end->connection);
      }
    }
    EXPECT_EQ(sent, received);
    for (std::size_t tree = 0; tree < source.trees.size(); ++tree) {
      auto const& of = source.trees[tree];
      std::uint64_t depth = 0;
      if (blink::has_reduce_phase(kind)) {
        depth += static_cast<std::uint64_t>(blink::tree_height(of.reduce_parent));
      }
      if (blink::has_broadcast_phase(source, of, kind)) {
        depth += static_cast<std::uint64_t>(blink::tree_height(of.broadcast_parent));
      }
      EXPECT_EQ(last[tree], depth);
      std::vector<blink::timed_task> own;
      for (auto const& each : tasks) {
        if (each.at.here->tree != tree) continue;
        each.at.here->chunks = 7;
        own.push_back(each);
      }
      EXPECT_EQ(blink::round_count(own), depth + 7);
    }
  }
}

// A rank of a chain has a group for each round in which it sends or receives, and no more.
TEST(nccl_ranks, chunks_are_under_way_together) {
  emulated_fabric fabric(5);
  std::vector<int> groups(5);
  auto source = blink::chain_schedule(5, 0);
  source.trees[0].chunk_bytes = 64;
  auto const texts = run_nccl_processes(fabric, {2, 1, 2}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    auto& prepared = all.prepare(source);
    std::vector<int> before;
    for (int const rank : mine.communicators) before.push_back(fabric.groups(rank));
    auto now = mine.case_of<float>(case_of(blink::collective::broadcast, 160, 3), source);
    (void)prepared;
    now.enqueue(all, blink::sum{});
    all.wait();
    for (std::size_t k = 0; k < before.size(); ++k) {
      int const rank = mine.communicators[k];
      groups[static_cast<std::size_t>(rank)] = fabric.groups(rank) - before[k];
    }
    return now.wrong(blink::sum{});
  });
  EXPECT_EQ(texts, std::vector<std::string>(3));
  EXPECT_EQ(groups, (std::vector<int>{10, 11, 11, 11, 10}));  // ten chunks
}

// --- memory ---

TEST(nccl_ranks, slots_do_not_grow_with_buffers) {
  emulated_fabric fabric(3);
  auto const texts = run_nccl_processes(fabric, {1, 2}, [&](nccl_process& mine) {
    auto options = nccl_options_in_vectors();
    options.slot_bytes = 1024;
    auto& all = mine.make_ranks(options);
    auto const held = [&] {
      std::size_t sum = 0;
      for (auto const& [device, use] : all.memory().held()) sum += use.total();
      return sum;
    };
    auto const empty = held();
    auto const chain = blink::chain_schedule(3, 0);
    (void)all.prepare(chain);
    auto const prepared = held();
    // Rank 0 receives one reduce connection and sends one broadcast connection that needs no slot.
    // Rank 1 has both ends of each, rank 2 one.
    std::size_t const own = mine.number == 0 ? 1024 + 128 : (1024 + 1024 + 2 * 128) + (1024 + 128);
    if (prepared - empty != own) {
      return "holds " + std::to_string(prepared - empty) + " bytes, expected " +
             std::to_string(own);
    }
    auto large = mine.case_of<double>(case_of(blink::collective::all_reduce, 20000, 1), chain);
    large.enqueue(all, blink::sum{});
    all.wait();
    if (held() != prepared) return std::string("holds more after a call");
    auto const text = large.wrong(blink::sum{});
    mine.all_ranks.reset();
    return mine.machine.allocated_bytes() == 0 ? text : text + "something was not released";
  });
  EXPECT_EQ(texts, std::vector<std::string>(2));
}

TEST(nccl_ranks, what_one_process_refuses_all_refuse) {
  emulated_fabric fabric(3);
  auto const texts = run_nccl_processes(fabric, {1, 2}, [&](nccl_process& mine) {
    auto options = nccl_options_in_vectors();
    options.slot_bytes = 1 << 16;
    options.memory_cap = mine.number == 0 ? 1 << 20 : 1 << 17;
    auto& all = mine.make_ranks(options);
    std::string text;
    try {
      (void)all.prepare(blink::star_schedule(3));
    } catch (blink::resource_error const& failure) {
      text = std::string("resource_error: ") + failure.what();
    } catch (blink::precondition_error const& failure) {
      text = failure.what();
    }
    auto now = mine.case_of<int>(case_of(blink::collective::all_to_all, 100, 2),
                                 blink::all_to_all_schedule(3));  // needs no slots
    now.enqueue(all, blink::sum{});
    all.wait();
    return now.wrong(blink::sum{}) + text;
  });
  EXPECT_NE(texts[0].find("prepare: rank 1: the schedule needs"), std::string::npos) << texts[0];
  EXPECT_NE(texts[1].find("resource_error: the schedule needs"), std::string::npos) << texts[1];
}

TEST(nccl_ranks, options_and_schedules_are_the_same_everywhere) {
  emulated_fabric fabric(2);
  auto texts = run_nccl_processes(fabric, {1, 1}, [&](nccl_process& mine) {
    auto options = nccl_options_in_vectors();
    if (mine.number == 1) options.slot_bytes = 4096;
    (void)mine.make_ranks(options);
    return std::string("made");
  });
  for (auto const& text : texts) {
    EXPECT_NE(text.find("slot_bytes and costs differ between processes"), std::string::npos)
        << text;
  }
  texts = run_nccl_processes(fabric, {1, 1}, [&](nccl_process& mine) {
    auto options = nccl_options_in_vectors();
    if (mine.number == 1) options.slot_bytes = 0;
    (void)mine.make_ranks(options);
    return std::string("made");
  });
  for (auto const& text : texts) {
    EXPECT_NE(text.find("rank 1: nccl_options: slot_bytes out of range, expected >= 1"),
              std::string::npos)
        << text;
  }
  texts = run_nccl_processes(fabric, {1, 1}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    std::string text;
    try {
      (void)all.prepare(blink::chain_schedule(2, mine.number));
    } catch (blink::precondition_error const& failure) {
      text = failure.what();
    }
    auto now =
        mine.case_of<int>(case_of(blink::collective::all_reduce, 77, 2), blink::star_schedule(2));
    now.enqueue(all, blink::sum{});
    all.wait();
    return now.wrong(blink::sum{}) + text;
  });
  EXPECT_EQ(texts[0],
            "prepare: schedules differ between processes, expected the same: those of rank 1 and "
            "those of rank 0");
  EXPECT_EQ(texts[1],
            "prepare: schedules differ between processes, expected the same: those of rank 0 and "
            "those of rank 1");
}

// --- graphs ---

TEST(nccl_ranks, captured_calls_are_replayed) {
  emulated_fabric fabric(3);
  auto const texts = run_nccl_processes(fabric, {2, 1}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    auto captured = mine.case_of<std::int32_t>(case_of(blink::collective::all_reduce, 1000, 1),
                                               blink::ring_schedule(3));
    auto outside = mine.case_of<std::int32_t>(case_of(blink::collective::all_to_all, 90, 9, true),
                                              blink::all_to_all_schedule(3));
    (void)all.prepare(blink::ring_schedule(3));
    std::vector<int> streams;
    for (int k = 0; k < mine.ranks; ++k) streams.push_back(mine.machine.make_stream());
    mine.machine.begin_capture(streams);
    captured.enqueue(all, blink::sum{}, streams);
    auto const graph = mine.machine.end_capture(streams);
    std::string wrong;
    for (int replay = 0; replay < 3; ++replay) {
      captured.forget();
      mine.machine.replay(graph);
      all.wait(streams);
      wrong += captured.wrong(blink::sum{});
    }
    outside.enqueue(all, blink::sum{}, streams);
    all.wait(streams);
    return wrong + outside.wrong(blink::sum{});
  });
  EXPECT_EQ(texts, std::vector<std::string>(2));
}

// --- sends and receives in any order ---

TEST(nccl_ranks, pieces_are_exchanged_within_a_process) {
  emulated_fabric fabric(2);
  auto const texts = run_nccl_processes(fabric, {2}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    std::vector<int> const from{1, 2, 3, 4};
    std::vector<int> to(4, 0);
    std::vector<blink::transfers> list(2);
    list[0].send(1, from.data(), 3);
    list[0].send(1, from.data() + 3, 1);
    list[1].receive(0, to.data() + 1, 3);
    list[1].receive(0, to.data(), 1);
    blink::exchange(all, blink::all_to_all_schedule(2), list);
    all.wait();
    return to == std::vector<int>{4, 1, 2, 3} ? std::string() : std::string("other values");
  });
  EXPECT_EQ(texts, std::vector<std::string>(1));
}

// Pieces in any order, between processes and within one.
TEST(nccl_ranks, pieces_are_exchanged_between_processes) {
  emulated_fabric fabric(3);
  auto const texts = run_nccl_processes(fabric, {2, 1}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    std::vector<std::vector<int>> from, to;
    std::vector<blink::transfers> list;
    for (int const rank : mine.communicators) {  // two pieces to each other rank, and an empty one
      from.emplace_back();
      to.emplace_back(9, -1);
      for (int k = 0; k < 9; ++k) from.back().push_back(rank * 100 + k);
    }
    for (std::size_t k = 0; k < from.size(); ++k) {
      auto& own = list.emplace_back();
      for (int const peer : {2, 0, 1}) {
        if (peer == mine.communicators[k]) continue;
        own.receive(peer, to[k].data() + peer * 3, 2);
        own.send(peer, from[k].data() + peer * 3, 2);
        own.send(peer, from[k].data() + peer * 3 + 2, 1);
        own.receive(peer, to[k].data() + peer * 3 + 2, 1);
        own.send(peer, from[k].data(), 0);
        own.receive(peer, to[k].data(), 0);
      }
    }
    blink::exchange(all, list);
    all.wait();
    EXPECT_THROW(blink::exchange(all, {}), blink::precondition_error);
    std::string wrong;
    for (std::size_t k = 0; k < to.size(); ++k) {
      int const rank = mine.communicators[k];
      for (int index = 0; index < 9; ++index) {
        int const peer = index / 3;
        int const expected = peer == rank ? -1 : peer * 100 + rank * 3 + index % 3;
        if (to[k][static_cast<std::size_t>(index)] != expected) {
          wrong += "rank " + std::to_string(rank) + ", element " + std::to_string(index) + "; ";
        }
      }
    }
    return wrong;
  });
  EXPECT_EQ(texts, std::vector<std::string>(2));
}

// --- failures ---

TEST(nccl_ranks, what_nccl_refuses_is_reported_with_call_and_rank) {
  emulated_fabric fabric(2);
  auto const texts = run_nccl_processes(
      fabric, {1, 1},
      [&](nccl_process& mine) {
        auto& all = mine.make_ranks(nccl_options_in_vectors());
        auto source = blink::chain_schedule(2, 0);
        auto now = mine.case_of<int>(case_of(blink::collective::broadcast, 1000, 2), source);
        std::string text;
        try {
          now.enqueue(all, blink::sum{});
          all.wait();
        } catch (blink::nccl_error const& failure) {
          text = std::string("nccl_error ") + std::to_string(failure.code) + ": " + failure.what();
        } catch (blink::collective_error const& failure) {
          text = failure.what();
        }
        EXPECT_TRUE(all.has_failed());
        EXPECT_THROW(now.enqueue(all, blink::sum{}), blink::collective_error);
        EXPECT_THROW(all.wait(), blink::collective_error);
        return text;
      },
      {.fails_send = 4});  // after those of the agreement: in the middle of rank 0's call
  EXPECT_EQ(texts[0],
            "nccl_error 3: rank 0: ncclSend of 512 bytes to rank 1: internal error (as reported by "
            "rank 0)");
  EXPECT_EQ(texts[1], "rank 1: ncclCommGetAsyncError: remote error (as reported by rank 1)");
}

TEST(nccl_ranks, a_rank_that_is_lost_ends_the_calls_of_others) {
  emulated_fabric fabric(3);
  std::atomic<int> here = 0;
  auto const texts = run_nccl_processes(fabric, {1, 1, 1}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    auto const source = blink::chain_schedule(3, 0);
    (void)all.prepare(source);
    ++here;
    if (mine.number == 1) {
      while (here != 3) std::this_thread::yield();
      fabric.lose(1);
      return std::string();
    }
    auto now = mine.case_of<int>(case_of(blink::collective::all_reduce, 100, 2), source);
    now.enqueue(all, blink::sum{});
    all.wait();
    return std::string("no error");
  });
  EXPECT_EQ(texts[0], "rank 0: ncclCommGetAsyncError: remote error (as reported by rank 0)");
  EXPECT_EQ(texts[2], "rank 2: ncclCommGetAsyncError: remote error (as reported by rank 2)");
}

TEST(nccl_ranks, who_does_not_come_is_not_waited_for_longer_than_the_deadline) {
  emulated_fabric fabric(2, {.reports_of_losses = false});
  auto const texts = run_nccl_processes(fabric, {1, 1}, [&](nccl_process& mine) {
    auto options = nccl_options_in_vectors();
    auto const source = blink::chain_schedule(2, 0);
    auto now = mine.case_of<int>(case_of(blink::collective::all_reduce, 100, 2), source);
    options.deadline = mine.number == 0 ? std::chrono::seconds(2) : std::chrono::seconds(300);
    auto& all = mine.make_ranks(options);
    (void)all.prepare(source);
    if (mine.number == 1) return std::string();
    now.enqueue(all, blink::sum{});
    all.wait();
    return std::string("no error");
  });
  EXPECT_NE(texts[0].find("rank 0 saw no progress for 2 s"), std::string::npos) << texts[0];
  EXPECT_EQ(texts[1], "");
}

TEST(nccl_ranks, transfers_that_do_not_fit_end_the_call) {
  emulated_fabric fabric(2);
  auto const texts = run_nccl_processes(fabric, {1, 1}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    auto const source = blink::chain_schedule(2, 0);
    auto now = mine.case_of<int>(
        case_of(blink::collective::broadcast, mine.number == 0 ? 100 : 101, 2), source);
    now.enqueue(all, blink::sum{});
    all.wait();
    return std::string("no error");
  });
  for (auto const& text : texts) {
    EXPECT_NE(text.find("ncclCommGetAsyncError"), std::string::npos) << text;
  }
}

// Transfers match, but results are wrong: the comparison of calls finds this.
TEST(nccl_ranks, other_calls_are_found_when_they_are_compared) {
  emulated_fabric fabric(2);
  auto const texts = run_nccl_processes(fabric, {1, 1}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    auto const source = blink::chain_schedule(2, 0);
    auto now = mine.case_of<int>(case_of(blink::collective::all_reduce, 100, 2), source);
    now.enqueue(all, blink::sum{});
    all.compare_calls();
    if (mine.number == 0) {
      now.enqueue(all, blink::sum{});
    } else {
      now.enqueue(all, blink::avg{});
    }
    all.wait();
    EXPECT_THROW((void)all.prepare(blink::star_schedule(2)), blink::precondition_error);
    all.compare_calls();
    return std::string("no error");
  });
  for (auto const& text : texts) {
    EXPECT_SAYS(text,
                "compare_calls: calls differ between processes, expected the same: those of rank");
    EXPECT_SAYS(text, "of rank 0 (2 calls, the last one all_reduce, count 100, ");
    EXPECT_SAYS(text, "of rank 1 (2 calls, the last one all_reduce, count 100, ");
    EXPECT_SAYS(text, "avg");
  }
}

TEST(nccl_ranks, owners_may_abort) {
  emulated_fabric fabric(2);
  auto const texts = run_nccl_processes(fabric, {1, 1}, [&](nccl_process& mine) {
    auto& all = mine.make_ranks(nccl_options_in_vectors());
    auto const source = blink::chain_schedule(2, 0);
    auto now = mine.case_of<int>(case_of(blink::collective::all_reduce, 100, 2), source);
    (void)all.prepare(source);
    if (mine.number == 1) {
      all.abort();
    } else {
      now.enqueue(all, blink::sum{});
    }
    all.wait();
    return std::string("no error");
  });
  EXPECT_EQ(texts[0], "rank 0: ncclCommGetAsyncError: remote error (as reported by rank 0)");
  EXPECT_EQ(texts[1], "rank 1: aborted by its owner");
}

// Groups return before they have ended, as with communicators that do not block.
TEST(nccl_ranks, communicators_that_do_not_block) {
  emulated_fabric fabric(3, {.meets_on_host = false});
  auto texts = run_nccl_processes(
      fabric, {1, 2},
      [&](nccl_process& mine) { return random_calls<int>(mine, 8, 3, blink::sum{}); },
      {.is_in_progress = true});
  EXPECT_EQ(texts, std::vector<std::string>(2));
  emulated_fabric alone(2, {.reports_of_losses = false, .meets_on_host = false});
  texts = run_nccl_processes(alone, {1, 1}, [&](nccl_process& mine) {
    auto options = nccl_options_in_vectors();
    options.deadline = std::chrono::milliseconds(100);
    if (mine.number == 0) (void)mine.make_ranks(options);
    return std::string();
  });
  EXPECT_NE(texts[0].find("construction: rank 0 saw no progress for 0.1 s"), std::string::npos)
      << texts[0];
}

TEST(nccl_ranks, bad_calls_are_refused_before_anything_is_sent) {
  emulated_fabric fabric(3);
  auto const texts = run_nccl_processes(fabric, {3}, [&](nccl_process& mine) {
    auto const options = nccl_options_in_vectors();
    EXPECT_ERROR(all_ranks(mine.machine, mine.calls, {}, options), "expected at least one");
    EXPECT_ERROR(all_ranks(mine.machine, mine.calls, {0, 2}, options),
                 "communicator 1 is rank 2 of 3, expected rank 1 of 3");
    emulated_devices blocking({.devices = 3, .blocks_launches = true});
    EXPECT_ERROR(all_ranks(blocking, mine.calls, {0, 1}, options), "CUDA_LAUNCH_BLOCKING");
    auto& all = mine.make_ranks(options);
    std::vector<float> memory(60);
    std::vector<blink::rank_buffers<float>> buffers;
    for (int rank = 0; rank < 3; ++rank) {
      auto* const own = memory.data() + rank * 20;
      buffers.push_back({own, own + 10, rank == 2 ? 9U : 10U});
    }
    EXPECT_ERROR(blink::all_reduce(all, blink::star_schedule(3), buffers, blink::sum{}),
                 "rank 0 has count 10, rank 2 has 9");
    EXPECT_ERROR(blink::all_reduce(all, blink::star_schedule(2), buffers, blink::sum{}),
                 "for 2 ranks, expected the communicator's 3");
    buffers[2].count = 10;
    EXPECT_ERROR(blink::all_reduce(all, blink::star_schedule(3), buffers, blink::sum{}, {0, 0}),
                 "2 streams, expected one for each of 3 devices");
    EXPECT_ERROR(blink::gather(all, blink::star_schedule(3), buffers), "gather");
    blink::all_reduce(all, blink::star_schedule(3), buffers, blink::sum{});
    all.wait();
    return std::string();
  });
  EXPECT_EQ(texts, std::vector<std::string>(1));
}

// --- several threads of one process ---

TEST(nccl_ranks, calls_on_other_devices_do_not_wait_for_a_turn) {
  emulated_devices machine({.devices = 3});
  blink::device_order<emulated_devices> order;
  using turn = blink::device_order<emulated_devices>::turn;
  std::atomic<bool> has_ended = false, is_late = false;
  std::jthread same;
  {
    turn const first(order, machine, {0, 1});
    {
      turn const other(order, machine, {2});
    }
    same = std::jthread([&] {
      turn const second(order, machine, {1, 2});
      is_late = !has_ended;
    });
    {
      turn const again(order, machine, {2});
    }  // no thread holds a turn while it waits for another one
    has_ended = true;
  }
  same.join();
  EXPECT_FALSE(is_late);
}

}}  // namespace nccl_ranks_test
