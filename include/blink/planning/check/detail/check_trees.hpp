// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/check/detail/check_flows.hpp>
#include <blink/planning/check/detail/view_index.hpp>
#include <blink/planning/plan/detail/member_view.hpp>
#include <blink/planning/plan/plan.hpp>

#include <cstddef>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

// The part of check_plan for trees: their shape, the links that they use, and their shares.

namespace blink { inline namespace BLINK_ABI { namespace detail {

inline std::string tree_name(std::size_t i) {
  return "tree " + std::to_string(i) + ": ";
}

/// Checks the phases of trees, one tree after the other.
class tree_check {
 public:
  tree_check(plan_view const& view, view_index const& index, plan const& plan)
      : view_(view), index_(index), plan_(plan), of_node_(index.node_count()) {}

  /// Checks one tree. Returns the number of each link that it uses, once for each use.
  /// Throws: plan_fault for the first fault.
  [[nodiscard]] std::vector<int> const& check(std::size_t position) {
    used_.clear();
    auto const& t = plan_.trees[position];
    position_ = position;
    bool const signals = !moves_data(plan_.collective);
    if (t.weight < rational(0) || (t.weight == rational(0)) != signals) {
      fail("weight " + t.weight.to_text());
    }
    if (signals && position > 0) fail("a barrier has one tree");
    auto const name = std::string(to_text(plan_.collective));
    if (!t.members.empty() && !is_point_to_point(plan_.collective)) {
      fail("members in a " + name + ", which spans all ranks");
    }
    if (!view_.ranks.contains(t.root)) {
      fail("root " + std::to_string(t.root) + " is not a rank of the plan");
    }
    read_members(t);
    if (has_reduce_phase(plan_.collective)) {
      check_phase(t, true);
    } else if (!t.reduce.empty()) {
      fail("reduce edges in a " + name);
    }
    if (has_broadcast_phase(plan_.collective)) {
      check_phase(t, false);
    } else if (!t.broadcast.empty()) {
      fail("broadcast edges in a " + name);
    }
    return used_;
  }

 private:
  // What the edges of one phase have said about a node.
  struct node_state {
    bool is_moved = false;  // it has sent (reduce) or received (broadcast)
    int below = 0;          // edges on the side away from the root
  };

  [[noreturn]] void fail(std::string const& what) const {
    throw plan_fault(tree_name(position_) + what);
  }

  // The members of a tree: distinct ranks of the plan, the root among them; all ranks if none are
  // named.
  void read_members(tree const& t) {
    members_.clear();
    if (t.members.empty()) return;
    for (int const member : t.members) {
      if (!view_.ranks.contains(member) || !members_.insert(member).second) {
        fail("member " + std::to_string(member) + " is not a rank of the plan, or named twice");
      }
    }
    if (!members_.contains(t.root)) fail("the root is not a member");
  }
  [[nodiscard]] bool is_member(int node) const {
    return members_.empty() ? index_.is_rank(node) : members_.contains(index_.id(node));
  }

  // In a reduce phase, every member but the root has one edge out of it; in a broadcast phase, one
  // edge into it. The same holds for every switch that is a node of the tree. All edges run over
  // links of the machine. Ranks that are not members only forward. A switch in a reduce phase has
  // something to send. A switch with several neighbours below it must be able to reduce, or to
  // copy.
  void check_phase(tree const& t, bool towards_root) {
    auto const& phase = towards_root ? t.reduce : t.broadcast;
    std::string const name = towards_root ? "reduce" : "broadcast";
    touched_.clear();
    for (auto const& edge : phase) check_edge(t, edge, towards_root);
    std::size_t moved = 0;
    std::size_t switches = 0;
    for (int const node : touched_) {
      auto const& state = of_node_[static_cast<std::size_t>(node)];
      auto const id = std::to_string(index_.id(node));
      if (!index_.is_rank(node)) {
        if (!state.is_moved) {
          fail("switch " + id + (towards_root ? " sends to no node" : " receives from no node"));
        }
        if (towards_root && state.below == 0) fail("switch " + id + " has nothing to send");
        ++switches;
      }
      moved += state.is_moved ? 1 : 0;
    }
    std::size_t const expected =
        (members_.empty() ? view_.ranks.size() : members_.size()) - 1 + switches;
    if (members_.empty() && moved != expected) {
      fail(name + " has " + std::to_string(moved) + " edges, expected " + std::to_string(expected));
    }
    for (int const id : members_.empty() ? view_.ranks : std::as_const(members_)) {
      if (id != t.root && !of_node_[static_cast<std::size_t>(index_.node(id))].is_moved) {
        fail(name + " misses member " + std::to_string(id));
      }
    }
    for (int const node : touched_) {
      auto& state = of_node_[static_cast<std::size_t>(node)];
      if (state.below == 0 && index_.is_rank(node) && !is_member(node)) {
        fail(name + ": rank " + std::to_string(index_.id(node)) +
             " is no member and forwards nothing");
      }
      state = {};
    }
  }

  void check_edge(tree const& t, tree_edge const& edge, bool towards_root) {
    auto const wrong = [&](std::string const& what) {
      fail((towards_root ? "reduce edge " : "broadcast edge ") + std::to_string(edge.from) +
           " -> " + std::to_string(edge.to) + ": " + what);
    };
    int const from = index_.node(edge.from);
    int const to = index_.node(edge.to);
    if (from < 0 || to < 0) wrong("an end is not a rank of the plan");
    int const mover = towards_root ? from : to;
    int const upper = towards_root ? to : from;
    auto const kind = [&](int node) {
      return (index_.is_rank(node) ? "rank " : "switch ") + std::to_string(index_.id(node));
    };
    auto& below_it = state_of(mover);
    if (index_.id(mover) == t.root) wrong(kind(mover) + " is the root");
    if (below_it.is_moved) wrong(kind(mover) + (towards_root ? " sends twice" : " receives twice"));
    below_it.is_moved = true;
    auto const& can = towards_root ? view_.reducing : view_.copying;
    if (++state_of(upper).below == 2 && !index_.is_rank(upper) && !can.contains(index_.id(upper))) {
      wrong(kind(upper) + (towards_root ? " cannot reduce" : " cannot copy"));
    }
    if (edge.path.size() < 2 || edge.path.front() != edge.from || edge.path.back() != edge.to) {
      wrong("the path does not lead from one end to the other");
    }
    for (std::size_t i = 0; i + 1 < edge.path.size(); ++i) {
      int const used = index_.link(index_.node(edge.path[i]), index_.node(edge.path[i + 1]));
      if (used < 0) {
        wrong("no usable link " + std::to_string(edge.path[i]) + " -> " +
              std::to_string(edge.path[i + 1]));
      }
      used_.push_back(used);
    }
  }
  node_state& state_of(int node) {
    auto& state = of_node_[static_cast<std::size_t>(node)];
    if (!state.is_moved && state.below == 0) touched_.push_back(node);
    return state;
  }

  plan_view const& view_;
  view_index const& index_;
  plan const& plan_;
  std::size_t position_ = 0;         // of the present tree
  std::set<int> members_;            // ids; empty: all ranks
  std::vector<node_state> of_node_;  // of the present phase
  std::vector<int> touched_;         // nodes with a state
  std::vector<int> used_;            // links
};

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
      auto const expected = rate * (rational(plan.shares.empty() ? 1 : plan.shares[i]) / all);
      if (share[plan.ranks[i]] != expected) {
        throw plan_fault("rank " + std::to_string(plan.ranks[i]) + " roots " +
                         share[plan.ranks[i]].to_text() + ", expected the " +
                         (plan.shares.empty() ? "equal " : "") + "share " + expected.to_text());
      }
    }
  }
  return rate;
}

}}}  // namespace blink::BLINK_ABI::detail
