// SPDX-License-Identifier: Apache-2.0
// Parts of communicators of threads or processes. For MPI ranks see
// tests/transports/mpi/split_test.cpp.

#include <blink/collectives.hpp>
#include <blink/running/walk/team_group.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/split_communicator.hpp>

#include "support/forked_ranks.hpp"
#include "support/random_schedules.hpp"
#include "support/split_case.hpp"
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <algorithm>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <string>
#include <thread>
#include <vector>

// A folder may be compiled as one source.
namespace split_test { namespace {

using blink_test::forked_ranks;
using blink_test::sum_over;

static_assert(blink::splittable_communicator<blink::thread_ranks::communicator_type>);
static_assert(blink::splittable_communicator<blink::process_communicator>);
static_assert(!blink::splittable_communicator<
              blink::thread_communicator<blink::threads_link, blink::team_group>>);

blink::communicator_options patient() {
  blink::communicator_options options;
  options.slot_bytes = 512;
  options.waits.deadline = std::chrono::seconds(20);
  return options;
}

/// Runs `function(comm)`, which returns a text, on threads; returns the texts.
template <class Function>
std::string on_threads(int ranks, Function const& function) {
  std::vector<std::string> texts(static_cast<std::size_t>(ranks));
  blink::thread_ranks all_threads(ranks, patient());
  all_threads.run(
      [&](auto& comm) { texts[static_cast<std::size_t>(comm.rank())] = function(comm); });
  std::string all;
  for (auto const& text : texts) all += text;
  return all;
}

/// The same on processes.
template <class Ranks, class Function>
std::string on_processes(int ranks, Function const& function) {
  forked_ranks all(ranks);
  all.start([&](int rank) {
    Ranks comm(all.path(), rank, patient());
    return function(comm);
  });
  std::string texts;
  for (auto const& end : all.finish()) {
    texts += end.text;
    if (end.status != 0) texts += "status " + std::to_string(end.status);
  }
  return texts;
}

TEST(split, parts_of_threads_are_numbered_by_key_and_run_side_by_side) {
  for (std::uint64_t seed = 0; seed < 25; ++seed) {
    EXPECT_EQ(on_threads(1 + static_cast<int>(seed % 6),
                         [&](auto& comm) { return blink_test::split_at_random(comm, seed); }),
              "");
  }
}

TEST(split, threads_refuse_what_the_whole_has_prepared) {
  EXPECT_EQ(
      on_threads(3, [](auto& comm) { return blink_test::call_with_the_plan_of_the_whole(comm); }),
      "");
}

template <class Ranks>
class split_processes : public testing::Test {};
using rank_owners = testing::Types<blink::process_communicator, blink::direct_process_communicator>;
TYPED_TEST_SUITE(split_processes, rank_owners);

TYPED_TEST(split_processes, parts_are_numbered_by_key_and_run_side_by_side) {
  for (int const ranks : {1, 2, 3, 5}) {
    EXPECT_EQ(on_processes<TypeParam>(ranks,
                                      [](auto& comm) {
                                        std::string wrong;
                                        for (std::uint64_t seed = 0; seed < 6; ++seed) {
                                          wrong += blink_test::split_at_random(comm, seed);
                                        }
                                        return wrong;
                                      }),
              "");
  }
}

TYPED_TEST(split_processes, refuse_what_the_whole_has_prepared) {
  EXPECT_EQ(on_processes<TypeParam>(
                3, [](auto& comm) { return blink_test::call_with_the_plan_of_the_whole(comm); }),
            "");
}

// Each rank is one more mapping in one process, so that ThreadSanitizer sees all ranks.
TEST(split_processes, also_as_threads_of_one_process) {
  auto const segment = blink::shared_segment::create(3, std::size_t{1} << 26);
  std::vector<std::string> wrong(3);
  {
    std::vector<std::jthread> threads;
    for (int rank = 0; rank < 3; ++rank) {
      threads.emplace_back([&, rank] {
        blink::direct_process_communicator comm(segment.path(), rank, patient());
        for (std::uint64_t seed = 0; seed < 5; ++seed) {
          wrong[static_cast<std::size_t>(rank)] += blink_test::split_at_random(comm, seed);
        }
      });
    }
  }
  for (auto const& text : wrong) EXPECT_EQ(text, "");
}

TEST(split_processes, one_buffer_serves_the_whole_and_all_parts) {
  EXPECT_EQ(on_processes<blink::direct_process_communicator>(
                4,
                [](auto& comm) {
                  auto row = blink::split(comm, comm.rank() / 2, 0);
                  auto column = blink::split(comm, comm.rank() % 2, 0);
                  auto data = comm.template allocate<int>(1000);
                  std::fill(data.begin(), data.end(), comm.rank());
                  auto const star = blink::star_schedule(2);
                  blink::all_reduce(*row, star, data.data(), data.data(), 1000, blink::sum{});
                  blink::all_reduce(*column, star, data.data(), data.data(), 1000, blink::sum{});
                  auto const is_sum = [](int value) { return value == 6; };
                  return std::string(std::all_of(data.begin(), data.end(), is_sum) ? "" : "sum ");
                }),
            "");
}

// The connections of a part take more than a tenth of the available memory.
TEST(split_processes, memory_of_a_part_goes_with_it) {
  forked_ranks all(2, std::size_t{4} << 20);
  all.start([&](int rank) -> std::string {
    blink::communicator_options options = patient();
    options.slot_bytes = std::size_t{1} << 16;
    options.window = 2;
    blink::process_communicator comm(all.path(), rank, options);
    for (int round = 0; round < 40; ++round) {
      auto part = blink::split(comm, 0, -rank);
      if (sum_over(*part, rank) != 1) return "wrong";
    }
    return "";
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

TEST(split_processes, a_part_without_memory_is_an_error_on_all_ranks) {
  forked_ranks all(3);
  all.start([&](int rank) -> std::string {
    blink::process_communicator comm(all.path(), rank, patient());
    if (rank == 1) {  // it can open no more files
      rlimit none{};
      getrlimit(RLIMIT_NOFILE, &none);
      none.rlim_cur = 0;
      setrlimit(RLIMIT_NOFILE, &none);
    }
    try {
      auto const part = blink::split(comm, 0, 0);
      return "no error";
    } catch (blink::resource_error const& failure) {
      if (rank == 1) return "own error";
      std::string const text = failure.what();
      return text == "split: rank 1 could not join its part, expected all ranks to join theirs"
                 ? ""
                 : text;
    } catch (blink::input_error const& failure) {
      return rank == 1 ? "" : failure.what();
    }
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "");
}

/// Rank 3 of 4 leaves its part. Rank 2 is alone there; ranks 0 and 1 are unaffected.
template <class Comm, class Leave>
std::string miss_who_left(Comm& comm, Leave const& leave) {
  auto part = blink::split(comm, comm.rank() / 2, 0);
  if (comm.rank() == 3) {
    leave();
    return "";
  }
  if (comm.rank() < 2) return sum_over(*part, 1) == 2 ? "" : "wrong sum";
  try {
    sum_over(*part, 1);
    return "noticed nothing";
  } catch (blink::collective_error const& failure) {
    if (failure.peer != 1) return failure.what();
    auto const alone = part->shrink();
    return alone.rank_count() == 1 ? "" : "not alone";
  }
}

TEST(split, who_leaves_a_part_is_missed_there) {
  auto const start = std::chrono::steady_clock::now();
  EXPECT_EQ(on_threads(4, [](auto& comm) { return miss_who_left(comm, [] {}); }), "");
  EXPECT_EQ(on_processes<blink::process_communicator>(
                4, [](auto& comm) { return miss_who_left(comm, [] {}); }),
            "");
  auto const killed = "status " + std::to_string(SIGKILL);
  EXPECT_EQ(on_processes<blink::process_communicator>(
                4, [](auto& comm) { return miss_who_left(comm, [] { raise(SIGKILL); }); }),
            killed);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(15))
      << "expected no rank to wait for the deadline";
}

}}  // namespace split_test
