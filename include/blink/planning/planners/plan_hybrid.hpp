// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/detail/supplied_graph.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/plan_direct.hpp>
#include <blink/planning/planners/plan_joint.hpp>
#include <blink/planning/planners/plan_switch.hpp>
#include <blink/topology/connectivity.hpp>
#include <blink/topology/subset.hpp>
#include <blink/topology/topology.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The bytes of a buffer for the slower of two kinds of link, so that both kinds end together. They
/// are D B_s / (B_s + B_f) - T B_s B_f / (B_s + B_f), or 0 where D <= T B_f.
///
/// bytes:      of the buffer, D
/// fast, slow: rates B_f and B_s, in bytes for each unit of time
/// start:      T, by how much the slow kind starts later, in units of time
/// Source:     Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020,
///             section 3.4.
[[nodiscard]] inline rational slow_part(rational const& bytes, rational const& fast,
                                        rational const& slow, rational const& start) {
  if (bytes <= start * fast) return 0;
  return (bytes - start * fast) * slow / (slow + fast);
}

namespace detail {

/// The machine without the links of one kind.
[[nodiscard]] inline topology without_links(topology const& machine, link_kind kind) {
  std::vector<bool> keep;
  for (auto const& l : machine.links) keep.push_back(l.kind != kind);
  return without_idle_switches(
      kept_part(machine, std::vector<bool>(machine.nodes.size(), true), keep));
}

/// The optimal plan on one part of the links.
[[nodiscard]] inline plan plan_part(topology const& part, plan_request const& request,
                                    std::string const& which) {
  try {
    return plan_forward(part, request, [](topology const& forward, plan_request const& wanted) {
      if (auto star = plan_star(forward, wanted)) return std::move(*star);
      bool const joint = has_both_phases(wanted.collective) && !used_switches(forward).empty();
      return joint ? plan_joint(forward, wanted) : plan_direct(forward, wanted);
    });
  } catch (planning_error const& reason) {
    throw planning_error("hybrid: the links " + which + ": " + reason.what());
  }
}

}  // namespace detail

/// Plans a collective over two kinds of link at once. One part is the optimum on the machine's
/// fastest kind, if that joins all ranks. The other part is the optimum on all other links. The
/// buffer is split so that both end together.
///
/// The request gives the size (`bytes`), and how much later the slow kind starts
/// (`slow_start_seconds`: to switch peer access, to go through the host). With a size, the weights
/// of the slow kind's trees make their share of the buffer `slow_part` (to 1/65536). So size / rate
/// is the time that the plan takes, the slow start included. Without a size, all links are full and
/// the rate is the sum of both. Where the slow kind would only lose time it gets no trees.
///
/// Source: Wang et al., "Blink: Fast and Generic Collectives for Distributed ML", MLSys 2020,
///         section 3.4.
/// Time:   that of the exact planner on both parts.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error unless the fastest kind joins all ranks, and the other links also do;
///         input_error for a negative size or start, or a unit without a known rate.
[[nodiscard]] inline plan plan_hybrid(topology const& machine, plan_request const& request) {
  if (request.bytes < 0 || !(request.slow_start_seconds >= 0)) {
    throw input_error("hybrid: bytes and slow_start_seconds must not be negative");
  }
  plan result = detail::empty_plan(machine, request);
  if (result.ranks.size() == 1) return result;
  auto const kind = fastest_connecting_kind(machine);
  if (!kind) {
    throw planning_error("hybrid: machine '" + machine.name +
                         "' does not have two kinds of link, the faster of which joins all ranks");
  }
  auto const rest = detail::without_links(machine, *kind);
  std::string const name(to_text(*kind));
  if (rest.links.empty()) {
    throw planning_error("hybrid: machine '" + machine.name + "' has only links of kind " + name +
                         ", expected two kinds");
  }
  auto fast = detail::plan_part(only_links(machine, *kind), request, "of kind " + name);
  auto same_root = request;  // one root for both parts
  if (has_one_root(request.collective)) {
    same_root.root = fast.trees.front().root;
  }
  auto slow = detail::plan_part(rest, same_root, "beside " + name);
  if (slow.rate > fast.rate) std::swap(slow, fast);

  rational slow_scale = 1;
  if (request.bytes > 0 && request.slow_start_seconds > 0) {
    // Bytes for each picosecond, so that the start is a fraction.
    constexpr double picoseconds = 1e12;
    double const start = std::round(request.slow_start_seconds * picoseconds);
    if (start >= static_cast<double>(std::numeric_limits<std::int64_t>::max())) {
      throw input_error("hybrid: slow_start_seconds is too large");
    }
    double const unit_rate = bytes_per_second(machine.unit);
    rational const unit(static_cast<std::int64_t>(unit_rate),
                        static_cast<std::int64_t>(picoseconds));
    auto const part = slow_part(request.bytes, fast.rate * unit, slow.rate * unit,
                                rational(static_cast<std::int64_t>(start)));
    // The fast trees are full; the slow ones carry as much of the buffer as their part of it.
    // Rounded to a fraction that keeps weights short.
    slow_scale = part / (rational(request.bytes) - part) * fast.rate / slow.rate;
    constexpr std::int64_t steps = 1 << 16;
    slow_scale = rational(std::llround(slow_scale.to_double() * steps), steps);
  }
  result.trees = std::move(fast.trees);
  if (slow_scale > rational(0)) {
    for (auto& t : slow.trees) {
      t.weight *= slow_scale;
      result.trees.push_back(std::move(t));
    }
  }
  for (auto const& t : result.trees) result.rate += t.weight;
  return result;
}

}}  // namespace blink::BLINK_ABI
