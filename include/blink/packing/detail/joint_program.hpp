// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/config.hpp>
#include <blink/error.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/graph/detail/flow_network.hpp>
#include <blink/packing/detail/dual_simplex.hpp>
#include <blink/packing/detail/exact_solve.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <utility>
#include <vector>

// The optimum of packing pairs of trees as a linear program over loads and cuts.

namespace blink::inline BLINK_ABI::detail {

/// What trees do at a vertex.
enum class tree_part : std::uint8_t {
  span,     ///< every tree reaches it, and may branch there
  forward,  ///< trees may pass through and not branch
  branch,   ///< trees may branch there without having to reach it (a relaxation)
};

/// Pairs of an in-tree and an out-tree are to be packed. An edge in-tree is walked towards the root.
struct joint_problem {
  arc_list graph;
  std::vector<int> resource;           ///< by edge: whose capacity it uses
  std::vector<std::int64_t> capacity;  ///< by resource, positive
  std::vector<tree_part> in, out;      ///< by vertex
  std::vector<int> roots;              ///< distinct; spanned by both
};

/// How much of each direction every edge carries, and what is rooted where, at an optimum.
struct approximate_loads {
  std::vector<double> in, out;  ///< by edge
  std::vector<double> rooted;   ///< by position in `roots`
  std::vector<double> prices;   ///< by resource
};

/// Finds loads of the edges such that in-trees and out-trees with these loads exist, of the highest
/// rate.
///
/// By Edmonds' theorem, loads a hold out-trees with root rates x if and only if into every set of
/// vertices that holds a spanned one, a lets as much as is rooted outside it; in-trees alike, with
/// edges turned round. Where trees may not branch, no more goes out than comes in. Sets are found by
/// minimum cuts as far as loads violate them: some tens in the end.
///
/// Source: J. Edmonds, "Edge-disjoint branchings", 1973; J. Bang-Jensen, A. Frank, B. Jackson,
///         "Preserving and increasing local edge-connectivity in mixed graphs", 1995 (vertices that
///         forward).
/// Time:   a few times E pivots of `dual_simplex` over 2 E + roots variables and E + cuts rows; for
///         each round of cuts 2 V maximum flows. A handful of rounds on all machines that we know.
class joint_program {
 public:
  joint_program(joint_problem const& problem, double toll, std::uint64_t seed)
      : problem_(problem),
        edges_(problem.graph.arcs.size()),
        unit_(largest_rate()),
        lp_(make_program(toll, seed)) {
    for (std::size_t r = 0; r < problem_.capacity.size(); ++r) {
      // What is beyond both directions of all trees is of no use.
      double const limit = std::min(static_cast<double>(problem_.capacity[r]) / unit_, 4.0);
      rows_.push_back({{}, problem_.capacity[r]});
      for (std::size_t e = 0; e < edges_; ++e) {
        if (problem_.resource[e] != static_cast<int>(r)) continue;
        rows_.back().entries.push_back({load(true, e), 1});
        rows_.back().entries.push_back({load(false, e), 1});
      }
      lp_.add_row(rows_.back().entries, limit);
    }
    for (bool const inward : {true, false}) {
      for (std::size_t v = 0; v < parts(inward).size(); ++v) {
        if (parts(inward)[v] == tree_part::forward) add_balance(inward, static_cast<int>(v));
      }
    }
    first_cut_ = static_cast<int>(rows_.size()) + 1;
    for (bool const inward : {true, false}) {
      for (std::size_t v = 0; v < parts(inward).size(); ++v) {
        if (parts(inward)[v] != tree_part::span) continue;
        std::vector<bool> alone(parts(inward).size(), false);
        alone[v] = true;
        add_cut(inward, alone);
      }
    }
  }

  /// False if rounding or `most_pivots` kept it from an end, or the tolls were too large.
  bool solve(std::size_t most_pivots) {
    constexpr double progress = 1e-7;
    double before = 2 * limit_of_rate;
    for (;;) {
      if (!lp_.solve(most_pivots)) return false;
      double const now = rate();
      if (now < before - progress) {
        before = now;
        lp_.drop_loose_rows(first_cut_, progress);
      }
      bool const more_in = add_violated_cuts(true);
      if (!add_violated_cuts(false) && !more_in) return lp_.is_optimal();
    }
  }

  [[nodiscard]] std::size_t pivots() const { return lp_.pivots(); }

  /// In units of the capacities.
  [[nodiscard]] approximate_loads result() const {
    approximate_loads found;
    for (std::size_t e = 0; e < edges_; ++e) {
      found.in.push_back(lp_.value(load(true, e)) * unit_);
      found.out.push_back(lp_.value(load(false, e)) * unit_);
    }
    for (std::size_t i = 0; i < problem_.roots.size(); ++i) {
      found.rooted.push_back(lp_.value(static_cast<int>(i)) * unit_);
    }
    for (std::size_t r = 0; r < problem_.capacity.size(); ++r) {
      found.prices.push_back(lp_.price(static_cast<int>(r) + 1));
    }
    return found;
  }

  /// The prices of the last basis without rounding, or nothing if they exceed 61 bits.
  [[nodiscard]] std::optional<common_fractions> exact_prices() const {
    auto const basis = basis_equations();
    std::vector<std::int64_t> worth;
    for (int const variable : basis.variables) {
      worth.push_back(variable < static_cast<int>(problem_.roots.size()) ? 1 : 0);
    }
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

  /// By variable: what is rooted, the loads in, the loads out. Nothing if over 61 bits.
  [[nodiscard]] std::optional<common_fractions> exact_values() const {
    auto const basis = basis_equations();
    std::vector<std::int64_t> limits;
    for (int const row : basis.rows)
      limits.push_back(rows_[static_cast<std::size_t>(row) - 1].limit);
    auto const found = exact_solve(basis.matrix, limits);
    if (!found) return std::nullopt;
    common_fractions values{std::vector<std::int64_t>(problem_.roots.size() + 2 * edges_, 0),
                            found->denominator};
    for (std::size_t j = 0; j < basis.variables.size(); ++j) {
      values.numerators[static_cast<std::size_t>(basis.variables[j])] = found->numerators[j];
    }
    return values;
  }

 private:
  struct program_row {
    std::vector<row_entry> entries;
    std::int64_t limit = 0;
  };
  struct equations {
    std::vector<int> rows;       // full ones, by number
    std::vector<int> variables;  // basic ones
    integer_matrix matrix;       // rows: `rows`, columns: `variables`
  };

  static constexpr double limit_of_rate = 1.5;  // in `unit_`, above every rate

  std::vector<tree_part> const& parts(bool inward) const {
    return inward ? problem_.in : problem_.out;
  }
  int load(bool inward, std::size_t edge) const {
    return static_cast<int>(problem_.roots.size() + (inward ? 0 : edges_) + edge);
  }
  double rate() const {
    double sum = 0;
    for (std::size_t i = 0; i < problem_.roots.size(); ++i) sum += lp_.value(static_cast<int>(i));
    return sum;
  }

  /// What leaves and what enters any vertex that both kinds of tree span.
  double largest_rate() const {
    std::vector<double> enters(problem_.in.size(), 0), leaves(problem_.in.size(), 0);
    for (std::size_t e = 0; e < edges_; ++e) {
      auto const& a = problem_.graph.arcs[e];
      auto const capacity =
          static_cast<double>(problem_.capacity[static_cast<std::size_t>(problem_.resource[e])]);
      leaves[static_cast<std::size_t>(a.tail)] += capacity;
      enters[static_cast<std::size_t>(a.head)] += capacity;
    }
    double result = std::numeric_limits<double>::infinity();
    for (std::size_t v = 0; v < enters.size(); ++v) {
      if (problem_.in[v] != tree_part::span || problem_.out[v] != tree_part::span) continue;
      result = std::min({result, enters[v], leaves[v]});
    }
    return result;
  }

  dual_simplex make_program(double toll, std::uint64_t seed) const {
    auto const roots = problem_.roots.size();
    std::mt19937_64 random(seed);
    auto const share = [&] { return static_cast<double>(random() >> 11) * 0x1p-53; };
    std::vector<double> value(roots + 2 * edges_, 0.0);
    auto tolled = value;
    std::size_t first = 0;
    for (std::size_t i = 0; i < roots; ++i) {
      value[i] = 1;
      tolled[i] = 1 - toll * share() / 10;
      if (tolled[i] > tolled[first]) first = i;
    }
    double const per_edge = toll / static_cast<double>(2 * problem_.in.size());
    for (std::size_t i = roots; i < value.size(); ++i) tolled[i] = -per_edge * (0.1 + share());
    return {value, tolled, static_cast<int>(first), limit_of_rate};
  }

  /// Tail and head of an edge, for in-trees the other way round: all trees lead away from roots.
  std::pair<std::size_t, std::size_t> ends(bool inward, std::size_t edge) const {
    auto const& a = problem_.graph.arcs[edge];
    auto const tail = static_cast<std::size_t>(a.tail);
    auto const head = static_cast<std::size_t>(a.head);
    return inward ? std::pair(head, tail) : std::pair(tail, head);
  }

  /// No more leaves a vertex than enters it.
  void add_balance(bool inward, int vertex) {
    program_row row;
    for (std::size_t e = 0; e < edges_; ++e) {
      auto const [tail, head] = ends(inward, e);
      if (tail == head) continue;
      if (tail == static_cast<std::size_t>(vertex)) row.entries.push_back({load(inward, e), 1});
      if (head == static_cast<std::size_t>(vertex)) row.entries.push_back({load(inward, e), -1});
    }
    lp_.add_row(row.entries, 0);
    rows_.push_back(std::move(row));
  }

  /// What is rooted outside the set enters it. False if the program has this row.
  bool add_cut(bool inward, std::vector<bool> const& inside) {
    auto const known = cuts_.find({inward, inside});
    if (known != cuts_.end() && !lp_.is_dropped(known->second)) return false;
    program_row row;
    for (std::size_t i = 0; i < problem_.roots.size(); ++i) {
      if (!inside[static_cast<std::size_t>(problem_.roots[i])]) {
        row.entries.push_back({static_cast<int>(i), 1});
      }
    }
    for (std::size_t e = 0; e < edges_; ++e) {
      auto const [tail, head] = ends(inward, e);
      if (!inside[tail] && inside[head]) row.entries.push_back({load(inward, e), -1});
    }
    cuts_[{inward, inside}] = lp_.add_row(row.entries, 0);
    rows_.push_back(std::move(row));
    return true;
  }

  /// For each spanned vertex the smallest set around it that too little enters.
  bool add_violated_cuts(bool inward) {
    constexpr double fine = 0x1p40;   // steps of a flow in one `unit_`
    constexpr double allowed = 1e-8;  // in `unit_`
    int const vertices = problem_.graph.vertex_count;
    flow_network network(vertices + 1);  // from a vertex back to what is rooted
    auto const steps = [](double value) {
      return static_cast<std::int64_t>(std::max(value, 0.0) * fine);
    };
    for (std::size_t e = 0; e < edges_; ++e) {
      auto const [tail, head] = ends(inward, e);
      auto const capacity = steps(lp_.value(load(inward, e)));
      if (capacity > 0) network.add(static_cast<int>(head), static_cast<int>(tail), capacity);
    }
    for (std::size_t i = 0; i < problem_.roots.size(); ++i) {
      auto const capacity = steps(lp_.value(static_cast<int>(i)));
      if (capacity > 0) network.add(problem_.roots[i], vertices, capacity);
    }
    auto const wanted = steps(rate() - allowed);
    bool found = false;
    for (int v = 0; v < vertices; ++v) {
      if (parts(inward)[static_cast<std::size_t>(v)] != tree_part::span) continue;
      if (network.run(v, vertices, wanted) >= wanted) continue;
      std::vector<bool> inside;
      for (int u = 0; u < vertices; ++u) inside.push_back(network.source_side(u));
      found = add_cut(inward, inside) || found;
    }
    return found;
  }

  /// Full rows and basic variables determine each other.
  equations basis_equations() const {
    equations result;
    std::vector<int> equation_of(problem_.roots.size() + 2 * edges_, -1);
    for (std::size_t j = 0; j < equation_of.size(); ++j) {
      if (!lp_.is_basic(static_cast<int>(j))) continue;
      equation_of[j] = static_cast<int>(result.variables.size());
      result.variables.push_back(static_cast<int>(j));
    }
    for (int row = 1; row <= static_cast<int>(rows_.size()); ++row) {
      if (lp_.is_full(row)) result.rows.push_back(row);
    }
    auto const n = result.variables.size();
    expects(result.rows.size() == n, "joint_program: the limit of the rate is reached");
    result.matrix = {n, std::vector<std::int64_t>(n * n, 0)};
    for (std::size_t i = 0; i < n; ++i) {
      for (auto const& entry : rows_[static_cast<std::size_t>(result.rows[i]) - 1].entries) {
        int const j = equation_of[static_cast<std::size_t>(entry.variable)];
        if (j >= 0)
          result.matrix.entries[i * n + static_cast<std::size_t>(j)] +=
              static_cast<std::int64_t>(entry.factor);
      }
    }
    return result;
  }

  joint_problem const& problem_;
  std::size_t edges_;
  double unit_;  // capacity that the program counts as 1
  dual_simplex lp_;
  std::vector<program_row> rows_;                           // row i of the program is rows_[i - 1]
  std::map<std::pair<bool, std::vector<bool>>, int> cuts_;  // row by direction and set
  int first_cut_ = 1;
};

}  // namespace blink::inline BLINK_ABI::detail
