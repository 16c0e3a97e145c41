// SPDX-License-Identifier: Apache-2.0
#pragma once

// Calls in graphs of emulated devices.

#include <blink/reducers/reducer.hpp>

#include "device_case.hpp"
#include "emulated_devices.hpp"

#include <string>
#include <vector>

namespace blink_test {

/// Captures calls and replays them several times, each time before a call outside of the graph.
/// Positions are in device memory, so each call continues where the last one ended. Returns the
/// faults.
template <class Ranks, class T>
std::string replay_between(emulated_devices& machine, Ranks& all,
                           std::vector<device_case<T>*> const& captured, device_case<T>& outside,
                           typename Ranks::streams const& on) {
  machine.begin_capture(on);
  for (auto* const one : captured) one->enqueue(all, blink::sum{}, on);
  auto const graph = machine.end_capture(on);
  for (auto* const one : captured) {
    if (one->wrong(blink::sum{}).empty()) return "a call ran during capture";
  }
  std::string wrong;
  for (int replay = 0; replay < 4; ++replay) {
    for (auto* const one : captured) one->forget();
    outside.forget();
    machine.replay(graph);
    all.wait(on);
    for (auto* const one : captured) wrong += one->wrong(blink::sum{});
    outside.enqueue(all, blink::sum{}, on);
    all.wait(on);
    wrong += outside.wrong(blink::sum{});
  }
  return wrong;
}

}  // namespace blink_test
