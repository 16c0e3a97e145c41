// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The part of check_plan for gather, scatter, all-to-all and permutations: pairs of sender and
// receiver, equal shares, and bounds on many flows at once.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The pairs of a sender and its receiver, as node ids, in the order of the ranks.
///
/// The root of a scatter is the root of its first tree; the root of a gather is the other member.
/// Throws: plan_fault if the destinations are no permutation, or there is no root.
[[nodiscard]] inline std::vector<std::pair<int, int>> wanted_pairs(plan const& plan) {
  std::vector<std::pair<int, int>> result;
  auto const& ranks = plan.ranks;
  if (plan.collective == collective::permute) {
    if (plan.destinations.size() != ranks.size()) {
      throw plan_fault("the permutation has " + std::to_string(plan.destinations.size()) +
                       " destinations, expected one for each of the " +
                       std::to_string(ranks.size()) + " ranks");
    }
    std::set<int> seen;
    for (std::size_t i = 0; i < ranks.size(); ++i) {
      int const to = plan.destinations[i];
      if (std::find(ranks.begin(), ranks.end(), to) == ranks.end() || !seen.insert(to).second) {
        throw plan_fault("destination " + std::to_string(to) + " of rank " +
                         std::to_string(ranks[i]) + " is no rank of the plan, or named twice");
      }
      if (to != ranks[i]) result.emplace_back(ranks[i], to);
    }
    return result;
  }
  if (!plan.destinations.empty()) throw plan_fault("destinations belong to a permute only");
  if (plan.collective == collective::send_to_next) {
    for (std::size_t i = 0; i + 1 < ranks.size(); ++i) result.emplace_back(ranks[i], ranks[i + 1]);
  } else if (plan.collective == collective::all_to_all) {
    for (int const from : ranks) {
      for (int const to : ranks) {
        if (from != to) result.emplace_back(from, to);
      }
    }
  } else if (ranks.size() > 1) {
    if (plan.trees.empty() || plan.trees.front().members.size() != 2) {
      throw plan_fault("the first tree has no two members, expected a path from or to the root");
    }
    auto const& first = plan.trees.front();
    bool const gathers = is_to_root(plan.collective);
    int const other = first.members[first.members[0] == first.root ? 1 : 0];
    int const root = gathers ? other : first.root;
    for (int const rank : ranks) {
      if (rank != root) result.emplace_back(gathers ? rank : root, gathers ? root : rank);
    }
  }
  return result;
}

/// The root of a collective with one root. A plan without trees has one rank.
[[nodiscard]] inline int root_of_certificate(plan const& plan) {
  return plan.trees.empty() ? plan.ranks.front() : plan.trees.front().root;
}

/// The number of blocks in the buffer that the rate counts. Each pair moves one block.
[[nodiscard]] inline std::int64_t blocks_of(plan const& plan) {
  return has_blocks(plan.collective) ? static_cast<std::int64_t>(plan.ranks.size()) : 1;
}

/// Checks that every tree is a path between a wanted pair and that all pairs have the same total
/// weight. Returns the rate.
[[nodiscard]] inline rational check_flow_shares(plan const& plan) {
  std::map<std::pair<int, int>, rational> share;
  auto const pairs = wanted_pairs(plan);
  for (auto const& pair : pairs) share[pair] = rational(0);
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    auto const& t = plan.trees[i];
    auto const where = "tree " + std::to_string(i) + ": ";
    if (t.members.size() != 2) {
      throw plan_fault(where + std::to_string(t.members.size()) + " members, expected two for " +
                       std::string(to_text(plan.collective)));
    }
    int const to = t.members[t.members[0] == t.root ? 1 : 0];
    auto const found = share.find({t.root, to});
    if (found == share.end()) {
      throw plan_fault(where + "rank " + std::to_string(t.root) + " has nothing for rank " +
                       std::to_string(to) + " in " + std::string(to_text(plan.collective)));
    }
    found->second += t.weight;
  }
  if (pairs.empty()) return rational(0);
  auto const expected = share.at(pairs.front());
  for (auto const& pair : pairs) {
    if (share.at(pair) == expected && expected > rational(0)) continue;
    throw plan_fault("rank " + std::to_string(pair.first) + " sends " + share.at(pair).to_text() +
                     " to rank " + std::to_string(pair.second) +
                     (expected > rational(0) ? ", expected the equal share " + expected.to_text()
                                             : ", expected a share"));
  }
  return expected * blocks_of(plan);
}

/// The bound by a cut: the capacity out of it, shared by the pairs that it separates.
[[nodiscard]] inline rational bound_of_flow_cut(plan_view const& view, plan const& plan,
                                                cut_certificate const& cut) {
  std::set<int> const side(cut.nodes.begin(), cut.nodes.end());
  rational capacity;
  for (auto const& [ends, c] : view.capacity) {
    if (side.contains(ends.first) && !side.contains(ends.second)) capacity += c;
  }
  std::int64_t separated = 0;
  for (auto const& [from, to] : wanted_pairs(plan)) {
    separated += side.contains(from) && !side.contains(to) ? 1 : 0;
  }
  if (separated == 0) {
    throw plan_fault("certificate: the cut must hold a sender and miss its receiver");
  }
  return capacity * blocks_of(plan) / separated;
}

}}}  // namespace blink::BLINK_ABI::detail
