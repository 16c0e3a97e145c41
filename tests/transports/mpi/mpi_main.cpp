// SPDX-License-Identifier: Apache-2.0
// All ranks run all tests. Rank 0 reports; the other ranks report only their own failures. With the
// argument "multiple" any thread may call MPI.

#include <blink/collectives.hpp>
#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <optional>
#include <string>
#include <utility>

namespace {

class failures_only : public testing::EmptyTestEventListener {
 public:
  explicit failures_only(int rank) : rank_(rank) {}
  void OnTestStart(testing::TestInfo const& test) override { test_ = test.name(); }
  void OnTestPartResult(testing::TestPartResult const& result) override {
    if (!result.failed()) return;
    std::fprintf(stderr, "rank %d, %s: %s:%d: %s\n", rank_, test_.c_str(),
                 result.file_name() == nullptr ? "" : result.file_name(), result.line_number(),
                 result.message());
  }

 private:
  int rank_;
  std::string test_;  // asking the framework for it here would deadlock
};

/// True if a call is refused that would make the library end the program. Prints if not.
template <class Call>
bool is_refused(char const* what, Call const& call) {
  try {
    call();
  } catch (blink::precondition_error const&) {
    return true;
  }
  std::fprintf(stderr, "%s: not refused\n", what);
  return false;
}

/// True if a communicator that has outlived MPI refuses all calls.
bool is_harmless(std::optional<blink::mpi_communicator>& comm) {
  int const one = 1;
  int sum = 0;
  auto const star = blink::star_schedule(comm->rank_count());
  bool good = is_refused("prepare", [&] { comm->prepare(star); });
  good &=
      is_refused("prepare again", [&] { comm->prepare(blink::flat_schedule(star.rank_count, 0)); });
  good &= is_refused("barrier", [&] { blink::barrier(*comm); });
  good &= is_refused("send", [&] { blink::send(*comm, 0, &one, 1); });
  good &= is_refused("receive", [&] { blink::receive(*comm, 0, &sum, 1); });
  good &= is_refused("run", [&] {
    comm->run([&](auto& here) { blink::all_reduce(here, star, &one, &sum, 1, blink::sum{}); });
  });
  comm.reset();
  return good;
}

}  // namespace

int main(int count, char** texts) {
  testing::InitGoogleTest(&count, texts);
  auto const begin = [] { blink::mpi_communicator(MPI_COMM_WORLD); };
  bool good = is_refused("a communicator before MPI_Init", begin);
  if (count > 1 && std::string(texts[1]) == "multiple") {
    int level = MPI_THREAD_SINGLE;
    MPI_Init_thread(&count, &texts, MPI_THREAD_MULTIPLE, &level);
  } else {
    MPI_Init(&count, &texts);
  }
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  if (rank != 0) {
    auto& listeners = testing::UnitTest::GetInstance()->listeners();
    delete listeners.Release(listeners.default_result_printer());
    listeners.Append(new failures_only(rank));
  }
  int const failed = RUN_ALL_TESTS();
  std::optional<blink::mpi_communicator> live(std::in_place, MPI_COMM_WORLD);
  live->prepare(blink::star_schedule(live->rank_count()));
  MPI_Finalize();
  good &= is_harmless(live);
  good &= is_refused("a communicator after MPI_Finalize", begin);
  return good ? failed : 1;
}
