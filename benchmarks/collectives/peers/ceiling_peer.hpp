// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "../ceiling.hpp"
#include "peer_loop.hpp"

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <thread>

namespace blink_bench {

/// Threads that read all inputs and write all outputs themselves, between two barriers.
enum class ceiling_way : std::uint8_t {
  slices,            ///< each rank sums its slice for all ranks
  streaming_slices,  ///< `slices` with stores past the caches
  whole,             ///< each rank sums everything for itself
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
    auto const first = slice_begin(call.count, rank, Ranks);
    auto const last = slice_begin(call.count, rank + 1, Ranks);
    auto const block = call.block * static_cast<std::size_t>(rank);
    float* own[1] = {outputs_[rank]};
    switch (call.what) {
      case operation::all_reduce:
        if (way_ == ceiling_way::whole) {
          sum_slice<Ranks, 1, false>(inputs_, own, 0, call.count);
        } else if (way_ == ceiling_way::slices) {
          sum_slice<Ranks, Ranks, false>(inputs_, outputs_, first, last);
        } else {
          sum_slice<Ranks, Ranks, true>(inputs_, outputs_, first, last);
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
          sum_slice<Ranks, 1, true>(inputs_, outputs_, first, last);
        } else {
          sum_slice<Ranks, 1, false>(inputs_, outputs_, first, last);
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
          sum_slice<Ranks, 1, true>(shifted, own, 0, call.block);
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
  counting_barrier barrier_;
};

}  // namespace blink_bench
