// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which trees a collective runs along.

#include <blink/collective.hpp>
#include <blink/collectives/default_schedules.hpp>
#include <blink/collectives/flow_schedules.hpp>
#include <blink/collectives/schedule.hpp>
#include <blink/transports/cuda/parallel_trees.hpp>

#include "platform.hpp"

#include <map>
#include <utility>

namespace blink_nccl {

/// The schedules of a communicator, prepared when they are used first.
template <platform P>
class routes {
 public:
  using prepared_type = typename world_t<P>::prepared_type;

  explicit routes(world_t<P>& world) : world_(world) {}

  [[nodiscard]] prepared_type& along(blink::collective kind, int root) {
    auto& known = known_[{kind, root}];
    if (known == nullptr) {
      int const ranks = world_.rank_count();
      known = &world_.prepare(blink::parallel_trees(make(kind, ranks, root), P::ways(ranks)));
    }
    return *known;
  }

 private:
  static blink::schedule make(blink::collective kind, int ranks, int root) {
    constexpr int few = 8;  // children that one rank serves at once
    switch (kind) {
      case blink::collective::broadcast:
      case blink::collective::reduce:
        return ranks <= few ? blink::flat_schedule(ranks, root)
                            : blink::binomial_schedule(ranks, root);
      case blink::collective::gather:
        return blink::gather_schedule(ranks, root);
      case blink::collective::scatter:
        return blink::scatter_schedule(ranks, root);
      case blink::collective::all_to_all:
        return blink::all_to_all_schedule(ranks);
      default:
        return blink::star_schedule(ranks);
    }
  }

  world_t<P>& world_;
  std::map<std::pair<blink::collective, int>, prepared_type*> known_;
};

}  // namespace blink_nccl
