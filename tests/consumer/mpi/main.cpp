// SPDX-License-Identifier: Apache-2.0
// A user's program: ranks of MPI, all of them and halves, in two translation units.
#include <blink/collectives.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include <mpi.h>

#include <cstdio>

int ranks_of_half(blink::mpi_communicator& all);

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  bool is_right = false;
  {
    blink::mpi_communicator comm(MPI_COMM_WORLD);
    int const ranks = comm.rank_count();
    int const mine = comm.rank();
    int sum = 0;
    blink::all_reduce(comm, blink::star_schedule(ranks), &mine, &sum, 1, blink::sum{});
    int const half = ranks_of_half(comm);
    is_right = ranks >= 2 && sum == ranks * (ranks - 1) / 2 && half == (ranks + 1 - mine % 2) / 2;
    if (mine == 0)
      std::printf("blink %s: %d ranks, %d in my half\n", BLINK_VERSION_TEXT, ranks, half);
  }
  MPI_Finalize();
  return is_right ? 0 : 1;
}
