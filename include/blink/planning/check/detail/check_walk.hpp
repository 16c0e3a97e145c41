// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/planning/check/detail/check_trees.hpp>
#include <blink/planning/check/detail/view_index.hpp>
#include <blink/planning/plan/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

// The part of check_plan that runs trees with symbolic data.

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// Runs one tree after the other with symbolic data: `window + 2` chunks, at most `window` of them
/// in flight on any edge.
///
/// Each node has a task for each phase. A task adds the chunks that arrive to its own contribution
/// and sends the sum. It handles the next chunk when that chunk has arrived over all edges into the
/// node, and all edges out of it have room. Each step happens as early as it can. Only the ranks
/// that the tree visits take part.
///
/// A contribution is a random word. So a sum identifies the contributions that it contains, and
/// their number: other contributions have the same sum with a probability of 2^-64.
class symbolic_run {
 public:
  symbolic_run(view_index const& index, plan const& plan, int window)
      : index_(index),
        plan_(plan),
        window_(static_cast<std::size_t>(window)),
        chunks_(window_ + 2),
        local_(index.node_count(), -1) {}

  /// Time:   O(edges * window).
  /// Throws: plan_fault if a rank waits without end, or a contribution is missing or arrives twice.
  void check(std::size_t position) {
    auto const& t = plan_.trees[position];
    bool const reduces = has_reduce_phase(plan_.collective);
    bool const spreads = has_broadcast_phase(plan_.collective);
    begin(t, reduces, spreads);
    std::vector<word> own(nodes_.size());
    word wanted = 0;
    auto const root = static_cast<std::size_t>(local_of(t.root));
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      if (!index_.is_rank(nodes_[v]) || (!reduces && v != root)) continue;
      own[v] = random_word(v);
      wanted += own[v];
    }
    run(own, reduces, spreads);
    auto const rank_name = [&](std::size_t v) {
      return "rank " + std::to_string(index_.id(nodes_[v]));
    };
    for (bool const up : {true, false}) {
      if (!(up ? reduces : spreads)) continue;
      for (std::size_t v = 0; v < nodes_.size(); ++v) {
        std::size_t const done = tasks_[task(v, up)].done;
        if (!index_.is_rank(nodes_[v]) || done == chunks_) continue;
        throw plan_fault(tree_name(position) + rank_name(v) + " waits without end for chunk " +
                         std::to_string(done) + " of the " + (up ? "reduction" : "broadcast"));
      }
    }
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      if (!index_.is_rank(nodes_[v]) || (!spreads && v != root)) continue;
      for (std::size_t chunk = 0; chunk < chunks_; ++chunk) {
        if (sums_[task(v, !spreads) * chunks_ + chunk] == wanted) continue;
        throw plan_fault(tree_name(position) + rank_name(v) + ", chunk " + std::to_string(chunk) +
                         ": " + wrong_contribution(own, v, chunk, reduces, spreads));
      }
    }
    for (int const node : nodes_) local_[static_cast<std::size_t>(node)] = -1;
  }

 private:
  using word = std::uint64_t;

  // The work of one node in one phase.
  struct task_state {
    std::size_t in = 0;        // edges that chunks arrive over
    std::size_t out = 0;       // edges with `window` slots that it sends over
    std::size_t done = 0;      // chunks
    std::size_t first_in = 0;  // in `neighbours_`: senders, then receivers
    std::size_t first_out = 0;
    std::size_t end = 0;
    bool is_stuck = false;  // nothing ever arrives
  };
  struct edge {
    std::size_t from = 0;  // tasks
    std::size_t to = 0;
    bool is_unbounded = false;  // for all chunks: the root's own memory
  };
  struct neighbour {
    std::size_t task = 0;
    bool is_unbounded = false;
  };

  // splitmix64 (Steele, Lea and Flood, 2014)
  [[nodiscard]] static word random_word(std::size_t seed) {
    word x = (static_cast<word>(seed) + 1) * 0x9e3779b97f4a7c15U;
    x = (x ^ x >> 30) * 0xbf58476d1ce4e5b9U;
    x = (x ^ x >> 27) * 0x94d049bb133111ebU;
    return x ^ x >> 31;
  }

  [[nodiscard]] int local_of(int id) {
    int const node = index_.node(id);
    auto& local = local_[static_cast<std::size_t>(node)];
    if (local < 0) {
      local = static_cast<int>(nodes_.size());
      nodes_.push_back(node);
    }
    return local;
  }
  [[nodiscard]] std::size_t task(std::size_t local, bool up) const {
    return local * 2 + (up ? 0 : 1);
  }

  // Lists the nodes, the edges and the tasks of a tree.
  void begin(tree const& t, bool reduces, bool spreads) {
    nodes_.clear();
    edges_.clear();
    if (t.members.empty()) {
      for (int const id : plan_.ranks) (void)local_of(id);
    }
    auto const root = static_cast<std::size_t>(local_of(t.root));
    for (bool const up : {true, false}) {
      for (auto const& e : up ? t.reduce : t.broadcast) {
        auto const from = static_cast<std::size_t>(local_of(e.from));
        auto const to = static_cast<std::size_t>(local_of(e.to));
        edges_.push_back({task(from, up), task(to, up), false});
      }
    }
    if (reduces && spreads) edges_.push_back({task(root, true), task(root, false), true});
    tasks_.assign(nodes_.size() * 2, {});
    for (auto const& e : edges_) {
      ++tasks_[e.from].out;
      ++tasks_[e.to].in;
    }
    std::size_t next = 0;
    for (auto& each : tasks_) {
      each.first_in = next;
      each.first_out = each.first_in + each.in;
      next = each.end = each.first_out + each.out;
    }
    neighbours_.assign(next, {});
    std::vector<std::size_t> placed(tasks_.size() * 2);
    for (auto const& e : edges_) {
      neighbours_[tasks_[e.from].first_out + placed[2 * e.from]++] = {e.to, e.is_unbounded};
      neighbours_[tasks_[e.to].first_in + placed[2 * e.to + 1]++] = {e.from, e.is_unbounded};
      if (e.is_unbounded) --tasks_[e.from].out;
    }
    for (std::size_t v = 0; v < nodes_.size(); ++v) {
      tasks_[task(v, true)].is_stuck = !reduces;
      tasks_[task(v, false)].is_stuck = !spreads || (v != root && tasks_[task(v, false)].in == 0);
    }
  }

  // Runs the tasks until none can go on.
  void run(std::vector<word> const& own, bool reduces, bool spreads) {
    auto const count = tasks_.size();
    arrived_.assign(count * chunks_, 0);
    consumed_.assign(count * chunks_, 0);
    sums_.assign(count * chunks_, 0);
    open_.clear();
    for (std::size_t k = 0; k < count; ++k) {
      tasks_[k].done = 0;
      bool const contributes = k % 2 == 0 ? reduces : spreads && !reduces;
      for (std::size_t c = 0; c < chunks_ && contributes; ++c) sums_[k * chunks_ + c] = own[k / 2];
      open_.push_back(k);
    }
    while (!open_.empty()) {
      std::size_t const k = open_.back();
      open_.pop_back();
      while (can_advance(k)) advance(k);
    }
  }
  [[nodiscard]] bool can_advance(std::size_t k) const {
    auto const& here = tasks_[k];
    if (here.is_stuck || here.done == chunks_) return false;
    if (arrived_[k * chunks_ + here.done] != here.in) return false;
    return here.done < window_ || consumed_[k * chunks_ + here.done - window_] == here.out;
  }
  void advance(std::size_t k) {
    auto& here = tasks_[k];
    std::size_t const chunk = here.done++;
    for (std::size_t i = here.first_in; i < here.first_out; ++i) {
      auto const& sender = neighbours_[i];
      if (sender.is_unbounded) continue;
      ++consumed_[sender.task * chunks_ + chunk];
      if (can_advance(sender.task)) open_.push_back(sender.task);
    }
    for (std::size_t i = here.first_out; i < here.end; ++i) {
      auto const to = neighbours_[i].task;
      ++arrived_[to * chunks_ + chunk];
      sums_[to * chunks_ + chunk] += sums_[k * chunks_ + chunk];
      if (can_advance(to)) open_.push_back(to);
    }
  }

  // The first contribution of a wrong sum that is missing or too many, in words. Finds it by a run
  // for each contribution.
  [[nodiscard]] std::string wrong_contribution(std::vector<word> const& own, std::size_t at,
                                               std::size_t chunk, bool reduces, bool spreads) {
    for (std::size_t v = 0; v < own.size(); ++v) {
      if (!index_.is_rank(nodes_[v])) continue;
      std::vector<word> only(own.size());
      only[v] = own[v] == 0 ? 0 : 1;
      run(only, reduces, spreads);
      word const times = sums_[task(at, !spreads) * chunks_ + chunk];
      if (times == only[v]) continue;
      return "the contribution of rank " + std::to_string(index_.id(nodes_[v])) + " arrives " +
             std::to_string(times) + " times, expected " + std::to_string(only[v]);
    }
    return "the sum is wrong";
  }

  view_index const& index_;
  plan const& plan_;
  std::size_t window_;
  std::size_t chunks_;
  // Of the present tree; its nodes are numbered in the order in which they are met.
  std::vector<int> local_;  // by node of the index; -1: not met
  std::vector<int> nodes_;  // by local number
  std::vector<edge> edges_;
  std::vector<task_state> tasks_;  // two for each node, upward and downward
  std::vector<neighbour> neighbours_;
  std::vector<std::size_t> arrived_, consumed_;  // by task and chunk: edges
  std::vector<word> sums_;                       // by task and chunk
  std::vector<std::size_t> open_;                // tasks that may advance
};

}}}  // namespace blink::BLINK_ABI::detail
