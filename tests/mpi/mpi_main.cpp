// SPDX-License-Identifier: Apache-2.0
// All ranks run all tests; rank 0 reports, the others only what failed on them. With the argument
// "multiple" any thread may call MPI.

#include <gtest/gtest.h>
#include <mpi.h>

#include <cstdio>
#include <string>

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
  std::string test_;  // asking the framework for it now would wait for itself
};

}  // namespace

int main(int count, char** texts) {
  testing::InitGoogleTest(&count, texts);
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
  MPI_Finalize();
  return failed;
}
