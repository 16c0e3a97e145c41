// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/check/detail/check_flows.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The part of check_plan for trees: their shape, their shares, and a run with symbolic data.

namespace blink { inline namespace BLINK_ABI { namespace detail {

inline std::string tree_name(std::size_t i) {
  return "tree " + std::to_string(i) + ": ";
}

/// The members of a tree: distinct ranks of the plan, including the root; all ranks if none are
/// named.
/// Throws: plan_fault for any other members.
[[nodiscard]] inline std::set<int> members_of(plan_view const& view, tree const& t,
                                              std::string const& where) {
  if (t.members.empty()) return view.ranks;
  std::set<int> result;
  for (int const member : t.members) {
    if (!view.ranks.contains(member) || !result.insert(member).second) {
      throw plan_fault(where + "member " + std::to_string(member) +
                       " is not a rank of the plan, or named twice");
    }
  }
  if (!result.contains(t.root)) throw plan_fault(where + "the root is not a member");
  return result;
}

/// Checks one phase of a tree.
///
/// In a reduce phase, every member but the root has one edge out of it; in a broadcast phase, one
/// edge into it. The same holds for every switch that is a node of the tree. All edges run over
/// links of the machine. Ranks that are not members only forward. A switch in a reduce phase has
/// something to send. A switch with several neighbours below it must be able to reduce, or to copy.
/// Throws: plan_fault for the first fault.
inline void check_phase(plan_view const& view, tree const& t, bool towards_root,
                        std::string const& where) {
  auto const& phase = towards_root ? t.reduce : t.broadcast;
  std::set<int> moved;       // nodes that have sent (reduce) or received (broadcast)
  std::map<int, int> below;  // switches: edges on the side away from the root
  auto const is_switch = [&](int id) {
    return view.nodes.contains(id) && !view.ranks.contains(id);
  };
  for (auto const& edge : phase) {
    auto const name = where + (towards_root ? "reduce" : "broadcast") + " edge " +
                      std::to_string(edge.from) + " -> " + std::to_string(edge.to) + ": ";
    if (!view.nodes.contains(edge.from) || !view.nodes.contains(edge.to)) {
      throw plan_fault(name + "an end is not a rank of the plan");
    }
    int const mover = towards_root ? edge.from : edge.to;
    int const upper = towards_root ? edge.to : edge.from;
    if (mover == t.root || !moved.insert(mover).second) {
      throw plan_fault(name + (is_switch(mover) ? "switch " : "rank ") + std::to_string(mover) +
                       (mover == t.root ? " is the root"
                        : towards_root  ? " sends twice"
                                        : " receives twice"));
    }
    if (is_switch(upper) && ++below[upper] == 2 &&
        !(towards_root ? view.reducing : view.copying).contains(upper)) {
      throw plan_fault(name + "switch " + std::to_string(upper) + " cannot " +
                       (towards_root ? "reduce" : "copy"));
    }
    if (edge.path.size() < 2 || edge.path.front() != edge.from || edge.path.back() != edge.to) {
      throw plan_fault(name + "the path does not lead from one end to the other");
    }
    for (std::size_t i = 0; i + 1 < edge.path.size(); ++i) {
      if (!view.capacity.contains({edge.path[i], edge.path[i + 1]})) {
        throw plan_fault(name + "no usable link " + std::to_string(edge.path[i]) + " -> " +
                         std::to_string(edge.path[i + 1]));
      }
    }
  }
  std::size_t switches = 0;
  for (int const id : moved) {
    if (!is_switch(id)) continue;
    ++switches;
    if (towards_root && below[id] == 0) {
      throw plan_fault(where + "switch " + std::to_string(id) + " has nothing to send");
    }
  }
  for (auto const& entry : below) {
    if (!moved.contains(entry.first)) {
      throw plan_fault(where + "switch " + std::to_string(entry.first) +
                       (towards_root ? " sends to no node" : " receives from no node"));
    }
  }
  auto const members = members_of(view, t, where);
  auto const name = where + (towards_root ? "reduce" : "broadcast");
  if (t.members.empty() && moved.size() - switches + 1 != members.size()) {
    throw plan_fault(name + " has " + std::to_string(moved.size()) + " edges, expected " +
                     std::to_string(members.size() - 1 + switches));
  }
  for (int const member : members) {
    if (member != t.root && !moved.contains(member)) {
      throw plan_fault(name + " misses member " + std::to_string(member));
    }
  }
  for (int const rank : moved) {
    bool const forwards = std::any_of(phase.begin(), phase.end(), [&](tree_edge const& e) {
      return (towards_root ? e.to : e.from) == rank;
    });
    if (!forwards && !members.contains(rank) && !is_switch(rank)) {
      throw plan_fault(name + ": rank " + std::to_string(rank) +
                       " is no member and forwards nothing");
    }
  }
}

inline void check_trees(plan_view const& view, plan const& plan) {
  for (std::size_t i = 0; i < plan.trees.size(); ++i) {
    auto const& t = plan.trees[i];
    auto const where = tree_name(i);
    bool const signals = !moves_data(plan.collective);
    if (t.weight < rational(0) || (t.weight == rational(0)) != signals) {
      throw plan_fault(where + "weight " + t.weight.to_text());
    }
    if (signals && i > 0) throw plan_fault(where + "a barrier has one tree");
    if (!t.members.empty() && !is_point_to_point(plan.collective)) {
      throw plan_fault(where + "members in a " + std::string(to_text(plan.collective)) +
                       ", which spans all ranks");
    }
    if (!view.ranks.contains(t.root)) {
      throw plan_fault(where + "root " + std::to_string(t.root) + " is not a rank of the plan");
    }
    if (has_reduce_phase(plan.collective)) {
      check_phase(view, t, true, where);
    } else if (!t.reduce.empty()) {
      throw plan_fault(where + "reduce edges in a " + std::string(to_text(plan.collective)));
    }
    if (has_broadcast_phase(plan.collective)) {
      check_phase(view, t, false, where);
    } else if (!t.broadcast.empty()) {
      throw plan_fault(where + "broadcast edges in a " + std::string(to_text(plan.collective)));
    }
  }
}

/// Checks that the rate follows from the weights and that the shares are as the plan states.
///
/// Returns the rate.
///
/// broadcast, reduce:          one root
/// all_gather, reduce_scatter: equal shares of all ranks, or the shares that the plan names
/// point-to-point:             equal shares of all pairs
///
/// sum: of the weights
inline rational check_shares(plan const& plan, rational const& sum) {
  bool const idle = plan.collective == collective::permute && plan.destinations == plan.ranks;
  if (plan.ranks.size() > 1 && plan.trees.empty() && !idle) {
    throw plan_fault("the plan has no trees");
  }
  auto const rate = is_point_to_point(plan.collective) ? check_flow_shares(plan) : sum;
  if (rate != plan.rate) {
    throw plan_fault("the weights sum to " + sum.to_text() +
                     (rate == sum ? "" : ", which is a rate of " + rate.to_text()) +
                     ", the plan claims a rate of " + plan.rate.to_text());
  }
  if (!is_point_to_point(plan.collective) && !plan.destinations.empty()) {
    throw plan_fault("destinations belong to a permute only");
  }
  std::map<int, rational> share;
  for (auto const& t : plan.trees) share[t.root] += t.weight;
  if (has_one_root(plan.collective) && share.size() > 1) {
    throw plan_fault("the trees have different roots");
  }
  if (!plan.shares.empty()) {
    if (!has_equal_roots(plan.collective)) {
      throw plan_fault("shares in a " + std::string(to_text(plan.collective)));
    }
    if (plan.shares.size() != plan.ranks.size()) {
      throw plan_fault(std::to_string(plan.shares.size()) + " shares for " +
                       std::to_string(plan.ranks.size()) + " ranks");
    }
  }
  if (has_equal_roots(plan.collective) && !plan.trees.empty()) {
    rational all;
    for (auto const part : plan.shares) {
      if (part < 0) throw plan_fault("a share of " + std::to_string(part));
      all += part;
    }
    if (plan.shares.empty()) all = static_cast<std::int64_t>(plan.ranks.size());
    if (all == rational(0)) throw plan_fault("all shares are 0");
    for (std::size_t i = 0; i < plan.ranks.size(); ++i) {
      auto const expected = rate * (plan.shares.empty() ? 1 : plan.shares[i]) / all;
      if (share[plan.ranks[i]] != expected) {
        throw plan_fault("rank " + std::to_string(plan.ranks[i]) + " roots " +
                         share[plan.ranks[i]].to_text() + ", expected the " +
                         (plan.shares.empty() ? "equal " : "") + "share " + expected.to_text());
      }
    }
  }
  return rate;
}

/// By rank: the number of times that a chunk contains its contribution.
using contributions = std::vector<int>;

/// The chunks in flight on a tree edge, in order.
struct symbolic_queue {
  std::size_t slots = 0;
  std::deque<contributions> chunks = {};
};

/// The work of one node in one direction of a tree. The node adds arriving chunks to its own
/// contribution and sends the sum.
struct symbolic_task {
  std::vector<symbolic_queue*> in = {};
  std::vector<symbolic_queue*> out = {};
  contributions own = {};
  std::vector<contributions> done = {};  ///< by chunk: the sum

  /// Handles the next chunk if all queues allow it.
  bool advance() {
    auto const is_empty = [](symbolic_queue const* q) { return q->chunks.empty(); };
    auto const is_full = [](symbolic_queue const* q) { return q->chunks.size() >= q->slots; };
    if (std::ranges::any_of(in, is_empty) || std::ranges::any_of(out, is_full)) return false;
    auto sum = own;
    for (auto* q : in) {
      std::ranges::transform(sum, q->chunks.front(), sum.begin(), std::plus());
      q->chunks.pop_front();
    }
    for (auto* q : out) q->chunks.push_back(sum);
    done.push_back(std::move(sum));
    return true;
  }
};

/// Runs one tree with symbolic data: `window + 2` chunks, at most `window` of them in flight on any
/// edge.
///
/// Each step happens as early as it can. Only the ranks that the tree visits take part.
/// Throws: plan_fault if a rank waits without end, or a contribution is missing or arrives twice.
inline void check_walk(plan const& plan, std::size_t tree_index, int window) {
  auto const& t = plan.trees[tree_index];
  auto const where = tree_name(tree_index);
  std::vector<int> ranks = plan.ranks;
  if (!t.members.empty()) {
    std::set<int> visited(t.members.begin(), t.members.end());
    for (auto const* phase : {&t.reduce, &t.broadcast}) {
      for (auto const& e : *phase) visited.insert({e.from, e.to});
    }
    std::erase_if(ranks, [&](int id) { return !visited.contains(id); });
  }
  auto const n = ranks.size();
  auto const chunks = static_cast<std::size_t>(window) + 2;
  bool const reduces = has_reduce_phase(plan.collective);
  bool const spreads = has_broadcast_phase(plan.collective);

  // Ranks come first, then switches of the tree, which contribute nothing.
  std::map<int, std::size_t> index;
  for (std::size_t i = 0; i < n; ++i) index[ranks[i]] = i;
  for (auto const* phase : {&t.reduce, &t.broadcast}) {
    for (auto const& e : *phase) {
      for (int const end : {e.from, e.to}) index.emplace(end, index.size());
    }
  }
  auto const root = index.at(t.root);
  std::deque<symbolic_queue> queues;
  auto const join = [&](symbolic_task& from, symbolic_task& to, std::size_t slots) {
    auto& queue = queues.emplace_back(symbolic_queue{slots});
    from.out.push_back(&queue);
    to.in.push_back(&queue);
  };
  auto const slots = static_cast<std::size_t>(window);
  contributions const none(n, 0);
  std::vector<symbolic_task> up(reduces ? index.size() : 0, {.own = none});
  for (std::size_t i = 0; i < n && reduces; ++i) up[i].own[i] = 1;
  for (auto const& e : t.reduce) join(up[index.at(e.from)], up[index.at(e.to)], slots);
  std::vector<symbolic_task> down(spreads ? index.size() : 0, {.own = none});
  for (auto const& e : t.broadcast) join(down[index.at(e.from)], down[index.at(e.to)], slots);
  if (reduces && spreads) join(up[root], down[root], chunks);  // the root's own memory
  if (spreads && !reduces) down[root].own[root] = 1;
  symbolic_queue no_sender;
  for (std::size_t i = 0; i < down.size(); ++i) {
    if (i != root && down[i].in.empty()) down[i].in.push_back(&no_sender);  // never sends
  }
  for (bool progress = true; progress;) {
    progress = false;
    for (auto* direction : {&up, &down}) {
      for (auto& task : *direction) {
        while (task.done.size() < chunks && task.advance()) progress = true;
      }
    }
  }

  contributions wanted(n, reduces ? 1 : 0);
  wanted[root] = 1;
  for (std::size_t rank = 0; rank < n; ++rank) {
    auto const require_end = [&](symbolic_task const& task, char const* phase) {
      if (task.done.size() == chunks) return;
      throw plan_fault(where + "rank " + std::to_string(ranks[rank]) +
                       " waits without end for chunk " + std::to_string(task.done.size()) +
                       " of the " + phase);
    };
    if (reduces) require_end(up[rank], "reduction");
    if (spreads) require_end(down[rank], "broadcast");
  }
  for (std::size_t rank = 0; rank < n; ++rank) {
    if (!spreads && rank != root) continue;  // this rank gets no result
    auto const& values = (spreads ? down : up)[rank].done;
    for (std::size_t chunk = 0; chunk < values.size(); ++chunk) {
      for (std::size_t i = 0; i < n; ++i) {
        if (values[chunk][i] == wanted[i]) continue;
        throw plan_fault(where + "rank " + std::to_string(ranks[rank]) + ", chunk " +
                         std::to_string(chunk) + ": the contribution of rank " +
                         std::to_string(ranks[i]) + " arrives " + std::to_string(values[chunk][i]) +
                         " times, expected " + std::to_string(wanted[i]));
      }
    }
  }
}

}}}  // namespace blink::BLINK_ABI::detail
