// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/interop/step_program.hpp>
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

// The order in which the chunks of trees pass: transfers with the times at which they begin.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A tree that carries some consecutive chunks, with ranks numbered 0 to N-1.
struct carried_tree {
  int root = 0;
  int count = 1;                          ///< chunks
  std::vector<std::pair<int, int>> up;    ///< (from, to), towards the root
  std::vector<std::pair<int, int>> down;  ///< (from, to), away from the root
  std::map<int, chunk_place> own = {};    ///< by rank: its contribution
  std::map<int, chunk_place> store = {};  ///< by rank: where sums or copies go; else scratch
  int slice = 0;                          ///< those of earlier slices go first
};

/// The number of chunks that pass over the busiest connection.
[[nodiscard]] inline int most_chunks_of_a_connection(std::vector<carried_tree> const& trees) {
  std::map<std::pair<int, int>, int> chunks;
  int result = 0;
  for (auto const& t : trees) {
    for (auto const* phase : {&t.up, &t.down}) {
      for (auto const& edge : *phase) result = std::max(result, chunks[edge] += t.count);
    }
  }
  return result;
}

/// The time that a chunk takes on each link of a connection, and on the whole, in whole units.
class passing_times {
 public:
  /// rank_of: the rank of a node id
  passing_times(topology const& machine, plan const& plan, std::function<int(int)> const& rank_of) {
    std::map<std::pair<int, int>, rational> capacity;
    for (auto const& l : machine.links) {
      capacity[{machine.nodes[static_cast<std::size_t>(l.tail)].id,
                machine.nodes[static_cast<std::size_t>(l.head)].id}] +=
          machine.in_units(l.capacity);
    }
    rational widest;
    for (auto const& [ends, each] : capacity) widest = std::max(widest, each);
    std::map<std::pair<int, int>, std::size_t> number;
    for (auto const& t : plan.trees) {
      for (auto const* phase : {&t.reduce, &t.broadcast}) {
        for (auto const& e : *phase) {
          auto const [known, fresh] = lines_.try_emplace({rank_of(e.from), rank_of(e.to)});
          if (!fresh) continue;
          for (std::size_t i = 0; i + 1 < e.path.size(); ++i) {
            std::pair const ends(e.path[i], e.path[i + 1]);
            auto const link = number.try_emplace(ends, number.size()).first->second;
            constexpr double units = 1024;  // of the widest link, so that whole units suffice
            auto const found = capacity.find(ends);
            bool const is_known = found != capacity.end() && found->second > rational(0);
            auto const part = is_known ? ratio(widest, found->second) : 1.0;
            auto const time = std::llround(units * part);
            known->second.push_back({link, time});
          }
        }
      }
    }
    line_count_ = number.size();
    for (auto& [ends, lines] : lines_) {
      auto const slowest = std::ranges::max_element(lines, {}, &line_time::time);
      std::int64_t const time = slowest == lines.end() ? 0 : slowest->time;
      lines.push_back({line_count_++, time});
    }
  }

  /// A link or a connection: what one transfer takes at a time.
  struct line_time {
    std::size_t line;
    std::int64_t time;
  };
  /// The links between two ranks, then the connection itself with the time of its slowest link.
  [[nodiscard]] std::vector<line_time> const& of(int from, int to) const {
    return lines_.at({from, to});
  }
  [[nodiscard]] std::size_t line_count() const { return line_count_; }

 private:
  std::map<std::pair<int, int>, std::vector<line_time>> lines_;  // by ranks
  std::size_t line_count_ = 0;
};

/// The transfer of a tree's chunks over one of its edges.
struct tree_transfer {
  int tree;
  int from, to;
  bool is_up;
  std::vector<std::size_t> needs = {};      ///< transfers that must have arrived at `from`
  std::vector<std::size_t> followers = {};  ///< that need this one
  int rest = 0;                             ///< the most transfers in a row that follow
  std::int64_t begins = 0;
  std::int64_t ends = 0;
};

/// The transfers of all trees, in an order in which each comes after those that it needs.
[[nodiscard]] inline std::vector<tree_transfer> transfers_of(
    std::vector<carried_tree> const& trees) {
  std::vector<tree_transfer> result;
  for (std::size_t t = 0; t < trees.size(); ++t) {
    auto const& tree = trees[t];
    auto const first = result.size();
    for (auto const& [from, to] : tree.up) result.push_back({static_cast<int>(t), from, to, true});
    for (auto const& [from, to] : tree.down) {
      result.push_back({static_cast<int>(t), from, to, false});
    }
    std::map<int, std::vector<std::size_t>> up_into, down_into;  // by rank
    for (auto i = first; i < result.size(); ++i) {
      (result[i].is_up ? up_into : down_into)[result[i].to].push_back(i);
    }
    for (auto i = first; i < result.size(); ++i) {
      auto& out = result[i];
      auto const& into = out.is_up || out.from == tree.root ? up_into : down_into;
      if (auto const found = into.find(out.from); found != into.end()) out.needs = found->second;
      for (auto const in : out.needs) result[in].followers.push_back(i);
    }
  }
  return result;
}

/// Sets the `rest` of each transfer. Time: O(edges between transfers).
inline void set_rests(std::vector<tree_transfer>& transfers) {
  std::vector<std::size_t> missing;
  std::vector<std::size_t> order;  // each after those that it needs
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    missing.push_back(transfers[i].needs.size());
    if (missing.back() == 0) order.push_back(i);
  }
  for (std::size_t i = 0; i < order.size(); ++i) {
    for (auto const next : transfers[order[i]].followers) {
      if (--missing[next] == 0) order.push_back(next);
    }
  }
  for (auto at = order.rbegin(); at != order.rend(); ++at) {
    for (auto const next : transfers[*at].followers) {
      transfers[*at].rest = std::max(transfers[*at].rest, transfers[next].rest + 1);
    }
  }
}

/// Sets the times of transfers: one at a time on each link and connection, each as early as it can.
/// Of those that can begin, the one of the earliest slice is first, then the one with the longest
/// way to go.
///
/// Pre:    `set_rests` was called.
/// Time:   O((T + W) L log T) for T transfers that cross at most L links each and wait W times.
/// Source: list scheduling by the longest path: T. C. Hu, "Parallel sequencing and assembly line
///         problems", Operations Research 9(6), 1961.
inline void set_times(std::vector<tree_transfer>& transfers, std::vector<carried_tree> const& trees,
                      passing_times const& times) {
  using claim = std::tuple<int, int, std::size_t>;  // slice, -rest, number
  // A transfer that finds a line taken waits there, so that it is tried again only for that line.
  struct line_state {
    std::int64_t free = 0;  // from then on
    std::priority_queue<claim, std::vector<claim>, std::greater<>> waiting = {};
  };
  std::vector<line_state> lines(times.line_count());
  using release = std::pair<std::int64_t, std::size_t>;  // time, line
  std::priority_queue<release, std::vector<release>, std::greater<>> releases;
  constexpr auto no_line = static_cast<std::size_t>(-1);
  using attempt = std::tuple<std::int64_t, claim, std::size_t>;  // the line where it waited
  std::priority_queue<attempt, std::vector<attempt>, std::greater<>> attempts;
  auto const make_ready = [&](std::size_t i, std::int64_t at) {
    auto const slice = trees[static_cast<std::size_t>(transfers[i].tree)].slice;
    attempts.emplace(at, claim{slice, -transfers[i].rest, i}, no_line);
  };
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < transfers.size(); ++i) {
    missing.push_back(transfers[i].needs.size());
    if (missing.back() == 0) make_ready(i, 0);
  }
  while (!attempts.empty() || !releases.empty()) {
    bool const is_release =
        !releases.empty() &&
        (attempts.empty() || releases.top().first <= std::get<0>(attempts.top()));
    if (is_release) {
      auto const [at, number] = releases.top();
      releases.pop();
      auto& line = lines[number];
      if (line.free > at || line.waiting.empty()) continue;
      attempts.emplace(at, line.waiting.top(), number);
      line.waiting.pop();
      continue;
    }
    auto const [at, which, came_from] = attempts.top();
    attempts.pop();
    auto& here = transfers[std::get<2>(which)];
    auto const& taken = times.of(here.from, here.to);
    auto const last = std::ranges::max_element(taken, {}, [&](auto const& each) {
                        return lines[each.line].free;
                      })->line;
    if (lines[last].free > at) {
      lines[last].waiting.push(which);
      if (came_from != no_line) releases.emplace(at, came_from);  // for the next that waits there
      continue;
    }
    int const count = trees[static_cast<std::size_t>(here.tree)].count;
    for (auto const& each : taken) {
      lines[each.line].free = at + each.time * count;
      releases.emplace(lines[each.line].free, each.line);
    }
    here.begins = at;
    here.ends = lines[taken.back().line].free;
    for (auto const next : here.followers) {
      if (--missing[next] > 0) continue;
      std::int64_t arrived = 0;
      for (auto const in : transfers[next].needs) arrived = std::max(arrived, transfers[in].ends);
      make_ready(next, arrived);
    }
  }
}

}}}  // namespace blink::BLINK_ABI::detail
