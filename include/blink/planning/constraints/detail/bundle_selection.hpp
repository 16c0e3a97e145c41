// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/packing/lp/detail/listed_columns.hpp>
#include <blink/packing/lp/simplex.hpp>
#include <blink/packing/trees/detail/tree_selection.hpp>
#include <blink/packing/trees/weighted_tree.hpp>
#include <blink/planning/plan/detail/tree_columns.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Columns with positive weights, in capacity steps.
struct bundle_packing {
  std::vector<std::pair<packing_column, rational>> columns;
  rational rate;               ///< sum of the weights
  rational bound;              ///< no packing of the oracle's columns is faster; 0: not known
  std::vector<double> prices;  ///< by row; the best that are known
};

/// A solution of the simplex method as a packing. Weights that have no exact value within 61 bits
/// are rounded down to small fractions.
[[nodiscard]] inline bundle_packing packing_of(simplex_solution const& solution) {
  constexpr std::int64_t parts = 5040;  // of a step; a multiple of all numbers up to 10
  bundle_packing result;
  bool const exact = solution.stopped_because == simplex_stop::optimal;
  if (exact || solution.stopped_because == simplex_stop::optimal_prices) {
    result.bound = solution.rate;
  }
  for (auto const& p : solution.prices) result.prices.push_back(p.to_double());
  for (auto const& column : solution.columns) {
    auto weight = column.weight;
    if (!exact) {
      auto const scaled = column.approximate_weight * parts * (1 - 1e-9);
      if (!(scaled < 9e15)) throw overflow_error("restricted plan: a weight exceeds 53 bits");
      weight = rational(static_cast<std::int64_t>(std::floor(scaled)), parts);
    }
    if (weight <= rational(0)) continue;
    result.columns.emplace_back(column.rows, weight);
    result.rate += weight;
  }
  return result;
}

/// The best packing of listed columns.
[[nodiscard]] inline bundle_packing pack_listed(std::vector<std::int64_t> const& capacity,
                                                std::vector<packing_column> const& columns) {
  return packing_of(simplex(capacity, listed_columns{columns}));
}

/// Chooses few bundles, or bundles with weights that are multiples of a unit.
///
/// A packing of few bundles is searched in three ways: leaving out the bundle that costs least, one
/// after the other; exchanging one bundle at a time for a cheap one; an integer program over simple
/// weights. A linear program gives each choice its best weights. The result is the best choice.
class bundle_selection {
 public:
  bundle_selection(std::vector<std::int64_t> capacity, bundle_oracle& oracle, bundle_packing best,
                   std::uint64_t seed = 1)
      : capacity_(std::move(capacity)), oracle_(&oracle), whole_(std::move(best)), random_(seed) {
    if (whole_.prices.size() != capacity_.size()) whole_.prices.assign(capacity_.size(), 1.0);
  }

  /// A packing of at most `most` bundles; empty only if no bundle exists.
  [[nodiscard]] bundle_packing few(std::size_t most) {
    if (whole_.columns.size() <= most) return whole_;
    best_ = {};
    fill_pool();
    leave_out(most);
    exchange(widest(most));
    for (std::int64_t parts = 1; parts <= largest_parts; ++parts) {
      auto const room = room_in(parts);
      if (room.empty()) continue;
      for (int start = 0; start < starts; ++start) {
        auto packed = random_packing(room);
        std::sort(packed.begin(), packed.end(),
                  [](auto const& a, auto const& b) { return a.second > b.second; });
        std::vector<packing_column> chosen;
        for (auto const& [column, times] : packed) {
          if (chosen.size() < most && std::ranges::count(chosen, column) == 0) {
            chosen.push_back(column);
          }
        }
        exchange(std::move(chosen));
      }
    }
    for (std::int64_t parts = 1; parts <= largest_parts; ++parts) few_in_units(most, parts);
    return best_;
  }

  /// The columns of random packings, and all columns known before.
  [[nodiscard]] std::vector<packing_column> random_pool() {
    fill_pool();
    std::vector<packing_column> result;
    for (auto const& [column, bundle] : oracle_->known()) result.push_back(column);
    return result;
  }

  /// A packing of at most `most` bundles whose weights are multiples of `unit` (in capacity steps).
  [[nodiscard]] bundle_packing in_units(rational const& unit, std::size_t most) {
    best_ = {};
    std::vector<std::int64_t> room;
    for (auto const c : capacity_) {
      auto const units = rational(c) / unit;
      room.push_back(units.numerator() / units.denominator());
    }
    fill_pool();
    for (int start = 0; start < starts; ++start) {
      bundle_packing packed;
      for (auto& [column, times] : random_packing(room)) add(packed, column, unit * times);
      if (packed.columns.size() <= most && packed.rate > best_.rate) best_ = std::move(packed);
    }
    auto const ceiling = (whole_.bound > rational(0) ? whole_.bound : whole_.rate) / unit;
    auto const highest = ceiling.numerator() / ceiling.denominator();
    auto const pool = pool_set();
    // If the unit is small compared with the possible gain, some numbers of units are skipped.
    auto const now = best_.rate / unit;
    auto const step = 1 + (highest - now.numerator() / now.denominator()) / most_tries;
    for (auto wanted = highest; unit * wanted >= best_.rate && wanted > 0; wanted -= step) {
      tree_selection_search search(pool, room, prices(), false);
      auto const limit = best_.rate < unit * wanted ? most : best_.columns.size() - 1;
      auto found = search.run(wanted, std::min(limit, pool.size()) + 1, node_limit);
      if (found.total == 0) continue;
      best_ = {};
      for (auto const& [t, times] : found.uses) {
        add(best_, {pool[t].begin(), pool[t].end()}, unit * times);
      }
      break;
    }
    return best_;
  }

 private:
  static constexpr int starts = 6;
  static constexpr std::int64_t largest_parts = 4;  // of a capacity step, for the unit of weights
  static constexpr std::int64_t most_tries = 64;    // searches, each with the limit below
  static constexpr std::size_t node_limit = 8'000;
  static constexpr std::size_t largest_pool = 400;

  static void add(bundle_packing& packing, packing_column const& column, rational const& weight) {
    auto const same =
        std::ranges::find(packing.columns, column, &std::pair<packing_column, rational>::first);
    if (same == packing.columns.end()) {
      packing.columns.emplace_back(column, weight);
    } else {
      same->second += weight;
    }
    packing.rate += weight;
  }

  bundle_packing consider(std::vector<packing_column> const& columns) {
    auto packed = pack_listed(capacity_, columns);
    if (packed.rate > best_.rate) best_ = packed;
    return packed;
  }

  void leave_out(std::size_t most) {
    auto kept = whole_.columns;
    std::ranges::sort(kept, [](auto const& a, auto const& b) { return a.second > b.second; });
    if (kept.size() > 3 * most + 8) kept.resize(3 * most + 8);
    std::vector<packing_column> columns;
    for (auto& [column, weight] : kept) columns.push_back(std::move(column));
    while (columns.size() > most) {
      std::size_t least = 0;
      rational highest(-1);
      for (std::size_t i = 0; i < columns.size(); ++i) {
        auto fewer = columns;
        fewer.erase(fewer.begin() + static_cast<std::ptrdiff_t>(i));
        auto const rate = pack_listed(capacity_, fewer).rate;
        if (rate > highest) {
          highest = rate;
          least = i;
        }
      }
      columns.erase(columns.begin() + static_cast<std::ptrdiff_t>(least));
    }
    exchange(std::move(columns));
  }

  /// Exchanges one column at a time for one that is cheap by the prices of the present choice.
  void exchange(std::vector<packing_column> columns) {
    auto now = consider(columns);
    for (bool better = true; better;) {
      better = false;
      std::vector<packing_column> cheap;
      if (now.prices.size() == capacity_.size()) {
        (*oracle_)(std::span<double const>(now.prices), cheap);
      }
      for (auto const& entering : cheap) {
        if (std::ranges::count(columns, entering) != 0) continue;
        for (std::size_t i = 0; i < columns.size(); ++i) {
          auto other = columns;
          other[i] = entering;
          auto packed = consider(other);
          if (packed.rate <= now.rate) continue;
          now = std::move(packed);
          columns = std::move(other);
          better = true;
          break;
        }
        if (better) break;
      }
    }
  }

  /// The capacities in parts of their greatest common divisor; empty if the rate is too many of
  /// them.
  std::vector<std::int64_t> room_in(std::int64_t parts) const {
    constexpr std::int64_t most_units = 64;
    std::int64_t step = 0;
    for (auto const c : capacity_) step = std::gcd(step, c);
    std::vector<std::int64_t> room;
    if (whole_.rate * parts > rational(step) * most_units) return room;
    for (auto const c : capacity_) room.push_back(c / step * parts);
    return room;
  }

  /// Searches weights in parts of the capacities' greatest common divisor; each choice then gets
  /// its best weights.
  void few_in_units(std::size_t most, std::int64_t parts) {
    auto const room = room_in(parts);
    if (room.empty()) return;
    auto const unit = rational(capacity_.front()) / room.front();
    auto const units = whole_.rate / unit;
    auto const pool = pool_set();
    auto const now = best_.rate / unit;
    for (auto wanted = now.numerator() / now.denominator() + 1; rational(wanted) <= units;
         ++wanted) {
      tree_selection_search search(pool, room, prices(), false);
      auto const found = search.run(wanted, most + 1, node_limit);
      if (found.total == 0) return;
      std::vector<packing_column> columns;
      for (auto const& [t, times] : found.uses) {
        columns.emplace_back(pool[t].begin(), pool[t].end());
      }
      exchange(std::move(columns));
    }
  }

  /// A random packing. It fills the room step by step with cheap bundles; prices rise as room gets
  /// scarce.
  std::vector<std::pair<packing_column, std::int64_t>> random_packing(
      std::vector<std::int64_t> const& room) {
    std::vector<std::pair<packing_column, std::int64_t>> result;
    auto left = room;
    std::vector<double> price(room.size());
    std::uniform_real_distribution<double> any(0, 1);
    for (;;) {
      double sum = 0;
      for (std::size_t r = 0; r < room.size(); ++r) {
        if (left[r] <= 0) continue;
        double const scarcity = static_cast<double>(room[r]) / static_cast<double>(left[r]);
        price[r] = (whole_.prices[r] + 1e-3) * scarcity * scarcity * (1 + any(random_));
        sum += price[r];
      }
      for (std::size_t r = 0; r < room.size(); ++r) {
        if (left[r] <= 0) price[r] = 2 * sum * static_cast<double>(room.size()) + 1;
      }
      std::vector<packing_column> found;
      (*oracle_)(std::span<double const>(price), found);
      std::pair<std::int64_t, packing_column const*> chosen{0, nullptr};
      double least = std::numeric_limits<double>::infinity();
      for (auto const& column : found) {
        double cost = 0;
        for (int const row : column) cost += price[static_cast<std::size_t>(row)];
        auto const fits = times_that_fit(column, left);
        if (fits <= 0 || cost >= least) continue;
        least = cost;
        chosen = {fits, &column};
      }
      if (chosen.first == 0) return result;
      auto times = chosen.first;
      if (any(random_) < 0.5) {  // sometimes less: heavy bundles can block all others
        times = 1 + static_cast<std::int64_t>(any(random_) * static_cast<double>(times - 1));
      }
      for (int const row : *chosen.second) left[static_cast<std::size_t>(row)] -= times;
      result.emplace_back(*chosen.second, times);
    }
  }
  static std::int64_t times_that_fit(packing_column const& column,
                                     std::vector<std::int64_t> const& left) {
    std::int64_t least = std::numeric_limits<std::int64_t>::max();
    for (std::size_t i = 0; i < column.size();) {
      auto last = i + 1;
      while (last < column.size() && column[last] == column[i]) ++last;
      least = std::min(
          least, left[static_cast<std::size_t>(column[i])] / static_cast<std::int64_t>(last - i));
      i = last;
    }
    return least;
  }

  /// At most `most` known bundles, chosen greedily: each fits most often into the room that is
  /// left.
  std::vector<packing_column> widest(std::size_t most) const {
    std::vector<packing_column> result;
    auto left = capacity_;
    while (result.size() < most) {
      packing_column const* best = nullptr;
      std::int64_t times = 0;
      for (auto const& [column, bundle] : oracle_->known()) {
        auto const fits = times_that_fit(column, left);
        if (fits <= times) continue;
        times = fits;
        best = &column;
      }
      if (best == nullptr) break;
      for (int const row : *best) left[static_cast<std::size_t>(row)] -= times;
      result.push_back(*best);
    }
    return result;
  }

  /// Adds the bundles of random packings, and bundles over wide links only, to the known ones.
  void fill_pool() {
    for (int start = 0; start < starts; ++start) (void)random_packing(capacity_);
    for (auto const width : std::set<std::int64_t>(capacity_.begin(), capacity_.end())) {
      std::vector<double> price;
      for (auto const c : capacity_) {
        price.push_back(c < width ? 1e6 : 1.0 / static_cast<double>(c));
      }
      std::vector<packing_column> found;
      (*oracle_)(std::span<double const>(price), found);
    }
  }
  /// The cheapest columns known.
  tree_set pool_set() const {
    std::vector<std::pair<double, packing_column const*>> order;
    for (auto const& [column, bundle] : oracle_->known()) {
      double cost = 0;
      for (int const row : column) cost += whole_.prices[static_cast<std::size_t>(row)];
      order.emplace_back(cost, &column);
    }
    std::sort(order.begin(), order.end(), [](auto const& a, auto const& b) {
      return a.first != b.first ? a.first < b.first : *a.second < *b.second;
    });
    tree_set result;
    for (auto const& [cost, column] : order) {
      if (result.size() < largest_pool) result.insert(*column);
    }
    return result;
  }
  std::vector<std::vector<double>> prices() const {
    return {whole_.prices, std::vector<double>(capacity_.size(), 1.0)};
  }

  std::vector<std::int64_t> capacity_;
  bundle_oracle* oracle_;
  bundle_packing whole_;
  bundle_packing best_;
  std::mt19937_64 random_;
};

}}}  // namespace blink::BLINK_ABI::detail
