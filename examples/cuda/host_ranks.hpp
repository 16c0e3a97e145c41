// SPDX-License-Identifier: Apache-2.0
#pragma once

// Two ranks that are host threads and hand each other copies, as GPUs without peer access do: how the
// examples run what they compile into kernels.

#include <blink/collectives/all_reduce.hpp>
#include <blink/transports/slots.hpp>
#include <blink/transports/world.hpp>

#include <cmath>
#include <cstddef>
#include <cstdio>
#include <vector>

namespace example {

constexpr int ranks = 2;

/// Each rank's gradient, or partial result: element k of rank r.
inline float input(int rank, std::size_t k) {
  return static_cast<float>((k * 7 + static_cast<std::size_t>(rank) * 3) % 11) - 4.0F;
}
inline float sum_of_inputs(std::size_t k) {
  return input(0, k) + input(1, k);
}

/// All-reduces `count` elements on both ranks, by the reducer that `reducer_of(rank)` returns.
template <class ReducerOf>
std::vector<float> all_reduce_on_host(std::size_t count, std::size_t chunk,
                                      ReducerOf const& reducer_of) {
  std::vector<float> result(count);
  blink::basic_world<blink::slot_link> world(ranks);
  auto plan = blink::flat_schedule(ranks, 0);  // one tree, whose chunks are whole rows
  plan.trees[0].chunk_bytes = chunk * sizeof(float);
  world.run([&](auto& me) {
    std::vector<float> in(count);
    std::vector<float> out(count);
    for (std::size_t k = 0; k < count; ++k) in[k] = input(me.rank(), k);
    blink::all_reduce(me, plan, in.data(), out.data(), count, reducer_of(me.rank()));
    if (me.rank() == ranks - 1) result = out;
  });
  return result;
}

inline int report(char const* what, bool is_right) {
  std::printf("%s: %s\n", what, is_right ? "as computed in one place" : "WRONG");
  return is_right ? 0 : 1;
}
inline bool is_near(float a, float b) {
  return std::fabs(a - b) <= 1e-5F * (1 + std::fabs(b));
}

}  // namespace example
