// SPDX-License-Identifier: Apache-2.0
#pragma once

// Which trees a collective runs along.

#include <blink/collective.hpp>
#include <blink/collectives/default_methods.hpp>
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
    auto& made = world_.prepare(
        blink::parallel_trees(blink::default_schedule(kind, ranks, root), P::ways(ranks)));
    known_[{kind, root}] = &made;
    return made;
  }

 private:
  world_t<P, Link>& world_;
  std::map<std::pair<blink::collective, int>, prepared_type*> known_;
};

}  // namespace blink_nccl
