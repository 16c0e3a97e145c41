// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/flow_network.hpp>
#include <blink/packing/joint/detail/joint_problem.hpp>
#include <blink/packing/lp/detail/dual_simplex.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

// The optimum of packing pairs of trees, as a linear program over loads and cuts.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Approximate loads of each layer and amounts at each root at an optimum, and the prices.
struct approximate_loads {
  std::vector<double> values;  ///< by variable of the program
  std::vector<double> prices;  ///< by resource
};

/// Finds loads of the edges for which in-trees and out-trees exist, with the highest rate.
///
/// By Edmonds' theorem, loads hold out-trees with given root rates if and only if a condition holds
/// for every set with a spanned vertex. The load into the set must be at least the rate rooted
/// outside it. For in-trees, the same holds with reversed edges. The load out of a switch that
/// trees do not span must not exceed the load into it. Minimum cuts find the sets whose condition
/// the loads violate. Only a small number of sets is needed.
///
/// Source: J. Edmonds, "Edge-disjoint branchings", 1973; J. Bang-Jensen, A. Frank, B. Jackson,
///         "Preserving and increasing local edge-connectivity in mixed graphs", 1995 (vertices that
///         forward).
/// Time:   a few times E pivots of `dual_simplex` over L E + roots variables for L layers, and E +
///         cuts rows; for each round of cuts L V maximum flows. There are few rounds on all
///         machines that we know.
class joint_program {
 public:
  /// layers: at least one of each direction; only out-trees if the problem is symmetric. For each
  /// root, both directions root equal amounts. With two layers, these are the same variables.
  joint_program(joint_problem const& problem, std::vector<tree_layer> layers, double perturbation,
                std::uint64_t seed)
      : problem_(problem),
        layers_(std::move(layers)),
        edges_(problem.graph.arcs.size()),
        roots_(problem.roots.size()),
        root_sets_(layers_.size() == 2 && !problem.is_symmetric ? 1 : layers_.size()),
        unit_(largest_rate()),
        lp_(make_program(perturbation, seed)) {
    std::vector<std::vector<std::size_t>> users(problem_.capacity.size());
    for (std::size_t e = 0; e < edges_; ++e) {
      users[static_cast<std::size_t>(problem_.resource[e])].push_back(e);
    }
    for (std::size_t r = 0; r < users.size(); ++r) {
      // Capacity beyond the use of all trees in both directions has no effect.
      double const limit = std::min(static_cast<double>(problem_.capacity[r]) / unit_, 4.0);
      program_row row{{}, problem_.capacity[r]};
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        for (auto const e : users[r]) row.entries.push_back({load(l, e), 1});
      }
      add(std::move(row), limit);
    }
    if (root_sets_ > 1 && !problem_.is_symmetric) {
      for (std::size_t i = 0; i < roots_; ++i) {
        program_row row;
        for (std::size_t l = 0; l < layers_.size(); ++l) {
          row.entries.push_back({rooted(l, i), layers_[l].inward ? -1.0 : 1.0});
        }
        add(std::move(row), 0);
      }
    }
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      for (std::size_t v = 0; v < problem_.is_switch.size(); ++v) {
        if (!spans(l, v)) add_balance(l, v);
      }
    }
    first_cut_ = static_cast<int>(rows_.size()) + 1;
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      for (std::size_t v = 0; v < problem_.is_switch.size(); ++v) {
        if (!spans(l, v)) continue;
        std::vector<bool> alone(problem_.is_switch.size(), false);
        alone[v] = true;
        add_cut(l, alone);
      }
    }
  }

  /// Solves the program. Returns false if rounding, `most_pivots` or `most_work` stopped it, or if
  /// the perturbations were too large.
  ///
  /// most_work: limit of tableau entries that pivots touch
  bool solve(std::size_t most_pivots, double most_work) {
    constexpr double progress = 1e-7;
    double before = 2 * limit_of_rate;
    for (;;) {
      if (!lp_.solve(most_pivots, most_work)) return false;
      within_capacities_ = values();
      double now = 0;
      for (std::size_t l = 0; l < layers_.size(); ++l) {
        if (!layers_[l].inward) now += rate(l);
      }
      if (now < before - progress) {
        before = now;
        lp_.drop_loose_rows(first_cut_, progress);
      }
      bool found = false;
      for (std::size_t l = 0; l < layers_.size(); ++l) found = add_violated_cuts(l) || found;
      if (!found) return lp_.is_optimal();
    }
  }

  [[nodiscard]] std::size_t pivots() const { return lp_.pivots(); }
  [[nodiscard]] double work() const { return lp_.work(); }

  /// The variable of the amount rooted in a layer, by position in `roots`.
  [[nodiscard]] int rooted(std::size_t layer, std::size_t root) const {
    return static_cast<int>((root_sets_ == 1 ? 0 : layer * roots_) + root);
  }
  /// The variable of the load of an edge in a layer.
  [[nodiscard]] int load(std::size_t layer, std::size_t edge) const {
    return static_cast<int>(root_sets_ * roots_ + layer * edges_ + edge);
  }
  [[nodiscard]] std::size_t variables() const {
    return root_sets_ * roots_ + layers_.size() * edges_;
  }

  /// The solution in units of the capacities. If the program stopped early, these are the last
  /// loads within the capacities. They may hold fewer trees than are rooted.
  [[nodiscard]] approximate_loads result() const {
    approximate_loads found{within_capacities_.empty() ? values() : within_capacities_, {}};
    for (std::size_t r = 0; r < problem_.capacity.size(); ++r) {
      found.prices.push_back(lp_.price(static_cast<int>(r) + 1));
    }
    return found;
  }

  /// The prices of the last basis without rounding, by resource. Returns nothing if they exceed 61
  /// bits.
  [[nodiscard]] std::optional<common_fractions> exact_prices() const {
    auto const basis = basis_equations();
    std::vector<std::int64_t> worth;
    for (int const variable : basis.variables) worth.push_back(is_worth(variable) ? 1 : 0);
    auto const found = exact_solve(basis.matrix.transposed(), worth);
    if (!found) return std::nullopt;
    common_fractions prices{std::vector<std::int64_t>(problem_.capacity.size(), 0),
                            found->denominator};
    for (std::size_t i = 0; i < basis.rows.size(); ++i) {
      auto const row = static_cast<std::size_t>(basis.rows[i]) - 1;
      if (row < prices.numerators.size()) prices.numerators[row] = found->numerators[i];
    }
    return prices;
  }

  /// The values of the last basis without rounding, by variable. Returns nothing if they exceed 61
  /// bits.
  [[nodiscard]] std::optional<common_fractions> exact_values() const {
    auto const basis = basis_equations();
    std::vector<std::int64_t> limits;
    for (int const row : basis.rows) {
      limits.push_back(rows_[static_cast<std::size_t>(row) - 1].limit);
    }
    auto const found = exact_solve(basis.matrix, limits);
    if (!found) return std::nullopt;
    common_fractions values{std::vector<std::int64_t>(variables(), 0), found->denominator};
    for (std::size_t j = 0; j < basis.variables.size(); ++j) {
      values.numerators[static_cast<std::size_t>(basis.variables[j])] = found->numerators[j];
    }
    return values;
  }

 private:
  [[nodiscard]] std::vector<double> values() const {
    std::vector<double> result;
    for (std::size_t j = 0; j < variables(); ++j) {
      result.push_back(lp_.value(static_cast<int>(j)) * unit_);
    }
    return result;
  }

  struct program_row {
    std::vector<row_entry> entries;
    std::int64_t limit = 0;
  };
  struct equations {
    std::vector<int> rows;       // numbers of the full rows
    std::vector<int> variables;  // basic variables
    integer_matrix matrix;       // rows: `rows`, columns: `variables`
  };

  static constexpr double limit_of_rate = 1.5;  // in `unit_`, above every rate

  [[nodiscard]] bool spans(std::size_t layer, std::size_t vertex) const {
    return !problem_.is_switch[vertex] ||
           std::ranges::binary_search(layers_[layer].switches, static_cast<int>(vertex));
  }
  /// True if a variable is an amount at a root that the rate counts. Only the out-trees' amounts
  /// are counted.
  [[nodiscard]] bool is_worth(int variable) const {
    auto const j = static_cast<std::size_t>(variable);
    return j < root_sets_ * roots_ && (root_sets_ == 1 || !layers_[j / roots_].inward);
  }
  [[nodiscard]] double rate(std::size_t layer) const {
    double sum = 0;
    for (std::size_t i = 0; i < roots_; ++i) sum += lp_.value(rooted(layer, i));
    return sum;
  }

  /// An upper bound of the rate: the least capacity into or out of any rank.
  [[nodiscard]] double largest_rate() const {
    std::vector<double> enters(problem_.is_switch.size(), 0), leaves = enters;
    for (std::size_t e = 0; e < edges_; ++e) {
      auto const& a = problem_.graph.arcs[e];
      auto const capacity =
          static_cast<double>(problem_.capacity[static_cast<std::size_t>(problem_.resource[e])]);
      leaves[static_cast<std::size_t>(a.tail)] += capacity;
      enters[static_cast<std::size_t>(a.head)] += capacity;
    }
    double result = std::numeric_limits<double>::infinity();
    for (std::size_t v = 0; v < enters.size(); ++v) {
      if (!problem_.is_switch[v]) result = std::min({result, enters[v], leaves[v]});
    }
    return result;
  }

  [[nodiscard]] dual_simplex make_program(double perturbation, std::uint64_t seed) const {
    std::mt19937_64 random(seed);
    auto const share = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    std::vector<double> value(variables(), 0.0);
    auto perturbed = value;
    auto first = value.size();
    for (std::size_t j = 0; j < root_sets_ * roots_; ++j) {
      value[j] = is_worth(static_cast<int>(j)) ? 1 : 0;
      perturbed[j] = value[j] - perturbation * share() / 10;
      if (value[j] > 0 && (first == value.size() || perturbed[j] > perturbed[first])) first = j;
    }
    double const per_edge = perturbation / static_cast<double>(2 * problem_.is_switch.size());
    for (std::size_t j = root_sets_ * roots_; j < value.size(); ++j) {
      perturbed[j] = -per_edge * (0.1 + share());
    }
    return {value, perturbed, static_cast<int>(first), limit_of_rate};
  }

  /// Tail and head of an edge, exchanged for in-trees. Then all trees lead away from their roots.
  [[nodiscard]] std::pair<std::size_t, std::size_t> ends(std::size_t layer,
                                                         std::size_t edge) const {
    auto const& a = problem_.graph.arcs[edge];
    auto const tail = static_cast<std::size_t>(a.tail);
    auto const head = static_cast<std::size_t>(a.head);
    return layers_[layer].inward ? std::pair(head, tail) : std::pair(tail, head);
  }

  int add(program_row row, double limit) {
    rows_.push_back(std::move(row));
    return lp_.add_row(rows_.back().entries, limit);
  }

  /// Adds a row by which the load out of a vertex is at most the load into it.
  void add_balance(std::size_t layer, std::size_t vertex) {
    program_row row;
    for (std::size_t e = 0; e < edges_; ++e) {
      auto const [tail, head] = ends(layer, e);
      if (tail == vertex) row.entries.push_back({load(layer, e), 1});
      if (head == vertex) row.entries.push_back({load(layer, e), -1});
    }
    add(std::move(row), 0);
  }

  /// Adds a row by which the load into a set is at least the rate rooted outside it. Returns false
  /// if the program has this row.
  bool add_cut(std::size_t layer, std::vector<bool> const& inside) {
    auto const known = cuts_.find({layer, inside});
    if (known != cuts_.end() && !lp_.is_dropped(known->second)) return false;
    program_row row;
    for (std::size_t i = 0; i < roots_; ++i) {
      if (!inside[static_cast<std::size_t>(problem_.roots[i])]) {
        row.entries.push_back({rooted(layer, i), 1});
      }
    }
    for (std::size_t e = 0; e < edges_; ++e) {
      auto const [tail, head] = ends(layer, e);
      if (!inside[tail] && inside[head]) row.entries.push_back({load(layer, e), -1});
    }
    cuts_[{layer, inside}] = add(std::move(row), 0);
    return true;
  }

  /// For each spanned vertex, finds nested sets around it with too little load into them. The edges
  /// into one set count as full when the next set is searched. Every edge counts as slightly fuller
  /// than it is. So among equally violated sets, one with few edges is found.
  ///
  /// Source: T. Koch, A. Martin, "Solving Steiner tree problems in graphs to optimality", Networks
  ///         32, 1998 (nested cuts, creep flow).
  bool add_violated_cuts(std::size_t layer) {
    constexpr double fine = 0x1p40;   // steps of a flow in one `unit_`
    constexpr double allowed = 1e-8;  // in `unit_`
    int const vertices = problem_.graph.vertex_count;
    flow_network network(vertices + 1);  // leads from a vertex back to the roots
    auto const steps = [](double value) {
      return static_cast<std::int64_t>(std::max(value, 0.0) * fine);
    };
    std::vector<std::int64_t> capacity;  // by edge
    for (std::size_t e = 0; e < edges_; ++e) {
      auto const [tail, head] = ends(layer, e);
      capacity.push_back(steps(lp_.value(load(layer, e))) + 1);
      network.add(static_cast<int>(head), static_cast<int>(tail), capacity.back());
    }
    for (std::size_t i = 0; i < roots_; ++i) {
      auto const rooted_here = steps(lp_.value(rooted(layer, i)));
      if (rooted_here > 0) network.add(problem_.roots[i], vertices, rooted_here);
    }
    auto const wanted = steps(rate(layer) - allowed);
    bool found = false;
    std::vector<std::size_t> raised;
    for (int v = 0; v < vertices; ++v) {
      if (!spans(layer, static_cast<std::size_t>(v))) continue;
      for (auto const e : raised) network.set_capacity(static_cast<int>(e), capacity[e]);
      raised.clear();
      while (network.run(v, vertices, wanted) < wanted) {
        std::vector<bool> inside;
        for (int u = 0; u < vertices; ++u) inside.push_back(network.source_side(u));
        found = add_cut(layer, inside) || found;
        auto const before = raised.size();
        for (std::size_t e = 0; e < edges_; ++e) {
          auto const [tail, head] = ends(layer, e);
          if (inside[tail] || !inside[head]) continue;
          network.set_capacity(static_cast<int>(e), wanted);
          raised.push_back(e);
        }
        if (raised.size() == before) break;
      }
    }
    return found;
  }

  /// The equations of the full rows. They determine the basic variables.
  [[nodiscard]] equations basis_equations() const {
    equations result;
    std::vector<int> equation_of(variables(), -1);
    for (std::size_t j = 0; j < equation_of.size(); ++j) {
      if (!lp_.is_basic(static_cast<int>(j))) continue;
      equation_of[j] = static_cast<int>(result.variables.size());
      result.variables.push_back(static_cast<int>(j));
    }
    for (int row = 1; row <= static_cast<int>(rows_.size()); ++row) {
      if (lp_.is_full(row)) result.rows.push_back(row);
    }
    auto const n = result.variables.size();
    expects(result.rows.size() == n, "joint_program: the rate reaches its limit, expected less");
    result.matrix = {n, std::vector<std::int64_t>(n * n, 0)};
    for (std::size_t i = 0; i < n; ++i) {
      for (auto const& entry : rows_[static_cast<std::size_t>(result.rows[i]) - 1].entries) {
        int const j = equation_of[static_cast<std::size_t>(entry.variable)];
        if (j < 0) continue;
        result.matrix.entries[i * n + static_cast<std::size_t>(j)] +=
            static_cast<std::int64_t>(entry.factor);
      }
    }
    return result;
  }

  joint_problem const& problem_;
  std::vector<tree_layer> layers_;
  std::size_t edges_, roots_;
  // sets of variables for rooted amounts: one for all layers, or one for each
  std::size_t root_sets_;
  double unit_;  // the capacity that the program counts as 1
  dual_simplex lp_;
  std::vector<program_row> rows_;  // row i of the program is rows_[i - 1]
  std::map<std::pair<std::size_t, std::vector<bool>>, int> cuts_;  // row by layer and set
  int first_cut_ = 1;
  std::vector<double> within_capacities_;  // values after the last round of pivots
};

}}}  // namespace blink::BLINK_ABI::detail
