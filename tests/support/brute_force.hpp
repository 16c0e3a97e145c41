// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/rational.hpp>

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

// Optima by exhaustive search on capacity matrices of a few vertices: oracles for planners.

namespace blink::test {

using capacity_matrix = std::vector<std::vector<std::int64_t>>;

/// Capacity of the edges out of the set of vertices whose bits are set.
inline std::int64_t capacity_leaving(capacity_matrix const& matrix, unsigned inside) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    for (std::size_t j = 0; j < matrix.size(); ++j) {
      if ((inside >> i & 1U) != 0 && (inside >> j & 1U) == 0) sum += matrix[i][j];
    }
  }
  return sum;
}

/// The optimal rate of a broadcast from `root`: the smallest cut around the root.
///
/// Time:   O(2^n n^2).
inline rational best_broadcast(capacity_matrix const& matrix, std::size_t root) {
  unsigned const all = (1U << matrix.size()) - 1;
  std::optional<rational> best;
  for (unsigned inside = 1; inside < all; ++inside) {
    if ((inside >> root & 1U) == 0) continue;
    rational const cut(capacity_leaving(matrix, inside));
    if (!best || cut < *best) best = cut;
  }
  return *best;
}

/// The optimal rate of an all-gather: n times the smallest ratio of capacity out of a set to its
/// size.
///
/// Time:   O(2^n n^2).
inline rational best_all_gather(capacity_matrix const& matrix) {
  unsigned const all = (1U << matrix.size()) - 1;
  std::optional<rational> best;
  for (unsigned inside = 1; inside < all; ++inside) {
    rational const ratio(capacity_leaving(matrix, inside), __builtin_popcount(inside));
    if (!best || ratio < *best) best = ratio;
  }
  return *best * static_cast<std::int64_t>(matrix.size());
}

/// The optimal rate of an all-reduce on symmetric links. It is the smallest ratio of the capacity
/// between the parts of a partition to the number of parts less one (Tutte, Nash-Williams).
///
/// Time:   O(Bell(n) n^2).
inline rational best_symmetric_all_reduce(capacity_matrix const& matrix) {
  auto const n = matrix.size();
  std::vector<std::size_t> part(n, 0);
  std::optional<rational> best;
  std::function<void(std::size_t, std::size_t)> const extend = [&](std::size_t next,
                                                                   std::size_t parts) {
    if (next == n) {
      if (parts < 2) return;
      std::int64_t crossing = 0;
      for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t j = i + 1; j < n; ++j) {
          if (part[i] != part[j]) crossing += matrix[i][j];
        }
      }
      rational const ratio(crossing, static_cast<std::int64_t>(parts) - 1);
      if (!best || ratio < *best) best = ratio;
      return;
    }
    for (std::size_t p = 0; p <= parts; ++p) {
      part[next] = p;
      extend(next + 1, p == parts ? parts + 1 : parts);
    }
  };
  extend(1, 1);
  return *best;
}

}  // namespace blink::test
