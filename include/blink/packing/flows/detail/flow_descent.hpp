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
#include <optional>
#include <utility>
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
  /// Starts with the cheapest routes by `prices`, which are positive.
  flow_descent(flow_problem const& problem, std::vector<double> prices)
      : problem_(problem),
        search_(problem.graph),
        capacity_(problem.capacity.begin(), problem.capacity.end()),
        price_(std::move(prices)),
        congestion_(capacity_.size(), 0.0),
        change_(capacity_.size(), 0.0) {
    for (auto const& from : problem_.sources) {
      flow_.emplace_back(capacity_.size(), 0.0);
      search_.run(from.vertex, price_);
      for_each_load(problem_, from, search_, behind_, [&](std::size_t e, std::int64_t count) {
        flow_.back()[e] = static_cast<double>(count);
        congestion_[e] += static_cast<double>(count) / capacity_[e];
      });
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

  /// The flows in whole parts, over few routes: at each vertex, edges that bring little of what
  /// arrives are left out, as long as the rate falls by at most a thousandth. Nothing if the parts
  /// are too coarse.
  [[nodiscard]] std::optional<whole_flows> few_flows() const {
    constexpr double enough = 0.999;
    auto const rate = [&](std::optional<whole_flows> const& flows) {
      auto const found = flows ? rate_of(problem_, *flows) : std::nullopt;
      return found ? found->to_double() : 0;
    };
    auto best = flows(1e-6);
    double const wanted = enough * rate(best);
    for (double const least : {0.02, 0.01, 0.005, 0.002, 0.001}) {
      if (auto fewer = flows(least); fewer && rate(fewer) >= wanted) return fewer;
    }
    return best;
  }

 private:
  [[nodiscard]] std::optional<whole_flows> flows(double least) const {
    constexpr std::int64_t parts = std::int64_t{1} << 20;
    whole_flows result{parts, {}};
    for (std::size_t s = 0; s < flow_.size(); ++s) {
      auto flow = whole_flow(problem_.sources[s], flow_[s], parts, least);
      if (!flow) return std::nullopt;
      result.flow.push_back(*std::move(flow));
    }
    return result;
  }

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

  /// Splits what each vertex passes on in whole parts among the edges into it, the vertices at the
  /// ends of routes first. So the parts are conserved. Nothing if parts arrive nowhere.
  [[nodiscard]] std::optional<std::vector<std::int64_t>> whole_flow(flow_source const& from,
                                                                    std::vector<double> flow,
                                                                    std::int64_t parts,
                                                                    double least) const {
    auto const n = static_cast<std::size_t>(problem_.graph.vertex_count);
    remove_circles(flow);
    std::vector<std::vector<std::size_t>> into(n);
    std::vector<std::size_t> leaving(n, 0);
    for (std::size_t e = 0; e < flow.size(); ++e) {
      if (!(flow[e] > 0)) continue;
      into[static_cast<std::size_t>(problem_.graph.arcs[e].head)].push_back(e);
      ++leaving[static_cast<std::size_t>(problem_.graph.arcs[e].tail)];
    }
    std::vector<std::int64_t> result(flow.size(), 0), passes(n, 0);
    for (int const sink : from.sinks) passes[static_cast<std::size_t>(sink)] = parts;
    std::vector<std::size_t> open;
    for (std::size_t v = 0; v < n; ++v) {
      if (leaving[v] == 0 && !into[v].empty()) open.push_back(v);
    }
    while (!open.empty()) {
      std::size_t const v = open.back();
      open.pop_back();
      if (into[v].empty() && passes[v] > 0) return std::nullopt;  // flow below 1e-12 was dropped
      double all = 0, kept = 0, passed = 0;
      for (std::size_t const e : into[v]) all += flow[e];
      for (std::size_t const e : into[v]) kept += flow[e] < least * all ? 0 : flow[e];
      std::int64_t given = 0;
      for (std::size_t const e : into[v]) {
        passed += flow[e] < least * all ? 0 : flow[e];
        auto const until =
            std::llround(std::min(1.0, passed / kept) * static_cast<double>(passes[v]));
        result[e] = until - given;
        given = until;
        auto const tail = static_cast<std::size_t>(problem_.graph.arcs[e].tail);
        passes[tail] += result[e];
        if (--leaving[tail] == 0 && static_cast<int>(tail) != from.vertex) {
          open.push_back(tail);
        }
      }
    }
    return result;
  }

  /// Removes flow that runs in circles.
  void remove_circles(std::vector<double>& flow) const {
    auto const n = static_cast<std::size_t>(problem_.graph.vertex_count);
    auto const& arcs = problem_.graph.arcs;
    std::vector<std::vector<std::size_t>> out(n);
    for (std::size_t e = 0; e < flow.size(); ++e) {
      if (flow[e] > 0) out[static_cast<std::size_t>(arcs[e].tail)].push_back(e);
    }
    std::vector<std::size_t> path;         // edges
    std::vector<std::size_t> place(n, 0);  // on the path, plus 1
    std::vector<bool> is_done(n);
    for (std::size_t start = 0; start < n; ++start) {
      std::size_t at = start;
      if (is_done[at]) continue;
      place[at] = 1;
      for (;;) {
        while (!out[at].empty() && !(flow[out[at].back()] > 0)) out[at].pop_back();
        if (out[at].empty() || is_done[static_cast<std::size_t>(arcs[out[at].back()].head)]) {
          if (!out[at].empty()) {
            out[at].pop_back();
            continue;
          }
          is_done[at] = true;
          place[at] = 0;
          if (path.empty()) break;
          at = static_cast<std::size_t>(arcs[path.back()].tail);
          path.pop_back();
          out[at].pop_back();
          continue;
        }
        std::size_t const e = out[at].back();
        auto const head = static_cast<std::size_t>(arcs[e].head);
        path.push_back(e);
        if (place[head] == 0) {
          place[head] = path.size() + 1;
          at = head;
          continue;
        }
        std::size_t const first = place[head] - 1;
        double least = std::numeric_limits<double>::infinity();
        for (std::size_t i = first; i < path.size(); ++i) least = std::min(least, flow[path[i]]);
        std::size_t cut = path.size();
        for (std::size_t i = path.size(); i-- > first;) {
          flow[path[i]] -= least;
          if (!(flow[path[i]] > 0)) {
            flow[path[i]] = 0;
            cut = i;
          }
        }
        for (std::size_t i = cut + 1; i < path.size(); ++i) {
          place[static_cast<std::size_t>(arcs[path[i]].tail)] = 0;
        }
        at = static_cast<std::size_t>(arcs[path[cut]].tail);
        path.resize(cut);
      }
    }
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
