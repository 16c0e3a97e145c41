// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/core/collective.hpp>
#include <blink/core/config.hpp>
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/topology.hpp>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink { inline namespace BLINK_ABI {

namespace detail {

/// The name of a link in messages.
[[nodiscard]] inline std::string link_name(std::pair<int, int> const& link) {
  return std::to_string(link.first) + " -> " + std::to_string(link.second);
}

/// Sums of capacities between nodes, by (from, to) node ids.
[[nodiscard]] inline std::map<std::pair<int, int>, std::int64_t> capacities_by_ids(
    topology const& machine) {
  std::map<std::pair<int, int>, std::int64_t> result;
  for (auto const& l : machine.links) {
    result[{machine.nodes[static_cast<std::size_t>(l.tail)].id,
            machine.nodes[static_cast<std::size_t>(l.head)].id}] += l.capacity;
  }
  return result;
}

/// Throws input_error unless the map permutes the machine's nodes and keeps kinds and capacities.
///
/// machine: without the `forbidden` links; the `forwarding_ranks` are switches in it
inline void expect_symmetry(topology const& machine, std::map<int, int> const& symmetry,
                            std::set<std::pair<int, int>> const& forbidden,
                            std::vector<int> const& forwarding_ranks, std::string const& where) {
  auto const image = [&](int id) {
    auto const found = symmetry.find(id);
    return found == symmetry.end() ? id : found->second;
  };
  auto const kind = [&](int id) {
    int const at = machine.position_of(id);
    if (at < 0) throw input_error(where + ": no node has the id " + std::to_string(id));
    return machine.nodes[static_cast<std::size_t>(at)].kind;
  };
  std::set<int> images;
  for (auto const& n : machine.nodes) {
    if (!images.insert(image(n.id)).second) {
      throw input_error(where + ": two nodes go to " + std::to_string(image(n.id)));
    }
    if (kind(image(n.id)) != n.kind) {
      bool const hinted = std::ranges::count(forwarding_ranks, n.id) +
                          std::ranges::count(forwarding_ranks, image(n.id));
      throw input_error(where + ": node " + std::to_string(n.id) + " goes to " +
                        std::to_string(image(n.id)) +
                        (hinted ? ", and only one of them is in forwarding_ranks"
                                : ", which is of another kind"));
    }
  }
  for (auto const& [from, to] : symmetry) (void)kind(from);
  auto const capacity = capacities_by_ids(machine);
  for (auto const& [ends, c] : capacity) {
    std::pair const other(image(ends.first), image(ends.second));
    auto const found = capacity.find(other);
    if (found == capacity.end() || found->second != c) {
      throw input_error(where + ": link " + link_name(ends) + " goes to " + link_name(other) +
                        (forbidden.contains(other) ? ", which is in forbidden_links"
                         : found == capacity.end() ? ", which is no link"
                                                   : ", which has another capacity"));
    }
  }
}

}  // namespace detail

/// The machine within the constraints of the request. Forwarding ranks are switches in it, and
/// forbidden links are gone. Nodes keep their ids and positions.
///
/// Throws: input_error that names an unknown node or link, or two constraints that contradict each
///         other.
[[nodiscard]] inline topology restricted_machine(topology machine, plan_request const& request) {
  auto const& options = request.constraints;
  auto const fail = [](std::string const& what) { throw input_error("options: " + what); };
  auto const rank_at = [&](int id, char const* option) {
    int const at = machine.position_of(id);
    if (at < 0) fail(std::string(option) + ": no node has the id " + std::to_string(id));
    if (machine.nodes[static_cast<std::size_t>(at)].kind != node_kind::rank) {
      fail(std::string(option) + ": node " + std::to_string(id) + " is not a rank");
    }
    return static_cast<std::size_t>(at);
  };
  for (auto const& [value, name] :
       {std::pair(options.max_trees, "max_trees"), std::pair(options.max_height, "max_height"),
        std::pair(options.trees_per_root, "trees_per_root")}) {
    if (value && *value < 1) {
      fail(std::string(name) + ": found " + std::to_string(*value) + ", expected 1 or more");
    }
  }
  if (options.weight_unit && *options.weight_unit <= rational(0)) {
    fail("weight_unit: found " + options.weight_unit->to_text() + ", expected a positive number");
  }
  for (auto const& [given, name] : {std::pair(options.trees_per_root.has_value(), "trees_per_root"),
                                    std::pair(!options.shares.empty(), "shares")}) {
    if (given && !has_equal_roots(request.collective)) {
      fail(std::string(name) + ": is for all_gather and reduce_scatter, not for " +
           std::string(to_text(request.collective)));
    }
  }
  if (options.trees_per_root && options.weight_unit) {
    fail(
        "trees_per_root and weight_unit contradict each other: k trees a root have the weights "
        "that make k the fastest");
  }
  auto const capacity = detail::capacities_by_ids(machine);
  std::set<std::pair<int, int>> const forbidden(options.forbidden_links.begin(),
                                                options.forbidden_links.end());
  for (auto const* links : {&options.forbidden_links, &options.required_links}) {
    bool const forbids = links == &options.forbidden_links;
    for (auto const& link : *links) {
      if (!capacity.contains(link)) {
        fail(std::string(forbids ? "forbidden" : "required") + "_links: the machine has no link " +
             detail::link_name(link));
      }
      if (!forbids && forbidden.contains(link)) {
        fail("link " + detail::link_name(link) + " is both forbidden and required");
      }
      bool const spreads = has_broadcast_phase(request.collective);
      if (!forbids && request.root && has_one_root(request.collective) &&
          (spreads ? link.second : link.first) == *request.root) {
        fail("required_links: " + detail::link_name(link) + " leads " +
             (spreads ? "into the root " : "out of the root ") + std::to_string(*request.root) +
             ", as no tree of a " + std::string(to_text(request.collective)) + " does");
      }
    }
  }
  for (int const id : options.forwarding_ranks) {
    auto const at = rank_at(id, "forwarding_ranks");
    if (request.root == id)
      fail("rank " + std::to_string(id) + " is both the root and in forwarding_ranks");
    if (options.shares.contains(id)) {
      fail("rank " + std::to_string(id) + " has a share and is in forwarding_ranks");
    }
    machine.nodes[at].kind = node_kind::switch_node;
  }
  if (machine.rank_positions().empty()) fail("forwarding_ranks: no rank is left");
  bool some = options.shares.empty() || options.shares.size() < machine.rank_positions().size();
  for (auto const& [id, share] : options.shares) {
    (void)rank_at(id, "shares");
    if (share < 0) fail("shares: rank " + std::to_string(id) + " has " + std::to_string(share));
    some = some || share > 0;
  }
  if (!some) fail("shares: all are 0");
  std::erase_if(machine.links, [&](link const& l) {
    return forbidden.contains({machine.nodes[static_cast<std::size_t>(l.tail)].id,
                               machine.nodes[static_cast<std::size_t>(l.head)].id});
  });
  auto const ranks = machine.rank_positions().size();
  if (options.max_trees && has_equal_roots(request.collective) && ranks > 1) {
    std::size_t roots = ranks;
    for (auto const& [id, share] : options.shares) roots -= share == 0 ? 1 : 0;
    if (static_cast<std::size_t>(*options.max_trees) < roots) {
      fail("max_trees: found " + std::to_string(*options.max_trees) + ", but " +
           std::to_string(roots) + " ranks need a tree of their own");
    }
    if (options.trees_per_root && static_cast<std::size_t>(*options.max_trees) / roots <
                                      static_cast<std::size_t>(*options.trees_per_root)) {
      fail("max_trees " + std::to_string(*options.max_trees) + " and trees_per_root " +
           std::to_string(*options.trees_per_root) +
           " contradict each other: " + std::to_string(roots) + " ranks have so many each");
    }
  }
  for (std::size_t i = 0; i < options.symmetries.size(); ++i) {
    auto const where = "options: symmetries[" + std::to_string(i) + "]";
    detail::expect_symmetry(machine, options.symmetries[i], forbidden, options.forwarding_ranks,
                            where);
    auto const moved =
        request.root ? options.symmetries[i].find(*request.root) : options.symmetries[i].end();
    if (moved != options.symmetries[i].end() && moved->second != moved->first) {
      throw input_error(where + ": moves the root " + std::to_string(*request.root));
    }
    for (auto const& [from, to] : options.symmetries[i]) {
      auto const share = [&](int id) {
        auto const found = options.shares.find(id);
        return found == options.shares.end() ? std::int64_t{1} : found->second;
      };
      if (share(from) != share(to)) {
        throw input_error(where + ": " + std::to_string(from) + " and " + std::to_string(to) +
                          " have different shares");
      }
    }
  }
  return machine;
}

}}  // namespace blink::BLINK_ABI
