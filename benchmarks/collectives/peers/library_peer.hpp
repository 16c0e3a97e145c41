// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "peer_loop.hpp"
#include <mpi.h>

#include <cstring>
#include <thread>

namespace blink_bench {

/// The collectives of an MPI library.
class library_peer {
 public:
  explicit library_peer(MPI_Comm comm) : comm_(comm) {}

  void prepare(int, peer_call const&) {}
  // Some libraries send the rest of a message only while they are called.
  void idle() {
    int found = 0;
    MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, comm_, &found, MPI_STATUS_IGNORE);
    std::this_thread::yield();
  }

  void run(int rank, peer_call const& call) {
    auto const count = static_cast<int>(call.count);
    auto const block = static_cast<int>(call.block);
    switch (call.what) {
      case operation::all_reduce:
        MPI_Allreduce(call.input, call.output, count, MPI_FLOAT, MPI_SUM, comm_);
        break;
      case operation::broadcast:
        // The other peers have an input and an output. A library broadcasts in place and writes
        // only the output, which the root has already.
        if (rank == 0) std::memcpy(call.output, call.input, call.count * sizeof(float));
        MPI_Bcast(call.output, count, MPI_FLOAT, 0, comm_);
        break;
      case operation::reduce:
        MPI_Reduce(call.input, call.output, count, MPI_FLOAT, MPI_SUM, 0, comm_);
        break;
      case operation::all_gather:
        MPI_Allgather(call.input, block, MPI_FLOAT, call.output, block, MPI_FLOAT, comm_);
        break;
      case operation::reduce_scatter:
        MPI_Reduce_scatter_block(call.input, call.output, block, MPI_FLOAT, MPI_SUM, comm_);
        break;
      case operation::all_to_all:
        MPI_Alltoall(call.input, block, MPI_FLOAT, call.output, block, MPI_FLOAT, comm_);
        break;
      case operation::barrier:
        MPI_Barrier(comm_);
        break;
    }
  }

 private:
  MPI_Comm comm_;
};

}  // namespace blink_bench
