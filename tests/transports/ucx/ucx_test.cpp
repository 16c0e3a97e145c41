// SPDX-License-Identifier: Apache-2.0
// Ranks that UCX joins: the channel, collectives, and ranks that die, hang or leave.

#include <blink/collectives.hpp>
#include <blink/transports/host/split_communicator.hpp>

#include "support/collective_case.hpp"
#include "support/expect_error.hpp"
#include "support/fault_injection.hpp"
#include "support/faulty_transport.hpp"
#include "support/front_door_case.hpp"
#include "support/message_channel_conformance.hpp"
#include "support/random_schedules.hpp"
#include "support/split_case.hpp"
#include "ucx_ranks.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <fstream>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace {

using blink::collective;
using blink::ucx_communicator;
using blink_test::run_ucx_processes;
using blink_test::run_ucx_threads;
using std::chrono::milliseconds;

class three_ucx_threads {
 public:
  using channel = blink::ucx_channel;
  template <class Function>
  void run(Function const& function) {
    run_ucx_threads(3, [&](blink::file_bootstrap& all) {
      channel own(all);
      function(own);
    });
  }
};

TEST(ucx_cases, are_exact) {
  for (std::uint64_t seed = 0; seed < 8; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 first(seed);
    int const ranks = 2 + static_cast<int>(first() % 3);
    run_ucx_threads(ranks, [&](blink::file_bootstrap& all) {
      auto random = first;  // equal on all ranks
      blink::communicator_options options;
      options.shares_memory = seed % 2 == 0;
      options.window = 1 + static_cast<std::uint32_t>(random() % 4);
      options.slot_bytes = 12 + random() % 3000;
      options.eager_payload = seed % 3 == 0 ? 0 : 4096;
      ucx_communicator comm(all, options, options.eager_payload, seed % 4 == 0 ? 1 : 600);
      for (int call = 0; call < 8; ++call) {
        auto const kind = static_cast<collective>(
            blink_test::below(random, static_cast<int>(blink::collective_names.size())));
        auto const source = blink_test::random_schedule(random, ranks, kind);
        blink_test::collective_case const what{kind, random() % 3000, random() % 2 == 0,
                                               random() % 5, seed};
        ASSERT_EQ(blink_test::run_case<float>(comm, source, what, blink::sum{}, 2), "")
            << to_text(kind) << ", count " << what.count;
      }
    });
  }
}

TEST(ucx_communicator, every_collective_runs_without_a_schedule) {
  for (bool const shares_memory : {false, true}) {
    run_ucx_threads(3, [&](blink::file_bootstrap& all) {
      auto options = blink::message_options();
      options.shares_memory = shares_memory;
      ucx_communicator comm(all, options);
      for (std::size_t const count : {0U, 1U, 700U, 20'000U, 3'000'000U}) {
        EXPECT_EQ(blink_test::calls_without_a_schedule(comm, count), "") << count;
      }
    });
  }
}

TEST(ucx_communicator, parts_run_side_by_side) {
  run_ucx_threads(4, [](blink::file_bootstrap& all) {
    ucx_communicator comm(all);
    for (std::uint64_t seed = 0; seed < 4; ++seed) {
      EXPECT_EQ(blink_test::split_at_random(comm, seed), "");
    }
  });
}

TEST(ucx_communicator, processes_run_as_threads_do) {
  auto const ends = run_ucx_processes(3, [](blink::file_bootstrap& all) {
    ucx_communicator comm(all);
    return blink_test::calls_without_a_schedule(comm, 5000).empty() ? 0 : 1;
  });
  EXPECT_EQ(ends, std::vector<int>(3, 0));
}

// Ranks die or hang at random operations; the others name them, shrink and go on.
TEST(ucx_faults, are_named_by_all_others_who_then_go_on) {
  using communicator = blink::basic_message_communicator<blink_test::faulty<blink::ucx_transport>>;
  int const number = blink_test::number_of_faults();
  int happened = 0;
  for (int seed = 0; seed < number; ++seed) {
    blink_test::injection const planned(static_cast<std::uint64_t>(seed));
    SCOPED_TRACE("seed " + std::to_string(seed) + ": rank " + std::to_string(planned.victim) +
                 " of " + std::to_string(planned.ranks) + " " +
                 blink_test::harm_names[static_cast<std::size_t>(planned.what)]);
    bool const hangs =
        planned.what == blink_test::harm::stop || planned.what == blink_test::harm::delay;
    enum end { reported = 0, no_fault = 1, complaint = 2 };
    auto const started = std::chrono::steady_clock::now();
    auto const ends = run_ucx_processes(planned.ranks, [&](blink::file_bootstrap& all) {
      blink::communicator_options options;
      int const way = seed / blink_test::harms % 3;
      options.slot_bytes = way == 1 ? 1 << 14 : 512;
      options.window = 2;
      options.shares_memory = seed % 2 == 1;
      options.eager_payload = way == 2 ? 8192 : 0;
      options.waits.deadline = hangs ? milliseconds(800) : milliseconds(20'000);
      communicator comm(all, options, way == 2 ? 4096 : 0, way == 1 ? 1 : 1 << 20);
      if (comm.rank() == planned.victim) {
        blink_test::arm(
            planned,
            planned.what == blink_test::harm::kill
                ? +[] { std::raise(SIGKILL); }
                : +[] { std::this_thread::sleep_for(milliseconds(6000)); },
            [] { std::this_thread::sleep_for(milliseconds(130)); });
      }
      auto const text = blink_test::run_planned(comm, planned).text;
      if (text != "reported" && text != "no fault") {
        std::fprintf(stderr, "rank %d: %s\n", comm.rank(), text.c_str());
        std::_Exit(complaint);
      }
      // A communicator waits at its end for ranks that hang. A process without that end may take
      // data of its last call with it.
      if (planned.what == blink_test::harm::stop)
        std::_Exit(text == "reported" ? reported : no_fault);
      return static_cast<int>(text == "reported" ? reported : no_fault);
    });
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(15));
    bool const is_expected =
        ends[planned.victim == 0 ? 1 : 0] != no_fault && planned.what != blink_test::harm::delay;
    if (is_expected) ++happened;
    for (int rank = 0; rank < planned.ranks; ++rank) {
      int const found = ends[static_cast<std::size_t>(rank)];
      if (rank == planned.victim && planned.what == blink_test::harm::kill) {
        EXPECT_EQ(found, is_expected ? -SIGKILL : no_fault);
      } else if (rank != planned.victim || planned.is_mismatch()) {
        EXPECT_EQ(found, is_expected ? reported : no_fault) << "rank " << rank;
      }
    }
  }
  EXPECT_GE(happened, number / 2);
}

TEST(ucx_faults, a_process_that_dies_is_named_long_before_the_deadline) {
  auto const ends = run_ucx_processes(3, [](blink::file_bootstrap& all) {
    blink::communicator_options options;
    options.shares_memory = false;
    ucx_communicator comm(all, options);
    std::vector<int> data(100'000, 1);
    auto const started = std::chrono::steady_clock::now();
    // Data of the first call may be lost with the process.
    auto const text = blink_test::error_of([&] {
      for (int call = 0; call < 4; ++call) {
        blink::all_reduce(comm, data);
        if (comm.rank() == 1) std::raise(SIGKILL);
      }
    });
    bool const is_soon = std::chrono::steady_clock::now() - started < std::chrono::seconds(5);
    if (text.find("rank 1 is lost") == std::string::npos || !is_soon) {
      std::fprintf(stderr, "%s\n", text.c_str());
      return 1;
    }
    auto smaller = comm.shrink();
    std::vector<int> again(1000, 2);
    blink::all_reduce(smaller, again);
    return smaller.rank_count() == 2 && again[7] == 4 ? 0 : 2;
  });
  EXPECT_EQ(ends, (std::vector<int>{0, -SIGKILL, 0}));
}

// A process dies, the others shrink, and a new process joins them: with the numbers and the sums of
// three ranks.
TEST(ucx_faults, a_new_process_joins_those_that_remain) {
  blink_test::fresh_folder const first, second;
  auto const ends = run_ucx_processes(4, [&](blink::file_bootstrap& all) {
    auto const sums = [](ucx_communicator& comm, int rank) {
      std::vector<int> data(20'000, 1 << comm.rank());
      blink::all_reduce(comm, data);
      blink::all_reduce(comm, data);
      return comm.rank() == rank && comm.rank_count() == 3 && data.back() == 21;
    };
    if (all.process() == 3) {
      auto joining = blink::file_bootstrap::joining(second.name(), 0);
      ucx_communicator comm(joining);
      return sums(comm, 2) ? 0 : 1;
    }
    blink::file_bootstrap three(first.name(), all.process(), 3);
    ucx_communicator comm(three);
    std::vector<int> data(20'000, 1);
    auto const text = blink_test::error_of([&] {
      for (int call = 0; call < 4; ++call) {
        blink::all_reduce(comm, data);
        if (comm.rank() == 1) std::raise(SIGKILL);
      }
    });
    if (text.find("rank 1") == std::string::npos) return 2;
    auto smaller = comm.shrink();
    auto growing = blink::file_bootstrap::growing(smaller, second.name(), 1);
    ucx_communicator larger(growing);
    return sums(larger, smaller.rank()) ? 0 : 3;
  });
  EXPECT_EQ(ends, (std::vector<int>{0, -SIGKILL, 0, 0}));
}

TEST(file_bootstrap, of_wrong_arguments_is_refused) {
  blink_test::fresh_folder const folder;
  EXPECT_ERROR(blink::file_bootstrap(folder.name() + "/none", 0, 2), "is no folder");
  EXPECT_ERROR(blink::file_bootstrap(folder.name(), 2, 2), "out of range");
  blink::file_bootstrap first(folder.name(), 0, 2, milliseconds(50));
  int own = 1;
  std::array<int, 2> all{};
  EXPECT_ERROR(first.all_gather(&own, all.data(), sizeof own), "process 1 has not written");
  blink::file_bootstrap second(folder.name(), 0, 2, milliseconds(50));
  EXPECT_ERROR(second.all_gather(&own, all.data(), sizeof own), "expected a folder of this job");
  EXPECT_ERROR((void)blink::file_bootstrap::joining(folder.name(), 0, milliseconds(50)),
               "rank 0 of the communicator that grows has not written");
  struct {
    int rank() const { return 0; }
    int rank_count() const { return 3; }
  } const comm;
  EXPECT_ERROR((void)blink::file_bootstrap::growing(comm, folder.name(), -1), "negative number");
  EXPECT_EQ(blink::file_bootstrap::growing(comm, folder.name(), 2).process_count(), 5);
  EXPECT_ERROR((void)blink::file_bootstrap::growing(comm, folder.name(), 2), "of this job");
  EXPECT_EQ(blink::file_bootstrap::joining(folder.name(), 1).process(), 4);
  EXPECT_ERROR((void)blink::file_bootstrap::joining(folder.name(), 2), "process 2 of 2 new ones");
  EXPECT_ERROR((void)blink::file_bootstrap::joining(folder.name(), -1), "negative number");
}

}  // namespace

namespace blink_test {

INSTANTIATE_TYPED_TEST_SUITE_P(ucx, message_channel_conformance, three_ucx_threads);

}  // namespace blink_test
