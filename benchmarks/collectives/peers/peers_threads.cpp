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

/// Measures threads, each size beside the ceilings.
template <class... Ceilings>
void measure_all(blink_bench::peer_board& board, blink_bench::peer_arguments const& given,
                 Ceilings&&... ceilings) {
  blink::thread_ranks threads(given.ranks);
  threads.run([&](auto& comm) {
    blink_bench::blink_peer ours(comm);
    blink_bench::for_each_size(given, [&](auto const& one) {
      (blink_bench::measure(board, one, comm.rank(), "ceiling", ceilings), ...);
      blink_bench::measure(board, one, comm.rank(), "blink threads", ours);
    });
  });
}

template <int Ranks>
void measure_beside_ceilings(blink_bench::peer_board& board,
                             blink_bench::peer_arguments const& given) {
  using peer = ceiling_peer<Ranks>;
  measure_all(board, given, peer(ceiling_way::slices), peer(ceiling_way::streaming_slices),
              peer(ceiling_way::whole));
}

}  // namespace

int main(int count, char** texts) {
  try {
    auto const given = blink_bench::read_arguments(count, texts);
    auto& board = blink_bench::map_board(given.board);
    switch (given.ranks) {
      case 2:
        measure_beside_ceilings<2>(board, given);
        break;
      case 4:
        measure_beside_ceilings<4>(board, given);
        break;
      case 8:
        measure_beside_ceilings<8>(board, given);
        break;
      default:
        measure_all(board, given);  // there are ceilings for some numbers of ranks only
    }
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "%s: %s\n", texts[0], problem.what());
    return 1;
  }
}
