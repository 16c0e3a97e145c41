// SPDX-License-Identifier: Apache-2.0
// An MPI library's own collectives, under the name it was built with (BLINK_MPI_NAME), and blink's
// over its point-to-point messages.

#include <blink/transports/mpi/mpi_communicator.hpp>

#include "blink_peer.hpp"
#include "library_peer.hpp"
#include "peer_loop.hpp"
#include <mpi.h>

#include <exception>
#include <stdexcept>
#include <string>

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
    if (ranks != given.ranks) {
      throw std::runtime_error("the launcher started " + std::to_string(ranks) +
                               " ranks, expected " + std::to_string(given.ranks));
    }
    blink_bench::library_peer peer(MPI_COMM_WORLD);
    blink::mpi_communicator comm(MPI_COMM_WORLD);
    blink_bench::blink_peer ours(comm);
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
