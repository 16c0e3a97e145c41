// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>
#include <blink/collectives/prepared_methods.hpp>
#include <blink/collectives/tune.hpp>
#include <blink/schedule/default_methods.hpp>

#include "peer_loop.hpp"

#include <algorithm>
#include <cstddef>
#include <thread>
#include <vector>

namespace blink_bench {

/// The collective that an operation is.
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

/// A call of one rank of a blink world along a plan; a barrier needs none.
template <class Context, class Plan>
void run_blink(Context& me, Plan& plan, peer_call const& call) {
  float const* const input = call.input;
  switch (call.what) {
    case operation::all_reduce:
      return blink::all_reduce(me, plan, input, call.output, call.count, blink::sum{});
    case operation::broadcast:
      return blink::broadcast(me, plan, input, call.output, call.count);
    case operation::reduce:
      return blink::reduce(me, plan, input, call.output, call.count, blink::sum{});
    case operation::all_gather:
      return blink::all_gather(me, plan, input, call.output, call.block);
    case operation::reduce_scatter:
      return blink::reduce_scatter(me, plan, input, call.output, call.block, blink::sum{});
    case operation::all_to_all:
      return blink::all_to_all(me, plan, input, call.output, call.block);
    case operation::barrier:
      return blink::barrier(me);
  }
}

/// Calls of one rank of a blink world, by the method that is measured to be the fastest before the calls of a size: the
/// cores may be as near each other then as during the calls, or not; methods for both are not the same.
template <class Context>
class blink_peer {
 public:
  explicit blink_peer(Context& me) : me_(&me), methods_(me, std::vector<blink::method_table>{}) {}

  void prepare(int, peer_call const& call) {
    if (call.what == operation::barrier) return;
    blink::tuning_options options;
    options.first_bytes = std::min(call.count * sizeof(float), options.last_bytes);
    options.last_bytes = options.first_bytes;
    auto const kind = kind_of(call.what);
    auto const methods = blink::default_methods(kind, me_->rank_count());
    methods_ = blink::prepared_methods(*me_, blink::tune(*me_, kind, methods, options).table);
  }
  void idle() { std::this_thread::yield(); }

  void run(int, peer_call const& call) { run_blink(*me_, methods_, call); }

 private:
  Context* me_;
  blink::prepared_methods methods_;
};

}  // namespace blink_bench
