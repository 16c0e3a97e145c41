// SPDX-License-Identifier: Apache-2.0
// blink with ranks that are processes: through slots, and directly in memory that they share.

#include <blink/transports/processes.hpp>

#include "blink_peer.hpp"
#include "peer_loop.hpp"
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <string>

namespace {

/// The same calls with buffers that peers reach.
template <class World>
class direct_peer : public blink_bench::blink_peer<World> {
 public:
  direct_peer(World& me, blink_bench::peer_arguments const& given)
      : blink_bench::blink_peer<World>(me, given), me_(&me) {}
  auto make_buffer(std::size_t count) { return me_->template allocate<float>(count); }

 private:
  World* me_;
};

template <class World, template <class> class Peer>
void measure_world(blink_bench::peer_board& board, blink_bench::peer_arguments const& given,
                   std::string const& segment, int rank, std::string const& name) {
  World me(segment, rank);
  Peer<World> peer(me, given);
  blink_bench::measure(board, given, rank, name, peer);
}

}  // namespace

int main(int count, char** texts) {
  try {
    auto const given = blink_bench::read_arguments(count, texts);
    auto& board = blink_bench::map_board(given.board);
    auto const slots = blink::shared_segment::create(given.ranks);
    auto const direct = blink::shared_segment::create(given.ranks);
    auto const run = [&](int rank) {
      measure_world<blink::process_world, blink_bench::blink_peer>(board, given, slots.path(), rank,
                                                                   "blink processes");
      measure_world<blink::direct_process_world, direct_peer>(board, given, direct.path(), rank,
                                                              "blink direct processes");
    };
    for (int rank = 1; rank < given.ranks; ++rank) {
      if (fork() != 0) continue;
      run(rank);
      _exit(0);
    }
    run(0);
    int failed = 0;
    for (int status = 0; wait(&status) > 0;) failed += status == 0 ? 0 : 1;
    return failed;
  } catch (std::exception const& problem) {
    std::fprintf(stderr, "%s: %s\n", texts[0], problem.what());
    return 1;
  }
}
