// SPDX-License-Identifier: Apache-2.0
// Planners of low trees on rings and tori, whose edges run along one dimension each.
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/plan/detail/rank_graph.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/planning/planners/rank_patterns.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Calls `visit(rank, next)` for each pair of neighbours of a torus, once.
template <class Visit>
void for_each_neighbour_pair(std::vector<std::size_t> const& extents, Visit visit) {
  std::size_t n = 1;
  for (auto const extent : extents) n *= extent;
  for (std::size_t at = 0; at < n; ++at) {
    std::size_t stride = n;
    for (auto const extent : extents) {
      stride /= extent;
      auto const place = at / stride % extent;
      auto const next = at - place * stride + (place + 1) % extent * stride;
      if (extent > 2 || at < next) visit(at, next);
    }
  }
}

/// The extents of a ring or torus whose ranks are numbered row by row, the last dimension fastest.
/// Nothing for any other machine.
///
/// most_missing: links, one way, that the machine may lack
/// Time: O(L) for each way to write the number of ranks as a product.
[[nodiscard]] inline std::optional<std::vector<std::size_t>> torus_extents(
    topology const& machine, std::size_t most_missing = 0) {
  auto const ranks = machine.rank_positions();
  auto const n = ranks.size();
  if (!used_switches(machine).empty()) return std::nullopt;
  std::vector<std::size_t> number(machine.nodes.size());
  for (std::size_t i = 0; i < n; ++i) number[static_cast<std::size_t>(ranks[i])] = i;
  std::set<std::pair<std::size_t, std::size_t>> joined;
  for (auto const& l : machine.links) {
    joined.emplace(number[static_cast<std::size_t>(l.tail)],
                   number[static_cast<std::size_t>(l.head)]);
  }
  std::vector<std::size_t> extents;
  auto const fits = [&] {
    std::size_t expected = 0, found = 0;
    for_each_neighbour_pair(extents, [&](std::size_t at, std::size_t next) {
      expected += 2;
      found += joined.contains({at, next}) ? 1U : 0U;
      found += joined.contains({next, at}) ? 1U : 0U;
    });
    return found == joined.size() && expected - found <= most_missing;
  };
  auto const search = [&](auto const& self, std::size_t rest) -> bool {
    if (rest == 1) return !extents.empty() && fits();
    for (std::size_t extent = 2; extent <= rest; ++extent) {
      if (rest % extent != 0) continue;
      extents.push_back(extent);
      if (self(self, rest / extent)) return true;
      extents.pop_back();
    }
    return false;
  };
  if (n < 3 || !search(search, n)) return std::nullopt;
  return extents;
}

/// Edges in rounds: those of one round start where the rounds before ended.
using hop_rounds = std::vector<std::vector<std::pair<std::size_t, std::size_t>>>;

/// The rounds that spread the data of one of `count` ranks of a ring to all, both ways at once.
/// Each holder of data for a segment of the ring hands its outer thirds to the ranks in their
/// middle.
///
/// Source: "Trivance: latency-optimal all-reduce by shortcutting multiport networks", 2026
///         (arXiv 2602.17254).
/// backwards: the other way round
/// Post:   ceil(log3(count)) rounds, the farthest partners first.
[[nodiscard]] inline hop_rounds ternary_rounds(std::size_t root, std::size_t count,
                                               bool backwards) {
  struct segment {
    std::size_t first, last, holder;  // of the ring, cut open opposite to the root
  };
  auto const middle = [](std::size_t first, std::size_t last) { return (first + last) / 2; };
  std::vector<segment> segments{{0, count - 1, middle(0, count - 1)}};
  auto const rank_at = [&](std::size_t place) {
    auto const ahead = (place + count - middle(0, count - 1)) % count;
    return (root + (backwards ? count - ahead : ahead)) % count;
  };
  hop_rounds result;
  while (std::ranges::any_of(segments, [](segment const& s) { return s.last > s.first; })) {
    auto& round = result.emplace_back();
    std::vector<segment> next;
    for (auto const& s : segments) {
      auto const third = (s.last - s.first + 3) / 3;  // of the places, rounded up
      auto const from = std::min(s.first + third, s.holder);
      auto const to = std::max(s.last - std::min(third, s.last), s.holder);
      next.push_back({from, to, s.holder});
      auto const hand = [&](std::size_t first, std::size_t last) {
        auto const holder = middle(first, last);
        round.emplace_back(rank_at(s.holder), rank_at(holder));
        next.push_back({first, last, holder});
      };
      if (from > s.first) hand(s.first, from - 1);
      if (to < s.last) hand(to + 1, s.last);
    }
    segments = std::move(next);
  }
  return result;
}

/// The rounds of a Bine butterfly round a ring, the farthest partners first.
/// backwards: the other way round
[[nodiscard]] inline hop_rounds swing_rounds(std::size_t root, std::size_t count, bool backwards) {
  std::vector<int> ring(count);
  std::iota(ring.begin(), ring.end(), 0);
  auto const turned = [&](std::size_t at) { return backwards ? (count - at) % count : at; };
  hop_rounds result;
  for (auto const& hops : butterfly_rounds(ring, turned(root), bine_partner, true)) {
    auto& round = result.emplace_back();
    for (auto const& [from, to] : hops) {
      round.emplace_back(turned(static_cast<std::size_t>(from)),
                         turned(static_cast<std::size_t>(to)));
    }
  }
  return result;
}

/// One tree over a torus: the dimensions take turns, beginning with `start`. In its round, each
/// holder of data hands it on along that dimension.
///
/// rounds: `rounds(position of the root, extent)` along one dimension
template <class Rounds>
[[nodiscard]] tree_hops torus_hops(std::vector<int> const& ranks,
                                   std::vector<std::size_t> const& extents, std::size_t root,
                                   std::size_t start, Rounds const& rounds) {
  auto const dimensions = extents.size();
  std::vector<std::size_t> stride(dimensions);
  std::vector<hop_rounds> along(dimensions);
  std::size_t most = 0;
  for (std::size_t d = dimensions, product = 1; d-- > 0; product *= extents[d]) {
    stride[d] = product;
    along[d] = rounds(root / product % extents[d], extents[d]);
    most = std::max(most, along[d].size());
  }
  std::vector<std::size_t> holders{root};
  tree_hops result;
  for (std::size_t round = 0; round < most; ++round) {
    for (std::size_t i = 0; i < dimensions; ++i) {
      auto const d = (start + i) % dimensions;
      if (round >= along[d].size()) continue;
      auto const before = holders.size();
      for (auto const& [from, to] : along[d][round]) {
        for (std::size_t h = 0; h < before; ++h) {
          auto const at = holders[h];
          if (at / stride[d] % extents[d] != from) continue;
          auto const there = at - from * stride[d] + to * stride[d];
          result.emplace_back(ranks[at], ranks[there]);
          holders.push_back(there);
        }
      }
    }
  }
  return result;
}

/// Throws: planning_error that names the planner, unless the machine is a ring or torus.
[[nodiscard]] inline std::vector<std::size_t> require_torus(topology const& machine,
                                                            char const* planner) {
  if (auto extents = torus_extents(machine)) return *std::move(extents);
  throw planning_error(std::string(planner) + ": machine '" + machine.name +
                       "' is no ring or torus of direct links, expected one with ranks numbered "
                       "row by row");
}

/// The roots of the trees: that of the request, or every rank.
[[nodiscard]] inline std::vector<std::size_t> pattern_roots(plan_request const& request,
                                                            std::vector<int> const& ranks) {
  std::vector<std::size_t> result;
  int const root = request.root.value_or(ranks.front());
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    if (!has_one_root(request.collective) || ranks[i] == root) result.push_back(i);
  }
  return result;
}

/// Swing: Bine butterflies along the dimensions in turn. For each root there is a tree that begins
/// with each dimension, each way round, so that all links are busy.
///
/// Source: D. De Sensi, T. Bonato, D. Saam, T. Hoefler, "Swing: short-cutting rings for higher
///         bandwidth allreduce", NSDI 2024.
/// Post:   height log2 of each extent, one more where that is no power of two.
/// Throws: planning_error for any other machine than a ring or torus.
[[nodiscard]] inline pattern_trees swing_trees(topology const& machine, plan_request const& request,
                                               std::vector<int> const& ranks) {
  auto const extents = require_torus(machine, planned_by::swing);
  pattern_trees result;
  for (auto const root : pattern_roots(request, ranks)) {
    for (std::size_t start = 0; start < extents.size(); ++start) {
      for (bool const backwards : {false, true}) {
        auto const rounds = [&](std::size_t at, std::size_t count) {
          return swing_rounds(at, count, backwards);
        };
        result.push_back({ranks[root], torus_hops(ranks, extents, root, start, rounds)});
      }
    }
  }
  return result;
}

/// Trivance: trees in which each holder of data serves two more ranks at once, one each way, along
/// the dimensions in turn. For each root there is a tree that begins with each dimension, and where
/// its two ways differ, another one the other way round.
///
/// Source: see `ternary_rounds`.
/// Post:   the height is the sum of ceil(log3) of the extents.
/// Throws: planning_error for any other machine than a ring or torus.
[[nodiscard]] inline pattern_trees trivance_trees(topology const& machine,
                                                  plan_request const& request,
                                                  std::vector<int> const& ranks) {
  auto const extents = require_torus(machine, planned_by::trivance);
  bool const is_same_both_ways =
      std::ranges::all_of(extents, [](std::size_t count) { return count % 2 == 1; });
  pattern_trees result;
  for (auto const root : pattern_roots(request, ranks)) {
    for (std::size_t start = 0; start < extents.size(); ++start) {
      for (bool const backwards : {false, true}) {
        if (backwards && is_same_both_ways) continue;
        auto const rounds = [&](std::size_t at, std::size_t count) {
          return ternary_rounds(at, count, backwards);
        };
        result.push_back({ranks[root], torus_hops(ranks, extents, root, start, rounds)});
      }
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
