// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/packing/flows/detail/flow_part.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>
#include <blink/packing/lp/detail/cholesky_factor.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A maximum concurrent flow in floating point, by an interior-point method: about thirty steps
/// bring the rate to a share of 1e-8 below the optimum, on any graph.
///
/// It minimizes the congestion at which each sink receives 1. Each step solves linear equations:
/// one Laplacian of the graph for each source, and one dense system with a row for each edge, which
/// the sources share.
///
/// Source: S. Mehrotra, "On the implementation of a primal-dual interior point method", SIAM J.
///         Optimization 2, 1992; J. Castro, "A specialized interior-point algorithm for
///         multicommodity network flows", SIAM J. Optimization 10, 2000 (sources apart from edges).
/// Time:   O(sources * (vertices^3 + edges^2) + edges^3) a step.
/// Space:  O(sources * (vertices^2 + edges) + edges^2).
class interior_flows {
 public:
  explicit interior_flows(flow_problem const& problem)
      : edges_(problem.capacity.size()), price_(edges_), room_(edges_), room_rest_(edges_) {
    double mean = 0;
    for (auto const c : problem.capacity) mean += static_cast<double>(c);
    mean /= static_cast<double>(edges_);
    for (auto const c : problem.capacity) capacity_.push_back(static_cast<double>(c) / mean);
    for (auto const& from : problem.sources) sources_.emplace_back(flow_part_of(problem, from));
    start();
  }

  /// Operations of a step, about.
  [[nodiscard]] static double work_of_step(flow_problem const& problem) {
    auto const n = static_cast<double>(problem.graph.vertex_count);
    auto const e = static_cast<double>(problem.capacity.size());
    auto const s = static_cast<double>(problem.sources.size());
    return s * (n * n * n + 2 * e * e) + e * e * e / 3;
  }

  /// Runs steps until bound / rate - 1 <= `gap`, or rounding lets nothing be gained.
  void run(double gap, std::size_t most_steps = 100) {
    for (std::size_t k = 0; k < most_steps; ++k) {
      budget_scope::poll();
      if (!step()) return;
      if (is_feasible() && std::abs(gap_now()) <= gap) return;
    }
  }

  /// Flows by source and edge, by which each sink receives 1 up to rounding.
  [[nodiscard]] std::vector<std::vector<double>> flows() const {
    std::vector<std::vector<double>> result;
    for (auto const& from : sources_) {
      auto& flow = result.emplace_back(edges_, 0.0);
      for (std::size_t k = 0; k < from.edge.size(); ++k) flow[from.edge[k]] = from.flow[k];
    }
    return result;
  }
  /// The prices that bound the rate, by edge.
  [[nodiscard]] std::vector<double> const& prices() const { return price_; }

 private:
  /// A source with the variables of its part. The potential of the source itself is 0.
  struct source_state : flow_part {
    explicit source_state(flow_part part) : flow_part(std::move(part)), potential(size, 0.0) {}

    std::vector<double> rest;       // reduced costs, by edge of the part, as all below
    std::vector<double> potential;  // by vertex
    // of the present step
    cholesky_factor factor;
    std::vector<double> ratio;  // flow / rest
    std::vector<double> target, flow_step, rest_step, potential_step;
    std::vector<double> shortage;  // by vertex: demand minus what arrives
    std::vector<double> cost_gap;  // by edge: what is missing in the reduced cost
  };

  /// Prices and flows that are feasible.
  void start() {
    std::vector<double> load(edges_, 0.0);
    for (auto const& from : sources_) {
      for (std::size_t k = 0; k < from.edge.size(); ++k) load[from.edge[k]] += from.flow[k];
    }
    for (std::size_t e = 0; e < edges_; ++e) {
      congestion_ = std::max(congestion_, 2 * load[e] / capacity_[e]);
    }
    auto const edges = static_cast<double>(edges_);
    congestion_rest_ = 0.5;
    for (std::size_t e = 0; e < edges_; ++e) {
      price_[e] = room_rest_[e] = 0.5 / (edges * capacity_[e]);
      room_[e] = capacity_[e] * congestion_ - load[e];
    }
    for (auto& from : sources_) {
      for (auto const e : from.edge) from.rest.push_back(price_[e]);
    }
  }

  [[nodiscard]] double gap_now() const {
    double worth = 0;
    for (auto const& from : sources_) {
      for (std::size_t v = 0; v < from.size; ++v) worth += from.demand[v] * from.potential[v];
    }
    return congestion_ / worth - 1;
  }

  [[nodiscard]] bool is_feasible() const { return shortage_ < 1e-6; }

  /// A step of predictor and corrector. Returns false if it cannot move.
  bool step() {
    find_residuals();
    factor();
    set_targets(0, false);
    double const mean = complementarity(0, 0) / static_cast<double>(terms());
    solve();  // the predictor, straight for the optimum
    auto const [flows, prices] = step_lengths(1);
    double const after = complementarity(flows, prices) / static_cast<double>(terms());
    double const share = std::pow(after / mean, 3);
    set_targets(share * mean, true);
    solve();
    auto const [by_flows, by_prices] = step_lengths(0.9995);
    if (!(by_flows > 1e-6) && !(by_prices > 1e-6)) return false;
    move(by_flows, by_prices);
    return true;
  }

  /// The number of those products.
  [[nodiscard]] std::size_t terms() const {
    std::size_t count = edges_ + 1;
    for (auto const& from : sources_) count += from.edge.size();
    return count;
  }
  /// The sum of the products of flows and reduced costs, after steps of these lengths.
  [[nodiscard]] double complementarity(double flows, double prices) const {
    double sum = 0;
    auto const add = [&](double x, double dx, double z, double dz) {
      sum += (x + flows * dx) * (z + prices * dz);
    };
    for (auto const& from : sources_) {
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        add(from.flow[k], from.flow_step[k], from.rest[k], from.rest_step[k]);
      }
    }
    for (std::size_t e = 0; e < edges_; ++e) {
      add(room_[e], room_step_[e], room_rest_[e], room_rest_step_[e]);
    }
    add(congestion_, congestion_step_, congestion_rest_, congestion_rest_step_);
    return sum;
  }

  static double at(std::vector<double> const& by_vertex, std::size_t v) {
    return v < by_vertex.size() ? by_vertex[v] : 0;
  }

  void find_residuals() {
    excess_.assign(edges_, 0.0);
    shortage_ = 0;
    for (auto& from : sources_) {
      from.shortage = from.demand;
      from.cost_gap.resize(from.edge.size());
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        from.shortage[from.head[k]] -= from.flow[k];
        if (from.tail[k] < from.size) from.shortage[from.tail[k]] += from.flow[k];
        excess_[from.edge[k]] += from.flow[k];
        double const cost = price_[from.edge[k]] - at(from.potential, from.head[k]) +
                            at(from.potential, from.tail[k]);
        from.cost_gap[k] = cost - from.rest[k];
      }
      for (double const r : from.shortage) shortage_ = std::max(shortage_, std::abs(r));
    }
    double worth = 0;
    room_gap_.resize(edges_);
    for (std::size_t e = 0; e < edges_; ++e) {
      excess_[e] += room_[e] - capacity_[e] * congestion_;
      shortage_ = std::max(shortage_, std::abs(excess_[e]) / (1 + capacity_[e] * congestion_));
      room_gap_[e] = price_[e] - room_rest_[e];
      worth += capacity_[e] * price_[e];
    }
    congestion_gap_ = 1 - worth - congestion_rest_;
  }

  /// Factors the equations of the sources, and those of the edges that remain.
  void factor() {
    std::vector<double> shared(edges_ * edges_);
    double const weight = congestion_ / congestion_rest_;
    for (std::size_t e = 0; e < edges_; ++e) {
      for (std::size_t f = 0; f <= e; ++f) {
        shared[e * edges_ + f] = weight * capacity_[e] * capacity_[f];
      }
      shared[e * edges_ + e] += room_[e] / room_rest_[e];
    }
    std::vector<double> between;
    for (auto& from : sources_) {
      budget_scope::poll();
      std::size_t const n = from.size;
      from.ratio.resize(from.edge.size());
      std::vector<double> laplacian(n * n, 0.0);
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        double const d = from.ratio[k] = from.flow[k] / from.rest[k];
        auto const a = from.tail[k], b = from.head[k];
        laplacian[b * n + b] += d;
        if (a == n) continue;
        laplacian[a * n + a] += d;
        laplacian[std::max(a, b) * n + std::min(a, b)] -= d;
      }
      from.factor = {n, std::move(laplacian)};
      auto const inverse = from.factor.inverse();
      between.assign(n + 1, 0.0);  // the last is the source's
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        auto const a = from.tail[k], b = from.head[k];
        for (std::size_t v = 0; v < n; ++v) {
          between[v] = inverse[b * n + v] - (a < n ? inverse[a * n + v] : 0);
        }
        double const d = from.ratio[k];
        double* const row = &shared[from.edge[k] * edges_];
        for (std::size_t f = 0; f <= k; ++f) {  // edges of a part keep their order
          row[from.edge[f]] -= d * from.ratio[f] * (between[from.head[f]] - between[from.tail[f]]);
        }
        row[from.edge[k]] += d;
      }
    }
    shared_ = {edges_, std::move(shared)};
  }

  /// Sets the changes wanted for the products of flows and reduced costs.
  void set_targets(double product, bool corrects) {
    auto const target = [&](double x, double dx, double z, double dz) {
      return product - x * z - (corrects ? dx * dz : 0);
    };
    for (auto& from : sources_) {
      if (!corrects) {
        from.flow_step.assign(from.edge.size(), 0.0);
        from.rest_step.assign(from.edge.size(), 0.0);
        from.target.resize(from.edge.size());
      }
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        from.target[k] = target(from.flow[k], from.flow_step[k], from.rest[k], from.rest_step[k]);
      }
    }
    if (!corrects) {
      room_step_.assign(edges_, 0.0);
      room_rest_step_.assign(edges_, 0.0);
      room_target_.resize(edges_);
      congestion_step_ = congestion_rest_step_ = 0;
    }
    for (std::size_t e = 0; e < edges_; ++e) {
      room_target_[e] = target(room_[e], room_step_[e], room_rest_[e], room_rest_step_[e]);
    }
    congestion_target_ =
        target(congestion_, congestion_step_, congestion_rest_, congestion_rest_step_);
  }

  /// Finds the steps of all variables.
  void solve() {
    double const weight = congestion_ / congestion_rest_;
    double const by_congestion = congestion_target_ / congestion_rest_ - weight * congestion_gap_;
    std::vector<double> right(edges_);
    for (std::size_t e = 0; e < edges_; ++e) {
      double const d = room_[e] / room_rest_[e];
      right[e] = excess_[e] - capacity_[e] * by_congestion + room_target_[e] / room_rest_[e] -
                 d * room_gap_[e];
    }
    for (auto& from : sources_) {
      from.potential_step = from.shortage;
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        double const by = from.target[k] / from.rest[k] - from.ratio[k] * from.cost_gap[k];
        right[from.edge[k]] += by;
        from.potential_step[from.head[k]] -= by;
        if (from.tail[k] < from.size) from.potential_step[from.tail[k]] += by;
      }
      auto solution = from.potential_step;
      from.factor.solve(solution);
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        right[from.edge[k]] +=
            from.ratio[k] * (at(solution, from.head[k]) - at(solution, from.tail[k]));
      }
    }
    shared_.solve(right);
    auto& prices = price_step_ = std::move(right);
    double worth = 0;
    for (std::size_t e = 0; e < edges_; ++e) {
      worth += capacity_[e] * prices[e];
      room_rest_step_[e] = prices[e] + room_gap_[e];
      room_step_[e] = (room_target_[e] - room_[e] * room_rest_step_[e]) / room_rest_[e];
    }
    congestion_rest_step_ = congestion_gap_ - worth;
    congestion_step_ =
        (congestion_target_ - congestion_ * congestion_rest_step_) / congestion_rest_;
    for (auto& from : sources_) {
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        double const by = from.ratio[k] * prices[from.edge[k]];
        from.potential_step[from.head[k]] += by;
        if (from.tail[k] < from.size) from.potential_step[from.tail[k]] -= by;
      }
      from.factor.solve(from.potential_step);
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        from.rest_step[k] = prices[from.edge[k]] - at(from.potential_step, from.head[k]) +
                            at(from.potential_step, from.tail[k]) + from.cost_gap[k];
        from.flow_step[k] = (from.target[k] - from.flow[k] * from.rest_step[k]) / from.rest[k];
      }
    }
  }

  /// The longest steps of flows and of prices, at most 1. They go at most the part `share` of the
  /// distance at which a variable is 0.
  [[nodiscard]] std::pair<double, double> step_lengths(double share) const {
    double flows = 1 / share, prices = 1 / share;
    auto const limit = [](double& length, double x, double dx) {
      if (dx < 0) length = std::min(length, -x / dx);
    };
    for (auto const& from : sources_) {
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        limit(flows, from.flow[k], from.flow_step[k]);
        limit(prices, from.rest[k], from.rest_step[k]);
      }
    }
    for (std::size_t e = 0; e < edges_; ++e) {
      limit(flows, room_[e], room_step_[e]);
      limit(prices, room_rest_[e], room_rest_step_[e]);
    }
    limit(flows, congestion_, congestion_step_);
    limit(prices, congestion_rest_, congestion_rest_step_);
    return {flows * share, prices * share};
  }

  void move(double flows, double prices) {
    for (auto& from : sources_) {
      for (std::size_t k = 0; k < from.edge.size(); ++k) {
        from.flow[k] += flows * from.flow_step[k];
        from.rest[k] += prices * from.rest_step[k];
      }
      for (std::size_t v = 0; v < from.size; ++v) {
        from.potential[v] += prices * from.potential_step[v];
      }
    }
    for (std::size_t e = 0; e < edges_; ++e) {
      room_[e] += flows * room_step_[e];
      room_rest_[e] += prices * room_rest_step_[e];
      price_[e] += prices * price_step_[e];
    }
    congestion_ += flows * congestion_step_;
    congestion_rest_ += prices * congestion_rest_step_;
  }

  std::size_t edges_;
  std::vector<double> capacity_;  // in units of the mean
  std::vector<source_state> sources_;
  std::vector<double> price_, price_step_;
  std::vector<double> room_, room_rest_, room_step_, room_rest_step_, room_target_, room_gap_;
  double congestion_ = 0, congestion_rest_ = 0;
  double congestion_step_ = 0, congestion_rest_step_ = 0, congestion_target_ = 0;
  double congestion_gap_ = 0;
  std::vector<double> excess_;  // by edge: what flows and room take beyond capacity * congestion
  cholesky_factor shared_;
  double shortage_ = 0;  // the largest residual of flows
};

}}}  // namespace blink::BLINK_ABI::detail
