// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/cost/detail/timed_links.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <array>
#include <cmath>
#include <cstddef>
#include <map>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// The times of the cost model that the links do not give. The defaults have the magnitude of GPUs
/// that reach each other's memory; measure your own machine.
struct cost_parameters {
  double start_seconds = 5e-6;        ///< once for a call: to launch
  double step_seconds = 2e-6;         ///< for each chunk and tree edge: to wait, signal and begin
  double smallest_chunk_bytes = 512;  ///< no smaller chunk is worth a step
  double largest_chunk_bytes = 1 << 24;  ///< the room of a slot
  double bytes_per_unit = 0;  ///< bytes per second of one capacity unit; 0: from its name
};

/// The cost of the first chunk on one path to and from the root: `seconds`, plus `seconds_per_byte`
/// for each byte of the chunk.
struct path_cost {
  double seconds = 0;
  double seconds_per_byte = 0;
};

/// The costs of one tree.
struct tree_cost {
  double share = 0;                    ///< of the buffer
  std::vector<path_cost> paths;        ///< root to leaf; none exceeds another in both respects
  double edge_seconds_per_byte = 0;    ///< of its slowest edge, alone
  double shared_seconds_per_byte = 0;  ///< while all trees are busy
};

/// All values that the predicted time of a plan depends on, for use with many sizes.
struct plan_cost {
  cost_parameters parameters;
  std::vector<tree_cost> trees;
  double seconds_per_byte = 0;  ///< of the busiest link, for a byte of the buffer
};

/// The time of a collective, and the chunk sizes with which it takes that time.
struct predicted_time {
  double seconds = 0;
  std::vector<double> chunk_bytes;  ///< by tree
};

namespace detail {

/// Drops each path for which another one is at least as long in both respects.
inline void keep_longest(std::vector<path_cost>& paths) {
  std::sort(paths.begin(), paths.end(), [](path_cost const& a, path_cost const& b) {
    return std::pair(b.seconds, b.seconds_per_byte) < std::pair(a.seconds, a.seconds_per_byte);
  });
  std::vector<path_cost> kept;
  for (auto const& p : paths) {
    if (kept.empty() || p.seconds_per_byte > kept.back().seconds_per_byte) kept.push_back(p);
  }
  paths = std::move(kept);
}

/// The use of a link by a tree edge.
///
/// Tree edges compete for a link if they leave (reduce: enter) the same rank over it at the same
/// depth. Their first chunks reach the link at about the same time.
struct crossing {
  std::size_t link = 0;
  int near = 0;
  int depth = 0;
  int height = 0;
  std::size_t hop = 0;  ///< position in a list of all edges
  double share = 0;     ///< of the tree, of the buffer
};

/// The time that the first chunk needs for each edge of one phase of all trees.
///
/// The subtrees of the largest height are served first. Adds to `load` the bytes that each link
/// carries for a byte of the buffer.
[[nodiscard]] inline std::vector<path_cost> hops_of(
    std::vector<std::vector<phase_edge>> const& phases, std::vector<double> const& shares,
    timed_links const& links, double step_seconds, std::map<std::pair<int, int>, double>& load) {
  std::vector<path_cost> hops;
  std::vector<crossing> crossings;
  std::map<std::pair<int, int>, std::size_t> number;
  std::vector<double> rate;
  for (std::size_t tree = 0; tree < phases.size(); ++tree) {
    for (auto const& e : phases[tree]) {
      auto& hop = hops.emplace_back(path_cost{step_seconds, 0});
      for (std::size_t i = 0; i + 1 < e.edge->path.size(); ++i) {
        std::pair const ends(e.edge->path[i], e.edge->path[i + 1]);
        auto const& link = link_between(links, ends.first, ends.second);
        auto const [known, fresh] = number.emplace(ends, rate.size());
        if (fresh) rate.push_back(link.bytes_per_second);
        hop.seconds += link.latency_seconds;
        load[ends] += shares[tree];
        crossings.push_back(
            {known->second, e.near, e.depth, e.height, hops.size() - 1, shares[tree]});
      }
    }
  }
  std::sort(crossings.begin(), crossings.end(), [](crossing const& a, crossing const& b) {
    return std::tie(a.link, a.near, a.depth, b.height, a.hop) <
           std::tie(b.link, b.near, b.depth, a.height, b.hop);
  });
  double before = 0;
  for (std::size_t i = 0; i < crossings.size(); ++i) {
    auto const& c = crossings[i];
    bool const first = i == 0 || std::tie(c.link, c.near, c.depth) !=
                                     std::tie(crossings[i - 1].link, crossings[i - 1].near,
                                              crossings[i - 1].depth);
    before = first ? c.share : before + c.share;
    auto& hop = hops[c.hop];
    hop.seconds_per_byte = std::max(hop.seconds_per_byte, before / c.share / rate[c.link]);
  }
  return hops;
}

/// The costs of the paths from the root to the leaves, each the sum of its hops.
///
/// hop: costs of `edges`, in the same order
[[nodiscard]] inline std::vector<path_cost> path_costs(std::vector<phase_edge> const& edges,
                                                       path_cost const* hop) {
  std::map<int, path_cost> to_end;  // by far end; nearer edges come first
  std::vector<path_cost> result;
  for (std::size_t i = 0; i < edges.size(); ++i) {
    auto here = hop[i];
    if (auto const above = to_end.find(edges[i].near); above != to_end.end()) {
      here.seconds += above->second.seconds;
      here.seconds_per_byte += above->second.seconds_per_byte;
    }
    to_end[edges[i].far] = here;
    if (edges[i].height == 0) result.push_back(here);
  }
  if (result.empty()) result.push_back({});
  keep_longest(result);
  return result;
}

/// The seconds of one tree with a buffer part of `bytes` in `chunks` equal chunks.
[[nodiscard]] inline double seconds_of(tree_cost const& tree, cost_parameters const& parameters,
                                       double bytes, double chunks) {
  double const chunk = bytes / chunks;
  double fill = 0;
  for (auto const& p : tree.paths) fill = std::max(fill, p.seconds + chunk * p.seconds_per_byte);
  double const interval = std::max(parameters.step_seconds + chunk * tree.edge_seconds_per_byte,
                                   chunk * tree.shared_seconds_per_byte);
  return fill + (chunks - 1) * interval;
}

/// The candidates for the best number of chunks of one tree, not rounded.
///
/// They are the numbers where the derivative of `seconds_of` vanishes. Another one is where the
/// slowest edge and all trees together take equally long for a chunk.
[[nodiscard]] inline std::vector<double> good_chunk_counts(tree_cost const& tree,
                                                           cost_parameters const& parameters,
                                                           double bytes) {
  std::vector<double> result;
  double const slack = tree.shared_seconds_per_byte - tree.edge_seconds_per_byte;
  if (slack > 0) result.push_back(bytes * slack / parameters.step_seconds);
  for (auto const& p : tree.paths) {
    double const more = p.seconds_per_byte - tree.edge_seconds_per_byte;
    if (more > 0) result.push_back(std::sqrt(bytes * more / parameters.step_seconds));
  }
  return result;
}

}  // namespace detail

/// The costs of a plan on a machine.
///
/// A tree carries its share of the buffer in chunks. A chunk of c bytes takes `step_seconds` +
/// latency + c / b over an edge whose narrowest link has the rate b. Where a rank sends first
/// chunks of several edges over one link, each waits for those before it. The subtrees of the
/// largest height go first. The time of the first chunk is the sum over the edges to the farthest
/// leaf, of both phases. The other chunks follow at the longer of two intervals:
/// - `step_seconds` + c / b of the tree's slowest edge;
/// - c / (the tree's rate while all trees are busy).
///
/// On a chain of h edges this is the known formula
///
///     T(c) = (ceil(S / c) + h - 1) (a + c / b),   best c = sqrt(a b S / (h - 1)).
///
/// The plan ends with its last tree, and not before the busiest link is done. Small messages are
/// one chunk: latency decides first, then height. Large messages approach the time size / rate.
///
/// Source: the alpha-beta model: R. Hockney, "The communication challenge for MPP", Parallel
///         Computing 20, 1994.
/// Time:   O(trees * ranks * (path length + log ranks)).
/// Pre:    the plan passes `check_plan` on this machine.
/// Throws: input_error if `bytes_per_unit` is 0 and the machine's unit has no known rate;
///         planning_error if an edge runs where there is no link.
[[nodiscard]] inline plan_cost cost_of(topology const& machine, plan const& plan,
                                       cost_parameters const& parameters = {}) {
  double const unit =
      parameters.bytes_per_unit > 0 ? parameters.bytes_per_unit : bytes_per_second(machine.unit);
  auto const links = detail::links_in_seconds(machine, plan.links, unit);
  plan_cost result{parameters, {}, 0};
  std::vector<double> shares;
  std::array<std::vector<std::vector<detail::phase_edge>>, 2> phases;  // by tree: up, down
  for (auto const& t : plan.trees) {
    // A barrier has the rate 0: its one message takes the whole path.
    shares.push_back(plan.rate == rational(0) ? 1 : ratio(t.weight, plan.rate));
    phases[0].push_back(detail::edges_from_root(t.reduce, t.root, true));
    phases[1].push_back(detail::edges_from_root(t.broadcast, t.root, false));
  }
  std::map<std::pair<int, int>, double> load;  // bytes for each byte of the buffer
  std::array<std::vector<path_cost>, 2> hops;
  for (std::size_t i = 0; i < 2; ++i) {
    hops[i] = detail::hops_of(phases[i], shares, links, parameters.step_seconds, load);
  }
  for (auto const& [ends, bytes] : load) {
    result.seconds_per_byte =
        std::max(result.seconds_per_byte, bytes / links.at(ends).bytes_per_second);
  }
  std::array<std::size_t, 2> first{0, 0};
  for (std::size_t t = 0; t < shares.size(); ++t) {
    auto& tree = result.trees.emplace_back();
    tree.share = shares[t];
    tree.shared_seconds_per_byte = result.seconds_per_byte / tree.share;
    std::array<std::vector<path_cost>, 2> of_phase;
    for (std::size_t i = 0; i < 2; ++i) {
      of_phase[i] = detail::path_costs(phases[i][t], hops[i].data() + first[i]);
      first[i] += phases[i][t].size();
      for (auto const& e : phases[i][t]) {
        for (std::size_t k = 0; k + 1 < e.edge->path.size(); ++k) {
          auto const& link = links.at({e.edge->path[k], e.edge->path[k + 1]});
          tree.edge_seconds_per_byte =
              std::max(tree.edge_seconds_per_byte, 1 / link.bytes_per_second);
        }
      }
    }
    for (auto const& up : of_phase[0]) {
      for (auto const& down : of_phase[1]) {
        tree.paths.push_back(
            {up.seconds + down.seconds, up.seconds_per_byte + down.seconds_per_byte});
      }
    }
    detail::keep_longest(tree.paths);
  }
  return result;
}

/// The gain in time below which more chunks are not worth their steps.
inline constexpr double least_chunk_gain = 0.001;

/// Predicts the time for a buffer, with the best chunks for its size.
///
/// All trees have the same number of chunks. A link that serves one chunk of each tree in turn then
/// serves trees in proportion to their weights. Where trees hide each other's steps, fewer chunks
/// are taken than the best number, as long as that costs at most `least_chunk_gain`.
///
/// bytes:  of the whole buffer; for all-gather and reduce-scatter, of the gathered buffer.
/// Time:   O(trees * candidates * paths), a few candidates and paths.
/// Pre:    bytes >= 0.
/// Throws: precondition_error if bytes < 0.
[[nodiscard]] inline predicted_time predict(plan_cost const& cost, double bytes) {
  expects(bytes >= 0, "predict: expected bytes >= 0");
  auto const& parameters = cost.parameters;
  predicted_time result{parameters.start_seconds, {}};
  if (cost.trees.empty()) return result;
  auto const slowest_of = [&](double chunks) {
    double seconds = 0;
    for (auto const& tree : cost.trees) {
      seconds = std::max(seconds, detail::seconds_of(tree, parameters, bytes * tree.share, chunks));
    }
    return seconds;
  };
  double largest_part = 0;
  tree_cost const* longest = &cost.trees.front();  // the one that ends last if there is one chunk
  double longest_seconds = 0;
  for (auto const& tree : cost.trees) {
    largest_part = std::max(largest_part, bytes * tree.share);
    double const seconds = detail::seconds_of(tree, parameters, bytes * tree.share, 1);
    if (seconds > longest_seconds) longest = &tree;
    longest_seconds = std::max(longest_seconds, seconds);
  }
  double const least = std::max(1.0, std::ceil(largest_part / parameters.largest_chunk_bytes));
  double const most = std::max(least, std::floor(largest_part / parameters.smallest_chunk_bytes));
  double chunks = least;
  double seconds = slowest_of(chunks);
  auto const consider = [&](double count) {
    count = std::clamp(std::round(count), least, most);
    if (count == chunks) return;
    if (double const other = slowest_of(count); other < seconds) {
      seconds = other;
      chunks = count;
    }
  };
  // The best number for the slowest tree may make another tree the slowest. Then the best number
  // for that tree is tried as well.
  std::vector<tree_cost const*> tried;
  for (tree_cost const* tree = longest; std::ranges::count(tried, tree) == 0;) {
    tried.push_back(tree);
    for (double const count : detail::good_chunk_counts(*tree, parameters, bytes * tree->share)) {
      consider(std::floor(count));
      consider(std::ceil(count));
    }
    for (auto const& other : cost.trees) {
      if (detail::seconds_of(other, parameters, bytes * other.share, chunks) >= seconds) {
        tree = &other;
      }
    }
  }
  // Then more or fewer chunks for all trees together are tried.
  for (double const factor : {4.0, 2.0, 1.4, 1.1, 1.03}) {
    for (double before = 0; before != chunks;) {
      before = chunks;
      consider(before * factor);
      consider(before / factor);
    }
  }
  // Trees that fill the links together hide each other's steps. The model then gains a little with
  // ever smaller chunks, but real ranks pay for each, and links run idle. So fewer are tried.
  bool const hides_steps = std::ranges::any_of(cost.trees, [](tree_cost const& tree) {
    return tree.shared_seconds_per_byte > (1 + 1e-9) * tree.edge_seconds_per_byte;
  });
  double const most_seconds = (1 + least_chunk_gain) * seconds;
  for (double const factor : {2.0, 1.25}) {
    while (hides_steps) {
      double const fewer = std::max(least, std::floor(chunks / factor));
      if (fewer >= chunks || slowest_of(fewer) > most_seconds) break;
      chunks = fewer;
    }
  }
  seconds = slowest_of(chunks);
  result.seconds += std::max(seconds, parameters.step_seconds + bytes * cost.seconds_per_byte);
  for (auto const& tree : cost.trees) {
    result.chunk_bytes.push_back(std::max(1.0, bytes * tree.share / chunks));
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
