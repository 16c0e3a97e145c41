// SPDX-License-Identifier: Apache-2.0
// Each collective at each size from 4 bytes to 1 MiB, several times in a row with changing data, as
// benchmarks call it. Every result is checked. Values are small whole numbers, so sums are exact.
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <string>
#include <vector>

namespace {

int rank = 0;
int ranks = 1;
int problems = 0;

using floats = std::vector<float>;

/// Element `k` of rank `from` in iteration `turn`.
float value(int from, std::size_t k, int turn) {
  return static_cast<float>(
      (static_cast<std::size_t>(from) * 7 + k + static_cast<std::size_t>(turn)) % 19);
}
float total(std::size_t k, int turn) {
  float sum = 0;
  for (int from = 0; from < ranks; ++from) sum += value(from, k, turn);
  return sum;
}
floats own(std::size_t count, int turn) {
  floats result(count);
  for (std::size_t k = 0; k < count; ++k) result[k] = value(rank, k, turn);
  return result;
}
template <class Expected>
void check(char const* what, floats const& got, std::size_t count, Expected const& expected) {
  for (std::size_t k = 0; k < count; ++k) {
    if (got[k] == expected(k)) continue;
    std::printf("rank %d, %s of %zu: element %zu is %g, expected %g\n", rank, what, count, k,
                static_cast<double>(got[k]), static_cast<double>(expected(k)));
    ++problems;
    return;
  }
}

void call_all(std::size_t count, int turn) {
  auto const n = static_cast<int>(count);
  auto const size = static_cast<std::size_t>(ranks);
  auto const comm = static_cast<std::size_t>(rank);
  int const root = turn % ranks;
  auto const block_of = [&](std::size_t k) { return static_cast<int>(k / count); };
  floats const in = own(count, turn);
  floats const wide = own(count * size, turn);
  floats out(count, -1);
  floats all(count * size, -1);
  std::vector<int> const counts(size, n);
  std::vector<int> places;
  for (int from = 0; from < ranks; ++from) places.push_back(from * n);

  MPI_Allreduce(in.data(), out.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  check("Allreduce", out, count, [&](std::size_t k) { return total(k, turn); });
  MPI_Reduce(in.data(), out.data(), n, MPI_FLOAT, MPI_SUM, root, MPI_COMM_WORLD);
  if (rank == root) check("Reduce", out, count, [&](std::size_t k) { return total(k, turn); });
  auto const reduced = [&](std::size_t k) { return total(comm * count + k, turn); };
  MPI_Reduce_scatter(wide.data(), out.data(), counts.data(), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  check("Reduce_scatter", out, count, reduced);
  MPI_Reduce_scatter_block(wide.data(), out.data(), n, MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD);
  check("Reduce_scatter_block", out, count, reduced);
  out = in;
  MPI_Bcast(out.data(), n, MPI_FLOAT, root, MPI_COMM_WORLD);
  check("Bcast", out, count, [&](std::size_t k) { return value(root, k, turn); });

  auto const gathered = [&](std::size_t k) { return value(block_of(k), k % count, turn); };
  MPI_Allgather(in.data(), n, MPI_FLOAT, all.data(), n, MPI_FLOAT, MPI_COMM_WORLD);
  check("Allgather", all, all.size(), gathered);
  all.assign(all.size(), -1);
  MPI_Allgatherv(in.data(), n, MPI_FLOAT, all.data(), counts.data(), places.data(), MPI_FLOAT,
                 MPI_COMM_WORLD);
  check("Allgatherv", all, all.size(), gathered);
  all.assign(all.size(), -1);
  MPI_Gather(in.data(), n, MPI_FLOAT, all.data(), n, MPI_FLOAT, root, MPI_COMM_WORLD);
  if (rank == root) check("Gather", all, all.size(), gathered);
  all.assign(all.size(), -1);
  MPI_Gatherv(in.data(), n, MPI_FLOAT, all.data(), counts.data(), places.data(), MPI_FLOAT, root,
              MPI_COMM_WORLD);
  if (rank == root) check("Gatherv", all, all.size(), gathered);
  out.assign(count, -1);
  MPI_Scatterv(wide.data(), counts.data(), places.data(), MPI_FLOAT, out.data(), n, MPI_FLOAT, root,
               MPI_COMM_WORLD);
  check("Scatterv", out, count, [&](std::size_t k) { return value(root, comm * count + k, turn); });
  out.assign(count, -1);
  MPI_Scatter(wide.data(), n, MPI_FLOAT, out.data(), n, MPI_FLOAT, root, MPI_COMM_WORLD);
  check("Scatter", out, count, [&](std::size_t k) { return value(root, comm * count + k, turn); });

  auto const crossed = [&](std::size_t k) {
    return value(block_of(k), comm * count + k % count, turn);
  };
  MPI_Alltoall(wide.data(), n, MPI_FLOAT, all.data(), n, MPI_FLOAT, MPI_COMM_WORLD);
  check("Alltoall", all, all.size(), crossed);
  all.assign(all.size(), -1);
  MPI_Alltoallv(wide.data(), counts.data(), places.data(), MPI_FLOAT, all.data(), counts.data(),
                places.data(), MPI_FLOAT, MPI_COMM_WORLD);
  check("Alltoallv", all, all.size(), crossed);
  MPI_Barrier(MPI_COMM_WORLD);
}

}  // namespace

int main(int count, char** texts) {
  int level = 0;
  MPI_Init_thread(&count, &texts, MPI_THREAD_FUNNELED, &level);
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  for (std::size_t elements = 1; elements <= std::size_t{1} << 18; elements *= 4) {
    for (int turn = 0; turn < (elements < 10000 ? 8 : 2); ++turn) call_all(elements, turn);
  }
  int all = 0;
  MPI_Reduce(&problems, &all, 1, MPI_INT, MPI_SUM, 0, MPI_COMM_WORLD);
  if (rank == 0) std::printf("problems: %d\n", all);
  MPI_Finalize();
  return problems == 0 ? 0 : 1;
}
