// SPDX-License-Identifier: Apache-2.0
#include "memory_methods.hpp"

#include <blink/collectives/default_schedules.hpp>
#include <blink/collectives/flow_schedules.hpp>
#include <blink/error.hpp>

#include <cstddef>
#include <string>

namespace blink::tools {
namespace {

/// A chain from every rank around: what goes over a ring.
schedule ring(int ranks) {
  schedule result;
  result.rank_count = ranks;
  for (int root = 0; root < ranks; ++root) {
    result.trees.push_back(chain_schedule(ranks, root).trees[0]);
  }
  return result;
}

}  // namespace

std::vector<method> memory_methods(collective kind, int ranks, int root,
                                   std::vector<int> const& destinations) {
  switch (kind) {
    case collective::broadcast:
    case collective::reduce:
      return {{"flat", flat_schedule(ranks, root)},
              {"binomial", binomial_schedule(ranks, root)},
              {"chain", chain_schedule(ranks, root)}};
    case collective::all_reduce:
      return {{"star", star_schedule(ranks)},
              {"one-shot", one_shot_schedule(ranks)},
              {"flat", flat_schedule(ranks, root)},
              {"binomial", binomial_schedule(ranks, root)},
              {"ring", ring(ranks)}};
    case collective::all_gather:
    case collective::reduce_scatter:
      return {{"star", star_schedule(ranks)}, {"ring", ring(ranks)}};
    case collective::gather:
      return {{"direct", gather_schedule(ranks, root)}};
    case collective::scatter:
      return {{"direct", scatter_schedule(ranks, root)}};
    case collective::all_to_all:
      return {{"direct", all_to_all_schedule(ranks)}};
    case collective::send_to_next:
      return {{"direct", send_to_next_schedule(ranks)}};
    case collective::permute:
      if (destinations.size() != static_cast<std::size_t>(ranks)) {
        throw input_error("--to: found " + std::to_string(destinations.size()) +
                          " ranks, expected " + std::to_string(ranks));
      }
      return {{"direct", permute_schedule(destinations)}};
    case collective::barrier:
      break;
  }
  return {{"binomial", binomial_schedule(ranks, 0)}};
}

}  // namespace blink::tools
