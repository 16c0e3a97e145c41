// SPDX-License-Identifier: Apache-2.0
// The ceiling of this memory, and blink with ranks that are threads.

#include <blink/collectives.hpp>

#include "blink_peer.hpp"
#include "ceiling_peer.hpp"
#include "peer_loop.hpp"

#include <cstdio>
#include <exception>

namespace {

using blink_bench::ceiling_peer;
using blink_bench::ceiling_way;

template <int Ranks>
void measure_all(blink_bench::peer_board& board, blink_bench::peer_arguments const& given) {
  ceiling_peer<Ranks> slices(ceiling_way::slices);
  ceiling_peer<Ranks> streaming_slices(ceiling_way::streaming_slices);
  ceiling_peer<Ranks> whole(ceiling_way::whole);
  blink::thread_ranks threads(Ranks);
  threads.run([&](auto& comm) {
    blink_bench::blink_peer ours(comm);
    blink_bench::for_each_size(given, [&](auto const& one) {
      for (auto* const peer : {&slices, &streaming_slices, &whole}) {
        blink_bench::measure(board, one, comm.rank(), "ceiling", *peer);
      }
      blink_bench::measure(board, one, comm.rank(), "blink threads", ours);
    });
  });
}

}  // namespace

int main(int count, char** texts) {
  try {
    auto const given = blink_bench::read_arguments(count, texts);
    auto& board = blink_bench::map_board(given.board);
    if (given.ranks == 2) measure_all<2>(board, given);
    if (given.ranks == 4) measure_all<4>(board, given);
    if (given.ranks == 8) measure_all<8>(board, given);
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "%s: %s\n", texts[0], problem.what());
    return 1;
  }
}
