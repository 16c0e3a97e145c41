// SPDX-License-Identifier: Apache-2.0
// Communicators whose ranks are in several processes: random calls as in one process, split, two at
// once. Ranks disagree, die, never come, abort or destroy. Ids come from other hosts. No resources
// are left behind.

#include <blink/reducers/small_float.hpp>

#include "forked_program.hpp"
#include "random_call.hpp"
#include "support/expect_error.hpp"
#include <unique_ids.hpp>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <map>
#include <memory>
#include <random>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

// The sources of a folder may be compiled as one.
namespace processes_test { namespace {

using namespace blink_test;

void set_deadline(char const* seconds) {
  setenv("BLINK_DEADLINE", seconds, 1);
}

/// The same calls in all processes; returns the errors in the results of this process's ranks.
template <class T>
std::string random_calls(own_process& mine, std::uint64_t seed, data_type type) {
  std::mt19937_64 random(seed);
  std::vector<int> by_process;
  for (int process = 0; process < mine.count(); ++process) {
    by_process.push_back(1 + static_cast<int>(random() % 2));
  }
  auto ranks = ranks_of(mine, by_process);
  if (ranks.begin(mine.new_id()) != result::success) return said(result::internal_error);
  std::vector<operation> own(ranks.size());
  for (std::size_t k = 0; k < ranks.size(); ++k) {
    auto factor = static_cast<T>(static_cast<float>(factor_of(ranks.first + k)));
    auto const code =
        ncclRedOpCreatePreMulSum(&own[k], &factor, type, residence::host_immediate, ranks.comm[k]);
    if (code != result::success) return said(code);
  }
  for (int round = 0; round < 4; ++round) {
    std::vector<one_call<T>> calls;
    std::size_t const together = 1 + random() % 3;
    for (std::size_t k = 0; k < together; ++k) {
      auto const kind = static_cast<what>(random() % 9);
      calls.emplace_back(ranks.count, ranks.first, ranks.device, kind, type, random);
    }
    auto const code = ranks.in_group([&](std::size_t rank, communicator* comm) {
      for (auto const& one : calls) (void)one.make(rank, comm, own[rank - ranks.first]);
      return result::success;
    });
    if (code != result::success) return said(code);
    ranks.synchronize();
    for (auto const& one : calls) {
      if (auto const wrong = one.wrong(); !wrong.empty()) return wrong;
    }
  }
  auto const code = ranks.destroy();
  return code == result::success ? "right" : said(code);
}

template <class T>
void expect_exact(std::uint64_t first_seed, data_type type) {
  for (std::uint64_t seed = first_seed; seed < first_seed + 5; ++seed) {
    SCOPED_TRACE(seed);
    auto const texts = run_processes(2 + static_cast<int>(seed % 2), [&](own_process& mine) {
      return random_calls<T>(mine, seed, type);
    });
    for (auto const& text : texts) EXPECT_EQ(text, "right");
  }
}
TEST(nccl_processes, float32) {
  expect_exact<float>(0, data_type::float32);
}
TEST(nccl_processes, int32) {
  expect_exact<std::int32_t>(100, data_type::int32);
}
TEST(nccl_processes, float8_e4m3) {
  expect_exact<blink::float8_e4m3>(300, data_type::float8_e4m3);
}

TEST(nccl_processes, a_maker_without_ranks_and_ranks_of_one_process) {
  auto const texts = run_processes(3, [](own_process& mine) -> std::string {
    auto const id = mine.new_id(2);
    auto ranks = ranks_of(mine, {2, 1, 0});
    std::string text;
    if (mine.number() < 2) text = said(ranks.begin(id));
    mine.match();
    auto const second = mine.new_id(2);
    auto alone = ranks_of(mine, {3, 0, 0});
    if (mine.number() == 0) text += said(alone.begin(second));
    mine.match();
    (void)ranks.destroy();
    (void)alone.destroy();
    return text;
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"0: 0: ", "0: ", ""}));
}

TEST(nccl_processes, two_communicators_begin_and_run_in_one_group) {
  auto const texts = run_processes(2, [](own_process& mine) -> std::string {
    unique_id const ids[2] = {mine.new_id(0), mine.new_id(1)};
    communicator* comm[2] = {};
    // Made in another order in each process.
    (void)ncclGroupStart();
    for (int k = 0; k < 2; ++k) {
      int const which = (k + mine.number()) % 2;
      (void)ncclCommInitRank(&comm[which], 2, ids[which], mine.number());
    }
    if (auto const code = ncclGroupEnd(); code != result::success) return said(code);
    elements<float> const a(0, 1, 1.0F), b(0, 1, 10.0F);
    for (int round = 0; round < 3; ++round) {
      (void)ncclGroupStart();
      for (int k = 0; k < 2; ++k) {  // and called in that order
        int const which = (k + mine.number()) % 2;
        (void)sum_on_stream(comm[which], which == 0 ? a : b, 1);
      }
      if (auto const code = ncclGroupEnd(); code != result::success) return said(code);
    }
    devices().synchronize(0, 1);
    for (auto* const one : comm) {
      if (auto const code = ncclCommDestroy(one); code != result::success) return said(code);
    }
    return std::to_string(static_cast<int>(a[0])) + " " + std::to_string(static_cast<int>(b[0]));
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"8 80", "8 80"}));
}

// Not in a group. The first call is prepared, for which the processes meet. Then neither process is
// later, and the error comes at the deadline.
TEST(nccl_processes, two_communicators_in_another_order_are_named_on_all) {
  for (int const rounds : {0, 2}) {
    auto const texts = run_processes(2, [&](own_process& mine) -> std::string {
      set_deadline(rounds == 0 ? "2" : "100");
      unique_id const ids[2] = {mine.new_id(0), mine.new_id(1)};
      communicator* comm[2] = {};
      for (int k = 0; k < 2; ++k) (void)ncclCommInitRank(&comm[k], 2, ids[k], mine.number());
      elements<float> const data(0, 1, 1.0F);
      for (int round = 0; round < rounds; ++round) {
        for (auto* const one : comm) {
          if (auto const code = sum_on_stream(one, data, 1); code != result::success)
            return said(code);
        }
      }
      std::string text;
      for (int k = 0; k < 2; ++k) {
        auto* const one = comm[(k + mine.number()) % 2];
        auto const code = sum_on_stream(one, data, 1);
        if (code != result::success) text += said(code, one);
      }
      mine.match();
      for (auto* const one : comm) {
        result code = result::success;
        (void)ncclCommGetAsyncError(one, &code);
        if (code != result::success) text += said(code, one);
      }
      mine.match();
      for (auto* const one : comm) (void)ncclCommDestroy(one);
      return text;
    });
    for (auto const& text : texts) {
      EXPECT_SAYS(text, "call " + std::to_string(rounds + 1) + ": process ");
      EXPECT_SAYS(text, "expected the same order of their calls in all processes");
    }
  }
}

/// A rank that is one thread of several: sums in two communicators, alone and in groups in any
/// order. Returns the error, if any.
std::string sums_in_two(unique_id const (&ids)[2], int rank, int ranks, bool blocks) {
  int const device = rank % 4;
  emulated_platform::device_of_thread() = device;
  auto config = not_blocking();
  config.blocking = blocks ? 1 : 0;
  communicator* comm[2] = {};
  auto const settle = [&](communicator* one, result code) {
    while (code == result::in_progress) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      (void)ncclCommGetAsyncError(one, &code);
    }
    return code;
  };
  for (int k = 0; k < 2; ++k) {
    auto const code = ncclCommInitRankConfig(&comm[k], ranks, ids[k], rank, &config);
    if (auto const end = settle(comm[k], code); end != result::success) return said(end, comm[k]);
  }
  std::mt19937_64 random(static_cast<std::uint64_t>(rank));
  elements<float> const a(device, 1, 1.0F), b(device, 1, 1.0F);
  float expected = 1;
  for (int round = 0; round < 12; ++round) {
    bool const in_group = round % 3 != 0;
    std::size_t const first = in_group ? random() % 2 : 0;
    if (in_group) (void)ncclGroupStart();
    for (std::size_t const which : {first, 1 - first}) {
      auto const code = sum_on_stream(comm[which], which == 0 ? a : b, 1);
      bool const is_well = code == result::success || code == result::in_progress;
      if (!is_well) return said(code, comm[which]);
    }
    if (in_group) (void)ncclGroupEnd();
    expected *= static_cast<float>(ranks);
  }
  for (auto* const one : comm) {
    result code = result::in_progress;
    (void)ncclCommGetAsyncError(one, &code);
    if (auto const end = settle(one, code); end != result::success) return said(end, one);
  }
  devices().synchronize(device, 1);
  bool const is_right = a[0] == expected && b[0] == expected;
  for (auto* const one : comm) (void)ncclCommDestroy(one);
  return is_right ? "right" : "wrong sums";
}
TEST(nccl_processes, threads_of_each_call_two_communicators_in_groups) {
  for (bool const blocks : {true, false}) {
    auto const texts = run_processes(2, [&](own_process& mine) -> std::string {
      unique_id const ids[2] = {mine.new_id(), mine.new_id()};
      std::string text[2];
      {
        std::vector<std::jthread> threads;
        for (int k = 0; k < 2; ++k) {
          threads.emplace_back(
              [&, k] { text[k] = sums_in_two(ids, 2 * mine.number() + k, 4, blocks); });
        }
      }
      return text[0] + ", " + text[1];
    });
    for (auto const& text : texts) EXPECT_EQ(text, "right, right") << blocks;
  }
}

TEST(nccl_processes, those_that_do_not_block) {
  auto const texts = run_processes(2, [](own_process& mine) -> std::string {
    auto const id = mine.new_id();
    auto config = not_blocking();
    communicator* comm = nullptr;
    if (mine.number() == 0) {
      auto const code = ncclCommInitRankConfig(&comm, 2, id, 0, &config);
      if (code != result::in_progress) return said(code);
    }
    mine.match();
    if (mine.number() == 1) (void)ncclCommInitRankConfig(&comm, 2, id, 1, &config);
    result code = result::in_progress;
    while (code == result::in_progress) {
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
      (void)ncclCommGetAsyncError(comm, &code);
    }
    elements<float> const data(0, 1, 1.0F);
    if (code == result::success) code = sum_on_stream(comm, data, 1);
    devices().synchronize(0, 1);
    (void)ncclCommDestroy(comm);
    return said(code) + std::to_string(static_cast<int>(data[0]));
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"0: 2", "0: 2"}));
}

TEST(nccl_processes, split_by_color_and_key) {
  // Ranks 0 1 | 2 | 3 4: two of a color in one process, three in three.
  auto const texts = run_processes(3, [](own_process& mine) -> std::string {
    auto ranks = ranks_of(mine, {2, 1, 2});
    if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
    int const color[5] = {7, 3, 3, 3, no_color};
    std::vector<communicator*> part(ranks.size());
    auto const how = ranks.in_group([&](std::size_t rank, communicator* comm) {
      return ncclCommSplit(comm, color[rank], -static_cast<int>(rank), &part[rank - ranks.first],
                           nullptr);
    });
    if (how != result::success) return said(how);
    std::string text;
    elements<float> const data(0, 2, static_cast<float>(1 << mine.number()));
    for (std::size_t k = 0; k < part.size(); ++k) {
      if (part[k] == nullptr) continue;
      int rank = -1, count = -1;
      (void)ncclCommUserRank(part[k], &rank);
      (void)ncclCommCount(part[k], &count);
      text += std::to_string(ranks.first + k) + "->" + std::to_string(rank) + "/" +
              std::to_string(count) + " ";
      emulated_platform::device_of_thread() = ranks.device[k];
      elements<float> const own(ranks.device[k], 1, static_cast<float>(1 << (ranks.first + k)));
      if (auto const code = sum_on_stream(part[k], own, 1); code != result::success)
        return said(code);
      devices().synchronize(ranks.device[k], 1);
      text += std::to_string(static_cast<int>(own[0])) + " ";
      if (auto const code = ncclCommDestroy(part[k]); code != result::success) return said(code);
    }
    return ranks.destroy() == result::success ? text : "not destroyed";
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"0->0/1 1 1->2/3 14 ", "2->1/3 14 ", "3->0/3 14 "}));
}

TEST(nccl_processes, a_split_whose_ranks_are_not_in_a_row_is_refused_to_its_ranks) {
  auto const texts = run_processes(2, [](own_process& mine) -> std::string {
    auto ranks = ranks_of(mine, {2, 2});
    if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
    communicator* part[2] = {};
    auto const how = ranks.in_group([&](std::size_t rank, communicator* comm) {
      return ncclCommSplit(comm, 0, static_cast<int>(rank % 2), &part[rank - ranks.first], nullptr);
    });
    auto const text = said(how);
    elements<float> const a(0, 1, 1.0F), b(1, 1, 1.0F);  // the communicator still works
    auto const code = ranks.in_group([&](std::size_t rank, communicator* comm) {
      return sum_on_stream(comm, rank == ranks.first ? a : b, 1);
    });
    for (int device : {0, 1}) devices().synchronize(device, 1);
    (void)ranks.destroy();
    return code == result::success && a[0] == 4.0F && part[0] == nullptr ? text : said(code);
  });
  for (auto const& text : texts) {
    EXPECT_SAYS(text, "5: ");
    EXPECT_SAYS(text, "ranks 0 and 2 are of process ");
  }
}

TEST(nccl_processes, pieces_within_a_process) {
  auto const texts = run_processes(2, [](own_process& mine) -> std::string {
    auto ranks = ranks_of(mine, {2, 2});
    if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
    elements<float> const a(0, 1, 5.0F), b(1, 1);
    int const first = static_cast<int>(ranks.first);
    auto const how = ranks.in_group([&](std::size_t rank, communicator* comm) {
      auto const stream = program::stream(rank);
      return rank == ranks.first
                 ? ncclSend(a.data(), 1, data_type::float32, first + 1, comm, stream)
                 : ncclRecv(b.data(), 1, data_type::float32, first, comm, stream);
    });
    ranks.synchronize();
    auto const text = said(how) + std::to_string(static_cast<int>(b[0]));
    (void)ranks.destroy();
    return text;
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"0: 5", "0: 5"}));
}

TEST(nccl_processes, captured_calls_are_replayed) {
  auto const texts = after_a_sum(
      2, [](own_process& mine, communicator* comm, elements<float> const& data) -> std::string {
        devices().begin_capture({1});
        auto const code = sum_on_stream(comm, data, 1);
        auto const graph = devices().end_capture({1});
        for (int k = 0; k < 2; ++k) {
          devices().replay(graph);
          devices().synchronize(0);
        }
        mine.match();
        (void)ncclCommDestroy(comm);
        return said(code) + std::to_string(static_cast<int>(data[0]));
      });
  EXPECT_EQ(texts, (std::vector<std::string>{"0: 8", "0: 8"}));
}

// --- failures at the beginning of a communicator ---

TEST(nccl_processes, ranks_that_never_come_and_those_that_come_too_late) {
  set_deadline("0.3");
  auto const texts = run_processes(2, [](own_process& mine) {
    auto const id = mine.new_id(1);
    communicator* comm = nullptr;
    std::string text;
    if (mine.number() == 0) text = said(ncclCommInitRank(&comm, 3, id, 0));
    mine.match();
    if (mine.number() == 1) text = said(ncclCommInitRank(&comm, 3, id, 2));
    mine.match();
    return text;
  });
  unsetenv("BLINK_DEADLINE");
  for (auto const& text : texts) EXPECT_SAYS(text, "6: ");
  for (auto const& text : texts) EXPECT_SAYS(text, "these have not come: 1, 2");
}

TEST(nccl_processes, who_dies_before_all_have_come_is_named) {
  auto const texts = run_processes(2, [](own_process& mine) {
    auto const id = mine.new_id();
    communicator* comm = nullptr;
    auto config = not_blocking();
    if (mine.number() == 1) {
      (void)ncclCommInitRankConfig(&comm, 3, id, 1, &config);
      (void)raise(SIGKILL);
    }
    return said(ncclCommInitRank(&comm, 3, id, 0));
  });
  EXPECT_SAYS(texts[0], "6: ncclCommInitRank: rank 1 (process ");
  EXPECT_SAYS(texts[0], ") has died before all have come");
}

TEST(nccl_processes, the_maker_may_die_once_all_know_its_id) {
  auto const texts = run_processes(2, [](own_process& mine) {
    auto const id = mine.new_id(1);
    if (mine.number() == 1) (void)raise(SIGKILL);
    communicator* comm = nullptr;
    for (;;) {  // the id is valid while that process lives
      unique_ids const ids;
      try {
        (void)ids.place_of(id);
      } catch (blink::error const&) {
        break;
      }
      std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return said(ncclCommInitRank(&comm, 2, id, 0));
  });
  EXPECT_SAYS(texts[0], "5: ");
  EXPECT_SAYS(texts[0], "expected a running process that made it");
  EXPECT_SAYS(texts[0], "BLINK_NCCL_FALLBACK");
}

TEST(nccl_processes, ranks_that_disagree_when_they_begin) {
  for (bool const same_rank : {true, false}) {
    auto const texts = run_processes(2, [&](own_process& mine) {
      auto const id = mine.new_id();
      communicator* comm = nullptr;
      bool const second = mine.number() == 1;
      auto const text = said(
          ncclCommInitRank(&comm, second && !same_rank ? 4 : 3, id, second && !same_rank ? 1 : 0));
      mine.match();
      return text;
    });
    for (auto const& text : texts) {
      EXPECT_SAYS(text, "5: ");
      EXPECT_SAYS(text, same_rank ? "duplicate rank 0" : "earlier ranks have passed ");
    }
  }
}

TEST(nccl_processes, ranks_of_a_process_that_are_not_in_a_row_are_refused_to_all) {
  auto const texts = run_processes(2, [](own_process& mine) {
    auto const id = mine.new_id();
    communicator* comm[2] = {};
    (void)ncclGroupStart();
    for (int k = 0; k < (mine.number() == 0 ? 2 : 1); ++k) {
      (void)ncclCommInitRank(&comm[k], 3, id, mine.number() + 2 * k);
    }
    auto const text = said(ncclGroupEnd());
    mine.match();
    return text;
  });
  for (auto const& text : texts) {
    EXPECT_SAYS(text, "5: ");
    EXPECT_SAYS(text, "ranks 0 and 2 are of process ");
    EXPECT_SAYS(text, "expected consecutive ranks in each process");
  }
}

TEST(nccl_processes, ids_of_other_hosts_and_a_process_that_is_to_be_alone) {
  auto const texts = run_processes(2, [](own_process& mine) {
    auto id = mine.new_id();
    communicator* comm = nullptr;
    std::string text;
    if (mine.number() == 1) {
      auto elsewhere = id;
      auto* const host = elsewhere.bytes + sizeof(unique_id) - sizeof(id_mark) + 8;
      *host = static_cast<char>(*host ^ 1);
      text = said(ncclCommInitRank(&comm, 2, elsewhere, 1)) + "|";
      elsewhere.bytes[0] = static_cast<char>(elsewhere.bytes[0] ^ 1);
      setenv("BLINK_NCCL_PROCESSES", "no", 1);
      text += said(ncclCommInitRank(&comm, 2, elsewhere, 1)) + "|";
      setenv("BLINK_NCCL_PROCESSES", "0", 1);
      text += said(ncclCommInitRank(&comm, 2, id, 1));
    }
    mine.match();
    return text;
  });
  EXPECT_SAYS(texts[1], "of another host or of another container: set BLINK_NCCL_FALLBACK");
  EXPECT_SAYS(texts[1], "BLINK_NCCL_PROCESSES is 'no', expected 0 or 1");
  EXPECT_SAYS(texts[1], "BLINK_NCCL_PROCESSES is 0: set BLINK_NCCL_FALLBACK");
}

// --- failures later ---

TEST(nccl_processes, calls_that_disagree_are_named_on_all) {
  for (bool const is_first : {true, false}) {  // the first of its kind: then all meet
    auto const texts =
        after_a_sum(2, [&](own_process& mine, communicator* comm, elements<float> const& data) {
          bool const other = mine.number() == 1;
          auto code = result::success;
          if (other && is_first) {
            code = ncclBroadcast(data.data(), data.data(), 1, data_type::float32, 1, comm,
                                 stream_number(1));
          } else {
            code = sum_on_stream(comm, data, 1, other ? 2 : 1);
          }
          auto text = ending_of(code, comm);  // the process that came first
          text += "|" + said(sum_on_stream(comm, data, 1), comm);
          mine.match();
          (void)ncclCommDestroy(comm);
          return text;
        });
    for (auto const& text : texts) {
      EXPECT_EQ(text[0], '5') << text;
      EXPECT_SAYS(text, "|5: ");
      EXPECT_SAYS(text, "processes disagree: call 2: process ");
      EXPECT_SAYS(text, is_first ? "broadcast" : "count ");
    }
  }
}

TEST(nccl_processes, a_split_beside_another_call_is_named) {
  auto const texts =
      after_a_sum(2, [](own_process& mine, communicator* comm, elements<float> const& data) {
        communicator* part = nullptr;
        auto code = mine.number() == 0 ? ncclCommSplit(comm, 0, 0, &part, nullptr)
                                       : sum_on_stream(comm, data, 1);
        auto const text = ending_of(code, comm);
        mine.match();
        (void)ncclCommDestroy(comm);
        return text;
      });
  for (auto const& text : texts) EXPECT_SAYS(text, "ncclCommSplit");
  for (auto const& text : texts) EXPECT_EQ(text[0], '5') << text;
}

TEST(nccl_processes, who_dies_is_named) {
  auto const texts =
      after_a_sum(3, [](own_process& mine, communicator* comm, elements<float> const& data) {
        if (mine.number() == 1) (void)raise(SIGKILL);
        auto code = sum_on_stream(comm, data, 1);
        auto const text = ending_of(code, comm);
        (void)ncclCommDestroy(comm);
        return text;
      });
  for (int const process : {0, 2}) {
    auto const& text = texts[static_cast<std::size_t>(process)];
    EXPECT_SAYS(text, "6: ");
    EXPECT_SAYS(text, "process 1 (process ");
    EXPECT_SAYS(text, ") has died after 1 calls");
  }
}

TEST(nccl_processes, who_never_calls_is_named) {
  set_deadline("1.5");
  auto const texts =
      after_a_sum(2, [](own_process& mine, communicator* comm, elements<float> const& data) {
        auto code = result::success;
        if (mine.number() == 0) code = sum_on_stream(comm, data, 1);  // returns at once
        auto const text = ending_of(code, comm);
        (void)ncclCommAbort(comm);
        return text;
      });
  unsetenv("BLINK_DEADLINE");
  for (auto const& text : texts) EXPECT_SAYS(text, "6: ");
  EXPECT_SAYS(texts[0], "waits for rank 1 (process 1, device 0)");
  EXPECT_SAYS(texts[0], "has made 1 calls, process 0 has made 2");
}

TEST(nccl_processes, who_never_comes_to_what_all_make_together_is_named) {
  set_deadline("1.5");
  auto const texts =
      after_a_sum(2, [](own_process& mine, communicator* comm, elements<float> const& data) {
        auto code = result::success;
        if (mine.number() == 0) {
          code = ncclBcast(data.data(), 1, data_type::float32, 0, comm, stream_number(1));
        } else {
          code = failure_of(comm);
        }
        auto const text = said(code, comm);
        (void)ncclCommAbort(comm);
        return text;
      });
  unsetenv("BLINK_DEADLINE");
  for (auto const& text : texts) {
    EXPECT_SAYS(text, "6: ");
    EXPECT_SAYS(text, "process 0 calls broadcast and waits for process 1 (process ");
    EXPECT_SAYS(text, "which has not arrived and has made 1 calls");
  }
}

TEST(nccl_processes, an_abort_ends_what_others_wait_for) {
  for (bool const meets : {true, false}) {
    auto const texts =
        after_a_sum(2, [&](own_process& mine, communicator* comm, elements<float> const& data) {
          if (mine.number() == 1) {
            std::this_thread::sleep_for(std::chrono::milliseconds(20));
            return said(ncclCommAbort(comm));
          }
          auto code = meets
                          ? ncclBcast(data.data(), 1, data_type::float32, 0, comm, stream_number(1))
                          : sum_on_stream(comm, data, 1);
          auto const text = ending_of(code, comm);
          devices().synchronize(0, 1);  // the kernel also ends
          (void)ncclCommAbort(comm);
          return text;
        });
    EXPECT_EQ(texts[1], "0: ");
    EXPECT_SAYS(texts[0], "6: ");
    EXPECT_SAYS(texts[0], "rank 1 has aborted the communicator");
  }
}

TEST(nccl_processes, a_thread_may_abort_what_another_waits_for) {
  auto const texts =
      after_a_sum(2, [](own_process& mine, communicator* comm, elements<float> const& data) {
        std::string text;
        if (mine.number() == 0) {
          std::jthread const waits([&] {
            text = said(ncclBcast(data.data(), 1, data_type::float32, 0, comm, stream_number(1)));
          });
          std::this_thread::sleep_for(std::chrono::milliseconds(20));
          (void)ncclCommAbort(comm);
        }
        if (mine.number() == 1) {
          text = said(failure_of(comm), comm);
          (void)ncclCommAbort(comm);
        }
        return text;
      });
  for (auto const& text : texts) EXPECT_SAYS(text, "rank 0 has aborted the communicator");
}

TEST(nccl_processes, who_destroys_while_another_waits_is_named) {
  for (bool const meets : {true, false}) {
    auto const texts =
        after_a_sum(2, [&](own_process& mine, communicator* comm, elements<float> const& data) {
          if (mine.number() == 1) return said(ncclCommDestroy(comm));  // waits for both
          auto code = meets
                          ? ncclBcast(data.data(), 1, data_type::float32, 0, comm, stream_number(1))
                          : sum_on_stream(comm, data, 1);
          auto const text = ending_of(code, comm);
          (void)ncclCommDestroy(comm);
          return text;
        });
    EXPECT_EQ(texts[1], "0: ");
    EXPECT_SAYS(texts[0], meets ? "has left" : "has destroyed its communicator after 1 calls");
  }
}

TEST(nccl_processes, an_abort_does_not_wait_for_a_process_that_stands_still) {
  auto const texts = after_a_sum(
      2,
      [](own_process& mine, communicator* comm, elements<float> const&) {
        if (mine.number() == 1) (void)raise(SIGSTOP);
        return said(ncclCommAbort(comm));  // the deadline is 600 s
      },
      1);
  EXPECT_EQ(texts[0], "0: ");
}

TEST(nccl_processes, wrong_arguments_are_reported_before_others_hear_of_them) {
  auto const texts =
      after_a_sum(2, [](own_process& mine, communicator* comm, elements<float> const& data) {
        std::string text;
        if (mine.number() == 0) {
          float local = 0;
          text = said(ncclAllReduce(nullptr, data.data(), 1, data_type::float32, operation::sum,
                                    comm, nullptr));
          text += "|" + said(ncclAllReduce(&local, data.data(), 1, data_type::float32,
                                           operation::sum, comm, nullptr));
          text += "|" + said(ncclAllReduce(data.data(), data.data(), 1, data_type::float64,
                                           operation::sum, comm, nullptr));
        }
        auto const code = sum_on_stream(comm, data, 1);  // the communicator still works
        devices().synchronize(0, 1);
        (void)ncclCommDestroy(comm);
        return text + "|" + std::to_string(static_cast<int>(code)) + " " +
               std::to_string(static_cast<int>(data[0]));
      });
  EXPECT_SAYS(texts[0], "4: ncclAllReduce: all_reduce on rank 0: the input is null");
  EXPECT_SAYS(texts[0], "|4: ncclAllReduce: all_reduce on rank 0: the input is memory of the host");
  EXPECT_SAYS(texts[0], "|5: ncclAllReduce: ncclAllReduce: this library was built without");
  for (auto const& text : texts) EXPECT_SAYS(text, "|0 4");
}

// --- remaining resources ---

/// The targets of the open files, by number.
std::map<std::string, std::string> open_files() {
  std::map<std::string, std::string> result;
  for (auto const& file : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code problem;
    auto const what = std::filesystem::read_symlink(file.path(), problem).string();
    bool const is_this_folder = what.find("/proc/") == 0;
    if (!problem && !is_this_folder) result[file.path().filename().string()] = what;
  }
  return result;
}
/// The number of files of shared memory whose name contains blink or nccl. Other programs may make
/// and remove other files meanwhile.
std::ptrdiff_t named_memory() {
  std::filesystem::directory_iterator const all("/dev/shm");
  return std::count_if(begin(all), end(all), [](auto const& file) {
    auto const name = file.path().filename().string();
    return name.find("blink") != std::string::npos || name.find("nccl") != std::string::npos;
  });
}
/// True if this process has a file of /dev/shm mapped, whatever its name.
bool has_mapped_named_memory() {
  std::ifstream maps("/proc/self/maps");
  for (std::string line; std::getline(maps, line);) {
    if (line.find("/dev/shm/") != std::string::npos) return true;
  }
  return false;
}

TEST(nccl_processes, nothing_is_left) {
  auto const before = named_memory();
  auto const texts = run_processes(2, [&](own_process& mine) -> std::string {
    auto const files = open_files();
    for (bool const aborts : {false, true}) {
      auto ranks = ranks_of(mine, {1, 2});
      if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
      std::vector<communicator*> part(ranks.size());
      auto const code = ranks.in_group([&](std::size_t rank, communicator* comm) {
        elements<float> const data(0, 1);
        return ncclCommSplit(comm, 0, 0, &part[rank - ranks.first], nullptr);
      });
      if (code != result::success) return said(code);
      if (has_mapped_named_memory()) return "memory of /dev/shm";
      std::vector<communicator*> more(ranks.size() + 1);
      unique_id id{};
      if (mine.number() == 1 && ncclCommGetUniqueId(ranks.comm[1], &id) != result::success) {
        return said(result::internal_error);
      }
      auto const derived = ranks.in_group([&](std::size_t rank, communicator* comm) {
        auto** const to = &more[rank - ranks.first];
        if (rank == 2) (void)ncclCommGrow(nullptr, 4, &id, 3, to + 1, nullptr);
        return ncclCommGrow(comm, 4, nullptr, -1, to, nullptr);
      });
      if (derived != result::success) return said(derived);
      part.insert(part.end(), more.begin(), more.end());
      if (mine.number() == 1) {  // without the rank of process 0
        int excluded = 0;
        part.push_back(nullptr);
        part.push_back(nullptr);
        auto const shrunk = ranks.in_group([&](std::size_t rank, communicator* comm) {
          return ncclCommShrink(comm, &excluded, 1, &part[part.size() - rank], nullptr, 0);
        });
        if (shrunk != result::success) return said(shrunk);
      }
      for (auto* const one : part) (void)(aborts ? ncclCommAbort(one) : ncclCommDestroy(one));
      mine.match();
      for (auto* const one : ranks.comm) (void)(aborts ? ncclCommAbort(one) : ncclCommDestroy(one));
    }
    mine.match();
    std::string more;
    for (auto const& [number, what] : open_files()) {
      if (files.count(number) == 0) more += number + ": " + what + "; ";
    }
    if (!more.empty()) return "open files: " + more;
    if (devices().released_while_open() != 0) return "released while open";
    return "nothing";
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"nothing", "nothing"}));
  EXPECT_EQ(named_memory(), before);
}

}}  // namespace processes_test
