// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/graph/concepts.hpp>

#include <support/brute_force.hpp>
#include <support/small_machines.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <set>
#include <string>
#include <vector>

// Parts of a DGX-1 that a job scheduler may assign: connected, one for each isomorphism class.

namespace blink::test {

struct dgx1_class {
  std::string name;        ///< "V 0134": machine, and GPUs in nvidia-smi's numbering
  capacity_matrix matrix;  ///< in links
};

inline bool is_connected(capacity_matrix const& matrix) {
  std::vector<bool> reached(matrix.size(), false);
  reached[0] = true;
  for (std::size_t round = 0; round < matrix.size(); ++round) {
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      for (std::size_t j = 0; j < matrix.size(); ++j) {
        if (reached[i] && matrix[i][j] > 0) reached[j] = true;
      }
    }
  }
  return std::ranges::all_of(reached, [](bool r) { return r; });
}

/// The least of all renumberings, compared row by row below the diagonal.
inline std::vector<std::int64_t> canonical_form(capacity_matrix const& matrix) {
  std::vector<std::size_t> order(matrix.size());
  std::iota(order.begin(), order.end(), 0U);
  std::vector<std::int64_t> best, form;
  do {
    form.clear();
    for (std::size_t i = 0; i < order.size(); ++i) {
      for (std::size_t j = 0; j < i; ++j) form.push_back(matrix[order[i]][order[j]]);
    }
    if (best.empty() || form < best) best = form;
  } while (std::ranges::next_permutation(order).found);
  return best;
}

/// The classes of the DGX-1V and then those of the DGX-1P, of 3 to 8 GPUs.
inline std::vector<dgx1_class> const& dgx1_classes() {
  static auto const classes = [] {
    std::vector<dgx1_class> result;
    for (bool const volta : {true, false}) {
      auto const whole = volta ? dgx1v_matrix(1) : dgx1p_matrix(1);
      std::set<std::vector<std::int64_t>> seen;
      for (unsigned chosen = 1; chosen < 256; ++chosen) {
        auto const matrix = part_of(whole, chosen);
        if (matrix.size() < 3 || !is_connected(matrix)) continue;
        if (!seen.insert(canonical_form(matrix)).second) continue;
        std::string name = volta ? "V " : "P ";
        for (int i = 0; i < 8; ++i) {
          if ((chosen >> i & 1U) != 0) name += static_cast<char>('0' + i);
        }
        result.push_back({name, matrix});
      }
    }
    return result;
  }();
  return classes;
}

/// The links of a matrix as a graph with capacities. `both_ways` = false keeps one edge for each
/// pair, for undirected trees.
struct matrix_graph {
  arc_list graph;
  std::vector<std::int64_t> capacities;

  matrix_graph(capacity_matrix const& matrix, bool both_ways)
      : graph{static_cast<int>(matrix.size()), {}} {
    for (std::size_t i = 0; i < matrix.size(); ++i) {
      for (std::size_t j = 0; j < matrix.size(); ++j) {
        if (matrix[i][j] == 0 || (!both_ways && j < i)) continue;
        graph.arcs.push_back({static_cast<int>(i), static_cast<int>(j)});
        capacities.push_back(matrix[i][j]);
      }
    }
  }
};

/// The root of the fastest broadcast.
inline std::size_t best_broadcast_root(capacity_matrix const& matrix) {
  std::size_t best = 0;
  for (std::size_t r = 1; r < matrix.size(); ++r) {
    if (best_broadcast(matrix, best) < best_broadcast(matrix, r)) best = r;
  }
  return best;
}

}  // namespace blink::test
