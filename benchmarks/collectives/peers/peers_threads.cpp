// SPDX-License-Identifier: Apache-2.0
// The ceiling of this memory, and blink with ranks that are threads.

#include <blink/collectives.hpp>

#include "blink_peer.hpp"
#include "peer_loop.hpp"

#include <cstddef>
#include <cstring>
#include <exception>
#include <string>

namespace {

using blink_bench::operation;
using blink_bench::peer_call;

/// Threads that read all inputs and write all outputs themselves, between two barriers.
enum class ceiling_way {
  slices,            ///< each rank does its slice for all
  streaming_slices,  ///< the same past the caches
  whole,             ///< each rank does everything for itself
};

template <int Ranks>
class ceiling_peer {
 public:
  explicit ceiling_peer(ceiling_way way) : way_(way) {}

  void prepare(int rank, peer_call const& call) {
    inputs_[rank] = call.input;
    outputs_[rank] = call.output;
  }
  void idle() { std::this_thread::yield(); }

  void run(int rank, peer_call const& call) {
    barrier_.wait(Ranks);
    auto const first = blink_bench::slice_begin(call.count, rank, Ranks);
    auto const last = blink_bench::slice_begin(call.count, rank + 1, Ranks);
    auto const block = call.block * static_cast<std::size_t>(rank);
    float* own[1] = {outputs_[rank]};
    switch (call.what) {
      case operation::all_reduce:
        if (way_ == ceiling_way::whole) {
          blink_bench::sum_slice<Ranks, 1, false>(inputs_, own, 0, call.count);
        } else if (way_ == ceiling_way::slices) {
          blink_bench::sum_slice<Ranks, Ranks, false>(inputs_, outputs_, first, last);
        } else {
          blink_bench::sum_slice<Ranks, Ranks, true>(inputs_, outputs_, first, last);
        }
        break;
      case operation::broadcast:
        if (way_ == ceiling_way::whole) {
          copy(own[0], inputs_[0], call.count);
        } else {
          for (float* to : outputs_) copy(to + first, inputs_[0] + first, last - first);
        }
        break;
      case operation::reduce:
        if (way_ == ceiling_way::streaming_slices) {
          blink_bench::sum_slice<Ranks, 1, true>(inputs_, outputs_, first, last);
        } else {
          blink_bench::sum_slice<Ranks, 1, false>(inputs_, outputs_, first, last);
        }
        break;
      case operation::all_gather:
        for (int k = 0; k < Ranks; ++k) {
          copy(own[0] + call.block * static_cast<std::size_t>(k), inputs_[k], call.block);
        }
        break;
      case operation::reduce_scatter: {
        float* shifted[std::size_t{Ranks}];
        for (int k = 0; k < Ranks; ++k) shifted[k] = inputs_[k] + block;
        if (way_ == ceiling_way::streaming_slices && call.block % 16 == 0) {  // whole lines
          blink_bench::sum_slice<Ranks, 1, true>(shifted, own, 0, call.block);
        } else {
          sum_unaligned(shifted, own[0], call.block);
        }
        break;
      }
      case operation::all_to_all:
        for (int k = 0; k < Ranks; ++k) {
          copy(own[0] + call.block * static_cast<std::size_t>(k), inputs_[k] + block, call.block);
        }
        break;
      case operation::barrier:
        return;
    }
    barrier_.wait(Ranks);
  }

 private:
  static void copy(float* to, float const* from, std::size_t count) {
    std::memcpy(to, from, count * sizeof(float));
  }
  static void sum_unaligned(float* const* inputs, float* output, std::size_t count) {
    for (std::size_t i = 0; i < count; ++i) {
      float total = inputs[0][i];
      for (int k = 1; k < Ranks; ++k) total += inputs[k][i];
      output[i] = total;
    }
  }

  ceiling_way way_;
  float* inputs_[std::size_t{Ranks}] = {};
  float* outputs_[std::size_t{Ranks}] = {};
  blink_bench::counting_barrier barrier_;
};

template <int Ranks>
void measure_all(blink_bench::peer_board& board, blink_bench::peer_arguments const& given) {
  ceiling_peer<Ranks> slices(ceiling_way::slices);
  ceiling_peer<Ranks> streaming_slices(ceiling_way::streaming_slices);
  ceiling_peer<Ranks> whole(ceiling_way::whole);
  blink::thread_world world(Ranks);
  world.run([&](auto& me) {
    blink_bench::blink_peer ours(me);
    blink_bench::for_each_size(given, [&](auto const& one) {
      for (auto* const peer : {&slices, &streaming_slices, &whole}) {
        blink_bench::measure(board, one, me.rank(), "ceiling", *peer);
      }
      blink_bench::measure(board, one, me.rank(), "blink threads", ours);
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
