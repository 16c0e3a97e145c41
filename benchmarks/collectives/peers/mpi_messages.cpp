// SPDX-License-Identifier: Apache-2.0
// A message from one rank to another and back, in turn by MPI_Send and MPI_Recv, and by blink's
// `send` and `receive` over MPI. So both meet the same distance of cores.
// usage: mpirun -n 2 mpi_messages_NAME [BYTES…]
//
// Prints medians of half a round trip in microseconds, and their ratio.

#include <blink/collectives/point_to_point.hpp>
#include <blink/transports/mpi/mpi_communicator.hpp>

#include "../median.hpp"
#include <mpi.h>

#include <charconv>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string_view>
#include <system_error>
#include <vector>

namespace {

template <class Send, class Receive>
double half_of_a_round_trip(int rank, Send const& send, Receive const& receive) {
  using clock = std::chrono::steady_clock;
  auto const start = clock::now();
  if (rank == 0) send();
  receive();
  if (rank == 1) send();
  std::chrono::duration<double, std::micro> const passed = clock::now() - start;
  return passed.count() / 2;
}

void compare(blink::mpi_communicator& comm, std::size_t bytes) {
  int const rank = comm.rank(), peer = 1 - rank;
  std::vector<char> data(bytes, 'x');
  std::vector<double> library, own;
  int const rounds = bytes > 100'000 ? 400 : 8'000;
  for (int round = 0; round < rounds; ++round) {
    double const by_library = half_of_a_round_trip(
        rank,
        [&] { MPI_Send(data.data(), static_cast<int>(bytes), MPI_CHAR, peer, 0, MPI_COMM_WORLD); },
        [&] {
          MPI_Recv(data.data(), static_cast<int>(bytes), MPI_CHAR, peer, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE);
        });
    double const by_blink = half_of_a_round_trip(
        rank, [&] { blink::send(comm, peer, data.data(), bytes); },
        [&] { blink::receive(comm, peer, data.data(), bytes); });
    if (round < rounds / 10) continue;
    library.push_back(by_library);
    own.push_back(by_blink);
  }
  if (rank != 0) return;
  double const of_library = blink_bench::median(library), of_blink = blink_bench::median(own);
  std::printf("| %zu | %.2f | %.2f | %.2f |\n", bytes, of_library, of_blink, of_blink / of_library);
  std::fflush(stdout);
}

/// Returns the sizes of the arguments, or those of the table; none after an error, which rank 0
/// prints.
std::vector<std::size_t> sizes_of(int count, char** texts, int rank) {
  if (count == 1) return {8, 2048, 65536, std::size_t{1} << 20, std::size_t{16} << 20};
  std::vector<std::size_t> result;
  constexpr std::size_t most = std::size_t{1} << 30;
  for (int k = 1; k < count; ++k) {
    std::string_view const text = texts[k];
    auto& bytes = result.emplace_back();
    auto const end = text.data() + text.size();
    auto const read = std::from_chars(text.data(), end, bytes);
    if (read.ec == std::errc() && read.ptr == end && bytes <= most) continue;
    if (rank == 0) {
      std::fprintf(stderr, "mpi_messages: '%s', expected bytes, at most %zu\n", texts[k], most);
    }
    return {};
  }
  return result;
}

}  // namespace

int main(int count, char** texts) {
  MPI_Init(&count, &texts);
  int rank = 0, ranks = 0;
  MPI_Comm_rank(MPI_COMM_WORLD, &rank);
  MPI_Comm_size(MPI_COMM_WORLD, &ranks);
  auto sizes = sizes_of(count, texts, rank);
  if (ranks != 2) {
    if (rank == 0) std::fprintf(stderr, "mpi_messages: %d ranks, expected 2\n", ranks);
    sizes.clear();
  }
  if (!sizes.empty()) {
    blink::mpi_communicator comm(MPI_COMM_WORLD);
    if (rank == 0) {
      std::puts("| bytes | " BLINK_MPI_NAME
                ", us | blink, us | ratio |\n| ---: | ---: | ---: | ---: |");
    }
    for (auto const bytes : sizes) compare(comm, bytes);
  }
  MPI_Finalize();
  return sizes.empty() ? 2 : 0;
}
