// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/text.hpp>
#include <blink/simulation/detail/event_queue.hpp>
#include <blink/simulation/detail/fair_links.hpp>
#include <blink/simulation/detail/fifo_links.hpp>
#include <blink/simulation/detail/simulated_edges.hpp>
#include <blink/simulation/simulation_options.hpp>

#include <algorithm>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A number in [0, 1) that depends on its arguments alone, as if drawn at random. So the noise of a
/// chunk does not depend on the order of events.
///
/// Source: G. Steele, D. Lea, C. Flood, "Fast splittable pseudorandom number generators", OOPSLA
///         2014: the mixing function of SplitMix64.
[[nodiscard]] inline double noise_of(std::uint64_t seed, std::uint64_t edge, std::uint64_t chunk,
                                     std::uint64_t activity) {
  std::uint64_t mixed = seed;
  for (auto const part : {edge, chunk, activity}) {
    mixed += part + 0x9e3779b97f4a7c15;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111eb;
    mixed ^= mixed >> 31;
  }
  return static_cast<double>(mixed >> 11) * 0x1p-53;
}

/// One run of a plan over links of one kind of sharing.
template <class Links>
class simulated_run {
  static constexpr bool is_fair = std::same_as<Links, fair_links>;

 public:
  simulated_run(simulated_plan& source, simulation_options const& options)
      : plan_(source),
        options_(options),
        window_(window_of(source, options)),
        links_(source),
        states_(source.edges.size()) {
    std::size_t slots = 0;
    for (auto const& e : plan_.edges) slots += slots_of(e);
    slots_.resize(slots);
    slots = 0;
    for (std::uint32_t at = 0; at < states_.size(); ++at) {
      states_[at].first_slot = slots;
      slots += slots_of(plan_.edges[at]);
      for (std::size_t k = 0; k < slots_of(plan_.edges[at]); ++k) reset_slot(at, k);
    }
  }

  /// Runs all chunks.
  /// Throws: link_failure; input_error for a chunk that takes longer than any number of seconds.
  [[nodiscard]] simulation_result run() {
    result_.seconds = options_.start_seconds;
    for (std::uint32_t at = 0; at < states_.size(); ++at) {
      states_[at].free_at = options_.start_seconds;
      auto const& e = plan_.edges[at];
      if (e.previous.count == 0 && plan_.cut(e).chunks > 0) begin_step(at, options_.start_seconds);
    }
    while (advance()) {
    }
    if (failure_) throw *failure_;
    std::int64_t all = 0;
    for (auto const& e : plan_.edges) all += static_cast<std::int64_t>(plan_.cut(e).chunks);
    expect_finite(result_.messages == all ? result_.seconds : never);
    for (std::size_t link = 0; link < plan_.links.size(); ++link) {
      auto const& l = plan_.links[link];
      result_.busy_seconds[{l.from, l.to}] = links_.busy_seconds(link);
    }
    for (auto const& n : plan_.nodes) {
      result_.end_seconds[n.id] = std::max(n.end, options_.start_seconds);
    }
    std::ranges::sort(result_.crossings, {}, [](link_crossing const& c) {
      return std::tuple(c.end, c.begin, c.tree, !c.is_reduce, c.chunk, c.edge_from, c.edge_to,
                        c.link_from, c.link_to);
    });
    std::ranges::sort(result_.combinations, {}, [](rank_combination const& c) {
      return std::tuple(c.end, c.begin, c.tree, c.chunk, c.rank, c.from);
    });
    return std::move(result_);
  }

 private:
  enum activity : std::uint8_t { combining, stepping, crossing };  // in the order of equal times

  struct edge_state {
    std::size_t first_slot = 0;
    std::size_t sent = 0;     // chunks whose step has begun
    std::size_t arrived = 0;  // chunks to combine
    double free_at = 0;       // time at which the last chunk left
    double busy_until = 0;    // with combinations
    bool waiting = true;      // no step is under way, and no chunk on the links
  };
  /// Arrivals and credits that a chunk needs before its step.
  struct chunk_slot {
    std::size_t missing = 0;
    double ready = 0;  // time of the last of them
  };

  static void expect_finite(double seconds) {
    if (seconds < never) return;
    throw input_error(
        "simulate: a chunk takes longer than any number of seconds, expected higher rates, fewer "
        "bytes or less noise");
  }
  /// Adds the end of a step, or the arrival of a chunk to combine. At one time the edge with the
  /// most hops left is first, then the order of the plan.
  void expect_event(double seconds, activity what, std::uint32_t at) {
    expect_finite(seconds);
    constexpr int most = (1 << 24) - 1;
    auto const urgency = static_cast<std::uint64_t>(most - plan_.edges[at].hops_left);
    agenda_.push(seconds, std::uint64_t{what} << 56 | urgency << 32 | at);
  }
  [[nodiscard]] std::size_t chunks_of(std::uint32_t at) const {
    return plan_.cut(plan_.edges[at]).chunks;
  }
  [[nodiscard]] std::size_t slots_of(simulated_edge const& e) const {
    auto const chunks = plan_.cut(e).chunks;
    return window_ == 0 ? chunks : std::min(chunks, window_);
  }
  [[nodiscard]] chunk_slot& slot(std::uint32_t at, std::size_t chunk) {
    return slots_[states_[at].first_slot + chunk % slots_of(plan_.edges[at])];
  }
  [[nodiscard]] bool takes_time_to_combine(simulated_edge const& e) const {
    return e.is_reduce && plan_.nodes[e.receiver].combines;
  }
  /// The window; 0 also if it holds all chunks of each tree.
  [[nodiscard]] static std::size_t window_of(simulated_plan const& source,
                                             simulation_options const& options) {
    bool const limits = std::ranges::any_of(
        source.cuts, [&](chunk_cut const& cut) { return options.window < cut.chunks; });
    return limits ? options.window : 0;
  }
  /// Prepares the slot of a chunk. Only the next `window` chunks have one.
  void reset_slot(std::uint32_t at, std::size_t chunk) {
    auto const& e = plan_.edges[at];
    auto& s = slot(at, chunk);
    s = {e.previous.count, options_.start_seconds};
    if (window_ == 0 || chunk < window_) return;
    s.missing += e.next.count == 0 ? std::size_t{takes_time_to_combine(e)} : e.next.count;
  }
  [[nodiscard]] double longer_by_noise(std::uint32_t at, std::size_t chunk, activity what) const {
    if (options_.noise == 0) return 1;
    return 1 + options_.noise * noise_of(options_.seed, at, chunk, what);
  }

  /// Begins the step of the next chunk of an edge.
  void begin_step(std::uint32_t at, double ready) {
    auto const& e = plan_.edges[at];
    auto const& sender = plan_.nodes[e.sender];
    auto& s = states_[at];
    auto const chunk = s.sent++;
    s.waiting = false;
    if (window_ != 0 && chunk + window_ < plan_.cut(e).chunks) {
      reset_slot(at, chunk + window_);
    }
    double const begin = std::max({ready, s.free_at, sender.begin});
    double const seconds =
        options_.step_seconds * sender.factor * longer_by_noise(at, chunk, stepping);
    expect_event(begin + seconds, stepping, at);
  }

  /// Counts one arrival or credit that a chunk needs.
  void count(std::uint32_t at, std::size_t chunk, double when) {
    auto& s = slot(at, chunk);
    s.ready = std::max(s.ready, when);
    --s.missing;
    begin_next(at);
  }
  void begin_next(std::uint32_t at) {
    auto const& s = states_[at];
    if (!s.waiting || s.sent == chunks_of(at)) return;
    if (auto const& next = slot(at, s.sent); next.missing == 0) begin_step(at, next.ready);
  }

  /// Hands the chunk whose step has ended to the links.
  void hand_over(std::uint32_t at, double now) {
    auto const& e = plan_.edges[at];
    auto const chunk = states_[at].sent - 1;
    double const bytes = plan_.cut(e).bytes(chunk) * longer_by_noise(at, chunk, crossing);
    if constexpr (is_fair) {
      if (auto const link = links_.start(at, now, bytes); link >= 0) {
        lose(at, static_cast<std::size_t>(link), now);
      }
    } else {
      auto const carried = links_.carry(at, now, bytes, [&](auto link, double begin, double end) {
        record(at, chunk, link, begin, end);
      });
      if (carried.failed_link >= 0) {
        lose(at, static_cast<std::size_t>(carried.failed_link), carried.failed_at);
      } else {
        leave(at, carried.done);
      }
    }
  }

  /// Passes on the chunk of an edge that all links of the route have carried.
  void leave(std::uint32_t at, double done) {
    expect_finite(done);
    auto const& e = plan_.edges[at];
    auto& s = states_[at];
    auto const chunk = s.sent - 1;
    ++result_.messages;
    s.free_at = done;
    s.waiting = true;
    auto& sender_end = plan_.nodes[e.sender].end;
    sender_end = std::max(sender_end, done);
    begin_next(at);
    if (double const arrival = done + e.latency; takes_time_to_combine(e)) {
      expect_event(arrival, combining, at);
    } else {
      arrive(at, chunk, arrival);
    }
    if (window_ == 0 || chunk + window_ >= plan_.cut(e).chunks) return;
    for (auto const from : plan_.all(e.previous)) count(from, chunk + window_, done);
  }

  /// Combines a chunk that arrives now.
  void combine(std::uint32_t at, double now) {
    auto const& e = plan_.edges[at];
    auto const chunk = states_[at].arrived++;
    auto& node = plan_.nodes[e.receiver];
    auto& busy_until = options_.combines_in_parallel ? states_[at].busy_until : node.busy_until;
    double const begin = std::max({now, busy_until, node.begin});
    busy_until = begin + plan_.cut(e).bytes(chunk) / options_.reduce_bytes_per_second *
                             node.factor * longer_by_noise(at, chunk, combining);
    double const end = busy_until;
    if (options_.records_events) {
      result_.combinations.push_back(
          {e.tree, chunk, node.id, plan_.nodes[e.sender].id, begin, end});
    }
    arrive(at, chunk, end);
    if (e.next.count > 0 || window_ == 0) return;
    if (chunk + window_ < plan_.cut(e).chunks) count(at, chunk + window_, end);
  }

  /// Makes a chunk that is complete at a receiver available there.
  void arrive(std::uint32_t at, std::size_t chunk, double when) {
    auto const& e = plan_.edges[at];
    auto& end = plan_.nodes[e.receiver].end;
    end = std::max(end, when);
    result_.seconds = std::max(result_.seconds, when);
    for (auto const to : plan_.all(e.next)) count(to, chunk, when);
  }

  void record(std::uint32_t at, std::size_t chunk, std::size_t link, double begin, double end) {
    if (!options_.records_events) return;
    auto const& e = plan_.edges[at];
    auto const& l = plan_.links[link];
    result_.crossings.push_back({e.tree, e.is_reduce, chunk, plan_.nodes[e.sender].id,
                                 plan_.nodes[e.receiver].id, l.from, l.to, begin, end,
                                 plan_.cut(e).bytes(chunk)});
  }

  /// Notes that a chunk never arrives. The earliest loss counts.
  void lose(std::uint32_t at, std::size_t link, double when) {
    if (failure_ && failure_->seconds <= when) return;
    auto const& e = plan_.edges[at];
    auto const& l = plan_.links[link];
    auto const chunk = states_[at].sent - 1;
    link_failure lost(text_of({"simulate: link ", l.from, " -> ", l.to, " has failed, and chunk ",
                               chunk, " of tree ", e.tree, " on edge ", plan_.nodes[e.sender].id,
                               " -> ", plan_.nodes[e.receiver].id, " is lost at ", when * 1e6,
                               " us, expected a plan without this link"}));
    lost.from = l.from;
    lost.to = l.to;
    lost.tree = e.tree;
    lost.chunk = chunk;
    lost.seconds = when;
    failure_ = std::move(lost);
  }

  /// Handles the next event. Returns false if there is none, or none before a loss.
  bool advance() {
    double const next = agenda_.next_seconds();
    if constexpr (is_fair) {
      double const end = links_.next_end();
      double const change = links_.next_change();
      // Events that differ by rounding alone are simultaneous: rates need not be found between.
      if (links_.is_unsettled() && std::min({next, end, change}) > now_ * (1 + 1e-12)) {
        links_.settle(now_);
        return true;
      }
      if (failure_ && failure_->seconds <= std::min({next, end, change})) return false;
      if (change < never && change <= std::min(next, end)) {
        now_ = std::max(now_, change);
        auto const changed = links_.take_change();
        if (changed.lost_edge >= 0) {
          lose(static_cast<std::uint32_t>(changed.lost_edge), changed.link, change);
        }
        return true;
      }
      if (end < never && end <= next) {
        now_ = std::max(now_, end);
        auto const ended = links_.take_end();
        auto const chunk = states_[ended.edge].sent - 1;
        for (auto const link : plan_.all(plan_.edges[ended.edge].route)) {
          record(ended.edge, chunk, link, ended.begin, now_);
        }
        leave(ended.edge, now_);
        return true;
      }
    }
    if (next == never || (failure_ && failure_->seconds <= next)) return false;
    auto const key = agenda_.take();
    auto const at = static_cast<std::uint32_t>(key);
    now_ = std::max(now_, next);
    key >> 56 == stepping ? hand_over(at, now_) : combine(at, now_);
    return true;
  }

  simulated_plan& plan_;
  simulation_options const& options_;
  std::size_t window_;
  Links links_;
  std::vector<edge_state> states_;  // by edge
  std::vector<chunk_slot> slots_;   // by edge, then by chunk
  event_queue agenda_;
  double now_ = 0;
  simulation_result result_;
  std::optional<link_failure> failure_;
};

}}}  // namespace blink::BLINK_ABI::detail
