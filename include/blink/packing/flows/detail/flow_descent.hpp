// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/detail/route_search.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Lowers the congestion of flows, one source after the other.
///
/// The price of an edge grows exponentially with its congestion: the share of its capacity that is
/// used. A step moves a part of one source's flows to its cheapest routes. The part is the one that
/// minimizes the sum of the exponentials. The exponent rises while the steps gain little.
///
/// Source: M. Frank and P. Wolfe, "An algorithm for quadratic programming", 1956; D. Bienstock,
///         "Potential function methods for approximately solving linear programming problems",
///         2002.
class flow_descent {
 public:
  /// Starts with `first`, or without it with one cheapest route for each pair.
  flow_descent(flow_problem const& problem, whole_flows const& first)
      : problem_(problem),
        search_(problem.graph),
        capacity_(problem.capacity.begin(), problem.capacity.end()),
        congestion_(capacity_.size(), 0.0),
        change_(capacity_.size(), 0.0) {
    for (double const c : capacity_) price_.push_back(1 / c);
    for (std::size_t s = 0; s < problem_.sources.size(); ++s) {
      auto& flow = flow_.emplace_back(capacity_.size(), 0.0);
      auto const add = [&](std::size_t e, double amount) {
        flow[e] = amount;
        congestion_[e] += amount / capacity_[e];
      };
      if (first.flow.empty()) {
        search_.run(problem_.sources[s].vertex, price_);
        for_each_load(
            problem_, problem_.sources[s], search_, behind_,
            [&](std::size_t e, std::int64_t count) { add(e, static_cast<double>(count)); });
        continue;
      }
      for (std::size_t e = 0; e < capacity_.size(); ++e) {
        add(e, static_cast<double>(first.flow[s][e]) / static_cast<double>(first.per_sink));
      }
    }
  }

  /// Runs rounds, each with a step of every source, until bound / rate - 1 <= gap.
  /// Time: a search and a line search from every source for each round.
  void run(double gap, std::size_t most_rounds) {
    // At the minimum of the sum, congestion is within log(edges) / exponent of the best. So the
    // exponent follows the gap. Below that it is lower, because steps are longer then, but it rises
    // where the gap stays.
    constexpr std::size_t rounds_between_bounds = 4;
    constexpr std::size_t most_checks_without_gain = 10;
    constexpr double gain = 0.99;
    double const log_edges = std::log(static_cast<double>(capacity_.size() + 1));
    double factor = 0.25;
    double exponent = 10;
    double best = std::numeric_limits<double>::infinity();
    std::size_t checks_without_gain = 0;
    for (std::size_t round = 1; round <= most_rounds; ++round) {
      step_of_all(exponent);
      if (round % rounds_between_bounds != 0) continue;
      find_bound();
      double const now = bound_ / rate() - 1;
      if (now <= gap) return;
      if (now < gain * best) {
        best = now;
        checks_without_gain = 0;
      } else if (++checks_without_gain == most_checks_without_gain) {
        factor *= 1.3;
        checks_without_gain = 0;
      }
      exponent = std::max(10.0, factor * log_edges / now);
    }
  }

  /// The amount that each sink receives if the flows are scaled to just fit.
  [[nodiscard]] double rate() const {
    return 1 / *std::max_element(congestion_.begin(), congestion_.end());
  }
  [[nodiscard]] double bound() const { return bound_; }
  /// The prices of the best bound, by edge.
  [[nodiscard]] std::vector<double> const& prices() const { return best_prices_; }

  /// Flows by source and edge, by which each sink receives 1.
  [[nodiscard]] std::vector<std::vector<double>> const& flows() const { return flow_; }

 private:
  void step_of_all(double exponent) {
    double const most = 1 / rate();
    scale_ = exponent / most;
    for (std::size_t e = 0; e < price_.size(); ++e) price_[e] = price_of(e, congestion_[e], most);
    for (std::size_t s = 0; s < flow_.size(); ++s) step(s, most);
  }
  [[nodiscard]] double price_of(std::size_t e, double congestion, double most) const {
    return std::exp(scale_ * (congestion - most)) / capacity_[e];
  }

  void step(std::size_t s, double most) {
    auto const& from = problem_.sources[s];
    auto& flow = flow_[s];
    search_.run(from.vertex, price_);
    changed_.clear();
    for (std::size_t e = 0; e < flow.size(); ++e) {
      change_[e] = -flow[e];
      if (flow[e] != 0) changed_.push_back(e);
    }
    for_each_load(problem_, from, search_, behind_, [&](std::size_t e, std::int64_t count) {
      if (flow[e] == 0) changed_.push_back(e);
      change_[e] += static_cast<double>(count);
    });
    double const part = best_part(most);
    if (!(part > 0)) return;
    for (std::size_t const e : changed_) {
      flow[e] += part * change_[e];
      if (flow[e] < 1e-12) flow[e] = 0;
      congestion_[e] += part * change_[e] / capacity_[e];
      price_[e] = price_of(e, congestion_[e], most);
    }
  }

  /// The zero of the derivative of the sum of exponentials, by a search that keeps both sides.
  [[nodiscard]] double best_part(double most) const {
    double slope = 0, curvature = 0;
    auto const evaluate = [&](double part) {
      slope = curvature = 0;
      for (std::size_t const e : changed_) {
        double const by = change_[e] / capacity_[e];
        double const price = part == 0 ? price_[e] * capacity_[e]
                                       : std::exp(scale_ * (congestion_[e] + part * by - most));
        slope += by * price;
        curvature += scale_ * by * by * price;
      }
    };
    evaluate(0);
    if (slope >= 0) return 0;
    double low = 0, high = 1;
    double part = std::min(1.0, -slope / std::max(curvature, 1e-300));
    constexpr int most_evaluations = 6;
    for (int k = 0; k < most_evaluations; ++k) {
      evaluate(part);
      if (slope < 0) {
        low = part;
        if (part == 1) break;
      } else {
        high = part;
      }
      double const newton = part - slope / std::max(curvature, 1e-300);
      double const next = newton > low && newton < high ? newton : (low + high) / 2;
      if (std::abs(next - part) < 1e-3 * part) break;
      part = next;
    }
    return low > 0 ? low : part * 0.5;
  }

  void find_bound() {
    double cost = 0, value = 0;
    for (auto const& from : problem_.sources) {
      search_.run(from.vertex, price_);
      for (int const sink : from.sinks) cost += search_.cost(sink);
    }
    for (std::size_t e = 0; e < price_.size(); ++e) value += price_[e] * capacity_[e];
    if (value / cost >= bound_) return;
    bound_ = value / cost;
    best_prices_ = price_;
  }

  flow_problem const& problem_;
  route_search<double> search_;
  std::vector<double> capacity_;
  std::vector<double> price_;
  std::vector<double> congestion_;         // by edge: flow / capacity, if each sink receives 1
  std::vector<std::vector<double>> flow_;  // by source and edge
  std::vector<double> change_;             // by edge, of the present step
  std::vector<std::size_t> changed_;
  std::vector<std::int64_t> behind_;
  double scale_ = 0;
  double bound_ = std::numeric_limits<double>::infinity();
  std::vector<double> best_prices_;
};

}}}  // namespace blink::BLINK_ABI::detail
