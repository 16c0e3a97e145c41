// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/planning/cost/detail/timed_links.hpp>
#include <blink/planning/plan/make_schedule.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

/// Parameters of a simulated machine that its links do not give.
struct simulation_options {
  double start_seconds = 5e-6;  ///< spent once, before the first chunk
  double step_seconds = 2e-6;   ///< for each chunk and tree edge, before it enters the links
  double bytes_per_unit = 0;    ///< bytes per second of one capacity unit; 0: from its name
  std::size_t window = 4;       ///< chunks in flight on a tree edge; 0: any number
  std::int64_t most_messages = 50'000'000;  ///< largest number of chunks times tree edges
};

/// The time of a simulated run, and the work of each link.
struct simulation_result {
  double seconds = 0;                                  ///< until the last chunk has arrived
  std::int64_t messages = 0;                           ///< chunks times tree edges
  std::map<std::pair<int, int>, double> busy_seconds;  ///< of links, by the node ids (from, to)
};

namespace detail {

/// The state of one tree edge while the chunks of its tree cross it.
struct simulated_edge {
  std::vector<std::size_t> route;  // positions of links
  double latency = 0;
  int height = 0;                     // of the subtree below; the highest goes first among equals
  std::vector<std::size_t> next;      // edges that need the chunks that arrive here
  std::vector<std::size_t> previous;  // edges whose chunks this one needs
  std::size_t chunks = 0;
  double chunk_bytes = 0;
  std::vector<std::size_t> missing;  // by chunk: arrivals and credits that it still needs
  std::vector<double> ready;         // by chunk: time of the last of them
  std::size_t sent = 0;              // chunks handed over or scheduled
  double free_at = 0;                // time at which the last of them left
  bool waiting = true;               // no hand-over is scheduled
};

/// Adds the edges of one tree, one for each tree edge. A reduce edge needs the edges below it. A
/// broadcast edge needs the edge above it. A broadcast edge at the root of an all-reduce needs all
/// reduce edges that end there.
inline void add_edges(std::vector<simulated_edge>& edges, tree const& t, double bytes,
                      double chunk_bytes, timed_links const& links,
                      std::map<std::pair<int, int>, std::size_t> const& number) {
  auto const chunks =
      static_cast<std::size_t>(std::max(1.0, std::ceil(bytes / chunk_bytes - 1e-9)));
  std::map<int, std::size_t> leaving, entering;  // edges by their farther end
  std::vector<std::size_t> into_root;
  for (bool const towards_root : {true, false}) {
    auto const& phase = towards_root ? t.reduce : t.broadcast;
    for (auto const& e : edges_from_root(phase, t.root, towards_root)) {
      auto const here = edges.size();
      auto& l = edges.emplace_back();
      for (std::size_t i = 0; i + 1 < e.edge->path.size(); ++i) {
        l.latency += link_between(links, e.edge->path[i], e.edge->path[i + 1]).latency_seconds;
        l.route.push_back(number.at({e.edge->path[i], e.edge->path[i + 1]}));
      }
      l.height = e.height;
      l.chunks = chunks;
      l.chunk_bytes = bytes / static_cast<double>(chunks);
      auto const feeds = [&](std::size_t from, std::size_t to) {
        edges[from].next.push_back(to);
        edges[to].previous.push_back(from);
      };
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
}

}  // namespace detail

/// The number of chunks times tree edges of a run, as `simulate` cuts the buffer.
[[nodiscard]] inline double count_messages(plan const& plan, double bytes,
                                           std::vector<double> const& chunk_bytes) {
  double result = 0;
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    auto const& t = plan.trees[i];
    double const part = bytes * ratio(t.weight, plan.rate);
    result += std::max(1.0, std::ceil(part / chunk_bytes[i])) *
              static_cast<double>(t.reduce.size() + t.broadcast.size());
  }
  return result;
}

/// Runs a plan on a machine without moving data. Each link serves messages in the order in which
/// ranks hand them over.
///
/// - A rank spends `step_seconds` on each chunk of each tree edge, one chunk of an edge after the
///   other. Then it hands the chunk to all links of the route at once.
/// - A link serves a chunk for bytes / rate, after the chunks that it received before.
/// - A chunk arrives when the last link has served it and the latencies of the route have passed.
/// - A rank takes the next chunk of an edge once all chunks that it is made of have arrived. At
///   most `window` chunks of an edge may be at its receiver, or on the way there, and not yet
///   passed on.
///
/// The simulation shares no formula with `cost_model.hpp`, whose tests compare it with this.
///
/// bytes:       size of the whole buffer, split over the trees in proportion to their weights
/// chunk_bytes: the largest chunk of each tree, in bytes; the chunks of a tree have equal sizes
/// Time:   O(M (path length + log edges)) for M messages.  Space: O(M).
/// Pre:    the plan passes `check_plan` and is no barrier; bytes >= 0; chunk sizes are positive,
///         one for each tree.
/// Throws: precondition_error if a precondition on numbers does not hold; input_error for more than
///         `most_messages` messages, or a unit without a known rate.
[[nodiscard]] inline simulation_result simulate(topology const& machine, plan const& plan,
                                                double bytes,
                                                std::vector<double> const& chunk_bytes,
                                                simulation_options const& options = {}) {
  expects(bytes >= 0, "simulate: a negative number of bytes, expected 0 or more");
  expects(chunk_bytes.size() == plan.trees.size(),
          "simulate: the number of chunk sizes differs, expected one for each tree");
  double const unit =
      options.bytes_per_unit > 0 ? options.bytes_per_unit : bytes_per_second(machine.unit);
  auto const links = detail::links_in_seconds(machine, plan.links, unit);
  std::map<std::pair<int, int>, std::size_t> number;
  std::vector<double> rate, free_at, busy;
  for (auto const& [ends, link] : links) {
    number.emplace(ends, number.size());
    rate.push_back(link.bytes_per_second);
  }
  free_at.assign(rate.size(), 0);
  busy.assign(rate.size(), 0);

  for (double const chunk : chunk_bytes) {
    expects(chunk > 0, "simulate: a chunk size of 0 or less, expected a positive number");
  }
  if (count_messages(plan, bytes, chunk_bytes) > static_cast<double>(options.most_messages)) {
    throw input_error("simulate: more than " + std::to_string(options.most_messages) +
                      " messages, expected fewer bytes or larger chunks");
  }
  std::vector<detail::simulated_edge> edges;
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    auto const& t = plan.trees[i];
    double const part = bytes * ratio(t.weight, plan.rate);
    detail::add_edges(edges, t, part, chunk_bytes[i], links, number);
  }

  // Hand-overs by time. Among equals the highest subtree goes first, then the order of the plan.
  using hand_over = std::tuple<double, int, std::size_t>;
  std::priority_queue<hand_over, std::vector<hand_over>, std::greater<>> agenda;
  auto const plan_next = [&](std::size_t at, double ready) {
    auto& l = edges[at];
    l.waiting = false;
    ++l.sent;
    agenda.emplace(std::max(l.free_at, ready) + options.step_seconds, -l.height, at);
  };
  for (std::size_t at = 0; at < edges.size(); ++at) {
    auto& l = edges[at];
    l.missing.assign(l.chunks, l.previous.size());
    for (auto k = options.window; k > 0 && k < l.chunks; ++k) l.missing[k] += l.next.size();
    l.ready.assign(l.chunks, 0);
    if (l.previous.empty()) plan_next(at, 0);
  }
  // Counts one arrival or credit that a chunk of an edge needs.
  auto const count_arrival = [&](std::size_t at, std::size_t chunk, double when) {
    auto& l = edges[at];
    l.ready[chunk] = std::max(l.ready[chunk], when);
    if (--l.missing[chunk] == 0 && l.waiting && l.sent == chunk) plan_next(at, l.ready[chunk]);
  };
  simulation_result result;
  while (!agenda.empty()) {
    auto const [now, height, at] = agenda.top();
    agenda.pop();
    auto& l = edges[at];
    double done = now;
    for (auto const link : l.route) {
      double const occupied = l.chunk_bytes / rate[link];
      free_at[link] = std::max(now, free_at[link]) + occupied;
      busy[link] += occupied;
      done = std::max(done, free_at[link]);
    }
    double const arrival = done + l.latency;
    result.seconds = std::max(result.seconds, arrival);
    ++result.messages;
    auto const chunk = l.sent - 1;
    l.free_at = done;
    l.waiting = true;
    if (l.sent < l.chunks && l.missing[l.sent] == 0) plan_next(at, l.ready[l.sent]);
    for (auto const to : l.next) count_arrival(to, chunk, arrival);
    if (options.window == 0 || chunk + options.window >= l.chunks) continue;
    for (auto const from : l.previous) count_arrival(from, chunk + options.window, done);
  }
  result.seconds += options.start_seconds;
  for (auto const& [ends, link] : number) result.busy_seconds[ends] = busy[link];
  return result;
}

/// Runs a plan with one chunk size for all trees, in bytes.
[[nodiscard]] inline simulation_result simulate(topology const& machine, plan const& plan,
                                                double bytes, double chunk_bytes,
                                                simulation_options const& options = {}) {
  return simulate(machine, plan, bytes, std::vector<double>(plan.trees.size(), chunk_bytes),
                  options);
}

}}  // namespace blink::BLINK_ABI
