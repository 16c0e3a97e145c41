// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/collectives.hpp>

#include "peer_loop.hpp"

#include <thread>

namespace blink_bench {

/// Calls of one rank of a blink world.
template <class Context>
class blink_peer {
 public:
  blink_peer(Context& me, blink::prepared_schedule& star, blink::prepared_schedule& flat)
      : me_(&me), star_(&star), flat_(&flat) {}

  void prepare(int, peer_call const&) {}
  void idle() { std::this_thread::yield(); }

  void run(int, peer_call const& call) {
    float const* const input = call.input;
    switch (call.what) {
      case operation::all_reduce:
        return blink::all_reduce(*me_, *star_, input, call.output, call.count, blink::sum{});
      case operation::broadcast:
        return blink::broadcast(*me_, *flat_, input, call.output, call.count);
      case operation::reduce:
        return blink::reduce(*me_, *flat_, input, call.output, call.count, blink::sum{});
      case operation::all_gather:
        return blink::all_gather(*me_, *star_, input, call.output, call.block);
      case operation::reduce_scatter:
        return blink::reduce_scatter(*me_, *star_, input, call.output, call.block, blink::sum{});
    }
  }

 private:
  Context* me_;
  blink::prepared_schedule* star_;
  blink::prepared_schedule* flat_;
};

}  // namespace blink_bench
