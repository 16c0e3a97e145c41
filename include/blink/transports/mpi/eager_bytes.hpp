// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/transports/mpi/channel.hpp>

#include <array>
#include <cstddef>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Bytes of the largest message that the library carries to the next rank before anyone receives it ("eagerly"), of
/// 1000, 2000, 4000, … 32000; 0 if none. A larger one begins with a question and an answer, which takes several times as
/// long as short messages do: within a host Open MPI 4.1 carries 4000 so, MPICH 4.0 (by UCX) 8000; over TCP Open MPI 32000.
///
/// Collective: all ranks get the same, the least of all. Nothing else may be under way over the channel.
///
/// Moves: six messages from each rank to the next one, three barriers and an all-reduce. Found by sending them while
///        no receive is posted, and looking which of them have left when the ranks have met.
[[nodiscard]] inline std::size_t eager_bytes_of(mpi_channel& channel) {
  constexpr std::array<std::size_t, 6> sizes{1000, 2000, 4000, 8000, 16000, 32000};
  constexpr int tag = 0;
  int const ranks = channel.rank_count();
  if (ranks < 2) return sizes.back();
  int const next = (channel.rank() + 1) % ranks;
  int const previous = (channel.rank() + ranks - 1) % ranks;
  auto const meet = [&] {
    if (channel.is_intact()) MPI_Barrier(channel.comm());
  };
  auto const finish = [&](MPI_Request& request) {
    while (channel.is_intact() && !channel.is_done(request)) {
    }
  };
  std::vector<std::byte> sent(sizes.back()), received(sizes.back());
  std::array<MPI_Request, sizes.size()> sends{}, receives{};
  sends.fill(MPI_REQUEST_NULL);
  receives.fill(MPI_REQUEST_NULL);
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    channel.send(sent.data(), sizes[k], next, tag, sends[k]);
  }
  meet();  // the next rank has looked what there is, and answered
  meet();
  std::size_t left = 0;
  for (int tests = 0; tests < 64; ++tests) {
    while (left < sizes.size() && channel.is_done(sends[left])) ++left;
  }
  unsigned long long const largest = left > 0 ? sizes[left - 1] : 0;
  meet();  // nobody has received anything so far
  for (std::size_t k = 0; k < sizes.size(); ++k) {
    channel.receive(received.data(), sizes[k], previous, tag, receives[k]);
    finish(receives[k]);
  }
  for (auto& request : sends) finish(request);
  unsigned long long least = 0;
  if (channel.is_intact()) {
    MPI_Allreduce(&largest, &least, 1, MPI_UNSIGNED_LONG_LONG, MPI_MIN, channel.comm());
  }
  return static_cast<std::size_t>(least);
}

}}  // namespace blink::BLINK_ABI
