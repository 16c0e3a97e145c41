// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/interop/message_program.hpp>
#include <blink/interop/step_program.hpp>
#include <blink/planning/plan/detail/route.hpp>
#include <blink/topology/topology.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
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

}}  // namespace blink::BLINK_ABI

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Adds up the load of transfers between the ranks of a program, which are the machine's in their
/// order.
class load_router {
 public:
  /// Throws: input_error if the numbers of ranks differ.
  load_router(topology const& machine, std::size_t rank_count) : route_(machine), load_(machine) {
    for (int const position : machine.rank_positions()) {
      ids_.push_back(machine.nodes[static_cast<std::size_t>(position)].id);
    }
    if (ids_.size() == rank_count) return;
    throw input_error("the program has " + std::to_string(rank_count) + " ranks, the machine '" +
                      machine.name + "' has " + std::to_string(ids_.size()));
  }

  /// Adds a transfer: to one rank, or through switches from one to many or from many to one. Each
  /// link carries it once.
  ///
  /// ends:   (from, to) of each part, ranks of the program
  /// weight: how much the transfer counts where equally good routes are used in turn
  /// part:   of the buffer
  /// Throws: planning_error if two ranks have no route.
  void add(std::vector<std::pair<std::size_t, std::size_t>> const& ends, std::int64_t weight,
           rational const& part) {
    std::set<std::pair<int, int>> links;
    for (auto const& [from, to] : ends) {
      auto const found = route_.find(ids_[from], ids_[to], true);
      if (!found) {
        throw planning_error("no route leads from rank " + std::to_string(ids_[from]) +
                             " to rank " + std::to_string(ids_[to]));
      }
      route_.take(*found, weight);
      for (std::size_t i = 0; i + 1 < found->path.size(); ++i) {
        links.insert({found->path[i], found->path[i + 1]});
      }
    }
    for (auto const& link : links) load_.part[link] += part;
  }

  /// The load of all transfers so far, with its rate.
  [[nodiscard]] program_load load() const {
    auto result = load_;
    result.find_rate();
    return result;
  }

 private:
  router route_;
  program_load load_;
  std::vector<int> ids_;  // by rank of the program
};

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// Routes the sends of a sound program over a machine whose ranks are the program's in their order.
///
/// A route has the fewest links, then the largest capacity; equally good routes are used in turn. A
/// program does not contain its routes, so this is an estimate and not what a runtime promises.
/// Start-up, steps and the work of blocks are left out. The whole buffer is the one that a plan's
/// rate counts: the gathered one, the root's, or a rank's of an all_to_all.
///
/// Throws: input_error if the numbers of ranks differ; planning_error if two ranks have no route.
[[nodiscard]] inline program_load load_of(topology const& machine, step_program const& program) {
  detail::load_router router(machine, program.ranks.size());
  auto const buffer = detail::whole_chunks(program);
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> sent;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (auto const& block : program.ranks[r].blocks) {
      for (auto const& step : block.steps) {
        if (!sends(step.kind)) continue;
        sent[{r, static_cast<std::size_t>(block.send_peer)}] += step.count;
      }
    }
  }
  for (auto const& [ends, chunks] : sent) router.add({ends}, chunks, rational(chunks) / buffer);
  return router.load();
}

/// Routes the messages of a sound program whose places of data are known, in the same way.
///
/// Pre:    program.has_data.
/// Throws: as for step programs; precondition_error for programs without places of data.
[[nodiscard]] inline program_load load_of(topology const& machine, message_program const& program) {
  expects(program.has_data, "load_of: expected a program with places of data");
  detail::load_router router(machine, program.ranks.size());
  auto const buffer = detail::whole_chunks(program);
  std::map<std::pair<std::size_t, std::size_t>, std::int64_t> sent;
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    for (auto const& each : program.ranks[r].operations) {
      if (each.kind != message_kind::send) continue;
      sent[{r, static_cast<std::size_t>(each.peer)}] += each.data->sources.front().count;
    }
  }
  for (auto const& [ends, chunks] : sent) router.add({ends}, chunks, rational(chunks) / buffer);
  return router.load();
}

}}  // namespace blink::BLINK_ABI
