// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>

#include <algorithm>
#include <cstddef>
#include <limits>
#include <numeric>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Sums of values by pairs, to which rows can be added.
class pair_means {
 public:
  static constexpr double unknown = std::numeric_limits<double>::infinity();

  explicit pair_means(std::size_t size)
      : sums_(size, std::vector<double>(size, 0)), counts_(sums_) {}

  [[nodiscard]] std::size_t size() const { return sums_.size(); }
  void add(std::size_t a, std::size_t b, double value, double times = 1) {
    sums_[a][b] += value;
    counts_[a][b] += times;
  }
  [[nodiscard]] double mean(std::size_t a, std::size_t b) const {
    return counts_[a][b] > 0 ? sums_[a][b] / counts_[a][b] : unknown;
  }
  /// Adds the values of `from` to those of `into`, also as partners of the others.
  void merge(std::size_t into, std::size_t from) {
    for (std::size_t c = 0; c < size(); ++c) {
      add(into, c, sums_[from][c], counts_[from][c]);
      if (c != into) add(c, into, sums_[c][from], counts_[c][from]);
    }
  }

 private:
  std::vector<std::vector<double>> sums_, counts_;
};

/// Two groups that were joined: `from` into `into`, at a mean distance.
struct group_merge {
  std::size_t into, from;
  double distance;
};

/// Joins the two groups of the least mean distance until one is left, or none that were measured.
///
/// Time: O(n^2) for n members as a rule, O(n^3) at most.
[[nodiscard]] inline std::vector<group_merge> join_nearest(pair_means means) {
  std::vector<std::size_t> left(means.size()), nearest(means.size());
  std::iota(left.begin(), left.end(), std::size_t{0});
  auto const find_nearest = [&](std::size_t a) {
    nearest[a] = left.front() == a ? left.back() : left.front();
    for (auto const b : left) {
      if (b != a && means.mean(a, b) < means.mean(a, nearest[a])) nearest[a] = b;
    }
  };
  for (auto const a : left) find_nearest(a);
  std::vector<group_merge> result;
  while (left.size() > 1) {
    auto const first = *std::ranges::min_element(
        left, {}, [&](std::size_t a) { return means.mean(a, nearest[a]); });
    auto const into = std::min(first, nearest[first]), from = std::max(first, nearest[first]);
    auto const distance = means.mean(into, from);
    if (distance == pair_means::unknown) break;
    result.push_back({into, from, distance});
    means.merge(into, from);
    std::erase(left, from);
    if (left.size() == 1) break;
    for (auto const a : left) {
      if (a == into || nearest[a] == into || nearest[a] == from) {
        find_nearest(a);
      } else if (means.mean(a, into) < means.mean(a, nearest[a])) {
        nearest[a] = into;
      }
    }
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
