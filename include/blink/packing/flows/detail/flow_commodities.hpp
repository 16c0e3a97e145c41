// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/graph/detail/route_search.hpp>
#include <blink/packing/flows/detail/concurrent_program.hpp>
#include <blink/packing/flows/detail/flow_problem.hpp>

#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The sources of a concurrent flow as commodities. A choice is a tree of routes to the sinks.
class flow_commodities {
 public:
  explicit flow_commodities(flow_problem const& problem)
      : problem_(problem), search_(problem.graph) {}

  [[nodiscard]] std::size_t count() const { return problem_.sources.size(); }
  [[nodiscard]] std::vector<std::int64_t> const& capacity() const { return problem_.capacity; }
  [[nodiscard]] std::int64_t largest_load() const { return problem_.pair_count(); }
  void set_prices(std::span<double const> prices) { prices_ = prices; }

  struct choice {
    edge_loads loads;
  };
  choice cheapest(std::size_t source) {
    auto const& from = problem_.sources[source];
    search_.run(from.vertex, prices_);
    choice result;
    for_each_load(problem_, from, search_, behind_,
                  [&](std::size_t e, std::int64_t load) { result.loads.emplace_back(e, load); });
    return result;
  }

 private:
  flow_problem const& problem_;
  route_search<double> search_;
  std::span<double const> prices_;
  std::vector<std::int64_t> behind_;
};

/// The flows over the trees that a program chose.
[[nodiscard]] inline whole_flows flows_of(concurrent_program<flow_commodities> const& program,
                                          flow_problem const& problem,
                                          whole_choices const& choices) {
  whole_flows result{
      choices.steps,
      {problem.sources.size(), std::vector<std::int64_t>(problem.capacity.size(), 0)}};
  for (auto const& [number, times] : choices.uses) {
    auto& flow = result.flow[program.commodity_of(number)];
    for (auto const& [edge, load] : program.choice(number).loads) flow[edge] += load * times;
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
