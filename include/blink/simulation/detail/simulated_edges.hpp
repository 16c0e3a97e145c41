// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/planning/cost/detail/timed_links.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/simulation/detail/link_rates.hpp>
#include <blink/simulation/simulation_options.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <map>
#include <span>
#include <tuple>
#include <utility>
#include <vector>

// A plan on a machine, as the simulation runs it: numbered links, nodes and tree edges.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The chunks of a tree: all of one size but the last.
struct chunk_cut {
  std::size_t chunks = 0;
  double chunk_bytes = 0;
  double last_bytes = 0;

  [[nodiscard]] double bytes(std::size_t chunk) const {
    return chunk + 1 == chunks ? last_bytes : chunk_bytes;
  }
};

/// A link between two nodes: all parallel links together.
struct simulated_link {
  int from = 0;  // node ids
  int to = 0;
  link_rates rates;
};

/// A node, and its own work.
struct simulated_node {
  int id = 0;
  bool combines = false;  // takes time to do so
  double factor = 1;      // on the time of its work
  double begin = 0;       // of its work, in seconds
  double busy_until = 0;  // with combinations
  double end = 0;         // of everything so far
};

/// A part of `simulated_plan::numbers`.
struct number_list {
  std::uint32_t begin = 0;
  std::uint32_t count = 0;
};

/// One tree edge. Numbers are positions in `simulated_plan`.
struct simulated_edge {
  std::uint32_t tree = 0;
  bool is_reduce = false;
  int hops_left = 0;  // on the longest way of its chunks; among equals the most goes first
  std::uint32_t sender = 0;
  std::uint32_t receiver = 0;
  double latency = 0;
  number_list route;     // links
  number_list next;      // edges that need the chunks that arrive here
  number_list previous;  // edges whose chunks this one needs
};

/// Everything that is fixed before the run.
struct simulated_plan {
  std::vector<simulated_link> links;  // those of the machine that the plan may use
  std::vector<simulated_node> nodes;  // ends of tree edges
  std::vector<simulated_edge> edges;  // by tree
  std::vector<chunk_cut> cuts;        // by tree
  std::vector<std::uint32_t> numbers;

  [[nodiscard]] std::span<std::uint32_t const> all(number_list const& list) const {
    return {numbers.data() + list.begin, list.count};
  }
  [[nodiscard]] chunk_cut const& cut(simulated_edge const& e) const { return cuts[e.tree]; }
};

/// Adds the edges of one tree. A reduce edge needs the edges below it. A broadcast edge needs the
/// edge above it. A broadcast edge at the root of an all-reduce needs all reduce edges that end
/// there.
///
/// node: returns the position of a node by its id
inline void add_edges(simulated_plan& result, std::uint32_t position, tree const& t,
                      timed_links const& links,
                      std::map<std::pair<int, int>, std::uint32_t> const& number,
                      auto const& node) {
  auto const first = static_cast<std::uint32_t>(result.edges.size());
  std::vector<std::vector<std::uint32_t>> next, previous;  // by edge, from `first` on
  auto const feeds = [&](std::uint32_t from, std::uint32_t to) {
    next[from - first].push_back(to);
    previous[to - first].push_back(from);
  };
  std::map<int, std::uint32_t> leaving, entering;  // edges by their farther end
  std::vector<std::uint32_t> into_root;
  auto const broadcast = edges_from_root(t.broadcast, t.root, false);
  int from_root = 0;  // hops of the broadcast
  for (auto const& e : broadcast) from_root = std::max(from_root, e.height + 1);
  for (bool const towards_root : {true, false}) {
    for (auto const& e : towards_root ? edges_from_root(t.reduce, t.root, true) : broadcast) {
      auto const here = static_cast<std::uint32_t>(result.edges.size());
      auto& l = result.edges.emplace_back();
      next.emplace_back();
      previous.emplace_back();
      l.tree = position;
      l.is_reduce = towards_root;
      l.hops_left = towards_root ? e.depth + from_root : e.height;
      l.sender = node(e.edge->from);
      l.receiver = node(e.edge->to);
      l.route.begin = static_cast<std::uint32_t>(result.numbers.size());
      for (std::size_t i = 0; i + 1 < e.edge->path.size(); ++i) {
        std::pair const ends(e.edge->path[i], e.edge->path[i + 1]);
        l.latency += link_between(links, ends.first, ends.second).latency_seconds;
        result.numbers.push_back(number.at(ends));
        ++l.route.count;
      }
      (towards_root ? leaving : entering)[e.far] = here;
      if (e.near != t.root) {  // the edge nearer to the root exists already
        towards_root ? feeds(here, leaving.at(e.near)) : feeds(entering.at(e.near), here);
      } else if (towards_root) {
        into_root.push_back(here);
      } else {
        for (auto const from : into_root) feeds(from, here);
      }
    }
  }
  auto const add = [&](std::vector<std::uint32_t> const& list) {
    number_list const added{static_cast<std::uint32_t>(result.numbers.size()),
                            static_cast<std::uint32_t>(list.size())};
    result.numbers.insert(result.numbers.end(), list.begin(), list.end());
    return added;
  };
  for (std::size_t i = 0; i < next.size(); ++i) {
    auto& l = result.edges[first + i];
    l.next = add(next[i]);
    l.previous = add(previous[i]);
  }
}

/// Throws: input_error unless the option is a number from `least` on.
inline void expect_at_least(char const* name, double value, double least) {
  if (value >= least && value < never) return;
  throw input_error(
      text_of({"simulate: ", name, " is ", value, ", expected a number of at least ", least}));
}

/// Checks the options that name neither ranks nor links.
/// Throws: input_error that names the option.
inline void validate(simulation_options const& options) {
  expect_at_least("start_seconds", options.start_seconds, 0);
  expect_at_least("step_seconds", options.step_seconds, 0);
  expect_at_least("bytes_per_unit", options.bytes_per_unit, 0);
  expect_at_least("reduce_bytes_per_second", options.reduce_bytes_per_second, 0);
  expect_at_least("noise", options.noise, 0);
  for (auto const& each : options.slow_ranks) {
    expect_at_least("the factor of a slow rank", each.factor, 1);
    expect_at_least("late_seconds", each.late_seconds, 0);
  }
  for (auto const& each : options.link_changes) {
    expect_at_least("the time of a link's change", each.seconds, 0);
    expect_at_least("the factor of a link's change", each.factor, 0);
  }
}

/// Applies the changes of links over time.
/// Throws: input_error for a change that names no link, or one that is there twice.
inline void change_links(simulated_plan& result,
                         std::map<std::pair<int, int>, std::uint32_t> const& number,
                         std::vector<link_change> changes) {
  std::ranges::sort(changes, {}, [](link_change const& c) {
    return std::tuple(c.seconds, c.from, c.to, c.factor);
  });
  for (auto const& each : changes) {
    auto const found = number.find({each.from, each.to});
    if (found == number.end()) {
      throw input_error(text_of({"simulate: link ", each.from, " -> ", each.to,
                                 " changes, expected a link that the plan may use"}));
    }
    auto& rates = result.links[found->second].rates;
    auto const& last = rates.pieces().back();
    if (last.begin == each.seconds) {
      throw input_error(text_of({"simulate: link ", each.from, " -> ", each.to,
                                 " changes twice at ", each.seconds, " s, expected one change"}));
    }
    if (last.bytes_per_second == 0) {
      throw input_error(
          text_of({"simulate: link ", each.from, " -> ", each.to, " changes at ", each.seconds,
                   " s, expected no change after it failed at ", last.begin, " s"}));
    }
    double const rate = rates.pieces().front().bytes_per_second * each.factor;
    expect_at_least("the rate of a changed link", rate, 0);
    rates.change(each.seconds, rate);
  }
}

/// Applies what makes ranks slow.
/// Throws: input_error for a rank that does not take part, or one that is there twice.
inline void slow_down(simulated_plan& result, plan const& plan,
                      std::map<int, std::uint32_t> const& node,
                      std::vector<slow_rank> const& slow_ranks) {
  std::vector<int> seen;
  for (auto const& each : slow_ranks) {
    if (std::ranges::count(plan.ranks, each.rank) == 0) {
      throw input_error(
          text_of({"simulate: rank ", each.rank, " is slow, expected a rank of the plan"}));
    }
    if (std::ranges::count(seen, each.rank) != 0) {
      throw input_error(text_of({"simulate: rank ", each.rank, " is slow twice, expected once"}));
    }
    seen.push_back(each.rank);
    auto const found = node.find(each.rank);
    if (found == node.end()) continue;  // the only rank
    auto& slow = result.nodes[found->second];
    slow.factor = each.factor;
    slow.begin = std::max(slow.begin, each.late_seconds);
  }
}

/// Numbers what takes part in a run.
///
/// cuts: the chunks of each tree
/// Time:   O(tree edges * (path length + log ranks)).
/// Throws: as `simulate`.
[[nodiscard]] inline simulated_plan make_simulated_plan(topology const& machine, plan const& plan,
                                                        std::vector<chunk_cut> cuts,
                                                        simulation_options const& options) {
  double const unit =
      options.bytes_per_unit > 0 ? options.bytes_per_unit : bytes_per_second(machine.unit);
  auto const links = links_in_seconds(machine, plan.links, unit);
  simulated_plan result;
  result.cuts = std::move(cuts);
  std::map<std::pair<int, int>, std::uint32_t> number;
  for (auto const& [ends, link] : links) {
    number.emplace(ends, static_cast<std::uint32_t>(number.size()));
    result.links.push_back({ends.first, ends.second, link_rates(link.bytes_per_second)});
  }
  std::map<int, std::uint32_t> node_number;
  auto const node = [&](int id) {
    auto const [known, fresh] =
        node_number.emplace(id, static_cast<std::uint32_t>(result.nodes.size()));
    if (fresh) {
      auto& added = result.nodes.emplace_back();
      added.id = id;
      added.begin = options.start_seconds;
    }
    return known->second;
  };
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    add_edges(result, static_cast<std::uint32_t>(i), plan.trees[i], links, number, node);
  }
  if (options.reduce_bytes_per_second > 0) {
    for (int const id : plan.ranks) {
      if (auto const found = node_number.find(id); found != node_number.end()) {
        result.nodes[found->second].combines = true;
      }
    }
  }
  change_links(result, number, options.link_changes);
  slow_down(result, plan, node_number, options.slow_ranks);
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
