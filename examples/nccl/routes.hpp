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
template <platform P, class Link>
class routes {
 public:
  using prepared_type = typename world_t<P, Link>::prepared_type;

  explicit routes(world_t<P, Link>& world) : world_(world) {}

  [[nodiscard]] bool knows(blink::collective kind, int root) const {
    return known_.contains({kind, root});
  }
  /// Of several processes: called by all of them together, the first time.
  [[nodiscard]] prepared_type& along(blink::collective kind, int root) {
    auto const found = known_.find({kind, root});
    if (found != known_.end()) return *found->second;
    int const ranks = world_.rank_count();
    auto& made = world_.prepare(blink::parallel_trees(make(kind, ranks, root), P::ways(ranks)));
    known_[{kind, root}] = &made;
    return made;
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

  world_t<P, Link>& world_;
  std::map<std::pair<blink::collective, int>, prepared_type*> known_;
};

}  // namespace blink_nccl
