// SPDX-License-Identifier: Apache-2.0
#pragma once

// Random calls along random schedules on emulated devices.

#include <blink/core/collective.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/ranks/protocol_schedules.hpp>

#include "collective_case.hpp"
#include "device_case.hpp"
#include "emulated_devices.hpp"
#include "random_schedules.hpp"

#include <cstddef>
#include <cstdint>
#include <memory>
#include <random>
#include <string>
#include <vector>

namespace blink_test {

/// Number of launched kernels of each protocol.
struct protocol_launches {
  int chunks = 0;
  int packets = 0;
};

/// Three calls of a random kind on one to three devices, most of them twice. Returns the faults;
/// empty if all results are exact. Shaped links get one device, and schedules that name links.
///
/// change: `change(options)`, called before the communicator is made
template <class Ranks, class T, class Reducer, class Change>
std::string random_device_calls(std::uint64_t seed, std::uint32_t threads_each,
                                Reducer const& reduce, Change const& change,
                                protocol_launches* launches = nullptr) {
  std::mt19937_64 random(seed);
  int const ranks = 2 + below(random, 4);
  emulated_devices machine({.devices = 3,
                            .room = 128U * static_cast<std::uint32_t>(ranks + below(random, 12)),
                            .threads_each = threads_each});
  blink::device_options options;
  for (int rank = 0; rank < ranks; ++rank) {
    bool const is_shaped = Ranks::transport_type::is_shaped;
    options.devices.push_back(is_shaped ? 0 : below(random, 1 + below(random, 3)));
  }
  options.checks_places = false;  // buffers are vectors
  options.window = 1 + static_cast<std::uint32_t>(random() % 4);
  options.slot_bytes = 16 + random() % 2000;
  change(options);
  Ranks all(machine, options);
  for (int call = 0; call < 3; ++call) {
    auto const kind = static_cast<blink::collective>(random() % 11);
    auto trees = blink::replicate_trees(random_schedule(random, ranks, kind), 1 + below(random, 3));
    if (Ranks::transport_type::is_shaped) trees = with_random_routes(random, trees);
    std::size_t const count = random() % 2 == 0 ? random() % 60 : random() % 1500;
    collective_case what{kind, count, random() % 3 == 0, random() % 3, seed};
    device_case<T> now(what, trees);
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
template <class Ranks, class T, class Reducer>
std::string random_device_calls(std::uint64_t seed, std::uint32_t threads_each,
                                Reducer const& reduce) {
  return random_device_calls<Ranks, T>(seed, threads_each, reduce, [](auto&) {});
}

/// Four calls of random kinds along random schedules, without a wait in between. Returns the
/// faults.
///
/// random:    equal in all processes
/// make_case: `make_case(what, schedule)` returns the buffers of this process's ranks
template <class T, class Ranks, class Reducer, class MakeCase>
std::string random_calls_in_a_row(Ranks& all, std::mt19937_64& random, int ranks,
                                  Reducer const& reduce, MakeCase const& make_case) {
  std::vector<std::unique_ptr<device_case<T>>> calls;
  std::vector<std::string> names;
  for (int call = 0; call < 4; ++call) {
    auto const kind = static_cast<blink::collective>(random() % 11);
    if (ranks == 1 && kind == blink::collective::send_to_next) continue;
    auto const trees = random_schedule(random, ranks, kind);
    collective_case what;
    what.kind = kind;
    what.count = random() % 2 == 0 ? random() % 60 : random() % 1500;
    what.seed = random();
    what.is_in_place = random() % 3 == 0;
    what.offset = random() % 3;
    names.emplace_back(blink::to_text(kind));
    calls.push_back(std::make_unique<device_case<T>>(make_case(what, trees)));
    (void)all.prepare(trees);
  }
  for (auto& call : calls) call->enqueue(all, reduce);
  all.wait();
  std::string wrong;
  for (std::size_t call = 0; call < calls.size(); ++call) {
    auto const text = calls[call]->wrong(reduce);
    if (!text.empty()) wrong += names[call] + ", call " + std::to_string(call) + ": " + text;
  }
  return wrong;
}

}  // namespace blink_test
