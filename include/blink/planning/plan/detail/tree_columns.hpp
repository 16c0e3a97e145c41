// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/graph/shallow_arborescence.hpp>
#include <blink/packing/lp/simplex.hpp>
#include <blink/planning/plan/detail/link_rows.hpp>
#include <blink/planning/plan/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <optional>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The trees that may be packed: those of one collective, with a bound on their height.
struct tree_family {
  blink::collective collective = collective::broadcast;  ///< broadcast, all_reduce or all_gather
  std::vector<int> roots;  ///< rank numbers that may root a tree; all_gather: each roots one
  std::vector<std::int64_t> shares;  ///< all_gather, by rank: copies of its tree; empty: one each
  int height = 0;                    ///< 0: any
};

/// Trees that are packed together: one tree, one pair of trees, or with equal roots one tree of
/// each rank. The weights of a bundle's trees are 1, or the shares.
struct tree_bundle {
  std::vector<tree> trees;  ///< weights relative to the bundle's
};

/// Finds cheap bundles for prices of the links, and remembers the bundle of each column.
class bundle_oracle {
 public:
  bundle_oracle(link_rows const& rows, tree_family family)
      : rows_(&rows), family_(std::move(family)) {}

  void operator()(std::span<double const> prices, std::vector<packing_column>& columns) {
    find(prices, columns);
  }
  void operator()(std::span<std::int64_t const> prices, std::vector<packing_column>& columns) {
    find(prices, columns);
  }

  /// All columns found so far, in the order of their rows.
  [[nodiscard]] std::map<packing_column, tree_bundle> const& known() const { return known_; }

  /// Adds a bundle from another source and returns its column. Its edges must use links of the
  /// machine.
  packing_column add(tree_bundle bundle) {
    std::map<std::pair<int, int>, int> row;
    for (std::size_t r = 0; r < rows_->capacity().size(); ++r) {
      row.emplace(rows_->link(static_cast<int>(r)), static_cast<int>(r));
    }
    packing_column column;
    for (auto const& t : bundle.trees) {
      for (auto const* phase : {&t.reduce, &t.broadcast}) {
        for (auto const& e : *phase) {
          for (std::size_t i = 0; i + 1 < e.path.size(); ++i) {
            auto const at = row.at({e.path[i], e.path[i + 1]});
            column.insert(column.end(), static_cast<std::size_t>(t.weight.numerator()), at);
          }
        }
      }
    }
    std::sort(column.begin(), column.end());
    known_.emplace(column, std::move(bundle));
    return column;
  }

 private:
  template <class Cost>
  void find(std::span<Cost const> prices, std::vector<packing_column>& columns) {
    auto const table = rows_->routes(prices);
    auto const down = shallow_arborescences(table.cost, family_.roots, family_.height);
    std::vector<std::optional<std::vector<int>>> up;
    if (has_both_phases(family_.collective)) {
      cost_matrix<Cost> reversed_costs(table.cost.size);
      for (std::size_t u = 0; u < reversed_costs.size; ++u) {
        for (std::size_t v = 0; v < reversed_costs.size; ++v)
          reversed_costs(u, v) = table.cost(v, u);
      }
      up = shallow_arborescences(reversed_costs, family_.roots, family_.height);
    }
    if (has_equal_roots(family_.collective)) {
      tree_bundle bundle;
      packing_column column;
      for (std::size_t i = 0; i < family_.roots.size(); ++i) {
        auto const copies = family_.shares.empty() ? 1 : family_.shares[i];
        if (copies == 0) continue;
        if (!down[i]) return;
        packing_column once;
        bundle.trees.push_back(
            {rows_->id(static_cast<std::size_t>(family_.roots[i])), copies, {}, {}});
        bundle.trees.back().broadcast = edges_of(table, family_.roots[i], *down[i], false, once);
        for (std::int64_t k = 0; k < copies; ++k) {
          column.insert(column.end(), once.begin(), once.end());
        }
      }
      keep(std::move(column), std::move(bundle), columns);
      return;
    }
    // Trees that go up and down the same edges. None is cheaper than the pairs above, but few of
    // them may suffice where links are alike both ways.
    std::vector<std::optional<std::vector<int>>> both;
    if (!up.empty()) {
      cost_matrix<Cost> sum(table.cost.size);
      for (std::size_t u = 0; u < sum.size; ++u) {
        for (std::size_t v = 0; v < sum.size; ++v) {
          sum(u, v) = std::min(table.cost(u, v) + table.cost(v, u), cost_matrix<Cost>::none);
        }
      }
      both = shallow_arborescences(sum, family_.roots, family_.height);
    }
    for (std::size_t i = 0; i < family_.roots.size(); ++i) {
      auto const keep_tree = [&](std::vector<int> const* reduce, std::vector<int> const& spread) {
        packing_column column;
        tree t{rows_->id(static_cast<std::size_t>(family_.roots[i])), 1, {}, {}};
        if (reduce != nullptr) {
          t.reduce = edges_of(table, family_.roots[i], *reduce, true, column);
        }
        t.broadcast = edges_of(table, family_.roots[i], spread, false, column);
        keep(std::move(column), {{std::move(t)}}, columns);
      };
      if (down[i] && (up.empty() || up[i])) keep_tree(up.empty() ? nullptr : &*up[i], *down[i]);
      if (!both.empty() && both[i]) keep_tree(&*both[i], *both[i]);
    }
  }

  /// The edges of a tree, nearest to the root first; towards the root, farthest first.
  template <class Cost>
  std::vector<tree_edge> edges_of(route_table<Cost> const& table, int root,
                                  std::vector<int> const& parent, bool towards_root,
                                  packing_column& column) const {
    std::vector<tree_edge> result;
    std::vector<int> order{root};
    for (std::size_t next = 0; next < order.size(); ++next) {
      for (std::size_t v = 0; v < parent.size(); ++v) {
        if (parent[v] != order[next]) continue;
        order.push_back(static_cast<int>(v));
        auto const above = static_cast<std::size_t>(parent[v]);
        result.push_back(
            rows_->edge(table, towards_root ? v : above, towards_root ? above : v, column));
      }
    }
    if (towards_root) std::reverse(result.begin(), result.end());
    return result;
  }

  void keep(packing_column column, tree_bundle bundle, std::vector<packing_column>& columns) {
    if (column.empty()) return;
    std::sort(column.begin(), column.end());
    auto const [found, fresh] = known_.emplace(column, bundle);
    // The same edges may be a tree of smaller height from another root.
    if (!fresh && bundle.trees.size() == 1 &&
        height(bundle.trees.front()) < height(found->second.trees.front())) {
      found->second = std::move(bundle);
    }
    columns.push_back(std::move(column));
  }

  link_rows const* rows_;
  tree_family family_;
  std::map<packing_column, tree_bundle> known_;
};
static_assert(pricing_oracle<bundle_oracle>);

}}}  // namespace blink::BLINK_ABI::detail
