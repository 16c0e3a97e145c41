// SPDX-License-Identifier: Apache-2.0
// Blink with ranks that are processes: through slots, in memory that they share, and in registered
// memory.

#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/registered_memory.hpp>

#include "blink_peer.hpp"
#include "peer_loop.hpp"
#include <sys/wait.h>
#include <unistd.h>

#include <cstddef>
#include <exception>
#include <string>

namespace {

/// The same calls with buffers that peers can access: `make(count)` makes one.
template <class Ranks, class Make>
class reached_peer : public blink_bench::blink_peer<Ranks> {
 public:
  reached_peer(Ranks& comm, Make make) : blink_bench::blink_peer<Ranks>(comm), make_(make) {}
  auto make_buffer(std::size_t count) { return make_(count); }

 private:
  Make make_;
};

/// A registered vector, as peers with slots use it.
class registered_buffer {
 public:
  registered_buffer(blink::direct_process_communicator const& comm, std::size_t count)
      : own_(count), registered_(comm, own_.data(), count) {}
  [[nodiscard]] float* data() const { return own_.data(); }

 private:
  blink_bench::page_buffer own_;
  blink::registered_memory registered_;
};

}  // namespace

int main(int count, char** texts) {
  try {
    auto const given = blink_bench::read_arguments(count, texts);
    auto& board = blink_bench::map_board(given.board);
    auto const slots = blink::shared_segment::create(given.ranks);
    auto const direct = blink::shared_segment::create(given.ranks);
    auto const run = [&](int rank) {
      blink::process_communicator copying(slots.path(), rank);
      blink::direct_process_communicator reading(direct.path(), rank);
      blink_bench::blink_peer by_slots(copying);
      reached_peer by_reading(
          reading, [&](std::size_t elements) { return reading.allocate<float>(elements); });
      reached_peer by_registering(
          reading, [&](std::size_t elements) { return registered_buffer(reading, elements); });
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
