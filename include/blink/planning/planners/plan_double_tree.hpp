// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/planning/plan/detail/routed_forest.hpp>
#include <blink/planning/plan/detail/servers.hpp>
#include <blink/planning/plan/plan.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {
namespace detail {

/// Parents in the in-order binary tree over 1 … count (0 at its root): i hangs below the number
/// that shares all but its lowest set bit and has the next bit set, if there is one so large.
[[nodiscard]] inline std::vector<std::size_t> in_order_parents(std::size_t count) {
  std::vector<std::size_t> parent(count + 1, 0);
  for (std::size_t i = 1; i <= count; ++i) {
    std::size_t const bit = i & (~i + 1);
    std::size_t const above = (i ^ bit) | (bit << 1U);
    parent[i] = above <= count ? above : i ^ bit;
  }
  return parent;
}

/// The same tree over other names, so that inner nodes and leaves change places: reversed for an
/// even count, shifted by one for an odd one.
[[nodiscard]] inline std::size_t second_name(std::size_t i, std::size_t count) {
  return count % 2 == 0 ? count + 1 - i : i % count + 1;
}

/// A binary tree over some ranks; `hops` has the edges below its root.
struct binary_tree {
  int root = 0;  ///< node id
  tree_hops hops;
};

/// One of the two trees over these ranks, in their order.
[[nodiscard]] inline binary_tree in_order_tree(std::vector<int> const& ids, bool second) {
  auto const count = ids.size();
  auto const parent = in_order_parents(count);
  auto const member = [&](std::size_t i) { return ids[(second ? second_name(i, count) : i) - 1]; };
  binary_tree result;
  // Parents before children: the larger its lowest set bit, the higher a number is in the tree.
  std::size_t bit = 1;
  while (bit * 2 <= count) bit *= 2;
  for (; bit > 0; bit /= 2) {
    for (std::size_t i = bit; i <= count; i += 2 * bit) {
      if (parent[i] == 0) {
        result.root = member(i);
      } else {
        result.hops.emplace_back(member(parent[i]), member(i));
      }
    }
  }
  return result;
}

}  // namespace detail

/// Plans all-reduce, broadcast or reduce over two complementary binary trees in rank order, half of
/// the data each: logarithmic latency at full rate on a switch. A baseline: it does not look at the
/// links. A tree edge between ranks that share no link takes a route of fewest hops, and loads its
/// links.
///
/// Source: Sanders, Speck, Traeff, "Two-tree algorithms for full bandwidth broadcast, reduction and
///         scan", Parallel Computing 35, 2009.
/// Time:   O(N L) for N ranks and L links.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error for other collectives, and if some ranks are not connected.
[[nodiscard]] inline plan plan_double_tree(topology const& machine, plan_request const& request) {
  detail::routed_forest forest(machine, request);
  auto members = forest.ranks();
  if (members.size() == 1) return std::move(forest).finish();
  // All-reduce: the trees span all ranks. Otherwise they span the rest, and the root feeds both.
  bool const both_ways = request.collective == collective::all_reduce;
  int const root = request.root.value_or(members.front());
  if (!both_ways) members.erase(std::find(members.begin(), members.end(), root));
  for (bool const second : {false, true}) {
    auto [top, hops] = detail::in_order_tree(members, second);
    if (!both_ways) hops.emplace(hops.begin(), root, top);
    forest.add(both_ways ? top : root, hops);
  }
  return std::move(forest).finish();
}

/// Plans all-reduce, broadcast or reduce over double binary trees among servers and chains inside
/// them. Each of the ranks by which a server joins the other servers gets a pair of trees, in turn.
/// Ring libraries use trees on several servers in this way, a pair for each NIC.
///
/// Source: Sanders, Speck, Traeff 2009 (see `plan_double_tree`), applied to servers.
/// Time:   O(M N L) for M ranks in the smallest server, N in all and L links.
/// Post:   `bound` is 0 and there is no certificate: `make_plan` adds the machine's own.
/// Throws: planning_error for other collectives, on a single server, and if some ranks are not
///         connected.
[[nodiscard]] inline plan plan_box_tree(topology const& machine, plan_request const& request) {
  detail::routed_forest forest(machine, request);
  if (forest.ranks().size() == 1) return std::move(forest).finish();
  auto const servers = detail::several_servers(machine, request.planner);
  auto const holds = [&](detail::server const& s, int id) {
    return std::find(s.ids.begin(), s.ids.end(), id) != s.ids.end();
  };
  bool const both_ways = request.collective == collective::all_reduce;
  int const root = request.root.value_or(forest.ranks().front());
  std::size_t rails = servers.front().ids.size();
  for (auto const& s : servers) rails = std::min(rails, s.ids.size());
  for (std::size_t rail = 0; rail < rails; ++rail) {
    std::vector<int> heads;  // of the chains in the servers
    detail::tree_hops chains;
    int gate = root;  // the rank through which the root's server feeds the others
    for (auto const& s : servers) {
      auto chain = detail::turned_to(s.ids, rail);
      if (!both_ways && holds(s, root)) {
        // From the root to the gate, then on: a chain that begins at the root.
        gate = chain.front();
        chain.erase(std::find(chain.begin(), chain.end(), root));
        chain.insert(chain.begin(), root);
      } else {
        heads.push_back(chain.front());
      }
      auto const hops = detail::chain_of(chain);
      chains.insert(chains.end(), hops.begin(), hops.end());
    }
    for (bool const second : {false, true}) {
      auto [top, between] = detail::in_order_tree(heads, second);
      auto hops = chains;
      if (!both_ways) hops.emplace_back(gate, top);
      hops.insert(hops.end(), between.begin(), between.end());
      // As added, a chain may come before the edge that feeds it; order them from the root on.
      forest.add(both_ways ? top : root,
                 detail::from_root(std::move(hops), both_ways ? top : root));
    }
  }
  return std::move(forest).finish();
}

}}  // namespace blink::BLINK_ABI
