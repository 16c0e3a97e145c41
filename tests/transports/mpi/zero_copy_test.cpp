// SPDX-License-Identifier: Apache-2.0
// Zero copy messages in alternation with messages through slots, and the buffers after a call
// fails.

#include <blink/collectives.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include "support/collective_case.hpp"
#include "support/mapped_floats.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace lent_buffers_test { namespace {

using blink::collective;
using blink_test::collective_case;
using blink_test::mapped_floats;
using blink_test::run_case;

// Above the eager limit of MPI libraries.
constexpr std::size_t slot_bytes = std::size_t{1} << 16;

TEST(mpi_lent_buffers, take_turns_with_slots) {
  for (std::uint32_t const window : {1U, 2U, 5U}) {
    blink::communicator_options options;
    options.shares_memory = false;
    options.window = window;
    options.slot_bytes = slot_bytes;
    blink::mpi_communicator comm(MPI_COMM_WORLD, options, 0, slot_bytes / 4);
    std::vector<blink::schedule> const plans{blink::star_schedule(comm.rank_count()),
                                             blink::chain_schedule(comm.rank_count(), 0),
                                             blink::binomial_schedule(comm.rank_count(), 1)};
    std::mt19937_64 random(window);  // equal on all ranks
    for (int call = 0; call < 40; ++call) {
      auto const tree = random() % plans.size();
      auto const& source = plans[tree];
      constexpr collective kinds[2][3] = {
          {collective::all_reduce, collective::all_gather, collective::reduce_scatter},
          {collective::all_reduce, collective::broadcast, collective::reduce}};
      auto const kind = kinds[tree == 0 ? 0 : 1][random() % 3];
      constexpr std::size_t counts[] = {10, 3000, 20000, 100000};
      collective_case const what{kind, counts[random() % 4], random() % 2 == 0, 0, random()};
      SCOPED_TRACE(std::string(to_text(kind)) + ", count " + std::to_string(what.count) +
                   ", call " + std::to_string(call));
      ASSERT_EQ(run_case<float>(comm, source, what, blink::sum{}, 2), "");
    }
  }
}

/// Counts the buffers in use for zero copy.
class counting_transport : public blink::mpi_transport {
 public:
  using blink::mpi_transport::mpi_transport;
  void send_in_place(std::uint32_t connection, blink::chunk_run const& run, bool lands) const {
    if (run.first != nullptr) ++sends;
    blink::mpi_transport::send_in_place(connection, run, lands);
  }
  void receive_in_place(std::uint32_t connection, blink::chunk_run const& run,
                        bool is_input) const {
    if (run.first != nullptr) ++receives;
    blink::mpi_transport::receive_in_place(connection, run, is_input);
  }
  static inline int sends = 0;
  static inline int receives = 0;
};

TEST(mpi_lent_buffers, are_those_of_large_messages) {
  blink::communicator_options options;
  options.shares_memory = false;
  options.slot_bytes = slot_bytes;
  constexpr std::size_t least = 1 << 14;
  blink::basic_mpi_communicator<counting_transport> comm(MPI_COMM_WORLD, options, 0, least);
  int const ranks = comm.rank_count();
  auto const star = blink::star_schedule(ranks);
  auto const lent = [&](collective kind, std::size_t count, auto const& reduce) {
    counting_transport::sends = counting_transport::receives = 0;
    collective_case const what{kind, count, false, 0, count};
    EXPECT_EQ(run_case<float>(comm, star, what, reduce, 1), "");
    return std::pair(counting_transport::sends, counting_transport::receives);
  };
  using counts = std::pair<int, int>;
  int const others = ranks - 1;
  std::size_t const large = 1 << 18;
  // As a leaf of the other trees and as the root of its own tree. As root it has one place that is
  // free until the sum is there.
  EXPECT_EQ(lent(collective::all_reduce, large, blink::sum{}), counts(2 * others, others + 1));
  EXPECT_EQ(lent(collective::reduce_scatter, large, blink::sum{}), counts(others, 1));
  EXPECT_EQ(lent(collective::all_gather, large, blink::sum{}), counts(others, others));
  EXPECT_EQ(lent(collective::all_reduce, 1000, blink::sum{}), counts(0, 0));
}

TEST(mpi_lent_buffers, are_one_place_on_some_ranks_alone) {
  for (std::uint32_t const window : {1U, 3U}) {
    blink::communicator_options options;
    options.shares_memory = false;
    options.window = window;
    options.slot_bytes = slot_bytes;
    blink::mpi_communicator comm(MPI_COMM_WORLD, options, 0, slot_bytes / 4);
    int const rank = comm.rank();
    int const ranks = comm.rank_count();
    auto const star = blink::star_schedule(ranks);
    for (int call = 0; call < 24; ++call) {
      std::size_t const count = call % 5 == 4 ? 100 : 100000;  // 100 go through slots
      std::vector<int> in(count);
      std::vector<int> out(count, -1);
      for (std::size_t k = 0; k < count; ++k) in[k] = static_cast<int>(k) + rank + call;
      bool const in_place = (call >> rank & 1) != 0;
      int const* const input = in.data();
      int* const result = in_place ? in.data() : out.data();
      blink::all_reduce(comm, star, input, result, count, blink::sum{});
      int const others = ranks * (ranks - 1) / 2 + ranks * call;
      std::size_t wrong = 0;
      for (std::size_t k = 0; k < count; ++k) {
        if (result[k] != ranks * static_cast<int>(k) + others) ++wrong;
      }
      ASSERT_EQ(wrong, 0U) << "call " << call << ", window " << window;
    }
  }
}

/// A sum that throws after some elements.
struct throwing_sum {
  long long* left;  // negative: never
  float operator()(float a, float b) const {
    if (*left >= 0 && (*left)-- == 0) throw std::runtime_error("no coffee");
    return a + b;
  }
};

TEST(mpi_lent_buffers, belong_to_the_caller_again_after_a_failure) {
  int rank = 0;
  int ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  constexpr std::size_t count = 300000;
  for (int seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(static_cast<std::uint64_t>(seed));
    blink::communicator_options options;
    options.shares_memory = false;
    options.slot_bytes = slot_bytes;
    options.waits.deadline = std::chrono::seconds(20);
    blink::mpi_communicator comm(MPI_COMM_WORLD, options, 0, 1);
    auto const source = seed % 3 == 0   ? blink::chain_schedule(ranks, 0)
                        : seed % 3 == 1 ? blink::star_schedule(ranks)
                                        : blink::binomial_schedule(ranks, 0);
    bool const in_place = random() % 2 == 0;
    long long left = -1;
    auto const at = static_cast<long long>(random() % (count / 2));
    if (rank == 0) left = at;  // a rank that combines in each of these trees
    bool has_failed = false;
    auto const started = std::chrono::steady_clock::now();
    {
      mapped_floats const in(count);
      mapped_floats const out(count);
      float* const result = in_place ? in.data() : out.data();
      try {
        for (int call = 0; call < 2; ++call) {
          blink::all_reduce(comm, source, in.data(), result, count, throwing_sum{&left});
        }
      } catch (std::exception const& failure) {
        has_failed = true;
        EXPECT_NE(std::string(failure.what()).find("no coffee"), std::string::npos)
            << failure.what();
      }
      std::fill_n(result, count, 7.0F);
      MPI_Barrier(MPI_COMM_WORLD);  // pending operations progress meanwhile
      MPI_Barrier(MPI_COMM_WORLD);
      EXPECT_EQ(std::count(result, result + count, 7.0F), static_cast<std::ptrdiff_t>(count));
    }
    EXPECT_TRUE(has_failed);
    EXPECT_LT(std::chrono::steady_clock::now() - started, std::chrono::seconds(15));
  }
}

/// A sum whose first combination takes long on one rank.
struct hanging_sum {
  bool* hangs;
  float operator()(float a, float b) const {
    if (std::exchange(*hangs, false)) std::this_thread::sleep_for(std::chrono::milliseconds(1500));
    return a + b;
  }
};

TEST(mpi_lent_buffers, whose_turn_it_is_does_not_hide_who_hangs) {
  blink::communicator_options options;
  options.window = 1;
  options.slot_bytes = std::size_t{1} << 18;
  options.waits.deadline = std::chrono::milliseconds(500);
  blink::mpi_communicator comm(MPI_COMM_WORLD, options, 0, 1);
  int const rank = comm.rank();
  int const ranks = comm.rank_count();
  if (ranks < 3) GTEST_SKIP() << "needs three ranks";
  auto source = blink::star_schedule(ranks);
  for (auto& tree : source.trees) tree.chunk_bytes = std::size_t{1} << 18;
  source.trees[1].chunk_bytes = std::size_t{1} << 14;
  std::vector<float> const in(33000 * static_cast<std::size_t>(ranks), 1.0F);
  std::vector<float> out(in.size());
  bool hangs = rank == 2;
  try {
    blink::all_reduce(comm, source, in.data(), out.data(), in.size(), hanging_sum{&hangs});
    ADD_FAILURE() << "no rank saw an error";
  } catch (blink::collective_error const& reported) {
    if (rank != 2) {
      EXPECT_EQ(reported.peer, 2) << reported.what();
    }
  }
  MPI_Barrier(MPI_COMM_WORLD);
}

TEST(mpi_lent_buffers, from_which_size_on_is_the_same_everywhere) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  try {
    blink::mpi_communicator const comm(MPI_COMM_WORLD, {}, 0, rank == 0 ? 100 : 200);
    ADD_FAILURE() << "no rank saw an error";
  } catch (blink::precondition_error const& refusal) {
    EXPECT_NE(std::string(refusal.what()).find("zero_copy_threshold differs"), std::string::npos);
  }
}

}}  // namespace lent_buffers_test
