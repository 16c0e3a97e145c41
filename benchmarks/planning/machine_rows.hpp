// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <blink/planning/plan/plan_request.hpp>
#include <blink/topology/readers/read_machine.hpp>

#include "support/random_machines.hpp"
#include "support/small_machines.hpp"

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <map>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

namespace blink::bench {

/// The cost of ForestColl on the same machine: cpu seconds of one thread for bound, switches and
/// trees, measured with its published program; 0: unknown or not finished.
struct other_planner {
  double seconds = 0;
  int trees = 0;
  int height = 0;
};

/// A machine and a collective to plan on it.
struct machine_row {
  std::string family;  ///< "known", or one whose growth is fitted
  topology machine;
  plan_request request;
  double goal_ms = 0;  ///< 0: none
  other_planner other;
};

/// A machine in which so many links of capacity 1 to 6 leave each rank and as many enter it.
inline topology random_regular(unsigned ranks, unsigned degree) {
  std::mt19937 random(ranks);
  topology machine;
  machine.name = "regular" + std::to_string(ranks);
  std::vector<int> order;
  for (unsigned i = 0; i < ranks; ++i) {
    machine.nodes.push_back({static_cast<int>(i), node_kind::rank, ""});
    order.push_back(static_cast<int>(i));
  }
  std::map<std::pair<int, int>, std::int64_t> capacity;
  for (unsigned d = 0; d < degree; ++d) {  // a random cycle over all
    std::shuffle(order.begin(), order.end(), random);
    for (unsigned i = 0; i < ranks; ++i) {
      capacity[{order[i], order[(i + 1) % ranks]}] += 1 + static_cast<std::int64_t>(random() % 6);
    }
  }
  for (auto const& [ends, c] : capacity) machine.links.push_back({ends.first, ends.second, c});
  return machine;
}

/// The machine with half the capacity on `count` of its links, both ways. The seed chooses them.
inline topology with_slow_links(topology machine, std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::set<std::pair<int, int>> slow;
  while (slow.size() < count) {
    auto const& one = machine.links[random() % machine.links.size()];
    slow.insert(std::minmax(one.tail, one.head));
  }
  machine.steps_per_unit *= 2;  // so that half of any capacity is whole
  for (auto& each : machine.links) {
    if (!slow.contains(std::minmax(each.tail, each.head))) each.capacity *= 2;
  }
  machine.name += ", " + std::to_string(count) + " slow links";
  return machine;
}

/// DGX-A100 servers with 3 % of their NICs at a quarter, a half or three quarters.
inline topology with_slow_nics(int servers) {
  auto machine = machines::dgx_a100(servers);
  std::vector<std::pair<int, int>> nics;
  for (auto const& l : machine.links) {
    if (l.kind == link_kind::network && l.tail < l.head) nics.emplace_back(l.tail, l.head);
  }
  std::mt19937 random(7);
  std::shuffle(nics.begin(), nics.end(), random);
  nics.resize(std::max<std::size_t>(1, nics.size() * 3 / 100));
  machine.steps_per_unit *= 4;  // so that quarters are whole
  for (auto& l : machine.links) l.capacity *= 4;
  for (auto const& nic : nics) {
    auto const quarters = static_cast<std::int64_t>(1 + random() % 3);
    for (auto& l : machine.links) {
      if (std::pair<int, int>(std::minmax(l.tail, l.head)) == nic)
        l.capacity = l.capacity / 4 * quarters;
    }
  }
  machine.name += ", 3 % slow NICs";
  return machine;
}

/// A square torus without the link between the first two ranks.
inline topology broken_torus(int side) {
  auto machine = machines::torus({side, side});
  std::erase_if(machine.links, [](blink::link const& l) {
    return std::min(l.tail, l.head) == 0 && std::max(l.tail, l.head) == 1;
  });
  machine.name += ", one link lost";
  return machine;
}

/// DGX-H100 servers behind one network, without the NIC of rank 0.
inline topology with_lost_nic(int servers) {
  auto machine = machines::dgx_h100(servers);
  std::erase_if(machine.links, [&](blink::link const& l) {
    auto const is_first = [&](int at) {
      return machine.nodes[static_cast<std::size_t>(at)].id == 0;
    };
    return l.kind == link_kind::network && (is_first(l.tail) || is_first(l.head));
  });
  machine.name += ", one NIC lost";
  return machine;
}

/// Servers of 8 ranks with a NIC each, without some of the NICs. Each NIC has a rail of its own.
inline topology with_lost_rail_nics(int servers, int count) {
  std::vector<std::pair<int, int>> lost;
  for (int k = 0; k < count; ++k) lost.emplace_back((5 * k + 1) % servers, 3 * k % 8);
  auto machine = test::rail_servers(servers, 8, lost);
  machine.name = std::to_string(servers) + " servers, " + std::to_string(count) + " NICs lost";
  return machine;
}

/// Known machines first, then families of growing size.
inline std::vector<machine_row> machine_rows() {
  std::vector<machine_row> rows;
  struct known {
    char const* machine;
    double goal_ms;
    other_planner other;
  };
  std::vector<known> const machines{
      {"dgx1v", 1, {0.065, 22, 5}},
      {"dgx1p", 1, {0.057, 15, 3}},
      {"mi250:1", 0, {0.59, 30, 14}},
      {"dgx2", 5, {0.93, 16, 15}},
      {"dgx_a100:2", 10, {4.4, 39, 11}},
      {"dgx_h100:2", 10, {2.2, 24, 11}},
      {"mi250:2", 50, {28.5, 140, 19}},
      {"dgx_a100:4", 100, {32.9, 32, 19}},
      {"torus:8x8", 500, {54.9, 0, 0}},
      {"mesh:8x8", 500, {60, 79, 22}},
      {"nvl72", 5, {}},
      {"dgx_a100:16", 1'000, {}},
      {"dgx_a100:64", 10'000, {}},
      {"dgx_a100:128", 60'000, {}},
  };
  auto const add = [&](std::string family, topology machine, collective kind, double goal = 0,
                       other_planner other = {}) {
    plan_request request{kind, {}, "exact"};
    if (has_one_root(kind)) {
      auto const first = static_cast<std::size_t>(machine.rank_positions().front());
      request.root = machine.nodes[first].id;
    }
    rows.push_back({std::move(family), std::move(machine), std::move(request), goal, other});
  };
  for (auto const& each : machines) {
    add("known", read_machine(each.machine), collective::all_gather, each.goal_ms, each.other);
  }
  for (auto const kind : {collective::all_reduce, collective::broadcast}) {
    for (auto const& each : machines) {
      auto machine = read_machine(each.machine);
      if (kind == collective::broadcast && machine.rank_positions().size() > 128) continue;
      add("known", std::move(machine), kind, each.goal_ms);
    }
  }
  for (auto const kind : {collective::all_gather, collective::all_reduce}) {
    for (int const servers : {2, 4, 8, 16, 32, 64}) {
      add("servers of 8", machines::dgx_a100(servers), kind);
    }
    if (kind == collective::all_reduce) {
      for (int const servers : {8, 16, 32, 64}) add("one NIC lost", with_lost_nic(servers), kind);
    }
    for (int const servers : {8, 16, 32, 64}) {
      add("one NIC of 8 rails lost", with_lost_rail_nics(servers, 1), kind);
    }
    for (int const lost : {2, 15, 50}) {
      add("NICs of 8 rails lost", with_lost_rail_nics(64, lost), kind);
    }
    for (int const side : {4, 6, 8, 10, 12})
      add("square tori", machines::torus({side, side}), kind);
  }
  for (auto const kind : {collective::all_gather, collective::all_reduce, collective::broadcast}) {
    for (int const servers : {16, 32, 64}) add("3 % slow NICs", with_slow_nics(servers), kind);
    for (int const side : {8, 16, 24}) add("one link of a torus lost", broken_torus(side), kind);
  }
  for (int const lost : {2, 15}) {
    add("NICs of 8 rails lost", with_lost_rail_nics(64, lost), collective::broadcast);
  }
  for (unsigned const ranks : {8U, 16U, 32U, 64U}) {
    for (auto const kind :
         {collective::all_gather, collective::all_reduce, collective::broadcast}) {
      if (kind == collective::all_reduce && ranks > 32) continue;
      add("random one-way links", random_regular(ranks, 4), kind);
      add("random with switches", test::make_random_machine(ranks, ranks, ranks / 4, 3 * ranks),
          kind);
    }
  }
  for (unsigned const ranks : {32U, 48U, 64U, 96U, 128U}) {
    add("random, both ways", test::make_random_duplex_machine(ranks, ranks, ranks / 8, 2 * ranks),
        collective::all_to_all);
  }
  return rows;
}

}  // namespace blink::bench
