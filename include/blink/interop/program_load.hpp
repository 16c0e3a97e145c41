// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/interop/step_program.hpp>
#include <blink/planning/plan/detail/route.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The load of a step program or of NCCL's rings on a machine's links.
struct program_load {
  std::map<std::pair<int, int>, rational> part;  ///< of the buffer on each link, by node ids
  std::map<std::pair<int, int>, rational> capacity;
  std::pair<int, int> narrowest{-1, -1};  ///< the link that takes longest
  rational rate;  ///< bytes of the whole buffer in time one, if only links limited it

  /// No load yet on the links of this machine.
  explicit program_load(topology const& machine) {
    for (auto const& l : machine.links) {
      capacity[{machine.nodes[static_cast<std::size_t>(l.tail)].id,
                machine.nodes[static_cast<std::size_t>(l.head)].id}] +=
          machine.in_units(l.capacity);
    }
  }
  /// Sets `rate` and `narrowest` from the parts and capacities.
  void find_rate() {
    rational longest;
    for (auto const& [link, its_part] : part) {
      auto const time = its_part / capacity.at(link);
      if (time <= longest) continue;
      longest = time;
      narrowest = link;
    }
    if (longest > rational(0)) rate = rational(1) / longest;
  }
};

/// Routes the sends of a sound program over a machine whose ranks are the program's in their order.
///
/// A route has the fewest links, then the largest capacity; equally good routes are used in turn. A
/// program does not contain its routes, so this is an estimate and not what a runtime promises.
/// Start-up, steps and the work of blocks are left out. The whole buffer is the one that a plan's
/// rate counts: the gathered one, the root's, or a rank's of an all_to_all.
///
/// Throws: input_error if the numbers of ranks differ; planning_error if two ranks have no route.
[[nodiscard]] inline program_load load_of(topology const& machine, step_program const& program) {
  auto const positions = machine.rank_positions();
  if (positions.size() != program.ranks.size()) {
    throw input_error("the program has " + std::to_string(program.ranks.size()) +
                      " ranks, the machine '" + machine.name + "' has " +
                      std::to_string(positions.size()));
  }
  auto const id = [&](std::size_t rank) {
    return machine.nodes[static_cast<std::size_t>(positions[rank])].id;
  };
  bool const counts_one_rank =
      program.collective && has_blocks(*program.collective) && has_root(*program.collective);
  auto const buffer = static_cast<std::int64_t>(program.chunk_count) *
                      (counts_one_rank ? std::ssize(program.ranks) : 1);
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> sent;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (auto const& block : program.ranks[r].blocks) {
      for (auto const& step : block.steps) {
        if (!sends(step.kind)) continue;
        sent[{r, static_cast<std::size_t>(block.send_peer)}] += step.count;
      }
    }
  }
  program_load result(machine);
  detail::router route(machine);
  for (auto const& [ends, chunks] : sent) {
    auto const found = route.find(id(ends.first), id(ends.second), true);
    if (!found) {
      throw planning_error("no route leads from rank " + std::to_string(id(ends.first)) +
                           " to rank " + std::to_string(id(ends.second)));
    }
    route.take(*found, chunks);
    for (std::size_t i = 0; i + 1 < found->path.size(); ++i) {
      result.part[{found->path[i], found->path[i + 1]}] += rational(chunks) / buffer;
    }
  }
  result.find_rate();
  return result;
}

}}  // namespace blink::BLINK_ABI
