// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>
#include <blink/collectives/default_methods.hpp>
#include <blink/collectives/prepared_methods.hpp>
#include <blink/collectives/tune.hpp>

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

/// Calls of one rank of a blink world, by methods that are measured before.
template <class Context>
class blink_peer {
 public:
  blink_peer(Context& me, peer_arguments const& given) : me_(&me), methods_(me, tuned(me, given)) {}

  void prepare(int, peer_call const&) {}
  void idle() { std::this_thread::yield(); }

  void run(int, peer_call const& call) {
    float const* const input = call.input;
    switch (call.what) {
      case operation::all_reduce:
        return blink::all_reduce(*me_, methods_, input, call.output, call.count, blink::sum{});
      case operation::broadcast:
        return blink::broadcast(*me_, methods_, input, call.output, call.count);
      case operation::reduce:
        return blink::reduce(*me_, methods_, input, call.output, call.count, blink::sum{});
      case operation::all_gather:
        return blink::all_gather(*me_, methods_, input, call.output, call.block);
      case operation::reduce_scatter:
        return blink::reduce_scatter(*me_, methods_, input, call.output, call.block, blink::sum{});
      case operation::all_to_all:
        return blink::all_to_all(*me_, methods_, input, call.output, call.block);
      case operation::barrier:
        return blink::barrier(*me_);
    }
  }

 private:
  static std::vector<blink::method_table> tuned(Context& me, peer_arguments const& given) {
    if (given.what == operation::barrier) return {};
    bind_to_core(me.rank());
    blink::tuning_options options;
    options.first_bytes = given.first_bytes;
    options.last_bytes = std::min<std::size_t>(given.last_bytes, options.last_bytes);
    auto const kind = kind_of(given.what);
    return {blink::tune(me, kind, blink::default_methods(kind, me.rank_count()), options).table};
  }

  Context* me_;
  blink::prepared_methods methods_;
};

}  // namespace blink_bench
