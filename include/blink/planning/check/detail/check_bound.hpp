// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/check/detail/check_flows.hpp>
#include <blink/planning/check/detail/check_prices.hpp>
#include <blink/planning/check/detail/dead_ends.hpp>
#include <blink/planning/check/detail/view_index.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

// The part of check_plan that checks certificates. Each bound is computed again from its
// definition.

namespace blink { inline namespace BLINK_ABI { namespace detail {

inline rational bound_of_cut(plan_view const& view, plan const& plan, cut_certificate const& cut) {
  if (is_point_to_point(plan.collective)) return bound_of_flow_cut(view, plan, cut);
  std::set<int> const side(cut.nodes.begin(), cut.nodes.end());
  std::int64_t inside = 0;
  for (int const rank : view.ranks) inside += side.contains(rank) ? 1 : 0;
  auto const all = static_cast<std::int64_t>(view.ranks.size());
  rational share_inside, share_of_all;  // of the buffer, in proportion
  for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
    rational const share = plan.shares.empty() ? 1 : plan.shares[i];
    share_of_all += share;
    if (side.contains(plan.ranks[i])) share_inside += share;
  }
  rational capacity;
  for (auto const& [ends, c] : view.capacity) {
    if (side.contains(ends.first) && !side.contains(ends.second)) capacity += c;
  }
  auto const require = [](bool holds, char const* what) {
    if (!holds) throw plan_fault(std::string("certificate: the cut ") + what);
  };
  int const root = root_of_certificate(plan);
  switch (plan.collective) {
    case collective::broadcast:
      require(side.contains(root), "must hold the root");
      require(inside < all, "must miss a rank");
      return capacity;
    case collective::reduce:
      require(!side.contains(root), "must miss the root");
      require(inside > 0, "must hold a rank");
      return capacity;
    case collective::all_gather:
      require(inside < all && share_inside > rational(0), "must hold a rank and miss a rank");
      return capacity * share_of_all / share_inside;
    case collective::reduce_scatter:
      require(inside > 0 && share_inside < share_of_all, "must hold a rank and miss a rank");
      return capacity * share_of_all / (share_of_all - share_inside);
    default:
      break;  // all_reduce: all data must cross in both directions
  }
  require(inside > 0 && inside < all, "must hold a rank and miss a rank");
  return capacity;
}

inline rational bound_of_partition(plan_view const& view, plan const& plan,
                                   partition_certificate const& partition) {
  if (!has_both_phases(plan.collective)) {
    throw plan_fault("certificate: a partition proves all_reduce only");
  }
  if (view.nodes.size() != view.ranks.size()) {
    for (auto const& [ends, c] : view.capacity) {
      if (!view.ranks.contains(ends.first) || !view.ranks.contains(ends.second)) {
        throw plan_fault("certificate: a partition proves direct links only, not switches");
      }
    }
  }
  std::map<int, std::size_t> part;
  for (std::size_t i = 0; i < partition.parts.size(); ++i) {
    if (partition.parts[i].empty()) throw plan_fault("certificate: an empty part");
    for (int const rank : partition.parts[i]) {
      if (!view.ranks.contains(rank) || !part.emplace(rank, i).second) {
        throw plan_fault("certificate: rank " + std::to_string(rank) +
                         " of the partition is unknown or named twice");
      }
    }
  }
  if (part.size() != view.ranks.size() || partition.parts.size() < 2) {
    throw plan_fault("certificate: the partition must cover all ranks with two parts or more");
  }
  // Both directions of a pair count: in-trees and out-trees together use (parts - 1) links into the
  // parts and as many out of them, so half of the directed capacity bounds the rate.
  rational crossing;
  for (auto const& [ends, c] : view.capacity) {
    if (part.at(ends.first) != part.at(ends.second)) crossing += c;
  }
  return crossing / 2 / static_cast<std::int64_t>(partition.parts.size() - 1);
}

/// The bound that the certificate proves, or nothing without a certificate.
/// Throws: plan_fault if the certificate is not valid for this machine and collective.
inline std::optional<rational> bound_of(plan_view const& view, view_index const& index,
                                        plan const& plan) {
  if (!moves_data(plan.collective) && !std::holds_alternative<no_certificate>(plan.proof)) {
    throw plan_fault("certificate: a barrier has no rate to prove");
  }
  if (std::holds_alternative<no_certificate>(plan.proof)) return std::nullopt;
  if (auto const* prices = std::get_if<price_certificate>(&plan.proof)) {
    return bound_of_prices(view, index, plan, *prices);
  }
  auto live = view;
  for (auto const& end : find_dead_ends(index)) live.nodes.erase(index.id(end.node));
  std::erase_if(live.capacity, [&](auto const& link) {
    return !live.nodes.contains(link.first.first) || !live.nodes.contains(link.first.second);
  });
  if (auto const* cut = std::get_if<cut_certificate>(&plan.proof)) {
    return bound_of_cut(live, plan, *cut);
  }
  return bound_of_partition(live, plan, std::get<partition_certificate>(plan.proof));
}

}}}  // namespace blink::BLINK_ABI::detail
