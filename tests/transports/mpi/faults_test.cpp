// SPDX-License-Identifier: Apache-2.0
// Faults at random places in MPI communicators. All other ranks must name the faulty rank, shrink
// the communicator, and continue. BLINK_FAULTS=200 runs 50. Ranks hang instead of dying, because a
// killed rank ends the MPI library itself.

#include <blink/collectives.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include "support/fault_injection.hpp"
#include "support/faulty_transport.hpp"
#include "support/mapped_floats.hpp"
#include <gtest/gtest.h>
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

// A folder may be compiled as one source.
namespace mpi_faults_test { namespace {

using blink_test::harm;
using blink_test::injection;
using communicator = blink::basic_mpi_communicator<blink_test::faulty<blink::mpi_transport>>;

constexpr auto deadline = std::chrono::milliseconds(400);

/// Ranks that have ended meet here; a rank that hangs does so until all peers have arrived.
MPI_Comm end_of_fault = MPI_COMM_NULL;
bool has_met = false;
void meet() {
  if (!std::exchange(has_met, true)) MPI_Barrier(end_of_fault);
}

std::string run_rank(communicator& comm, injection const& planned) {
  bool const is_victim = comm.rank() == planned.victim;
  if (is_victim) blink_test::arm(planned, meet, [] { std::this_thread::sleep_for(deadline / 6); });
  return blink_test::run_planned(comm, planned).text;
}

TEST(mpi_injected_faults, are_named_by_all_others_who_then_go_on) {
  int ranks = 0;
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Comm_dup(MPI_COMM_WORLD, &end_of_fault);
  blink::communicator_options options;
  options.window = 2;
  options.waits.deadline = deadline;
  // These programs run with several numbers of ranks, on two libraries.
  int const number = std::max(3 * blink_test::harms, blink_test::number_of_faults() / 4);
  int happened = 0;
  for (int seed = 0; seed < number; ++seed) {
    injection const planned(static_cast<std::uint64_t>(seed), ranks);
    SCOPED_TRACE("seed " + std::to_string(seed) + ": rank " + std::to_string(planned.victim) + " " +
                 blink_test::harm_names[static_cast<std::size_t>(planned.what)]);
    // Along trees with slots, along trees with zero copy, eagerly if inputs are small.
    int const way = seed / blink_test::harms % 3;
    options.slot_bytes = way == 1 ? 1 << 14 : 512;
    options.eager_payload = way == 2 ? blink::communicator_options{}.eager_payload : 0;
    communicator comm(MPI_COMM_WORLD, options, way == 2 ? std::size_t{1} << 12 : 0,
                      way == 1 ? 1 : 1 << 20);
    has_met = false;
    auto const end = run_rank(comm, planned);
    blink_test::injected_fault.operations_left = -1;
    meet();
    int const mine = end == "no fault" ? 0 : 1;
    int reported = 0;
    MPI_Allreduce(&mine, &reported, 1, MPI_INT, MPI_SUM, end_of_fault);
    // A rank that hung may find on waking that its peers have sent all that its last call needs.
    bool const is_hung = comm.rank() == planned.victim && !planned.is_mismatch();
    bool const ends_well = is_hung && way == 2 && mine == 0;
    EXPECT_EQ(end, reported > 0 && !ends_well ? "reported" : "no fault");
    EXPECT_TRUE(reported > 0 || planned.what <= harm::delay);
    if (reported > 0) ++happened;
  }
  EXPECT_GE(happened, number / 2);
  MPI_Comm_free(&end_of_fault);
}

/// The error on rank 1 if it makes a call of `count` elements after its peers have given up and
/// moved on.
std::string what_a_late_rank_hears(std::size_t count, std::size_t zero_copy_threshold) {
  blink::communicator_options options = blink::message_options();
  options.waits.deadline = deadline;
  communicator comm(MPI_COMM_WORLD, options, blink::default_eager_limit, zero_copy_threshold);
  auto const star = blink::star_schedule(comm.rank_count());
  blink::barrier(comm, star);
  std::string heard = "nothing";
  {
    std::vector<float> const input(count, 1);
    std::vector<float> output(count);
    if (comm.rank() == 1) std::this_thread::sleep_for(deadline + deadline / 2);
    try {
      blink::all_reduce(comm, star, input.data(), output.data(), count, blink::sum{});
    } catch (blink::collective_error const& failure) {
      heard = failure.what();
    }
  }
  if (comm.rank() != 1) std::this_thread::sleep_for(deadline + deadline / 2);
  return heard;
}

TEST(mpi_late_ranks, learn_that_they_were_given_up_and_send_nothing_in_place) {
  for (std::size_t const count : {0U, 1000U, 1000000U}) {
    for (auto const threshold : {blink::usual_zero_copy_threshold, blink::no_zero_copy}) {
      SCOPED_TRACE(std::to_string(count) + " elements, zero copy from " +
                   std::to_string(threshold) + " bytes on");
      EXPECT_NE(what_a_late_rank_hears(count, threshold).find("rank 1"), std::string::npos);
      MPI_Barrier(MPI_COMM_WORLD);
    }
  }
}

/// The work of the others before the rank that hung goes on.
enum class meanwhile { call_the_library, call_again, end_the_communicator };

/// Rank 1 hangs beyond the deadline, before a call or inside one that it has started. All ranks
/// free their buffers as soon as they have the error.
std::string error_of_a_hang(bool inside, meanwhile then, std::size_t count) {
  blink::communicator_options options;
  options.window = 2;
  options.slot_bytes = 1 << 15;  // above the sizes that libraries send without a handshake
  options.waits.deadline = deadline;
  std::optional<blink::mpi_communicator> comm(std::in_place, MPI_COMM_WORLD, options);
  bool const hangs = comm->rank() == 1;
  auto const trees = blink::binomial_schedule(comm->rank_count(), 0);
  blink::barrier(*comm, trees);
  std::string heard = "nothing";
  {
    blink_test::mapped_floats const input(count), output(count);
    auto const hang = [&] {
      if (hangs) std::this_thread::sleep_for(2 * deadline);
    };
    try {
      if (!inside) hang();
      blink::call_queue queue(*comm);
      auto call = queue.start(blink::collective::all_reduce, comm->prepare(trees), input.data(),
                              output.data(), count, blink::sum{});
      if (inside) hang();
      call.wait();
    } catch (blink::collective_error const& failure) {
      heard = failure.what();
    }
  }
  if (!hangs && then == meanwhile::call_again) {
    auto rest = comm->shrink();
    std::vector<float> values(count, 1);
    blink::all_reduce(rest, values);
    if (values.back() != static_cast<float>(rest.rank_count())) heard = "a wrong sum";
    MPI_Barrier(MPI_COMM_WORLD);
  } else {
    if (then == meanwhile::end_the_communicator) comm.reset();
    MPI_Barrier(MPI_COMM_WORLD);
  }
  return heard;
}

TEST(mpi_late_ranks, touch_no_buffer_that_was_freed) {
  for (bool const inside : {false, true}) {
    for (auto const then :
         {meanwhile::call_the_library, meanwhile::call_again, meanwhile::end_the_communicator}) {
      SCOPED_TRACE((inside ? "inside a call, case " : "before a call, case ") +
                   std::to_string(static_cast<int>(then)));
      auto const heard = error_of_a_hang(inside, then, 1 << 20);
      EXPECT_NE(heard.find("rank 1"), std::string::npos) << heard;
    }
  }
}

}}  // namespace mpi_faults_test
