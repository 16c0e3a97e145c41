// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/rational.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <numeric>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A directed graph whose vertices and edges carry labels. A label is a number with the same
/// meaning in all graphs that are compared.
struct labelled_digraph {
  struct neighbour {
    int vertex = 0;
    int out_label = 0;  ///< of the edge to it; 0 for none
    int in_label = 0;   ///< of the edge from it
  };
  std::vector<int> labels;                         ///< by vertex
  std::vector<std::vector<neighbour>> neighbours;  ///< by vertex, each other vertex at most once
};

/// Finds the order of the vertices with the smallest description, among all orders that refinement
/// and individualisation reach.
///
/// The search visits the tree of choices depth first. Two facts keep the tree small:
///
/// - Vertices that an automorphism exchanges have equal traces of refinement. So branches with a
///   larger trace are cut.
/// - A leaf with the description of an earlier leaf gives an automorphism. So one vertex of each of
///   its orbits is enough.
class canonical_search {
 public:
  canonical_search(labelled_digraph const& graph, std::int64_t step_limit)
      : graph_(graph), step_limit_(step_limit) {
    auto const n = graph.labels.size();
    std::vector<int> ranked(n);
    std::iota(ranked.begin(), ranked.end(), 0);
    std::sort(ranked.begin(), ranked.end(),
              [&](int a, int b) { return graph.labels[at(a)] < graph.labels[at(b)]; });
    std::vector<int> colours(n);
    for (std::size_t i = 0; i < n; ++i) {
      bool const is_same = i > 0 && graph.labels[at(ranked[i])] == graph.labels[at(ranked[i - 1])];
      colours[at(ranked[i])] = is_same ? colours[at(ranked[i - 1])] : static_cast<int>(i);
    }
    (void)visit(std::move(colours), 0);
  }

  /// The vertices in canonical order.
  [[nodiscard]] std::vector<int> const& order() const { return best_.order; }
  /// True if the search visited the whole tree of choices. Otherwise the order may depend on the
  /// numbering of the machine.
  [[nodiscard]] bool is_complete() const { return steps_ <= step_limit_; }
  [[nodiscard]] std::int64_t steps() const { return steps_; }

 private:
  struct leaf {
    std::vector<int> path;             ///< the vertices that were individualised
    std::vector<std::uint64_t> trace;  ///< one number for each refinement on the path
    std::vector<int> code;             ///< the graph in the new numbering
    std::vector<int> order;
  };

  static std::size_t at(int i) { return static_cast<std::size_t>(i); }

  /// Splits colours by the neighbours of the vertices until nothing changes. A colour is the number
  /// of vertices with smaller colours. Returns a number that does not depend on the numbering.
  std::uint64_t refine(std::vector<int>& colours) const {
    auto const n = colours.size();
    std::vector<std::vector<int>> label(n);
    std::vector<int> ranked(n);
    std::iota(ranked.begin(), ranked.end(), 0);
    for (std::size_t classes = 0;;) {
      for (std::size_t v = 0; v < n; ++v) {
        std::vector<std::vector<int>> around;
        for (auto const& [w, out, in] : graph_.neighbours[v]) {
          around.push_back({colours[at(w)], out, in});
        }
        std::sort(around.begin(), around.end());
        label[v].assign(1, colours[v]);
        for (auto const& one : around) {
          label[v].insert(label[v].end(), one.begin(), one.end());
        }
      }
      std::sort(ranked.begin(), ranked.end(),
                [&](int a, int b) { return label[at(a)] < label[at(b)]; });
      std::size_t found = 0;
      for (std::size_t i = 0; i < n; ++i) {
        bool const is_same = i > 0 && label[at(ranked[i])] == label[at(ranked[i - 1])];
        if (!is_same) ++found;
        colours[at(ranked[i])] = is_same ? colours[at(ranked[i - 1])] : static_cast<int>(i);
      }
      if (found == classes) break;
      classes = found;
    }
    std::uint64_t hash = 0xcbf29ce484222325U;
    for (int const v : ranked) {
      for (int const part : label[at(v)]) {
        hash = (hash ^ static_cast<std::uint64_t>(part)) * 0x100000001b3U;
      }
      hash = (hash ^ 0xffU) * 0x100000001b3U;
    }
    return hash;
  }

  /// The first of the smallest colour classes with more than one vertex; empty if there is none.
  static std::vector<int> branching_class(std::vector<int> const& colours) {
    std::vector<std::vector<int>> classes(colours.size());
    for (std::size_t v = 0; v < colours.size(); ++v) {
      classes[at(colours[v])].push_back(static_cast<int>(v));
    }
    std::vector<int> chosen;
    for (auto& one : classes) {
      if (one.size() > 1 && (chosen.empty() || one.size() < chosen.size())) chosen = std::move(one);
    }
    return chosen;
  }

  /// Visits a node of the tree of choices. Returns the depth at which the search continues; `depth`
  /// means with the next choice here.
  int visit(std::vector<int> colours, int depth) {
    if (++steps_ > step_limit_ && !best_.order.empty()) return -1;
    trace_.push_back(refine(colours));
    int back = depth;
    auto const choices = branching_class(colours);
    if (choices.empty()) {
      back = visit_leaf(colours, depth);
    } else if (!is_worse_than_best()) {
      std::vector<int> tried;
      for (int const v : choices) {
        if (is_exchanged_with_one_of(tried, v)) continue;
        tried.push_back(v);
        auto next = colours;
        for (int const w : choices) {
          if (w != v) ++next[at(w)];
        }
        path_.push_back(v);
        back = visit(std::move(next), depth + 1);
        path_.pop_back();
        if (back < depth) break;
      }
    }
    trace_.pop_back();
    return std::min(back, depth);
  }

  [[nodiscard]] bool is_worse_than_best() const {
    if (best_.order.empty()) return false;
    auto const n = std::min(trace_.size(), best_.trace.size());
    return std::lexicographical_compare(
        best_.trace.begin(), best_.trace.begin() + static_cast<std::ptrdiff_t>(n), trace_.begin(),
        trace_.begin() + static_cast<std::ptrdiff_t>(n));
  }

  int visit_leaf(std::vector<int> const& colours, int depth) {
    leaf here{path_, trace_, {}, std::vector<int>(colours.size())};
    for (std::size_t v = 0; v < colours.size(); ++v)
      here.order[at(colours[v])] = static_cast<int>(v);
    for (int const v : here.order) {
      std::vector<std::pair<int, int>> out;
      for (auto const& [w, out_label, in_label] : graph_.neighbours[at(v)]) {
        if (out_label != 0) out.emplace_back(colours[at(w)], out_label);
      }
      std::sort(out.begin(), out.end());
      for (auto const& [head, label] : out) here.code.insert(here.code.end(), {head, label});
      here.code.push_back(-1);
    }
    for (leaf const* known : {&first_, &best_}) {
      if (known->order.empty() || known->code != here.code) continue;
      std::vector<int> image(colours.size());
      for (std::size_t i = 0; i < image.size(); ++i) image[at(known->order[i])] = here.order[i];
      automorphisms_.push_back(std::move(image));
      auto const apart =
          std::mismatch(known->path.begin(), known->path.end(), path_.begin(), path_.end());
      return static_cast<int>(apart.first - known->path.begin());
    }
    auto const order = std::pair(here.trace, here.code) <=> std::pair(best_.trace, best_.code);
    if (best_.order.empty() || order < 0) best_ = here;
    if (first_.order.empty()) first_ = std::move(here);
    return depth;
  }

  /// True if known automorphisms that keep the path map `v` to a vertex of `tried`.
  [[nodiscard]] bool is_exchanged_with_one_of(std::vector<int> const& tried, int v) const {
    if (tried.empty() || automorphisms_.empty()) return false;
    std::vector<int> orbit(graph_.labels.size());
    std::iota(orbit.begin(), orbit.end(), 0);
    auto const find = [&](int w) {
      while (orbit[at(w)] != w) w = orbit[at(w)] = orbit[at(orbit[at(w)])];
      return w;
    };
    for (auto const& image : automorphisms_) {
      if (!std::all_of(path_.begin(), path_.end(), [&](int w) { return image[at(w)] == w; }))
        continue;
      for (std::size_t w = 0; w < image.size(); ++w) {
        orbit[at(find(static_cast<int>(w)))] = find(image[w]);
      }
    }
    return std::any_of(tried.begin(), tried.end(), [&](int w) { return find(w) == find(v); });
  }

  labelled_digraph const& graph_;
  std::int64_t step_limit_;
  std::int64_t steps_ = 0;
  std::vector<int> path_;
  std::vector<std::uint64_t> trace_;
  leaf first_;
  leaf best_;
  std::vector<std::vector<int>> automorphisms_;  ///< the image of each vertex
};

}}}  // namespace blink::BLINK_ABI::detail

namespace blink { inline namespace BLINK_ABI {

/// A description of a machine that does not depend on the numbering of its nodes.
struct canonical_form {
  std::string key;         ///< equal for two machines if and only if they are isomorphic
  std::vector<int> order;  ///< positions of the nodes in canonical order
  /// false: the limit ended the search, and isomorphic machines may have different keys
  bool is_exact = true;
  std::int64_t steps = 0;  ///< number of refinements
};

/// Finds a numbering of the machine that does not depend on the given one, and describes the
/// machine in it. A plan for one machine also serves any other machine with the same key. Node
/// `order[i]` of the one machine corresponds to node `order[i]` of the other.
///
/// Two machines are isomorphic if some renumbering of the nodes keeps the kind of each node and the
/// links between each two nodes. Links are equal if kind, capacity and unit are. Names, ids,
/// servers and latencies do not matter.
///
/// Source: B. D. McKay, "Practical graph isomorphism", Congressus Numerantium 30, 1981;
///         B. D. McKay and A. Piperno, "Practical graph isomorphism, II", J. Symbolic Computation
///         60, 2014.
/// Time:   O(s V E log V) for s steps. s is 1 without symmetry, and at most O(V^2) on stars, meshes
///         and complete graphs. On graphs constructed for that purpose s is exponential, and
///         `step_limit` ends the search.
/// Pre:    the machine passes `validate`; step_limit > 0.
/// Post:   renumbering the machine by `order` gives `key`.
/// Throws: input_error from `validate`, precondition_error for the limit.
[[nodiscard]] inline canonical_form canonical(topology const& machine,
                                              std::int64_t step_limit = 1'000'000) {
  expects(step_limit > 0, "canonical: a step_limit of 0 or less, expected a positive number");
  validate(machine);
  auto const n = machine.nodes.size();

  // The links between two nodes as text. Texts are numbered in their alphabetical order.
  std::map<std::pair<int, int>, std::vector<std::string>> links;
  for (auto const& link : machine.links) {
    links[{link.tail, link.head}].push_back(std::string(to_text(link.kind)) + " " +
                                            machine.in_units(link.capacity).to_text());
  }
  std::map<std::pair<int, int>, std::string> between;
  std::set<std::string> texts;
  for (auto& [ends, parallel] : links) {
    std::sort(parallel.begin(), parallel.end());
    std::string text;
    for (auto const& one : parallel) text += (text.empty() ? "" : " + ") + one;
    between[ends] = *texts.insert(text).first;
  }
  std::map<std::string, int> number;
  for (auto const& text : texts) number.emplace(text, static_cast<int>(number.size()) + 1);

  detail::labelled_digraph graph{std::vector<int>(n), {}};
  graph.neighbours.resize(n);
  for (std::size_t i = 0; i < n; ++i) {
    auto const& node = machine.nodes[i];
    graph.labels[i] = static_cast<int>(node.kind) + (node.copies ? 2 : 0) + (node.reduces ? 4 : 0);
  }
  for (auto const& [ends, text] : between) {
    auto const [tail, head] = ends;
    auto const back = between.find({head, tail});
    int const out = number[text];
    int const in = back == between.end() ? 0 : number[back->second];
    graph.neighbours[static_cast<std::size_t>(tail)].push_back({head, out, in});
    if (in == 0) graph.neighbours[static_cast<std::size_t>(head)].push_back({tail, 0, out});
  }

  detail::canonical_search const search(graph, step_limit);
  canonical_form result{{}, search.order(), search.is_complete(), search.steps()};
  std::vector<int> place(n);
  for (std::size_t i = 0; i < n; ++i) {
    place[static_cast<std::size_t>(result.order[i])] = static_cast<int>(i);
  }
  std::map<std::pair<int, int>, std::string> renumbered;
  for (auto const& [ends, text] : between) {
    renumbered[{place[static_cast<std::size_t>(ends.first)],
                place[static_cast<std::size_t>(ends.second)]}] = text;
  }
  result.key = std::to_string(machine.rank_positions().size()) + " ranks of " + std::to_string(n) +
               " nodes, " + machine.unit;
  for (std::size_t i = 0; i < n; ++i) {
    auto const& node = machine.nodes[static_cast<std::size_t>(result.order[i])];
    if (!node.copies && !node.reduces) continue;
    result.key += "; " + std::to_string(i) + (node.copies ? " copies" : "") +
                  (node.reduces ? " reduces" : "");
  }
  for (auto const& [ends, text] : renumbered) {
    result.key +=
        "; " + std::to_string(ends.first) + ">" + std::to_string(ends.second) + " " + text;
  }
  return result;
}

}}  // namespace blink::BLINK_ABI
