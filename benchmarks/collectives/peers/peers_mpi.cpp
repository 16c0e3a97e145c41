// SPDX-License-Identifier: Apache-2.0
// An MPI library's own collectives, by the name it was built with (BLINK_MPI_NAME), and blink's over
// its point-to-point messages.

#include <blink/transports/mpi.hpp>

#include "blink_peer.hpp"
#include "peer_loop.hpp"
#include <mpi.h>

#include <exception>

namespace {

using blink_bench::operation;
using blink_bench::peer_call;

class library_peer {
 public:
  explicit library_peer(MPI_Comm comm) : comm_(comm) {}

  void prepare(int, peer_call const&) {}
  // Some libraries hand the rest of a message over only while they are called.
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
        // The other peers have an input and an output; a library that broadcasts in place only
        // writes the output, and the root has it already.
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

}  // namespace

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  int status = 0;
  try {
    auto const given = blink_bench::read_arguments(count, texts);
    auto& board = blink_bench::map_board(given.board);
    int rank = 0;
    int ranks = 0;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (ranks != given.ranks) throw std::runtime_error("the launcher started another number");
    library_peer peer(MPI_COMM_WORLD);
    blink::mpi_session me(MPI_COMM_WORLD);
    blink_bench::blink_peer ours(me);
    blink_bench::for_each_size(given, [&](auto const& one) {
      blink_bench::measure(board, one, rank, BLINK_MPI_NAME, peer);
      blink_bench::measure(board, one, rank, "blink " BLINK_MPI_NAME, ours);
    });
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "%s: %s\n", texts[0], problem.what());
    status = 1;
  }
  MPI_Finalize();
  return status;
}
