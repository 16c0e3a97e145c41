// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/config.hpp>
#include <blink/planning/check/detail/view_index.hpp>

#include <cstddef>
#include <cstdint>
#include <set>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI { namespace detail {

/// A node that carries nothing from one rank to another.
struct dead_end {
  enum class cause : std::uint8_t {
    unreached,      ///< no rank reaches it
    leads_nowhere,  ///< it reaches no rank
    one_neighbour,  ///< it is entered from one node only, and leads back to that node only
  };
  cause why = cause::unreached;
  int node = 0;       ///< by number
  int neighbour = 0;  ///< the only one
};

/// The dead ends among the nodes that are no ranks. Each that has one neighbour has it when those
/// before it in the list are removed.
/// Time: O((nodes + links) log nodes).
[[nodiscard]] inline std::vector<dead_end> find_dead_ends(view_index const& index) {
  auto const n = index.node_count();
  std::vector<std::set<int>> out(n), in(n);
  for (auto const& l : index.links()) {
    out[static_cast<std::size_t>(l.from)].insert(l.to);
    in[static_cast<std::size_t>(l.to)].insert(l.from);
  }
  std::vector<dead_end> result;
  std::vector<bool> is_dead(n);
  auto const remove = [&](dead_end const& end) {
    auto const v = static_cast<std::size_t>(end.node);
    is_dead[v] = true;
    result.push_back(end);
    for (int const to : out[v]) in[static_cast<std::size_t>(to)].erase(end.node);
    for (int const from : in[v]) out[static_cast<std::size_t>(from)].erase(end.node);
  };
  for (auto const& [next, why] : {std::pair(&out, dead_end::cause::unreached),
                                  std::pair(&in, dead_end::cause::leads_nowhere)}) {
    std::vector<bool> is_met(n);
    std::vector<std::size_t> open;
    for (std::size_t v = 0; v < n; ++v) {
      if (!index.is_rank(static_cast<int>(v))) continue;
      is_met[v] = true;
      open.push_back(v);
    }
    while (!open.empty()) {
      std::size_t const at = open.back();
      open.pop_back();
      for (int const to : (*next)[at]) {
        if (is_met[static_cast<std::size_t>(to)]) continue;
        is_met[static_cast<std::size_t>(to)] = true;
        open.push_back(static_cast<std::size_t>(to));
      }
    }
    for (std::size_t v = 0; v < n; ++v) {
      if (!is_met[v] && !is_dead[v]) remove({why, static_cast<int>(v), -1});
    }
  }
  std::vector<std::size_t> open;
  for (std::size_t v = 0; v < n; ++v) open.push_back(v);
  while (!open.empty()) {
    std::size_t const v = open.back();
    open.pop_back();
    if (is_dead[v] || index.is_rank(static_cast<int>(v))) continue;
    if (in[v].size() != 1 || in[v] != out[v]) continue;
    int const neighbour = *in[v].begin();
    remove({dead_end::cause::one_neighbour, static_cast<int>(v), neighbour});
    open.push_back(static_cast<std::size_t>(neighbour));
  }
  return result;
}

}}}  // namespace blink::BLINK_ABI::detail
