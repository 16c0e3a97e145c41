// SPDX-License-Identifier: Apache-2.0
// blink with ranks that are processes: through slots, and directly in memory that they share, or that was registered.

#include <blink/transports/processes.hpp>
#include <blink/transports/registered_memory.hpp>

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
  explicit direct_peer(World& me) : blink_bench::blink_peer<World>(me), me_(&me) {}
  auto make_buffer(std::size_t count) { return me_->template allocate<float>(count); }

 private:
  World* me_;
};

/// The same with buffers that are registered: those that peers by slots have, too.
template <class World>
class registered_peer : public blink_bench::blink_peer<World> {
 public:
  explicit registered_peer(World& me) : blink_bench::blink_peer<World>(me), me_(&me) {}

  class registered_buffer {
   public:
    registered_buffer(World const& me, std::size_t count)
        : own_(count), registered_(me, own_.data(), count) {}
    [[nodiscard]] float* data() const { return own_.data(); }

   private:
    blink_bench::page_buffer own_;
    blink::registered_memory registered_;
  };
  auto make_buffer(std::size_t count) { return registered_buffer(*me_, count); }

 private:
  World* me_;
};

}  // namespace

int main(int count, char** texts) {
  try {
    auto const given = blink_bench::read_arguments(count, texts);
    auto& board = blink_bench::map_board(given.board);
    auto const slots = blink::shared_segment::create(given.ranks);
    auto const direct = blink::shared_segment::create(given.ranks);
    auto const run = [&](int rank) {
      blink::process_world copying(slots.path(), rank);
      blink::direct_process_world reading(direct.path(), rank);
      blink_bench::blink_peer by_slots(copying);
      direct_peer by_reading(reading);
      registered_peer by_registering(reading);
      blink_bench::for_each_size(given, [&](auto const& one) {
        blink_bench::measure(board, one, rank, "blink processes", by_slots);
        blink_bench::measure(board, one, rank, "blink direct processes", by_reading);
        blink_bench::measure(board, one, rank, "blink registered", by_registering);
      });
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
