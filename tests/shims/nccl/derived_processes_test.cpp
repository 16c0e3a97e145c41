// SPDX-License-Identifier: Apache-2.0
// Communicators made from others whose ranks are in several processes: after a process has died,
// after a revoke, with new processes.

#include "forked_program.hpp"
#include "support/expect_error.hpp"

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The sources of a folder may be compiled as one.
namespace derived_processes_test { namespace {

using namespace blink_test;
using texts = std::vector<std::string>;

/// The sum of 1, 2, 4, ... by process over a communicator with a rank here, and the rank's place;
/// or the error.
std::string sum_over(communicator* comm, int process) {
  elements<float> const data(0, 1, static_cast<float>(1 << process));
  if (auto const code = sum_on_stream(comm, data, 1); code != result::success) return said(code);
  devices().synchronize(0, 1);
  return place_in(comm) + ": " + std::to_string(static_cast<int>(data[0]));
}
result shrink(communicator* comm, int excluded, communicator** made, int flags = 0) {
  return ncclCommShrink(comm, &excluded, 1, made, nullptr, flags);
}

TEST(nccl_derived_processes, shrunk_beside_a_parent_that_goes_on) {
  auto const found =
      after_a_sum(4, [](own_process& mine, communicator* comm, elements<float> const&) {
        std::string text;
        for (int round = 0; round < 2; ++round) {
          communicator* made = nullptr;
          if (mine.number() == 2) continue;
          if (auto const code = shrink(comm, 2, &made); code != result::success) return said(code);
          text += sum_over(made, mine.number()) + ", ";
          (void)ncclCommDestroy(made);
        }
        text += sum_over(comm, mine.number());
        (void)ncclCommDestroy(comm);
        return text;
      });
  EXPECT_EQ(found,
            (texts{"0 of 3: 11, 0 of 3: 11, 0 of 4: 15", "1 of 3: 11, 1 of 3: 11, 1 of 4: 15",
                   "2 of 4: 15", "2 of 3: 11, 2 of 3: 11, 3 of 4: 15"}));
}

TEST(nccl_derived_processes, shrunk_without_a_process_that_died) {
  for (int const flags : {0, shrink_aborts}) {
    auto const found =
        after_a_sum(3, [&](own_process& mine, communicator* comm, elements<float> const&) {
          if (mine.number() == 1) (void)raise(SIGKILL);
          elements<float> const data(0, 1);
          auto const lost = ending_of(sum_on_stream(comm, data, 1), comm);
          if (lost.find("has died") == std::string::npos) return lost;
          communicator* made = nullptr;
          if (auto const code = shrink(comm, 1, &made, flags); code != result::success) {
            return said(code);
          }
          auto const begin = std::chrono::steady_clock::now();
          (void)ncclCommDestroy(comm);
          bool const is_soon = std::chrono::steady_clock::now() - begin < std::chrono::seconds(20);
          auto const text = sum_over(made, mine.number());
          (void)ncclCommDestroy(made);
          return is_soon ? text : "the parent was destroyed late";
        });
    EXPECT_EQ(found[0], "0 of 2: 5");
    EXPECT_EQ(found[2], "1 of 2: 5");
  }
}

TEST(nccl_derived_processes, several_ranks_of_each) {
  auto const found = run_processes(2, [](own_process& mine) -> std::string {
    auto ranks = ranks_of(mine, {2, 2});
    if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
    std::vector<communicator*> made(2);
    auto const code = ranks.in_group([&](std::size_t rank, communicator* comm) {
      return rank == 1 ? result::success : shrink(comm, 1, &made[rank - ranks.first]);
    });
    if (code != result::success) return said(code);
    elements<float> const a(0, 1, 1.0F), b(1, 1, 1.0F);
    (void)ncclGroupStart();
    if (made[0] != nullptr) (void)sum_on_stream(made[0], a, 1);
    if (made[1] != nullptr) (void)sum_on_stream(made[1], b, 2);
    if (auto const how = ncclGroupEnd(); how != result::success) return said(how);
    devices().synchronize(0, 1);
    std::string const text = place_in(made[0]) + ": " + std::to_string(static_cast<int>(a[0]));
    for (auto* const one : made) (void)ncclCommDestroy(one);
    return ranks.destroy() == result::success ? text : "not destroyed";
  });
  EXPECT_EQ(found, (texts{"0 of 3: 3", "1 of 3: 3"}));
}

TEST(nccl_derived_processes, a_revoke_reaches_all_and_is_followed_by_a_split) {
  auto const found =
      after_a_sum(3, [](own_process& mine, communicator* comm, elements<float> const&) {
        if (mine.number() == 0) {
          if (auto const code = ncclCommRevoke(comm, 0); code != result::success) return said(code);
        } else {
          elements<float> const data(0, 1);
          auto const lost = ending_of(sum_on_stream(comm, data, 1), comm);
          if (lost.find("rank 0 has revoked the communicator") == std::string::npos) return lost;
          if (auto const code = ncclCommRevoke(comm, 0); code != result::success) return said(code);
        }
        if (async_error(comm) != result::success) return std::string("not idle");
        communicator* part = nullptr;
        auto const code = ncclCommSplit(comm, mine.number() == 1 ? 4 : 3, 0, &part, nullptr);
        if (code != result::success) return said(code);
        auto const text = sum_over(part, mine.number());
        (void)ncclCommDestroy(part);
        (void)ncclCommDestroy(comm);
        return text;
      });
  EXPECT_EQ(found, (texts{"0 of 2: 5", "0 of 1: 2", "1 of 2: 5"}));
}

TEST(nccl_derived_processes, new_processes_are_added_twice) {
  auto const found = run_processes(3, [](own_process& mine) -> std::string {
    communicator* comm = nullptr;
    auto const first = mine.new_id();
    if (mine.number() == 0) {
      auto const code = ncclCommInitRank(&comm, 1, first, 0);
      if (code != result::success) return said(code);
    }
    std::string text;
    for (int round = 1; round <= 2; ++round) {  // process `round` joins
      int const maker = round - 1;
      unique_id own{};
      if (mine.number() == maker && ncclCommGetUniqueId(comm, &own) != result::success) {
        return said(result::internal_error);
      }
      auto const id = mine.exchange(own)[static_cast<std::size_t>(maker)];
      if (mine.number() > round) continue;
      communicator* more = nullptr;
      auto const code = mine.number() == round
                            ? ncclCommGrow(nullptr, round + 1, &id, round, &more, nullptr)
                            : ncclCommGrow(comm, round + 1, mine.number() == maker ? &id : nullptr,
                                           -1, &more, nullptr);
      if (code != result::success) return said(code);
      if (comm != nullptr) (void)ncclCommDestroy(comm);
      comm = more;
      text += sum_over(comm, mine.number()) + " ";
    }
    (void)ncclCommDestroy(comm);
    return text;
  });
  EXPECT_EQ(found, (texts{"0 of 2: 3 0 of 3: 7 ", "1 of 2: 3 1 of 3: 7 ", "2 of 3: 7 "}));
}

TEST(nccl_derived_processes, new_ranks_that_are_not_in_a_row_are_refused_to_all) {
  auto const found =
      after_a_sum(2, [](own_process& mine, communicator* comm, elements<float> const&) {
        unique_id id{};
        communicator* made[2] = {};
        (void)ncclGroupStart();
        if (mine.number() == 0) {
          if (ncclCommGetUniqueId(comm, &id) != result::success)
            return said(result::internal_error);
          (void)ncclCommGrow(nullptr, 3, &id, 2, &made[1], nullptr);
        }
        (void)ncclCommGrow(comm, 3, nullptr, -1, &made[0], nullptr);
        auto const text = said(ncclGroupEnd());
        auto const sum = sum_over(comm, mine.number());
        (void)ncclCommDestroy(comm);
        return text + "|" + sum;
      });
  for (auto const& text : found) {
    EXPECT_SAYS(text, "5: ");
    EXPECT_SAYS(text, "ranks 0 and 2 are of process ");
    EXPECT_SAYS(text, " of 2: 3");
  }
}

TEST(nccl_derived_processes, statistics_and_a_hash_that_is_equal_in_all) {
  auto const found = run_processes(2, [](own_process& mine) -> std::string {
    auto ranks = ranks_of(mine, {1, 1});
    if (auto const code = ranks.begin(mine.new_id()); code != result::success) return said(code);
    std::uint64_t bytes = 0;
    (void)ncclCommMemStats(ranks.comm[0], memory_statistic::total_bytes, &bytes);
    communicator_properties own{};
    own.size = sizeof own;
    own.magic = communicator_properties::expected_magic;
    own.version = interface_version;
    if (auto const code = ncclCommQueryProperties(ranks.comm[0], &own); code != result::success) {
      return said(code);
    }
    auto const all = mine.exchange(own.hash);
    (void)ranks.destroy();
    return all[0] == all[1] && all[0] != 0 && bytes > 0 ? "right" : "wrong";
  });
  EXPECT_EQ(found, (texts{"right", "right"}));
}

}}  // namespace derived_processes_test
