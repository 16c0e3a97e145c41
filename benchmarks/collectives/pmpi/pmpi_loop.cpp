// SPDX-License-Identifier: Apache-2.0
// An MPI program without blink that times collectives. It prints lines of name, bytes,
// microseconds. A call is timed from the entry of the last rank to the return of the last one,
// after a barrier. Inputs are rewritten before each call. scripts/bench_pmpi runs it with and
// without shims/pmpi.
//
//   pmpi_loop [LARGEST BYTES [SECONDS FOR EACH SIZE]]

#include "../median.hpp"
#include <mpi.h>

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace {

// A clock of the machine, so that ranks of one host can compare.
double now() {
  return std::chrono::duration<double, std::micro>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}

// Equal consecutive blocks of all ranks, for calls that take sizes.
struct equal_blocks {
  explicit equal_blocks(int n) : counts(static_cast<std::size_t>(rank_count()), n), begins(counts) {
    for (std::size_t rank = 0; rank < begins.size(); ++rank)
      begins[rank] = static_cast<int>(rank) * n;
  }
  static int rank_count() {
    int result = 0;
    MPI_Comm_size(MPI_COMM_WORLD, &result);
    return result;
  }
  std::vector<int> counts, begins;
};

struct one_kind {
  std::string name;
  std::function<void(float const*, float*, int)> call;  // with a count of elements: of a block, or
                                                        // of all
};

std::vector<one_kind> kinds() {
  auto const all = MPI_COMM_WORLD;
  return {
      {"allreduce",
       [=](auto* in, auto* out, int n) { MPI_Allreduce(in, out, n, MPI_FLOAT, MPI_SUM, all); }},
      {"bcast",
       [=](auto* in, auto*, int n) { MPI_Bcast(const_cast<float*>(in), n, MPI_FLOAT, 0, all); }},
      {"reduce",
       [=](auto* in, auto* out, int n) { MPI_Reduce(in, out, n, MPI_FLOAT, MPI_SUM, 0, all); }},
      {"reduce_scatter",
       [=](auto* in, auto* out, int n) {
         MPI_Reduce_scatter_block(in, out, n, MPI_FLOAT, MPI_SUM, all);
       }},
      {"allgather", [=](auto* in, auto* out,
                        int n) { MPI_Allgather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, all); }},
      {"allgatherv",
       [=](auto* in, auto* out, int n) {
         equal_blocks const to(n);
         MPI_Allgatherv(in, n, MPI_FLOAT, out, to.counts.data(), to.begins.data(), MPI_FLOAT, all);
       }},
      {"alltoallv",
       [=](auto* in, auto* out, int n) {
         equal_blocks const each(n);
         MPI_Alltoallv(in, each.counts.data(), each.begins.data(), MPI_FLOAT, out,
                       each.counts.data(), each.begins.data(), MPI_FLOAT, all);
       }},
      {"gatherv",
       [=](auto* in, auto* out, int n) {
         equal_blocks const to(n);
         MPI_Gatherv(in, n, MPI_FLOAT, out, to.counts.data(), to.begins.data(), MPI_FLOAT, 0, all);
       }},
      {"scatterv",
       [=](auto* in, auto* out, int n) {
         equal_blocks const from(n);
         MPI_Scatterv(in, from.counts.data(), from.begins.data(), MPI_FLOAT, out, n, MPI_FLOAT, 0,
                      all);
       }},
      {"alltoall",
       [=](auto* in, auto* out, int n) { MPI_Alltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, all); }},
      {"gather", [=](auto* in, auto* out,
                     int n) { MPI_Gather(in, n, MPI_FLOAT, out, n, MPI_FLOAT, 0, all); }},
      {"scatter", [=](auto* in, auto* out,
                      int n) { MPI_Scatter(in, n, MPI_FLOAT, out, n, MPI_FLOAT, 0, all); }},
      {"barrier", [=](auto*, auto*, int) { MPI_Barrier(all); }},
      {"iallreduce",
       [=](auto* in, auto* out, int n) {
         MPI_Request request = MPI_REQUEST_NULL;
         MPI_Iallreduce(in, out, n, MPI_FLOAT, MPI_SUM, all, &request);
         MPI_Wait(&request, MPI_STATUS_IGNORE);
       }},
      {"ibcast",
       [=](auto* in, auto*, int n) {
         MPI_Request request = MPI_REQUEST_NULL;
         MPI_Ibcast(const_cast<float*>(in), n, MPI_FLOAT, 0, all, &request);
         MPI_Wait(&request, MPI_STATUS_IGNORE);
       }},
      {"ialltoall",
       [=](auto* in, auto* out, int n) {
         MPI_Request request = MPI_REQUEST_NULL;
         MPI_Ialltoall(in, n, MPI_FLOAT, out, n, MPI_FLOAT, all, &request);
         MPI_Wait(&request, MPI_STATUS_IGNORE);
       }},
  };
}

double median_of(one_kind const& kind, std::size_t elements, double seconds) {
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  auto const whole = elements * static_cast<std::size_t>(equal_blocks::rank_count());
  std::vector<float> in(whole), out(whole);
  std::vector<double> begins, ends;
  auto const one = [&](int round) {
    for (auto& value : in) value = static_cast<float>(round % 7 + rank);
    MPI_Barrier(MPI_COMM_WORLD);
    begins.push_back(now());
    kind.call(in.data(), out.data(), static_cast<int>(elements));
    ends.push_back(now());
  };
  double const begin = now();
  for (int round = 0; round < 5; ++round) one(round);
  int rounds = static_cast<int>(seconds * 5e6 / (now() - begin));
  rounds = std::clamp(rounds, 5, 20000);
  MPI_Bcast(&rounds, 1, MPI_INT, 0, MPI_COMM_WORLD);
  begins.clear();
  ends.clear();
  for (int round = 0; round < rounds; ++round) one(round);
  std::vector<double> first(begins.size()), last(ends.size());
  MPI_Allreduce(begins.data(), first.data(), rounds, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  MPI_Allreduce(ends.data(), last.data(), rounds, MPI_DOUBLE, MPI_MAX, MPI_COMM_WORLD);
  for (std::size_t k = 0; k < last.size(); ++k) last[k] -= first[k];
  return blink_bench::median(last);
}

}  // namespace

int main(int count, char** words) {
  MPI_Init(&count, &words);
  int rank = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  std::size_t const largest = count > 1 ? std::strtoul(words[1], nullptr, 10) : 1 << 20;
  double const seconds = count > 2 ? std::strtod(words[2], nullptr) : 0.1;
  for (auto const& kind : kinds()) {
    for (std::size_t bytes = 8; bytes <= largest; bytes *= bytes == 8 ? 128 : 8) {
      double const time = median_of(kind, bytes / sizeof(float), seconds);
      if (rank == 0) std::printf("%s %zu %.3f\n", kind.name.c_str(), bytes, time);
      if (kind.name == "barrier") break;
    }
  }
  MPI_Finalize();
}
