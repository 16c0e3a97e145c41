// SPDX-License-Identifier: Apache-2.0
#pragma once

// Ranks whose blocks are host threads. The examples run the code of their kernels on two such
// ranks, without a GPU.

#include <blink/running/connections/prepared_schedule.hpp>
#include <blink/schedule/default_schedules.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/kernels/block_work.hpp>
#include <blink/transports/cuda/runtime/peer_memory.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <thread>
#include <vector>

namespace example {

constexpr int ranks = 2;

/// The gradient or partial result of a rank: element k of rank r.
inline float input(int rank, std::size_t k) {
  return static_cast<float>((k * 7 + static_cast<std::size_t>(rank) * 3) % 11) - 4.0F;
}
inline float sum_of_inputs(std::size_t k) {
  return input(0, k) + input(1, k);
}

/// All-reduces the inputs of all ranks along `trees`, with slots of `slot_bytes` bytes and the
/// reducer that `reducer_of(rank)` returns. Returns the output of each rank.
template <class T, class ReducerOf>
std::vector<std::vector<T>> all_reduce_on_host(blink::schedule const& trees,
                                               std::vector<std::vector<T>> const& in,
                                               std::size_t slot_bytes,
                                               ReducerOf const& reducer_of) {
  using transport = blink::slot_peer_transport;
  using reducer = decltype(reducer_of(0));
  constexpr auto kind = blink::collective::all_reduce;
  blink::connection_layout layout;
  layout.slot_bytes = slot_bytes;
  blink::prepared_schedule prepared(trees, layout, {});
  blink::counter abort = 0;
  auto out = in;
  std::vector<std::vector<blink::block_work<transport, T>>> works(in.size());
  {
    std::vector<std::jthread> blocks;
    for (int rank = 0; rank < trees.rank_count; ++rank) {
      auto const own = static_cast<std::size_t>(rank);
      auto const tasks = prepared.tables().tasks(rank, kind);
      works[own].resize(tasks.count);
      for (std::size_t k = 0; k < tasks.count; ++k) {
        auto& work = works[own][k];
        work.here = tasks.first + k;
        prepared.set_call(*work.here, kind, prepared.equal_block(*work.here, kind, in[own].size()),
                          blink::sizes_of<reducer, T>(), blink::order_of<reducer>,
                          &blink::cut_by<blink::scheduled_chunks>, layout.slot_bytes);
        work.transport.connections = prepared.tables().connections();
        work.transport.abort = &abort;
        work.transport.bytes_of_slot = prepared.tables().layout().slot_bytes;
        work.transport.own_rank = rank;
        work.transport.ranks = trees.rank_count;
        work.buffers = {in[own].data(), out[own].data()};
        blocks.emplace_back([&work, &reducer_of, rank] {
          blink::walk_block(blink::lone_thread{}, work, 10'000'000'000, reducer_of(rank));
        });
      }
    }
  }
  return out;
}

/// All-reduces `count` elements on both ranks, along one tree in chunks of `chunk` elements.
/// Returns the output of rank 1.
template <class ReducerOf>
std::vector<float> all_reduce_on_host(std::size_t count, std::size_t chunk,
                                      ReducerOf const& reducer_of) {
  std::vector<std::vector<float>> in(ranks, std::vector<float>(count));
  for (int rank = 0; rank < ranks; ++rank) {
    for (std::size_t k = 0; k < count; ++k) in[static_cast<std::size_t>(rank)][k] = input(rank, k);
  }
  return all_reduce_on_host(blink::flat_schedule(ranks, 0), in, chunk * sizeof(float),
                            reducer_of)[1];
}

inline int report(char const* what, bool is_right) {
  std::printf("%s: %s\n", what, is_right ? "as computed in one place" : "WRONG");
  return is_right ? 0 : 1;
}
inline bool is_near(float a, float b) {
  return std::fabs(a - b) <= 1e-5F * (1 + std::fabs(b));
}

}  // namespace example
