// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>

#include <algorithm>
#include <cstddef>
#include <map>
#include <set>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// The plan averaged over all compositions of the symmetries. The images of a tree share its weight
/// equally. Rate, bound and heights stay. Links that symmetries map to each other get equal loads.
///
/// Pre:    each map is a symmetry of the machine (`expect_symmetry`).
/// Throws: input_error if a symmetry moves the root of a broadcast or reduce; planning_error for
///         more than `most` compositions.
[[nodiscard]] inline plan symmetric_plan(plan p,
                                         std::vector<std::map<int, int>> const& symmetries) {
  constexpr std::size_t most = 4096;
  std::set<int> nodes(p.ranks.begin(), p.ranks.end());
  for (auto const& s : symmetries) {
    for (auto const& [from, to] : s) nodes.insert(from);
  }
  auto const image = [](std::map<int, int> const& s, int id) {
    auto const found = s.find(id);
    return found == s.end() ? id : found->second;
  };
  std::map<int, int> identity;
  for (int const id : nodes) identity.emplace(id, id);
  std::set<std::map<int, int>> group{identity};
  std::vector<std::map<int, int>> open{identity};
  while (!open.empty()) {
    auto const at = open.back();
    open.pop_back();
    for (auto const& s : symmetries) {
      auto next = at;
      for (auto& [from, to] : next) to = image(s, to);
      if (group.insert(next).second) open.push_back(next);
      if (group.size() > most) {
        throw planning_error("options: the symmetries have more than " + std::to_string(most) +
                             " compositions");
      }
    }
  }
  using key = std::tuple<int, std::vector<std::vector<int>>, std::vector<std::vector<int>>>;
  std::map<key, std::size_t> known;
  std::vector<tree> trees;
  bool const one_root = has_one_root(p.collective);
  for (auto const& s : group) {
    for (auto const& t : p.trees) {
      tree moved{image(s, t.root), t.weight / static_cast<std::int64_t>(group.size()), t.reduce,
                 t.broadcast};
      if (one_root && moved.root != t.root) {
        throw input_error("options: a symmetry moves the root " + std::to_string(t.root) + " to " +
                          std::to_string(moved.root));
      }
      key name{moved.root, {}, {}};
      for (auto const& [phase, paths] : {std::pair(&moved.reduce, &std::get<1>(name)),
                                         std::pair(&moved.broadcast, &std::get<2>(name))}) {
        for (auto& e : *phase) {
          e.from = image(s, e.from);
          e.to = image(s, e.to);
          for (int& id : e.path) id = image(s, id);
          paths->push_back(e.path);
        }
        std::sort(paths->begin(), paths->end());
      }
      auto const [found, fresh] = known.emplace(std::move(name), trees.size());
      if (fresh) {
        trees.push_back(std::move(moved));
      } else {
        trees[found->second].weight += moved.weight;
      }
    }
  }
  p.trees = std::move(trees);
  return p;
}

}}}  // namespace blink::BLINK_ABI::detail
