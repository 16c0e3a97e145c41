// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/interop/detail/mscclpp_moves.hpp>
#include <blink/interop/detail/mscclpp_structure.hpp>
#include <blink/interop/mscclpp_program.hpp>
#include <blink/interop/program_load.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Routes the data of a sound execution plan over a machine whose ranks are the plan's in their
/// order.
///
/// Routes are those of `load_of` for step programs. A put goes to the peer, and what a rank reads
/// comes from there. Packets are twice as large as their data. A group's data pass each link on the
/// routes between the rank and the others once, as a switch copies and reduces.
///
/// Throws: input_error if the numbers of ranks differ; planning_error if two ranks have no route.
[[nodiscard]] inline program_load load_of(topology const& machine, mscclpp_program const& program) {
  using ends = std::vector<std::pair<std::size_t, std::size_t>>;
  detail::load_router router(machine, program.ranks.size());
  std::map<ends, rational> sent;  // chunks
  for (std::size_t r = 0; r < program.ranks.size(); ++r) {
    auto const add = [&](detail::mscclpp_end const& end, rational const& amount, bool leaves) {
      ends between;
      for (int const peer : detail::owners_of(program, static_cast<int>(r), end.place).ranks) {
        auto const other = static_cast<std::size_t>(peer);
        if (other == r) continue;
        between.push_back(leaves ? std::pair(r, other) : std::pair(other, r));
      }
      if (!between.empty()) sent[between] += end.is_packets ? amount * 2 : amount;
    };
    for (auto const& block : program.ranks[r].blocks) {
      for (auto const& each : detail::operations_of(block)) {
        for (auto const& move : detail::moves_of(*each.op)) {
          rational const amount(move.count, each.op->slices);  // blocks share an operation
          for (auto const& end : move.sources) add(end, amount, false);
          for (auto const& end : move.destinations) add(end, amount, true);
        }
      }
    }
  }
  auto const& first = program.ranks.front();
  auto const chunks = program.collective ? detail::chunk_count_of(program)
                                         : std::max({1, first.input_chunks, first.output_chunks});
  for (auto const& [between, amount] : sent) {
    auto const whole = amount.numerator() / amount.denominator() + 1;  // routes take turns by it
    router.add(between, whole, amount / chunks);
  }
  return router.load();
}

}}  // namespace blink::BLINK_ABI
