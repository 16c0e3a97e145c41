// SPDX-License-Identifier: Apache-2.0
#pragma once

// Runs one collective on device ranks and compares every element with a serial loop.

#include <blink/core/collective.hpp>
#include <blink/running/walk/choose_protocol.hpp>
#include <blink/schedule/schedule.hpp>
#include <blink/transports/cuda/calls/device_collectives.hpp>
#include <blink/transports/cuda/calls/device_options.hpp>
#include <blink/transports/cuda/calls/rank_buffers.hpp>

#include "collective_case.hpp"

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace blink_test {

/// Options for tests whose buffers are vectors.
inline blink::device_options options_in_vectors(std::vector<int> devices) {
  blink::device_options options;
  options.devices = std::move(devices);
  options.checks_places = false;
  options.slot_bytes = 512;
  return options;
}

/// Costs with which calls below `bytes` bytes use packets, and larger ones chunks.
constexpr blink::protocol_costs border_at(double bytes) {
  return {1, 0, bytes};
}

/// A case whose values come from the seed.
inline collective_case case_of(blink::collective kind, std::size_t count, std::uint64_t seed,
                               bool is_in_place = false) {
  return {kind, count, is_in_place, 0, seed};
}

/// A call for a case, and the buffers of all ranks, or of those of one process.
template <class T>
class device_case {
 public:
  device_case(collective_case const& what, blink::schedule const& trees)
      : device_case(what, trees, 0, trees.rank_count) {}
  device_case(collective_case const& what, blink::schedule const& trees, int first, int ranks)
      : what_(what), plan_(trees) {
    for (int rank = first; rank < first + ranks; ++rank) {
      own_.emplace_back(what, trees.rank_count, rank);
      buffers_.push_back({own_.back().input, own_.back().output, what.count});
    }
  }
  template <class Ranks, class Reducer>
  void enqueue(Ranks& on, Reducer const& reduce, typename Ranks::streams const& streams = {}) {
    auto& prepared = on.prepare(plan_);
    switch (what_.kind) {
      case blink::collective::broadcast:
        return blink::broadcast(on, prepared, buffers_, streams);
      case blink::collective::reduce:
        return blink::reduce(on, prepared, buffers_, reduce, streams);
      case blink::collective::all_reduce:
        return blink::all_reduce(on, prepared, buffers_, reduce, streams);
      case blink::collective::all_gather:
        return blink::all_gather(on, prepared, buffers_, streams);
      case blink::collective::reduce_scatter:
        return blink::reduce_scatter(on, prepared, buffers_, reduce, streams);
      case blink::collective::gather:
        return blink::gather(on, prepared, buffers_, streams);
      case blink::collective::scatter:
        return blink::scatter(on, prepared, buffers_, streams);
      case blink::collective::all_to_all:
        return blink::all_to_all(on, prepared, buffers_, streams);
      case blink::collective::send_to_next:
        return blink::send_to_next(on, prepared, buffers_, streams);
      case blink::collective::permute:
        return blink::permute(on, prepared, buffers_, streams);
      case blink::collective::barrier:
        return blink::barrier(on, prepared, streams);
    }
  }
  template <class Reducer>
  [[nodiscard]] std::string wrong(Reducer const& reduce) {
    std::string all;
    for (auto& mine : own_) {
      auto const text = what_is_wrong(what_, plan_, mine, reduce);
      if (!text.empty()) all += "rank " + std::to_string(mine.rank) + ": " + text + "\n";
    }
    return all;
  }
  [[nodiscard]] std::vector<blink::rank_buffers<T>>& buffers() { return buffers_; }
  /// Restores the outputs from before the call.
  void forget() {
    for (auto& mine : own_) {
      for (std::size_t k = 0; k < mine.output_count; ++k) {
        mine.output[k] = value_from<T>(0x55aa55aa);
      }
    }
  }

 private:
  collective_case what_;
  blink::schedule plan_;
  std::vector<rank_buffers<T>> own_;
  std::vector<blink::rank_buffers<T>> buffers_;
};

}  // namespace blink_test
