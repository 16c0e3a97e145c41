// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/shallow_arborescence.hpp>
#include <blink/planning/constraints/detail/bundle_selection.hpp>
#include <blink/planning/plan/detail/link_rows.hpp>
#include <blink/planning/plan/detail/tree_columns.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <optional>
#include <random>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The shape that the trees of a packing must have.
struct packing_shape {
  int height = 0;                                                 ///< 0: any
  std::size_t bundles = std::numeric_limits<std::size_t>::max();  ///< at most this many
  std::optional<rational> unit;                                   ///< of weights, in steps
  std::vector<std::pair<int, int>> required;                      ///< links, by node ids
};

/// Trees of a shape, and the best rate and bound known for trees of that height.
struct restricted_packing {
  std::vector<tree> trees;  ///< weights in capacity steps
  rational rate;
  rational rate_with_height;                  ///< reached with any number of trees of any weights
  std::optional<rational> bound_with_height;  ///< proven; nothing where the search was not exact
};

/// Packs bundles of one shape. Linear programming over trees that are priced one by one finds the
/// best packing with that height. A search then finds few bundles, or bundles of simple weights. If
/// required links are missing, bundles over them are packed first.
class restricted_packer {
 public:
  static constexpr std::size_t most_ranks_priced = 24;  // beyond: random packings only

  restricted_packer(topology const& machine, tree_family family)
      : rows_(machine),
        exact_(family.height <= 0 || rows_.rank_count() <= shallow_arborescences_exact),
        oracle_(rows_, std::move(family)) {
    if (rows_.capacity().empty()) return;
    if (rows_.rank_count() <= most_ranks_priced) {
      whole_ = packing_of(simplex(rows_.capacity(), oracle_));
    }
    if (!whole_.columns.empty()) return;
    exact_ = false;
    for (auto const& column : bundle_selection(rows_.capacity(), oracle_, whole_).random_pool()) {
      pool_.push_back(column);
    }
    if (!pool_.empty()) whole_ = pack_listed(rows_.capacity(), pool_);
  }

  /// The rate with any number of trees of any weights; 0: no tree has the height.
  [[nodiscard]] rational const& rate() const { return whole_.rate; }

  [[nodiscard]] restricted_packing pack(packing_shape const& shape) {
    restricted_packing result;
    result.rate_with_height = whole_.rate;
    if (exact_ && whole_.bound > rational(0)) result.bound_with_height = whole_.bound;
    if (whole_.columns.empty()) return result;
    auto chosen = choose(rows_.capacity(), whole_, shape.unit, shape.bundles);
    auto const missing = missing_links(chosen, shape.required);
    if (!missing.empty()) chosen = with_links(missing, shape);
    for (auto const& [column, weight] : chosen.columns) {
      for (auto t : oracle_.known().at(column).trees) {
        t.weight *= weight;
        result.rate += t.weight;
        add(result.trees, std::move(t));
      }
    }
    return result;
  }

 private:
  bundle_packing choose(std::vector<std::int64_t> const& capacity, bundle_packing const& from,
                        std::optional<rational> const& unit, std::size_t most) {
    bundle_selection selection(capacity, oracle_, from);
    return unit ? selection.in_units(*unit, most) : selection.few(most);
  }

  /// Adds a tree, or its weight if an equal tree is in the list.
  static void add(std::vector<tree>& trees, tree t) {
    for (auto& other : trees) {
      if (other.root != t.root || other.reduce != t.reduce || other.broadcast != t.broadcast) {
        continue;
      }
      other.weight += t.weight;
      return;
    }
    trees.push_back(std::move(t));
  }

  bool uses(packing_column const& column, std::pair<int, int> const& link) const {
    return std::ranges::any_of(column, [&](int row) { return rows_.link(row) == link; });
  }
  std::vector<std::pair<int, int>> missing_links(
      bundle_packing const& packing, std::vector<std::pair<int, int>> const& required) const {
    std::vector<std::pair<int, int>> result;
    for (auto const& link : required) {
      if (std::ranges::none_of(packing.columns,
                               [&](auto const& c) { return uses(c.first, link); })) {
        result.push_back(link);
      }
    }
    return result;
  }

  /// A packing with a bundle over each missing link, of little weight or one unit. The rest of the
  /// capacity is packed as before.
  bundle_packing with_links(std::vector<std::pair<int, int>> const& missing,
                            packing_shape const& shape) {
    constexpr std::int64_t parts = 32;  // of what fits; one part is the weight
    bundle_packing forced;
    for (auto const& link : missing) {
      if (missing_links(forced, {link}).empty()) continue;
      auto const column = cheapest_over(link, missing);
      rational fits(std::int64_t{1} << 40);
      for (int const row : column) {
        auto const times = std::ranges::count(column, row);
        fits = std::min(fits, rational(rows_.capacity()[static_cast<std::size_t>(row)]) / times);
      }
      forced.columns.emplace_back(column, shape.unit ? *shape.unit : fits / parts);
    }
    if (forced.columns.size() > shape.bundles) {
      throw planning_error("options: max_trees allows fewer trees than the required links need");
    }
    // The rest is packed in steps small enough for whole numbers. Columns over full links are not
    // in the pool; a full link counts as one step.
    std::vector<rational> left(rows_.capacity().begin(), rows_.capacity().end());
    for (auto const& [column, weight] : forced.columns) {
      forced.rate += weight;
      for (int const row : column) left[static_cast<std::size_t>(row)] -= weight;
    }
    std::int64_t scale = 1;
    for (auto const& room : left) {
      if (room < rational(0)) {
        throw planning_error("options: the required links need trees that do not fit together");
      }
      scale = common_multiple(scale, room.denominator());
    }
    std::vector<std::int64_t> capacity;
    for (auto const& room : left) {
      capacity.push_back(std::max<std::int64_t>((room * scale).numerator(), 1));
    }
    std::vector<packing_column> pool;
    for (auto const& [column, bundle] : oracle_.known()) {
      if (std::ranges::all_of(
              column, [&](int row) { return left[static_cast<std::size_t>(row)] > rational(0); })) {
        pool.push_back(column);
      }
    }
    auto const most = shape.bundles - forced.columns.size();
    if (!pool.empty() && most > 0) {
      auto const unit = shape.unit ? std::optional(*shape.unit * scale) : std::nullopt;
      auto const rest = choose(capacity, pack_listed(capacity, pool), unit, most);
      for (auto const& [column, weight] : rest.columns) {
        bool const full = std::ranges::any_of(
            column, [&](int row) { return left[static_cast<std::size_t>(row)] == rational(0); });
        if (full) continue;
        forced.columns.emplace_back(column, weight / scale);
        forced.rate += weight / scale;
      }
    }
    return forced;
  }

  /// A cheap bundle that uses `link`. Missing links cost nothing, all other links a random price.
  packing_column cheapest_over(std::pair<int, int> const& link,
                               std::vector<std::pair<int, int>> const& missing) {
    constexpr int tries = 64;
    std::mt19937 random(1);
    packing_column best;
    double least = std::numeric_limits<double>::infinity();
    for (int i = 0; i < tries; ++i) {
      std::vector<double> price;
      for (std::size_t row = 0; row < rows_.capacity().size(); ++row) {
        bool const wanted = std::ranges::count(missing, rows_.link(static_cast<int>(row))) != 0;
        price.push_back(wanted ? 0 : 1 + static_cast<double>(random() % 1024) / 256.0);
      }
      std::vector<packing_column> found;
      oracle_(std::span<double const>(price), found);
      for (auto const& column : found) {
        double cost = 0;
        for (int const row : column) cost += price[static_cast<std::size_t>(row)];
        if (cost >= least || !uses(column, link)) continue;
        least = cost;
        best = column;
      }
    }
    if (best.empty()) {
      throw planning_error(
          "options: no tree of the wanted height was found over the required link " +
          std::to_string(link.first) + " -> " + std::to_string(link.second));
    }
    return best;
  }

  link_rows rows_;
  bool exact_ = false;
  bundle_oracle oracle_;
  bundle_packing whole_;
  std::vector<packing_column> pool_;
};

}}}  // namespace blink::BLINK_ABI::detail
