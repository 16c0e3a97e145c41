// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/detail/route_search.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>
#include <blink/packing/lp/detail/exact_solve.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Searches for one route for each pair, such that no edge carries more routes than the target rate
/// allows.
///
/// Each round removes the routes over overloaded edges and routes these pairs again. Overloaded
/// edges are expensive. Their cost grows with the number of excess routes and with the number of
/// rounds in which they were overloaded.
///
/// Source: L. McMurchie and C. Ebeling, "PathFinder: A negotiation-based performance-driven router
///         for FPGAs", FPGA 1995.
/// Time:   a search for each route that is removed.
class balanced_routing {
 public:
  /// target: the rate of each pair
  /// prices: by edge, positive for scarce edges; or empty
  balanced_routing(flow_problem const& problem, rational const& target,
                   std::span<double const> prices)
      : problem_(problem),
        search_(problem.graph),
        load_(problem.capacity.size(), 0),
        history_(load_.size(), 0.0),
        base_(load_.size(), 1.0),
        costs_(load_.size()) {
    for (std::size_t s = 0; s < problem.sources.size(); ++s) {
      for (int const sink : problem.sources[s].sinks) routes_.push_back({s, sink, {}});
    }
    for (auto const c : problem.capacity) {
      auto const room = wide_integer{c} * target.denominator() / target.numerator();
      limit_.push_back(static_cast<std::int64_t>(std::min<wide_integer>(room, routes_.size())));
    }
    double most = 0;
    for (double const p : prices) most = std::max(most, p);
    for (std::size_t e = 0; e < prices.size() && most > 0; ++e) {
      base_[e] += static_cast<double>(problem.graph.vertex_count) * prices[e] / most;
    }
  }

  /// Returns true if it succeeds within `rounds` rounds.
  bool run(std::size_t rounds) {
    double penalty = 0.5;
    for (std::size_t round = 0; round < rounds; ++round, penalty *= 1.4) {
      for (auto& w : routes_) {
        bool const stays =
            !w.edges.empty() && std::none_of(w.edges.begin(), w.edges.end(), [&](int e) {
              return excess(static_cast<std::size_t>(e), 0) > 0;
            });
        if (stays) continue;
        for (int const e : w.edges) --load_[static_cast<std::size_t>(e)];
        for (std::size_t e = 0; e < costs_.size(); ++e) {
          costs_[e] = (base_[e] + history_[e]) * (1 + penalty * static_cast<double>(excess(e, 1)));
        }
        find_route(w);
        for (int const e : w.edges) ++load_[static_cast<std::size_t>(e)];
      }
      bool fits = true;
      for (std::size_t e = 0; e < load_.size(); ++e) {
        auto const over = excess(e, 0);
        fits = fits && over == 0;
        history_[e] += 0.2 * static_cast<double>(over > 0 ? 1 : 0);
      }
      if (fits) return true;
    }
    return false;
  }

  [[nodiscard]] whole_flows flows() const {
    whole_flows result{1, {problem_.sources.size(), std::vector<std::int64_t>(load_.size(), 0)}};
    for (auto const& w : routes_) {
      for (int const e : w.edges) ++result.flow[w.source][static_cast<std::size_t>(e)];
    }
    return result;
  }

 private:
  struct chosen_route {
    std::size_t source;
    int sink;
    std::vector<int> edges;
  };

  [[nodiscard]] std::int64_t excess(std::size_t e, std::int64_t more) const {
    return std::max<std::int64_t>(0, load_[e] + more - limit_[e]);
  }

  void find_route(chosen_route& w) {
    int const from = problem_.sources[w.source].vertex;
    search_.run(from, costs_, w.sink);
    w.edges.clear();
    for (int v = w.sink; v != from;) {
      int const e = search_.edge_into(v);
      w.edges.push_back(e);
      v = problem_.graph.arcs[static_cast<std::size_t>(e)].tail;
    }
  }

  flow_problem const& problem_;
  route_search<double> search_;
  std::vector<chosen_route> routes_;
  std::vector<std::int64_t> load_, limit_;  // by edge: routes over it
  std::vector<double> history_, base_, costs_;
};

}}}  // namespace blink::BLINK_ABI::detail
