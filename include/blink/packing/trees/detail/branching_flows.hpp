// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/work_budget.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/trees/detail/sent_paths.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The flows by which partial arborescences could still be finished, on a graph or a contraction of
/// it.
///
/// All trees can be finished if and only if a flow condition holds for every vertex y. The trees
/// that miss y must be able to flow to y together, from the vertices that they have reached. This
/// is the form of Edmonds' theorem (1973) for branchings that have started.
///
/// The paths of a flow into y are remembered, and the next flow into y begins with those that still
/// fit. From one query to the next little changes, so few paths are searched.
class branching_flows {
 public:
  branching_flows(arc_list const& graph, std::vector<std::int64_t> const& capacity)
      : vertices_(static_cast<std::size_t>(graph.vertex_count)),
        room_(capacity),
        division_(vertices_, capacity.size()) {
    auto const edges = graph.arcs.size();
    into_begin_.assign(vertices_ + 1, 0);
    out_count_.assign(vertices_, 0);
    for (auto const& a : graph.arcs) {
      ++into_begin_[static_cast<std::size_t>(a.head) + 1];
      ++out_count_[static_cast<std::size_t>(a.tail)];
    }
    for (std::size_t v = 0; v < vertices_; ++v) into_begin_[v + 1] += into_begin_[v];
    auto next = into_begin_;
    slot_.resize(edges);
    edge_.resize(edges);
    tail_.resize(edges);
    head_.resize(edges);
    residual_.resize(edges);
    for (std::size_t e = 0; e < edges; ++e) {
      auto const& a = graph.arcs[e];
      auto const slot = next[static_cast<std::size_t>(a.head)]++;
      slot_[e] = slot;
      edge_[slot] = e;
      tail_[slot] = a.tail;
      head_[slot] = a.head;
      residual_[slot] = room_[e];
    }
    flow_.assign(edges, 0);
    next_out_.assign(edges, not_listed);
    first_out_.assign(vertices_, -1);
    to_vertex_.resize(vertices_);
    remembered_.resize(vertices_);
  }

  /// Adds a tree that has reached no vertex.
  void add(std::int64_t multiplicity) {
    multiplicity_.push_back(multiplicity);
    if (words_ * 64 < multiplicity_.size()) widen();
    at_.resize(multiplicity_.size());
    left_.resize(multiplicity_.size());
    to_tree_.resize(multiplicity_.size());
    sent_.resize(multiplicity_.size() * vertices_);
  }
  [[nodiscard]] std::size_t tree_count() const { return multiplicity_.size(); }
  /// Splits a tree: it keeps `multiplicity`, and a copy, the last tree then, gets the rest.
  void split(std::size_t tree, std::int64_t multiplicity) {
    add(multiplicity_[tree] - multiplicity);
    multiplicity_[tree] = multiplicity;
    auto const copy = multiplicity_.size() - 1;
    for (std::size_t v = 0; v < vertices_; ++v) {
      if (has_reached(tree, v)) reach(copy, v);
    }
  }
  void reach(std::size_t tree, std::size_t vertex) {
    member_[vertex * words_ + tree / 64] |= std::uint64_t{1} << (tree % 64);
  }
  [[nodiscard]] bool has_reached(std::size_t tree, std::size_t vertex) const {
    return (member_[vertex * words_ + tree / 64] >> (tree % 64) & 1U) != 0;
  }
  /// Takes room from an edge.
  void use(std::size_t edge, std::int64_t amount) {
    room_[edge] -= amount;
    changed_.push_back(slot_[edge]);
  }

  /// The shortage of the flow into `y` of all trees that miss it, except `without`, when `closed`
  /// is not used. Returns 0 for any shortage up to `allowed`.
  [[nodiscard]] std::int64_t shortage(std::size_t y, std::size_t without, int closed,
                                      std::int64_t allowed) {
    std::int64_t open = begin_flow(y, without, closed);
    if (open <= allowed) return 0;
    open -= send_again(y);
    if (open <= allowed) return 0;
    open -= send_directly(y);
    while (open > allowed) {
      auto const sent = augment(y);
      if (sent == 0) break;
      open -= sent;
    }
    remember(y, without);
    return open > allowed ? open : 0;
  }

  /// After a shortage, the vertices that the missing flow cannot leave. `y` is one of them.
  [[nodiscard]] std::vector<int> const& short_set() const { return queue_; }

  /// After a query for `y` that allowed no shortage and found none: the smallest set with `y` whose
  /// whole room is needed.
  [[nodiscard]] std::vector<int> const& tight_set(std::size_t y) {
    (void)augment(y);  // finds no more, and all from which more could come
    return queue_;
  }

  /// The number of edges, trees and sets of 64 trees that all queries visited.
  [[nodiscard]] std::size_t work() const { return work_; }

 private:
  enum class step : signed char { none, over, back, tree };
  struct hop {
    step kind = step::none;
    int by = 0;  // slot of an edge, or tree
  };

  // Makes room for more trees in the sets of trees.
  void widen() {
    auto const words = std::max<std::size_t>(1, 2 * words_);
    std::vector<std::uint64_t> wider(vertices_ * words, 0);
    for (std::size_t v = 0; v < vertices_; ++v) {
      std::copy_n(member_.begin() + static_cast<std::ptrdiff_t>(v * words_), words_,
                  wider.begin() + static_cast<std::ptrdiff_t>(v * words));
    }
    member_ = std::move(wider);
    words_ = words;
    missing_.resize(words);
    unseen_.resize(words);
  }

  /// Clears the flow. Returns the amount that the trees that miss `y` must send.
  std::int64_t begin_flow(std::size_t y, std::size_t without, int closed) {
    for (auto const tree : used_) {
      for (auto const v : at_[tree]) sent_[tree * vertices_ + v] = 0;
      at_[tree].clear();
    }
    used_.clear();
    for (auto const slot : changed_) {
      residual_[slot] = room_[edge_[slot]];
      flow_[slot] = 0;
      next_out_[slot] = not_listed;
      first_out_[static_cast<std::size_t>(tail_[slot])] = -1;
    }
    changed_.clear();
    work_ += words_ * (1 + into_begin_[y + 1] - into_begin_[y]);
    if (closed >= 0) {
      auto const slot = slot_[static_cast<std::size_t>(closed)];
      residual_[slot] = 0;
      changed_.push_back(slot);
    }
    std::int64_t open = 0;
    for (std::size_t w = 0; w < words_; ++w) {
      auto const first = w * 64;
      auto const count = multiplicity_.size() > first ? multiplicity_.size() - first : 0;
      auto const all = count >= 64 ? ~std::uint64_t{0} : (std::uint64_t{1} << count) - 1;
      missing_[w] = all & ~member_[y * words_ + w];
      if (without / 64 == w) missing_[w] &= ~(std::uint64_t{1} << (without % 64));
      for (auto bits = missing_[w]; bits != 0; bits &= bits - 1) {
        auto const tree = first + static_cast<std::size_t>(std::countr_zero(bits));
        left_[tree] = multiplicity_[tree];
        open += left_[tree];
      }
    }
    return open;
  }

  void send_over(std::size_t slot, std::int64_t amount) {
    residual_[slot] -= amount;
    flow_[slot] += amount;
    if (next_out_[slot] != not_listed) return;
    auto& first = first_out_[static_cast<std::size_t>(tail_[slot])];
    next_out_[slot] = first;
    first = static_cast<int>(slot);
    changed_.push_back(slot);
  }

  void send_from(std::size_t tree, std::size_t vertex, std::int64_t amount) {
    auto& sent = sent_[tree * vertices_ + vertex];
    if (sent == 0) {
      if (at_[tree].empty()) used_.push_back(tree);
      at_[tree].push_back(vertex);
    }
    sent += amount;
  }

  /// Sends flow over the paths of former flows into `y`, as far as they fit. Returns the amount.
  std::int64_t send_again(std::size_t y) {
    std::int64_t total = 0;
    auto const& known = remembered_[y];
    work_ += known.size();
    known.for_each([&](sent_path const& path, std::span<int const> slots) {
      if (!is_missing(path.tree)) return;
      auto amount = std::min(path.amount, left_[path.tree]);
      for (int const slot : slots) {
        amount = std::min(amount, residual_[static_cast<std::size_t>(slot)]);
      }
      if (amount <= 0) return;
      left_[path.tree] -= amount;
      for (int const slot : slots) send_over(static_cast<std::size_t>(slot), amount);
      send_from(path.tree, path.vertex, amount);
      total += amount;
    });
    return total;
  }

  /// Remembers the paths of the flow into `y`. Former paths of trees that are not in it, or not
  /// with all that they have to send, are kept up to that amount.
  void remember(std::size_t y, std::size_t without) {
    sent_paths now;
    division_.start(changed_, flow_, first_out_);
    std::sort(used_.begin(), used_.end());  // some may be there twice
    used_.erase(std::unique(used_.begin(), used_.end()), used_.end());
    for (auto const tree : used_) {
      for (auto const from : at_[tree]) {
        for (auto open = sent_[tree * vertices_ + from]; open > 0;) {
          auto const amount = division_.take(from, y, open, next_out_, head_);
          now.add({tree, from, amount, 0}, division_.edges());
          open -= amount;
        }
      }
    }
    spare_ = left_;
    if (without < spare_.size()) spare_[without] = multiplicity_[without];
    remembered_[y].for_each([&](sent_path path, std::span<int const> slots) {
      if (!is_missing(path.tree) && path.tree != without) return;
      path.amount = std::min(path.amount, spare_[path.tree]);
      if (path.amount == 0) return;
      spare_[path.tree] -= path.amount;
      now.add(path, slots);
    });
    work_ += now.size();
    remembered_[y] = std::move(now);
  }

  /// True if the tree takes part in the present flow.
  [[nodiscard]] bool is_missing(std::size_t tree) const {
    return (missing_[tree / 64] >> (tree % 64) & 1U) != 0;
  }

  /// Sends flow over single edges into `y`. Returns the amount.
  std::int64_t send_directly(std::size_t y) {
    std::int64_t total = 0;
    for (auto slot = into_begin_[y]; slot < into_begin_[y + 1]; ++slot) {
      auto const x = static_cast<std::size_t>(tail_[slot]);
      for (std::size_t w = 0; w < words_ && residual_[slot] > 0; ++w) {
        for (auto bits = missing_[w] & member_[x * words_ + w]; bits != 0 && residual_[slot] > 0;
             bits &= bits - 1) {
          auto const tree = w * 64 + static_cast<std::size_t>(std::countr_zero(bits));
          auto const amount = std::min(left_[tree], residual_[slot]);
          if (amount == 0) continue;
          left_[tree] -= amount;
          send_over(slot, amount);
          send_from(tree, x, amount);
          total += amount;
        }
      }
    }
    return total;
  }

  /// Sends flow over a shortest augmenting path, searched backwards from `y`. Returns 0 if there is
  /// none.
  std::int64_t augment(std::size_t y) {
    budget_scope::poll();
    std::fill(to_vertex_.begin(), to_vertex_.end(), hop{});
    std::copy(missing_.begin(), missing_.end(), unseen_.begin());
    queue_.assign(1, static_cast<int>(y));
    to_vertex_[y].kind = step::tree;  // marks `y` as seen
    for (std::size_t i = 0; i < queue_.size(); ++i) {
      auto const v = static_cast<std::size_t>(queue_[i]);
      work_ += words_ + into_begin_[v + 1] - into_begin_[v] + out_count_[v];
      for (std::size_t w = 0; w < words_; ++w) {
        for (auto bits = unseen_[w] & member_[v * words_ + w]; bits != 0; bits &= bits - 1) {
          auto const tree = w * 64 + static_cast<std::size_t>(std::countr_zero(bits));
          unseen_[w] &= ~(bits & -bits);
          to_tree_[tree] = v;
          if (left_[tree] > 0) return send_along(tree, y);
          work_ += at_[tree].size();
          for (auto const u : at_[tree]) {
            if (sent_[tree * vertices_ + u] > 0) see(u, {step::tree, static_cast<int>(tree)});
          }
        }
      }
      for (auto slot = into_begin_[v]; slot < into_begin_[v + 1]; ++slot) {
        if (residual_[slot] > 0) {
          see(static_cast<std::size_t>(tail_[slot]), {step::over, static_cast<int>(slot)});
        }
      }
      for (int slot = first_out_[v]; slot >= 0; slot = next_out_[static_cast<std::size_t>(slot)]) {
        auto const at = static_cast<std::size_t>(slot);
        if (flow_[at] > 0) see(static_cast<std::size_t>(head_[at]), {step::back, slot});
      }
    }
    return 0;
  }

  void see(std::size_t vertex, hop next) {
    if (to_vertex_[vertex].kind != step::none) return;
    to_vertex_[vertex] = next;
    queue_.push_back(static_cast<int>(vertex));
  }

  /// Sends as much as fits from a tree to `y` along the hops found.
  std::int64_t send_along(std::size_t tree, std::size_t y) {
    auto amount = left_[tree];
    for (auto v = to_tree_[tree]; v != y;) {
      auto const [kind, by] = to_vertex_[v];
      auto const i = static_cast<std::size_t>(by);
      if (kind == step::tree) {
        amount = std::min(amount, sent_[i * vertices_ + v]);
        v = to_tree_[i];
      } else {
        amount = std::min(amount, kind == step::over ? residual_[i] : flow_[i]);
        v = static_cast<std::size_t>(kind == step::over ? head_[i] : tail_[i]);
      }
    }
    left_[tree] -= amount;
    auto v = to_tree_[tree];
    send_from(tree, v, amount);
    while (v != y) {
      auto const [kind, by] = to_vertex_[v];
      auto const i = static_cast<std::size_t>(by);
      if (kind == step::tree) {
        sent_[i * vertices_ + v] -= amount;
        if (sent_[i * vertices_ + v] == 0) std::erase(at_[i], v);
        v = to_tree_[i];
        send_from(i, v, amount);
      } else {
        send_over(i, kind == step::over ? amount : -amount);
        v = static_cast<std::size_t>(kind == step::over ? head_[i] : tail_[i]);
      }
    }
    return amount;
  }

  std::size_t vertices_ = 0;
  std::vector<std::int64_t> room_;          // by edge
  std::vector<std::int64_t> multiplicity_;  // by tree
  // The edges have slots by their heads, so that a search reads what it needs in a row.
  static constexpr int not_listed = -2;
  std::vector<std::size_t> into_begin_;  // by vertex: the first slot
  std::vector<std::size_t> out_count_;   // by vertex: edges out of it
  std::vector<std::size_t> slot_;        // by edge
  std::vector<std::size_t> edge_;        // by slot
  std::vector<int> tail_, head_;         // by slot
  std::size_t words_ = 0;
  std::vector<std::uint64_t> member_;  // rows: vertices; bits: the trees that reached them

  // The present flow: trees send from vertices that they reached, over edges, into one vertex.
  std::vector<std::int64_t> residual_, flow_;    // by slot
  std::vector<std::size_t> changed_;             // slots in which they are not the room and 0
  std::vector<int> first_out_, next_out_;        // by vertex and slot: lists of edges with flow
  std::vector<std::int64_t> left_;               // by tree: amount not sent yet
  std::vector<std::int64_t> sent_;               // rows: trees; columns: vertices
  std::vector<std::vector<std::size_t>> at_;     // by tree: vertices that it sends from
  std::vector<std::size_t> used_;                // trees that send
  std::vector<std::uint64_t> missing_, unseen_;  // sets of trees
  std::vector<hop> to_vertex_;                   // first hop of the path from a vertex to y
  // by tree: the vertex at which its path to y begins
  std::vector<std::size_t> to_tree_;
  std::vector<int> queue_;
  std::size_t work_ = 0;

  std::vector<sent_paths> remembered_;  // by y; over slots
  flow_division division_;
  std::vector<std::int64_t> spare_;  // by tree: amount of former paths to remember
};

}}}  // namespace blink::BLINK_ABI::detail
