// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random calls along random schedules on communicators of emulated devices.

#include <blink/collective.hpp>
#include <blink/transports/cuda/device_world_options.hpp>
#include <blink/transports/cuda/parallel_trees.hpp>

#include "collective_case.hpp"
#include "device_case.hpp"
#include "emulated_devices.hpp"
#include "random_schedules.hpp"

#include <cstddef>
#include <cstdint>
#include <random>
#include <string>
#include <vector>

namespace blink_test {

/// How many kernels of each protocol ran.
struct protocol_launches {
  int chunks = 0;
  int packets = 0;
};

/// Three calls of a random kind on one to three devices, most of them twice; empty if all are exact.
///
/// change: `change(options)`, before the communicator is made
template <class World, class T, class Reducer, class Change>
std::string random_device_calls(std::uint64_t seed, std::uint32_t threads_each,
                                Reducer const& reduce, Change const& change,
                                protocol_launches* launches = nullptr) {
  std::mt19937_64 random(seed);
  int const ranks = 2 + below(random, 4);
  emulated_devices machine({.devices = 3,
                            .room = 128U * static_cast<std::uint32_t>(ranks + below(random, 12)),
                            .threads_each = threads_each});
  blink::device_world_options options;
  for (int rank = 0; rank < ranks; ++rank) {
    options.devices.push_back(below(random, 1 + below(random, 3)));
  }
  options.checks_places = false;  // buffers are in vectors
  options.window = 1 + static_cast<std::uint32_t>(random() % 4);
  options.slot_bytes = 16 + random() % 2000;
  change(options);
  World all(machine, options);
  for (int call = 0; call < 3; ++call) {
    auto const kind = static_cast<blink::collective>(random() % 11);
    auto const plan =
        blink::parallel_trees(random_schedule(random, ranks, kind), 1 + below(random, 3));
    std::size_t const count = random() % 2 == 0 ? random() % 60 : random() % 1500;
    collective_case what{kind, count, random() % 3 == 0, random() % 3, seed};
    device_case<T> now(what, plan);
    for (int repeat = 0; repeat < 2; ++repeat) {
      if (repeat > 0 && what.is_in_place) break;
      now.enqueue(all, reduce);
      all.wait();
      auto const wrong = now.wrong(reduce);
      if (!wrong.empty()) {
        return std::string(blink::to_text(kind)) + ", call " + std::to_string(call) + ": " + wrong;
      }
      if (!what.is_in_place) now.forget();
    }
  }
  if (launches != nullptr) {
    launches->chunks += machine.chunk_launches();
    launches->packets += machine.packet_launches();
  }
  return "";
}
template <class World, class T, class Reducer>
std::string random_device_calls(std::uint64_t seed, std::uint32_t threads_each,
                                Reducer const& reduce) {
  return random_device_calls<World, T>(seed, threads_each, reduce, [](auto&) {});
}

}  // namespace blink_test
