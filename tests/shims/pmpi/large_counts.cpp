// SPDX-License-Identifier: Apache-2.0
// Collectives with counts of 64 bits. The argument is the form: they wait, are started, or are made
// for many starts. Prints the results.
#include <mpi.h>

#include <cstddef>
#include <cstdio>
#include <string_view>
#include <vector>

#if MPI_VERSION >= 4

namespace {

using ints = std::vector<int>;

struct form {
  std::string_view name;

  /// Makes a call in this form to its end.
  template <class Blocking, class Started, class Made, class... Arguments>
  void call(Blocking blocking, Started started, Made made, Arguments... arguments) const {
    MPI_Request request = MPI_REQUEST_NULL;
    if (name == "waits") {
      blocking(arguments..., MPI_COMM_WORLD);
    } else if (name == "started") {
      started(arguments..., MPI_COMM_WORLD, &request);
      MPI_Wait(&request, MPI_STATUS_IGNORE);
    } else {
      made(arguments..., MPI_COMM_WORLD, MPI_INFO_NULL, &request);
      for (int turn = 0; turn < 2; ++turn) {
        MPI_Start(&request);
        MPI_Wait(&request, MPI_STATUS_IGNORE);
      }
      MPI_Request_free(&request);
    }
  }
};

}  // namespace

#define CALL(NAME, STARTED, ...) \
  way.call(MPI_##NAME##_c, MPI_##STARTED##_c, MPI_##NAME##_init_c, __VA_ARGS__)

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  form const way{count > 1 ? texts[1] : "waits"};
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  MPI_Count const n = 500;
  auto const all = static_cast<std::size_t>(n * ranks);
  ints own(all), out(all, -1);
  for (std::size_t k = 0; k < all; ++k) own[k] = rank * 1000 + static_cast<int>(k);
  auto const say = [&](char const* what) {
    long long sum = 0;
    for (std::size_t k = 0; k < all; ++k) sum = sum * 31 + out[k];
    std::printf("rank %d %s %s %lld\n", rank, texts[count > 1 ? 1 : 0], what, sum);
    out.assign(all, -1);
  };
  MPI_Count const ignored = MPI_Count{1} << 40;
  MPI_Count const bytes = n * static_cast<MPI_Count>(sizeof(int));
  CALL(Allreduce, Iallreduce, own.data(), out.data(), n, MPI_INT, MPI_SUM);
  say("allreduce");
  CALL(Reduce, Ireduce, own.data(), out.data(), n, MPI_INT, MPI_MAX, 0);
  if (rank == 0) say("reduce");
  out = own;
  CALL(Bcast, Ibcast, out.data(), n, MPI_INT, ranks - 1);
  say("bcast");
  CALL(Allgather, Iallgather, own.data(), n, MPI_INT, out.data(), bytes, MPI_BYTE);
  say("allgather");
  out = own;
  CALL(Allgather, Iallgather, MPI_IN_PLACE, ignored, MPI_INT, out.data(), n, MPI_INT);
  say("allgather in place");
  CALL(Alltoall, Ialltoall, own.data(), n, MPI_INT, out.data(), n, MPI_INT);
  say("alltoall");
  MPI_Count const at_root = rank == 0 ? n : ignored;
  CALL(Gather, Igather, own.data(), n, MPI_INT, out.data(), at_root, MPI_INT, 0);
  say("gather");
  CALL(Scatter, Iscatter, own.data(), at_root, MPI_INT, out.data(), n, MPI_INT, 0);
  say("scatter");
  CALL(Reduce_scatter_block, Ireduce_scatter_block, own.data(), out.data(), n, MPI_INT, MPI_SUM);
  say("reduce_scatter_block");
  // More than an int holds goes to the library, here of a type without bytes.
  MPI_Datatype nothing = MPI_DATATYPE_NULL;
  MPI_Type_contiguous(0, MPI_INT, &nothing);
  MPI_Type_commit(&nothing);
  CALL(Bcast, Ibcast, out.data(), MPI_Count{1} << 33, nothing, 0);
  MPI_Type_free(&nothing);
  say("large");
  MPI_Finalize();
}

#endif
