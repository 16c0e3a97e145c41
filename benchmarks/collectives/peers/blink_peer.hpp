// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>
#include <blink/collectives/prepared_tuning.hpp>
#include <blink/collectives/tune.hpp>
#include <blink/schedule/default_tuning.hpp>

#include "peer_loop.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace blink_bench {

/// The collective of an operation.
[[nodiscard]] inline blink::collective kind_of(operation what) {
  switch (what) {
    case operation::all_reduce:
      return blink::collective::all_reduce;
    case operation::broadcast:
      return blink::collective::broadcast;
    case operation::reduce:
      return blink::collective::reduce;
    case operation::all_gather:
      return blink::collective::all_gather;
    case operation::reduce_scatter:
      return blink::collective::reduce_scatter;
    case operation::all_to_all:
      return blink::collective::all_to_all;
    case operation::barrier:
      break;
  }
  return blink::collective::barrier;
}

/// Calls one rank of a blink communicator along a plan; a barrier needs none.
template <class Context, class Source>
void run_blink(Context& comm, Source& trees, peer_call const& call) {
  float const* const input = call.input;
  switch (call.what) {
    case operation::all_reduce:
      return blink::all_reduce(comm, trees, input, call.output, call.count, blink::sum{});
    case operation::broadcast:
      return blink::broadcast(comm, trees, input, call.output, call.count);
    case operation::reduce:
      return blink::reduce(comm, trees, input, call.output, call.count, blink::sum{});
    case operation::all_gather:
      return blink::all_gather(comm, trees, input, call.output, call.block);
    case operation::reduce_scatter:
      return blink::reduce_scatter(comm, trees, input, call.output, call.block, blink::sum{});
    case operation::all_to_all:
      return blink::all_to_all(comm, trees, input, call.output, call.block);
    case operation::barrier:
      return blink::barrier(comm);
  }
}

/// Calls of one rank of a blink communicator, by the algorithm measured as the fastest before the
/// calls of a size. The distance of the cores may change in between, and with it the fastest
/// algorithm.
template <class Context>
class blink_peer {
 public:
  explicit blink_peer(Context& comm)
      : me_(&comm), algorithms_(comm, std::vector<blink::tuning_table>{}) {}

  void prepare(int, peer_call const& call) {
    if (call.what == operation::barrier) return;
    blink::tuning_options options;
    options.first_bytes = std::min(call.count * sizeof(float), options.last_bytes);
    options.last_bytes = options.first_bytes;
    auto const kind = kind_of(call.what);
    auto const algorithms = blink::default_algorithms(kind, me_->rank_count());
    algorithms_ = blink::prepared_tuning(*me_, blink::tune(*me_, kind, algorithms, options).table);
  }
  void idle() { std::this_thread::yield(); }

  void run(int, peer_call const& call) { run_blink(*me_, algorithms_, call); }

 private:
  Context* me_;
  blink::prepared_tuning algorithms_;
};

}  // namespace blink_bench
