// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/simulation/detail/link_rates.hpp>
#include <blink/simulation/detail/simulated_edges.hpp>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <queue>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Chunks that flow over all links of their routes at once, at max-min fair rates.
///
/// Rates follow from progressive filling: all rates grow alike until a link is full, the chunks on
/// that link keep theirs, and the others grow on. They change when a chunk begins or ends, and when
/// a link changes. Only chunks that share links with those, directly or through others, get new
/// rates.
///
/// Source: D. Bertsekas, R. Gallager, "Data Networks", 2nd edition, 1992, section 6.5.2.
class fair_links {
 public:
  explicit fair_links(simulated_plan const& source) : source_(source), links_(source.links.size()) {
    for (std::uint32_t link = 0; link < links_.size(); ++link) {
      auto const& pieces = source.links[link].rates.pieces();
      links_[link].bytes_per_second = pieces.front().bytes_per_second;
      for (std::size_t i = 1; i < pieces.size(); ++i) {
        changes_.push_back({pieces[i].begin, link, pieces[i].bytes_per_second});
      }
    }
    std::ranges::sort(changes_, {}, [](change const& c) { return std::pair(c.seconds, c.link); });
  }

  /// Begins to carry a chunk of an edge, which has no other one on the links.
  /// Returns the position of a failed link of the route; negative: there is none.
  [[nodiscard]] std::int64_t start(std::uint32_t edge, double now, double bytes) {
    for (auto const link : source_.all(source_.edges[edge].route)) {
      if (links_[link].bytes_per_second == 0) return link;
    }
    std::uint32_t slot = 0;
    if (unused_.empty()) {
      slot = static_cast<std::uint32_t>(flows_.size());
      flows_.emplace_back();
    } else {
      slot = unused_.back();
      unused_.pop_back();
    }
    auto& f = flows_[slot];
    f = {edge, f.version + 1, 0, bytes, bytes, 0, now, now};
    for (auto const link : source_.all(source_.edges[edge].route)) {
      links_[link].flows.push_back(slot);
      mark(link);
    }
    return -1;
  }

  /// True if rates no longer fit the chunks and links.
  [[nodiscard]] bool is_unsettled() const { return !marked_.empty(); }

  /// The time of the next end of a chunk.
  [[nodiscard]] double next_end() {
    while (!ends_.empty() && flows_[std::get<1>(ends_.top())].version != std::get<2>(ends_.top())) {
      ends_.pop();
    }
    return ends_.empty() ? never : std::get<0>(ends_.top());
  }
  /// The time of the next change of a link.
  [[nodiscard]] double next_change() const {
    return changed_ < changes_.size() ? changes_[changed_].seconds : never;
  }

  /// A chunk that the links have carried.
  struct ended {
    std::uint32_t edge = 0;
    double begin = 0;
  };
  /// Ends the chunk of `next_end`.
  ended take_end() {
    auto const slot = std::get<1>(ends_.top());
    ends_.pop();
    auto& f = flows_[slot];
    f.remaining = 0;
    account(f);
    ++f.version;
    for (auto const link : source_.all(source_.edges[f.edge].route)) {
      auto& all = links_[link].flows;
      *std::ranges::find(all, slot) = all.back();
      all.pop_back();
      mark(link);
    }
    unused_.push_back(slot);
    return {f.edge, f.begin};
  }

  /// A link that has changed.
  struct changed {
    std::uint32_t link = 0;
    std::int64_t lost_edge = -1;  ///< whose chunk was on a link that failed; negative: none
  };
  /// Makes the change of `next_change`.
  changed take_change() {
    auto const& c = changes_[changed_++];
    changed result{c.link, -1};
    for (auto const slot : links_[c.link].flows) {
      advance(flows_[slot], c.seconds);
      account(flows_[slot]);
      auto const edge = static_cast<std::int64_t>(flows_[slot].edge);
      bool const is_first = result.lost_edge < 0 || edge < result.lost_edge;
      if (c.bytes_per_second == 0 && is_first) result.lost_edge = edge;
    }
    links_[c.link].bytes_per_second = c.bytes_per_second;
    if (!links_[c.link].flows.empty()) mark(c.link);
    return result;
  }

  /// Finds the rates of all chunks that the marked links affect.
  ///
  /// Time: O(F h log L) for F such chunks on L links, with routes of h links.
  void settle(double now) {
    collect();
    for (auto const slot : slots_) advance(flows_[slot], now);
    fill();
    for (auto const slot : slots_) {
      auto& f = flows_[slot];
      if (std::abs(f.new_rate - f.rate) <= 1e-12 * f.new_rate) continue;  // its end stays
      f.rate = f.new_rate;
      ends_.emplace(now + f.remaining / f.rate, slot, ++f.version);
    }
    for (auto const link : reached_) links_[link].is_reached = false;
    reached_.clear();
    slots_.clear();
    marked_.clear();
  }

  /// The seconds that a link would have taken for its bytes alone.
  [[nodiscard]] double busy_seconds(std::size_t link) const { return links_[link].busy; }

 private:
  struct flow {
    std::uint32_t edge = 0;
    std::uint32_t version = 0;
    double rate = 0;
    double remaining = 0;
    double unaccounted = 0;  // `remaining` when it was last accounted for
    double new_rate = 0;
    double since = 0;  // the time of `remaining`
    double begin = 0;
    bool is_reached = false;
  };
  struct shared_link {
    double bytes_per_second = 0;
    double busy = 0;
    std::vector<std::uint32_t> flows{};
    bool is_reached = false;
    bool is_marked = false;
    double room = 0;          // while rates are filled
    std::size_t growing = 0;  // flows whose rates still grow
  };
  struct change {
    double seconds = 0;
    std::uint32_t link = 0;
    double bytes_per_second = 0;
  };

  void mark(std::uint32_t link) {
    if (std::exchange(links_[link].is_marked, true)) return;
    marked_.push_back(link);
  }
  static void advance(flow& f, double now) {
    if (now <= f.since) return;
    f.remaining = std::max(0.0, f.remaining - f.rate * (now - f.since));
    f.since = now;
  }
  void account(flow& f) {
    double const bytes = std::exchange(f.unaccounted, f.remaining) - f.remaining;
    if (bytes == 0) return;
    for (auto const link : source_.all(source_.edges[f.edge].route)) {
      links_[link].busy += bytes / links_[link].bytes_per_second;
    }
  }

  /// Finds all links and chunks that share links with the marked ones, directly or through others.
  void collect() {
    auto const reach = [&](std::uint32_t link) {
      if (std::exchange(links_[link].is_reached, true)) return;
      reached_.push_back(link);
    };
    for (auto const link : marked_) {
      links_[link].is_marked = false;
      reach(link);
    }
    for (std::size_t i = 0; i < reached_.size(); ++i) {
      for (auto const slot : links_[reached_[i]].flows) {
        if (std::exchange(flows_[slot].is_reached, true)) continue;
        slots_.push_back(slot);
        for (auto const link : source_.all(source_.edges[flows_[slot].edge].route)) reach(link);
      }
    }
  }

  /// Progressive filling of the links that were reached. A link offers an equal share of its
  /// room to each chunk that still grows. Shares never fall, so an offer that is out of date is
  /// made again when its turn comes.
  void fill() {
    open_.clear();
    auto const share_of = [](shared_link const& l) {
      return std::max(0.0, l.room) / static_cast<double>(l.growing);
    };
    for (auto const link : reached_) {
      auto& l = links_[link];
      l.room = l.bytes_per_second;
      l.growing = l.flows.size();
      if (l.growing > 0) open_.emplace_back(share_of(l), link);
    }
    std::ranges::make_heap(open_, std::greater<>());
    while (!open_.empty()) {
      std::ranges::pop_heap(open_, std::greater<>());
      auto const [offered, link] = open_.back();
      auto& full = links_[link];
      if (double const share = full.growing == 0 ? offered : share_of(full); share > offered) {
        open_.back().first = share;
        std::ranges::push_heap(open_, std::greater<>());
        continue;
      }
      open_.pop_back();
      for (auto const slot : full.flows) {
        auto& f = flows_[slot];
        if (!std::exchange(f.is_reached, false)) continue;  // it has its rate
        f.new_rate = offered;
        for (auto const other : source_.all(source_.edges[f.edge].route)) {
          links_[other].room -= offered;
          --links_[other].growing;
        }
      }
    }
  }

  simulated_plan const& source_;
  std::vector<shared_link> links_;
  std::vector<flow> flows_;
  std::vector<std::uint32_t> unused_;  // positions in flows_
  std::vector<change> changes_;        // by time
  std::size_t changed_ = 0;
  using end = std::tuple<double, std::uint32_t, std::uint32_t>;  // seconds, slot, version
  std::priority_queue<end, std::vector<end>, std::greater<>> ends_;
  std::vector<std::uint32_t> marked_, reached_;  // links
  std::vector<std::uint32_t> slots_;             // of chunks that were reached
  std::vector<std::pair<double, std::uint32_t>> open_;
};

}}}  // namespace blink::BLINK_ABI::detail
