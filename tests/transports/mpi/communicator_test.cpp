// SPDX-License-Identifier: Apache-2.0
// Collectives among the ranks that a launcher started: random cases against a loop, several
// communicators, ranks that are absent or make another call.

#include <blink/collectives.hpp>
#include <blink/schedule/default_tuning.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>
#include <blink/transports/mpi/shaped.hpp>

#include "support/collective_case.hpp"
#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include "support/started_calls.hpp"
#include "support/unequal_case.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

namespace {

using blink_test::collective_case;
using blink_test::run_case;
using std::chrono::milliseconds;

int world_rank() {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  return rank;
}
int world_size() {
  int size = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &size);
  return size;
}

template <class Session>
std::string run_types(Session& comm, blink::schedule const& source, collective_case const& what,
                      std::uint64_t type) {
  switch (type % 3) {
    case 0:
      return run_case<float>(comm, source, what, blink::sum{}, 2);
    case 1:
      return run_case<std::uint8_t, blink::fixed_chunks<37>>(comm, source, what, blink::bit_xor{},
                                                             2);
    default:
      return run_case<blink_test::triple>(comm, source, what, blink_test::triple_reducer{}, 2);
  }
}

/// The threshold of zero copy: for all messages, some or none.
std::size_t zero_copy_threshold(std::uint64_t seed) {
  constexpr std::size_t sizes[] = {1, 600, std::numeric_limits<std::size_t>::max()};
  return sizes[seed % 3];
}

template <class Session>
class mpi_cases : public testing::Test {};
using communicators = testing::Types<blink::mpi_communicator, blink::shaped_mpi_communicator>;
TYPED_TEST_SUITE(mpi_cases, communicators);

TYPED_TEST(mpi_cases, are_exact) {
  for (std::uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);  // equal on all ranks
    blink::communicator_options options;
    options.window = 1 + static_cast<std::uint32_t>(random() % 5);
    options.slot_bytes = 12 + random() % 3000;
    // In every second case all inputs take the trees, also small ones.
    TypeParam comm(MPI_COMM_WORLD, options, seed % 2 * 4096, zero_copy_threshold(seed));
    for (int call = 0; call < 12; ++call) {
      auto const kind = static_cast<blink::collective>(
          blink_test::below(random, static_cast<int>(blink::collective_names.size())));
      auto source = blink_test::random_schedule(random, comm.rank_count(), kind);
      if (TypeParam::transport_type::is_shaped)
        source = blink_test::with_random_routes(random, source);
      collective_case const what{kind, random() % 3000, random() % 2 == 0, random() % 5, seed};
      SCOPED_TRACE(std::string(to_text(kind)) + ", count " + std::to_string(what.count));
      ASSERT_EQ(run_types(comm, source, what, random()), "");
    }
  }
}

TYPED_TEST(mpi_cases, of_unequal_blocks_are_exact) {
  for (std::uint64_t seed = 0; seed < 4; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    blink::communicator_options options;
    options.window = 1 + static_cast<std::uint32_t>(random() % 5);
    options.slot_bytes = 12 + random() % 3000;
    TypeParam comm(MPI_COMM_WORLD, options, seed % 2 * 4096, zero_copy_threshold(seed));
    for (int call = 0; call < 4; ++call) {
      auto const [source, what] = blink_test::random_unequal_case(random, comm.rank_count(), 800);
      SCOPED_TRACE(to_text(what.kind));
      ASSERT_EQ(random() % 2 == 0 ? blink_test::run_unequal<float>(comm, source, what, blink::sum{})
                                  : blink_test::run_unequal<blink_test::triple>(
                                        comm, source, what, blink_test::triple_reducer{}),
                "");
    }
  }
}

TYPED_TEST(mpi_cases, that_are_started) {
  for (std::uint64_t seed = 0; seed < 2; ++seed) {
    blink::communicator_options options;
    options.slot_bytes = 512;
    TypeParam comm(MPI_COMM_WORLD, options, seed * 4096, zero_copy_threshold(seed));
    auto const own = seed * 8 + static_cast<std::uint64_t>(comm.rank());
    EXPECT_EQ(blink_test::run_started_calls(comm, blink::progress::in_waits, own), "");
    int level = MPI_THREAD_SINGLE;
    MPI_Query_thread(&level);
    if (level == MPI_THREAD_MULTIPLE) {
      EXPECT_EQ(blink_test::run_started_calls(comm, blink::progress::thread, own), "");
    } else {
      EXPECT_ERROR((blink::call_queue(comm, blink::progress::thread)), "MPI_THREAD_MULTIPLE");
    }
  }
}

TEST(mpi_communicator, schedules_and_sizes_in_turn) {
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  auto const star = blink::star_schedule(comm.rank_count());
  auto const chain = blink::chain_schedule(comm.rank_count(), 0);
  for (std::size_t const count : {1U, 1000U, 300000U, 1U, 0U, 70000U}) {
    for (auto const& source : {star, chain}) {
      collective_case const what{blink::collective::all_reduce, count, false, 0, count};
      ASSERT_EQ(run_case<float>(comm, source, what, blink::sum{}, 3), "") << count;
    }
  }
}

// Repeated calls above the library's own eager limit go in parts. Each size is called three times,
// also with another call in between.
TEST(mpi_communicator, calls_that_repeat_are_exact_at_every_size) {
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  using blink::collective;
  for (auto const kind : {collective::all_reduce, collective::broadcast, collective::reduce,
                          collective::all_gather, collective::all_to_all, collective::scatter}) {
    for (std::size_t const bytes : {1U, 999U, 3999U, 4000U, 4001U, 7999U, 8000U, 8192U, 11999U,
                                    12000U, 12001U, 20000U, 23999U, 24000U}) {
      for (int call = 0; call < 6; ++call) {
        auto const called = call == 3 ? collective::all_reduce : kind;
        collective_case const what{called, call == 3 ? 5000 : bytes, call % 2 == 0, 0,
                                   static_cast<std::uint64_t>(call)};
        ASSERT_EQ(
            run_case<std::uint8_t>(comm, blink::default_schedule(called, comm.rank_count(), 0),
                                   what, blink::bit_xor{}, 1),
            "")
            << to_text(kind) << ", " << bytes << " bytes, call " << call;
      }
    }
  }
}

TEST(mpi_communicator, all_ranks_find_the_same_eager_size) {
  blink::mpi_channel channel(MPI_COMM_WORLD);
  int const found = static_cast<int>(channel.eager_bytes());
  int least = 0;
  int most = 0;
  MPI_Allreduce(&found, &least, 1, MPI_INT, MPI_MIN, MPI_COMM_WORLD);
  MPI_Allreduce(&found, &most, 1, MPI_INT, MPI_MAX, MPI_COMM_WORLD);
  EXPECT_EQ(least, most);
  EXPECT_GT(least, 0);
}

TEST(mpi_communicator, order_is_kept_where_it_matters) {
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  collective_case const what{blink::collective::all_reduce, 1000, false, 0, 7};
  for (auto const& source :
       {blink::binomial_schedule(comm.rank_count(), 0), blink::star_schedule(comm.rank_count())}) {
    EXPECT_EQ(run_case<blink_test::affine>(comm, source, what, blink_test::compose{}), "");
  }
}

TEST(mpi_communicator, many_calls_without_waiting_for_others) {
  // A broadcast needs no data from its leaves: the root must not run ahead of them without bound.
  blink::communicator_options options;
  options.window = 2;
  options.slot_bytes = 256;
  blink::mpi_communicator comm(MPI_COMM_WORLD, options, 0);
  auto& prepared = comm.prepare(blink::flat_schedule(comm.rank_count(), 0));
  std::vector<int> data(500);
  for (int call = 0; call < 300; ++call) {
    if (comm.rank() == 0) data.assign(data.size(), call);
    if (comm.rank() == 1 && call % 50 == 0) std::this_thread::sleep_for(milliseconds(1));
    blink::broadcast(comm, prepared, static_cast<int const*>(data.data()), data.data(),
                     data.size());
    ASSERT_EQ(data.front(), call);
    ASSERT_EQ(data.back(), call);
  }
}

/// A sum that waits for a message of another rank, on one rank, and throws.
struct breaking_sum {
  int waits_for = -1;
  int operator()(int a, int b) const {
    if (waits_for < 0) return a + b;
    int word = 0;
    MPI_Recv(&word, 1, MPI_INT, waits_for, 7, MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    throw std::runtime_error("broken");
  }
};

// One rank has done its part of a call and fails the next one. Then another rank fails in the first
// one.
TEST(mpi_communicator, the_earliest_call_that_fails_is_reported_whenever_it_does) {
  int const ranks = world_size();
  if (ranks < 3) GTEST_SKIP() << "needs three ranks";
  int const last = ranks - 2;  // of the chain
  int const thrower = ranks - 3;
  blink::communicator_options options;
  options.waits.deadline = std::chrono::seconds(10);
  blink::mpi_communicator comm(MPI_COMM_WORLD, options, 0);
  auto const chain = blink::chain_schedule(ranks, ranks - 1);
  int const sent = 1;
  int got = 0;
  auto const reduce = [&](breaking_sum const& sum) {
    blink::reduce(comm, chain, &sent, &got, 1, sum);
  };
  if (comm.rank() == last) {
    reduce({});
    comm.fail("of the next call");
    MPI_Send(&sent, 1, MPI_INT, thrower, 7, MPI_COMM_WORLD);
    EXPECT_THROW(reduce({}), blink::collective_error);
  } else if (comm.rank() == thrower) {
    EXPECT_THROW(reduce({last}), std::runtime_error);
  } else {
    EXPECT_ERROR(reduce({}), "broken");
  }
}

TEST(mpi_communicator, several_communicators_side_by_side) {
  int const rank = world_rank();
  MPI_Comm half = MPI_COMM_NULL;
  ASSERT_EQ(MPI_Comm_split(MPI_COMM_WORLD, rank % 2, -rank, &half), MPI_SUCCESS);
  {
    blink::mpi_communicator all(MPI_COMM_WORLD);
    blink::mpi_communicator again(MPI_COMM_WORLD);
    blink::mpi_communicator part(half);
    for (int turn = 0; turn < 3; ++turn) {
      for (blink::mpi_communicator* const comm : {&part, &all, &again}) {
        int const one = 1;
        int sum = 0;
        blink::all_reduce(*comm, blink::star_schedule(comm->rank_count()), &one, &sum, 1,
                          blink::sum{});
        EXPECT_EQ(sum, comm->rank_count());
      }
    }
    int const mine = world_rank();
    int first = -1;  // ranks of `half` are reversed
    blink::broadcast(part, blink::flat_schedule(part.rank_count(), 0), &mine, &first, 1);
    int const last_of_half = (world_size() - 1 - rank % 2) / 2 * 2 + rank % 2;
    EXPECT_EQ(first, last_of_half);
  }
  MPI_Comm_free(&half);
}

TEST(mpi_communicator, ranks_end_communicators_in_orders_of_their_own) {
  std::optional<blink::mpi_communicator> first(std::in_place, MPI_COMM_WORLD);
  std::optional<blink::mpi_communicator> second(std::in_place, MPI_COMM_WORLD);
  std::optional<blink::mpi_communicator>* order[] = {&first, &second};
  if (first->rank() % 2 == 0) std::swap(order[0], order[1]);
  auto const started = std::chrono::steady_clock::now();
  static_cast<void>((*order[0])->try_end());
  while (!(*order[1])->try_end() || !(*order[0])->try_end()) std::this_thread::yield();
  (*order[0]).reset();
  (*order[1]).reset();
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20));
}

// Destructors alone, as of local variables and of members.
TEST(mpi_communicator, destructors_in_orders_of_their_own_do_not_wait_for_the_deadline) {
  auto const started = std::chrono::steady_clock::now();
  for (int round = 0; round < 3; ++round) {
    std::optional<blink::mpi_communicator> first(std::in_place, MPI_COMM_WORLD);
    std::optional<blink::mpi_communicator> second(std::in_place, MPI_COMM_WORLD);
    std::optional<blink::mpi_communicator> third(std::in_place, MPI_COMM_WORLD);
    if (first->rank() % 2 == 0) {
      first.reset();
      third.reset();
      second.reset();
    } else {
      second.reset();
      third.reset();
      first.reset();
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(10));
}

TEST(mpi_communicator, edges_count_what_they_carried) {
  blink::mpi_communicator comm(MPI_COMM_WORLD, {}, 0);
  auto& prepared = comm.prepare(blink::chain_schedule(comm.rank_count(), 0));
  std::vector<float> in(10000, 1);
  std::vector<float> out(10000);
  blink::all_reduce(comm, prepared, in.data(), out.data(), in.size(), blink::sum{});
  auto const [ends, count] = prepared.tables().ends(comm.rank());
  for (std::size_t k = 0; k < count; ++k) EXPECT_EQ(ends[k].bytes, 40000U);
}

// --- failures ------------------------------------------------------------------------------------

blink::communicator_options patient_for(milliseconds deadline) {
  blink::communicator_options result;
  result.waits.deadline = deadline;
  result.slot_bytes = 256;
  return result;
}

/// The collective_error that a rank's function threw, if any.
template <class Function>
std::optional<blink::collective_error> error_of(blink::mpi_communicator& comm,
                                                Function const& function) {
  try {
    function(comm);
  } catch (blink::collective_error const& failure) {
    return failure;
  }
  return std::nullopt;
}

void sum_up(blink::mpi_communicator& comm, blink::schedule const& source, std::size_t count) {
  std::vector<int> in(count, 1);
  std::vector<int> out(count);
  blink::all_reduce(comm, source, in.data(), out.data(), count, blink::sum{});
  for (int const value : out) ASSERT_EQ(value, comm.rank_count());
}

TEST(mpi_faults, a_rank_that_never_comes_is_named_by_all_others) {
  blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(milliseconds(600)), 0);
  MPI_Barrier(MPI_COMM_WORLD);  // on a busy machine processes start one after the other
  int const absent = comm.rank_count() - 1;
  auto const failure = error_of(comm, [&](auto& here) {
    if (here.rank() == absent) {
      MPI_Barrier(MPI_COMM_WORLD);
      return;
    }
    struct at_end {
      ~at_end() { MPI_Barrier(MPI_COMM_WORLD); }
    } const others_are_done;
    sum_up(here, blink::chain_schedule(here.rank_count(), 0), 10000);
  });
  if (comm.rank() == absent) return;
  ASSERT_TRUE(failure);
  EXPECT_EQ(failure->peer, absent) << failure->what();
  EXPECT_EQ(failure->rank, comm.rank());
  EXPECT_EQ(failure->tree, 0);
  EXPECT_NE(std::string(failure->what()).find("has not entered call 1"), std::string::npos)
      << failure->what();
}

TEST(mpi_faults, a_rank_that_leaves_is_named_long_before_the_deadline) {
  auto const started = std::chrono::steady_clock::now();
  {
    std::optional<blink::mpi_communicator> comm(std::in_place, MPI_COMM_WORLD,
                                                patient_for(std::chrono::seconds(20)));
    auto const star = blink::star_schedule(comm->rank_count());
    for (int call = 0; call < 3; ++call) sum_up(*comm, star, 100);
    if (comm->rank() != 1) {
      auto const failure = error_of(*comm, [&](auto& here) { sum_up(here, star, 100); });
      ASSERT_TRUE(failure);
      EXPECT_EQ(failure->peer, 1) << failure->what();
      EXPECT_NE(std::string(failure->what()).find("has left without entering call 4"),
                std::string::npos)
          << failure->what();
    }
  }
  EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(20));
}

/// A sum that sleeps once on one rank.
struct sleeping_sum {
  milliseconds* pause;  // zero: no sleep
  int operator()(int a, int b) const {
    std::this_thread::sleep_for(std::exchange(*pause, milliseconds(0)));
    return a + b;
  }
};

// Includes the case that the first rank to give up waits for a rank that itself waits.
TEST(mpi_faults, a_rank_that_hangs_in_a_reducer_is_named_by_all_others) {
  int const ranks = world_size();
  auto const soon = milliseconds(600);
  struct {
    blink::schedule source;
    std::size_t count;
    std::size_t eager_limit;
    int culprit;
    int first;  // the rank that gives up
  } const cases[] = {
      {blink::star_schedule(ranks), 5000, 0, 1, 0},
      {blink::chain_schedule(ranks, 0), 5000, 0, ranks - 2, 0},
      {blink::chain_schedule(ranks, 0), 5000, 0, 0, ranks - 1},
      {blink::chain_schedule(ranks, ranks - 1), 1, 0, ranks - 1, ranks - 2},
      {blink::star_schedule(ranks), 1, 4096, ranks - 1,
       0},  // it hangs where no peer waits for it yet
  };
  for (auto const& [source, count, eager_limit, culprit, first] : cases) {
    SCOPED_TRACE("culprit " + std::to_string(culprit) + ", count " + std::to_string(count));
    int const rank = world_rank();
    blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(rank == first ? soon : 2 * soon),
                                 eager_limit);
    std::vector<int> const in(count, 1);
    std::vector<int> out(count);
    milliseconds pause(0);
    auto const call = [&](auto& here) {
      blink::all_reduce(here, source, in.data(), out.data(), count, sleeping_sum{&pause});
    };
    call(comm);
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == culprit) pause = soon * 5 / 2;  // the peers have answered by then
    auto const failure = error_of(comm, [&](auto& here) {
      for (int turn = 0; turn < 2; ++turn) call(here);
    });
    MPI_Barrier(MPI_COMM_WORLD);
    if (rank == culprit) continue;
    EXPECT_TRUE(failure);  // all ranks continue with the next case
    if (!failure) continue;
    EXPECT_EQ(failure->peer, culprit) << failure->what();
    EXPECT_SAYS(failure->what(), "rank " + std::to_string(culprit));
  }
}

TEST(mpi_faults, a_late_rank_is_waited_for) {
  blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(std::chrono::seconds(20)));
  if (comm.rank() == 1) std::this_thread::sleep_for(milliseconds(40));
  sum_up(comm, blink::binomial_schedule(comm.rank_count(), 0), 300);
}

TEST(mpi_faults, a_rank_that_makes_no_communicator_is_missed_after_the_deadline) {
  MPI_Comm copy = MPI_COMM_NULL;
  MPI_Comm_dup(MPI_COMM_WORLD, &copy);
  int rank = 0;
  MPI_Comm_rank(copy, &rank);
  if (rank == 0) {
    try {
      blink::mpi_channel const alone(copy, std::chrono::milliseconds(200));
      ADD_FAILURE() << "made without the others";
    } catch (blink::collective_error const& missed) {
      EXPECT_NE(std::string(missed.what()).find("has waited 200 ms for the other ranks"),
                std::string::npos)
          << missed.what();
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
  // What rank 0 began stays with the library. The others end it, and keep what they get.
  if (rank != 0) static_cast<void>(new blink::mpi_channel(copy));
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(mpi_faults, another_count_operation_type_or_schedule_is_reported_by_all) {
  char const* const words[] = {"count", "operation", "types", "schedule"};
  for (int what = 0; what < 4; ++what) {
    blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(std::chrono::seconds(20)));
    auto const star = blink::star_schedule(comm.rank_count());
    auto& chain = comm.prepare(blink::chain_schedule(comm.rank_count(), 0));
    bool const differs = comm.rank() == comm.rank_count() - 1;
    auto const failure = error_of(comm, [&](auto& here) {
      if (!differs) return sum_up(here, star, 100);
      std::vector<int> in(100, 1);
      std::vector<int> out(400);
      std::vector<float> floats(100);
      if (what == 0) sum_up(here, star, 99);
      if (what == 1) blink::all_gather(here, star, in.data(), out.data(), 100);
      if (what == 2) {
        blink::all_reduce(here, star, static_cast<float const*>(floats.data()), floats.data(), 100,
                          blink::sum{});
      }
      if (what == 3) blink::all_reduce(here, chain, in.data(), out.data(), 100, blink::sum{});
    });
    ASSERT_TRUE(failure) << what;
    EXPECT_NE(std::string(failure->what()).find(words[what]), std::string::npos) << failure->what();
    auto const again = error_of(comm, [&](auto& here) { sum_up(here, star, 1); });
    EXPECT_TRUE(again) << "a communicator that failed refuses";
  }
}

// The peers wait for the second part of a message, which that rank does not send.
TEST(mpi_faults, a_mismatch_is_reported_where_the_others_go_in_parts) {
  for (std::size_t const other : {1U, 1100U, 1300U, 6000U}) {
    blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(std::chrono::seconds(20)));
    auto const star = blink::star_schedule(comm.rank_count());
    for (int call = 0; call < 3; ++call) sum_up(comm, star, 1200);
    auto const failure =
        error_of(comm, [&](auto& here) { sum_up(here, star, here.rank() == 0 ? other : 1200); });
    ASSERT_TRUE(failure) << other;
    EXPECT_SAYS(failure->what(), "1200");
    EXPECT_SAYS(failure->what(), std::to_string(other));
  }
}

// Ranks send a call description only if they have not sent it recently.
TEST(mpi_faults, a_mismatch_is_reported_after_many_other_calls) {
  blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(std::chrono::seconds(20)));
  auto const star = blink::star_schedule(comm.rank_count());
  for (int round = 0; round < 2; ++round) {
    for (std::size_t count = 101; count <= 111; ++count) sum_up(comm, star, count);
  }
  auto const failure =
      error_of(comm, [&](auto& here) { sum_up(here, star, here.rank() == 0 ? 111 : 102); });
  ASSERT_TRUE(failure);
  std::string const text = failure->what();
  EXPECT_NE(text.find("111"), std::string::npos) << text;
  EXPECT_NE(text.find("102"), std::string::npos) << text;
  EXPECT_TRUE(failure->disagrees) << text;
}

TEST(mpi_faults, schedules_prepared_in_another_order) {
  auto options = patient_for(std::chrono::seconds(20));
  options.shares_memory = false;  // in shared memory the order is free
  blink::mpi_communicator comm(MPI_COMM_WORLD, options);
  auto const star = blink::star_schedule(comm.rank_count());
  if (comm.rank() == 0) comm.prepare(blink::flat_schedule(comm.rank_count(), 0));
  auto const failure = error_of(comm, [&](auto& here) { sum_up(here, star, 10); });
  ASSERT_TRUE(failure);
  EXPECT_NE(std::string(failure->what()).find("different orders"), std::string::npos)
      << failure->what();
}

TEST(mpi_faults, an_exception_ends_the_others) {
  blink::mpi_communicator comm(MPI_COMM_WORLD, patient_for(std::chrono::seconds(20)));
  auto const work = [&](auto& here) {
    if (here.rank() == 1) throw std::runtime_error("no coffee");
    sum_up(here, blink::star_schedule(here.rank_count()), 10);
  };
  if (comm.rank() == 1) {
    EXPECT_THROW(comm.run(work), std::runtime_error);
  } else {
    auto const failure = error_of(comm, work);
    ASSERT_TRUE(failure);
    EXPECT_NE(std::string(failure->what()).find("no coffee"), std::string::npos) << failure->what();
    EXPECT_FALSE(failure->disagrees);
  }
}

TEST(mpi_preconditions, of_threads) {
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  auto const call = [&] { blink::barrier(comm, blink::star_schedule(comm.rank_count())); };
  std::string refused;
  std::thread([&] {
    try {
      call();
    } catch (blink::precondition_error const& failure) {
      refused = failure.what();
    }
  }).join();
  int level = MPI_THREAD_SINGLE;
  MPI_Query_thread(&level);
  if (level < MPI_THREAD_SERIALIZED) {
    EXPECT_SAYS(refused, "main thread");
  } else {
    EXPECT_EQ(refused, "");
  }
  call();
}

TEST(mpi_preconditions, of_communicators) {
  EXPECT_THROW(blink::mpi_communicator(MPI_COMM_NULL), blink::precondition_error);
  blink::communicator_options options;
  options.window = world_rank() == 0 ? 3 : 4;
  EXPECT_ERROR(blink::mpi_communicator(MPI_COMM_WORLD, options), "window differs between ranks");
  options.window = 2;
  options.slot_bytes = 0;
  EXPECT_THROW(blink::mpi_communicator(MPI_COMM_WORLD, options), blink::precondition_error);
  bool const is_wrong = world_rank() == 1;  // only there: its peers must not wait for it
  options.slot_bytes = is_wrong ? 0 : 1024;
  EXPECT_ERROR(blink::mpi_communicator(MPI_COMM_WORLD, options),
               is_wrong ? "slot_bytes is 0" : "out of range on rank 1");
  options.slot_bytes = 1024;
  options.team_size = is_wrong ? 2 : 1;
  EXPECT_ERROR(blink::mpi_communicator(MPI_COMM_WORLD, options),
               is_wrong ? "team_size above 1" : "out of range on rank 1");
  blink::mpi_communicator comm(MPI_COMM_WORLD);
  EXPECT_THROW(comm.prepare(blink::star_schedule(comm.rank_count() + 1)),
               blink::precondition_error);
  blink::mpi_communicator other(MPI_COMM_WORLD);
  auto& foreign = other.prepare(blink::star_schedule(comm.rank_count()));
  int const one = 1;
  int sum = 0;
  EXPECT_THROW(blink::all_reduce(comm, foreign, &one, &sum, 1, blink::sum{}),
               blink::precondition_error);
}

}  // namespace
