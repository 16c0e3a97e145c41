// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <string>
#include <utility>
#include <vector>

// Rational weights as whole numbers of chunks.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The trees that share one part of the buffer: all trees, those of one root, or those of one pair.
/// Every part has the same number of chunks.
struct chunk_part {
  int from = -1;  ///< node id of the root or sender; -1: any
  int to = -1;    ///< node id of the receiver; -1: all
  std::vector<std::size_t> trees;
};

[[nodiscard]] inline std::vector<chunk_part> chunk_parts(plan const& plan) {
  std::map<std::pair<int, int>, std::vector<std::size_t>> parts;
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    auto const& t = plan.trees[i];
    std::pair key(-1, -1);
    if (has_equal_roots(plan.collective)) key.first = t.root;
    if (is_point_to_point(plan.collective)) {
      if (t.members.size() != 2) {
        throw planning_error("tree " + std::to_string(i) + " has " +
                             std::to_string(t.members.size()) + " members, expected two");
      }
      key = {t.root, t.members[t.members[0] == t.root ? 1 : 0]};
    }
    parts[key].push_back(i);
  }
  std::vector<chunk_part> result;
  for (auto& [key, trees] : parts) result.push_back({key.first, key.second, std::move(trees)});
  return result;
}

/// The number of chunks of each tree, and the rate that these numbers give.
struct chunk_shares {
  std::int64_t of_part = 0;         ///< chunks of each part
  std::vector<std::int64_t> count;  ///< by tree; 0: too light, left out
  rational rate;                    ///< bytes of the whole buffer in time one
};

class chunk_rounding {
 public:
  chunk_rounding(topology const& machine, plan const& plan)
      : plan_(&plan), parts_(chunk_parts(plan)), view_(member_view(machine, plan)) {
    for (std::size_t i = 0; i < plan.trees.size(); ++i) {
      std::map<std::pair<int, int>, std::int64_t> hops;
      for (auto const* phase : {&plan.trees[i].reduce, &plan.trees[i].broadcast}) {
        for (auto const& edge : *phase) {
          for (std::size_t h = 0; h + 1 < edge.path.size(); ++h) {
            ++hops[{edge.path[h], edge.path[h + 1]}];
          }
        }
      }
      hops_.emplace_back(hops.begin(), hops.end());
    }
  }

  [[nodiscard]] std::vector<chunk_part> const& parts() const { return parts_; }

  /// Returns exact shares if they need at most `most` chunks in a part. Otherwise returns the
  /// fastest shares with at most `most` chunks.
  ///
  /// Each number of chunks is tried and rounded by largest remainders. Among equally fast numbers,
  /// the smallest wins.
  [[nodiscard]] chunk_shares operator()(std::int64_t most) const {
    if (auto const exact = exact_part(most)) return shares(*exact);
    chunk_shares best;
    for (std::int64_t part = 1; part <= most; ++part) {
      auto candidate = shares(part);
      if (candidate.rate > best.rate) best = std::move(candidate);
    }
    return best;
  }

 private:
  [[nodiscard]] rational weight_of(chunk_part const& part) const {
    rational sum;
    for (auto const t : part.trees) sum += plan_->trees[t].weight;
    return sum;
  }

  /// The least number of chunks in a part at which every tree has a whole number; nothing if it
  /// exceeds `most`.
  [[nodiscard]] std::optional<std::int64_t> exact_part(std::int64_t most) const {
    std::int64_t result = 1;
    for (auto const& part : parts_) {
      auto const sum = weight_of(part);
      for (auto const t : part.trees) {
        auto const denominator = (plan_->trees[t].weight / sum).denominator();
        auto const factor = denominator / std::gcd(denominator, result);
        if (factor > most / result) return std::nullopt;
        result *= factor;
      }
    }
    return result;
  }

  [[nodiscard]] chunk_shares shares(std::int64_t of_part) const {
    chunk_shares result{of_part, std::vector<std::int64_t>(plan_->trees.size(), 0), rational(0)};
    for (auto const& part : parts_) {
      auto const sum = weight_of(part);
      std::vector<std::pair<rational, std::size_t>> rest;  // larger ones are rounded up
      std::int64_t left = of_part;
      for (auto const t : part.trees) {
        auto const exact = plan_->trees[t].weight / sum * of_part;
        auto const whole = exact.numerator() / exact.denominator();
        result.count[t] = whole;
        left -= whole;
        rest.emplace_back(rational(whole) - exact, t);
      }
      std::sort(rest.begin(), rest.end());
      for (std::size_t i = 0; left > 0; ++i, --left) ++result.count[rest[i].second];
    }
    std::map<std::pair<int, int>, std::int64_t> load;
    for (std::size_t t = 0; t < hops_.size(); ++t) {
      for (auto const& [link, times] : hops_[t]) load[link] += times * result.count[t];
    }
    rational time;
    for (auto const& [link, chunks] : load) {
      auto const capacity = view_.capacity.find(link);
      if (capacity == view_.capacity.end()) {
        throw planning_error("the plan uses a link " + std::to_string(link.first) + " -> " +
                             std::to_string(link.second) + " that the machine does not have");
      }
      time = std::max(time, rational(chunks) / capacity->second);
    }
    std::int64_t const parts_of_buffer =
        has_equal_roots(plan_->collective) || is_point_to_point(plan_->collective)
            ? static_cast<std::int64_t>(plan_->ranks.size())
            : 1;
    if (time > rational(0)) result.rate = rational(of_part * parts_of_buffer) / time;
    return result;
  }

  plan const* plan_;
  std::vector<chunk_part> parts_;
  plan_view view_;
  std::vector<std::vector<std::pair<std::pair<int, int>, std::int64_t>>> hops_;  // by tree
};

}}}  // namespace blink::BLINK_ABI::detail
