// SPDX-License-Identifier: Apache-2.0
// An MPI program whose sums blink computes.
//     mpicxx -std=c++20 -O2 -Iinclude mpi_all_reduce.cpp -pthread
#include <blink/mpi.hpp>

#include <cstdio>
#include <vector>

int main(int argc, char** argv) {
  MPI_Init(&argc, &argv);
  {
    blink::mpi_communicator comm(MPI_COMM_WORLD);
    std::vector<double> gradient(1'000'000, comm.rank());
    blink::all_reduce(comm, gradient);  // instead of MPI_Allreduce
    if (comm.rank() == 0) std::printf("%g\n", gradient[0]);
  }  // communicators end before MPI does
  MPI_Finalize();
}
