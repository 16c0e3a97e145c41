// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/plan/plan.hpp>
#include <blink/topology/best_ring.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/topology.hpp>

#include "../planning/machine_rows.hpp"
#include "../planning/plan_checked.hpp"
#include "parts.hpp"
#include <support/small_machines.hpp>

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <string>
#include <utility>
#include <vector>

// Servers with less bandwidth, and ranks in orders that do not fit the machine.

namespace blink::bench {
namespace {

/// Servers with a NIC of 24 GB/s each behind one switch. The first has `eighths` of that.
topology servers_with_one_narrow(int count, int eighths) {
  auto machine = test::star_machine(count, 24);
  for (auto& l : machine.links) {
    if (l.tail == 0 || l.head == 0) l.capacity = 3 * eighths;
  }
  machine.name = std::to_string(count) + " servers, one at " + std::to_string(eighths) + "/8";
  return machine;
}

double percent_longer(double whole, double narrow) {
  return 100 * (whole / narrow - 1);
}

/// An all-reduce on a machine, as planned and simulated, in GB/s.
struct all_reduce_rate {
  double computed = 0;
  double simulated = 0;
  std::size_t trees = 0;
  int height = 0;  ///< of the highest tree
};

all_reduce_rate rate_of(topology const& machine) {
  auto const planned = plan_checked(machine, {collective::all_reduce, {}, planned_by::exact});
  return {planned.rate.to_double(), simulated_rate(machine, planned, simulated_bytes),
          planned.trees.size(), highest_of(planned)};
}

/// Hosts with 12.5 GB/s each in racks of eight. The racks share a core that is four times narrower.
topology racks(int count) {
  topology machine;
  machine.name = std::to_string(count) + " racks of 8 hosts";
  int const hosts = 8 * count;
  auto const join = [&](int a, int b, std::int64_t capacity) {
    machine.links.push_back({a, b, capacity, 1e-6, link_kind::network});
    machine.links.push_back({b, a, capacity, 1e-6, link_kind::network});
  };
  machine.steps_per_unit = 2;
  for (int i = 0; i < hosts; ++i) machine.nodes.push_back({i, node_kind::rank, "", i});
  for (int r = 0; r <= count; ++r) {  // the last switch is the core
    machine.nodes.push_back({hosts + r, node_kind::switch_node, "", -1});
    if (r < count) {
      for (int i = 8 * r; i < 8 * r + 8; ++i) join(i, hosts + r, 25);
    }
  }
  for (int r = 0; r < count; ++r) join(hosts + r, hosts + count, 50);
  return machine;
}

/// The ranks in an order that the seed draws.
std::vector<int> shuffled(std::size_t count, unsigned seed) {
  std::vector<int> order(count);
  std::iota(order.begin(), order.end(), 0);
  std::mt19937 random(seed);
  std::shuffle(order.begin(), order.end(), random);
  return order;
}

}  // namespace

part_result degraded_part() {
  part_result result{"All-reduce with a degraded server",
                     "How much longer an all-reduce takes than without the fault, in %. Without it "
                     "a ring is optimal. The plans meet their bounds, and simulations show how "
                     "near 1 GiB comes to them. [degraded.md](degraded.md) says more.",
                     {{"degraded",
                       "Servers with a NIC each behind one switch, one of them narrower",
                       {{"servers"},
                        {"bandwidth left"},
                        {"trees", origin::computed},
                        {"trees", origin::simulated},
                        {"ring", origin::computed},
                        {"number of trees", origin::computed},
                        {"greatest height", origin::computed}},
                       {}},
                      {"degraded_nics",
                       "DGX-H100 servers, one NIC of one server lost",
                       {{"servers"},
                        {"GPUs"},
                        {"trees", origin::computed},
                        {"trees", origin::simulated},
                        {"number of trees", origin::computed},
                        {"greatest height", origin::computed}},
                       {}}},
                     {}};
  double half_of_4 = 0, half_of_16 = 0, half_of_64 = 0;
  for (int const count : {4, 8, 16, 32, 64}) {
    auto const whole = rate_of(servers_with_one_narrow(count, 8));
    for (int const eighths : {7, 6, 4, 2}) {
      auto const narrow = rate_of(servers_with_one_narrow(count, eighths));
      double const longer = percent_longer(whole.computed, narrow.computed);
      if (eighths == 4) {
        if (count == 4) half_of_4 = longer;
        if (count == 16) half_of_16 = longer;
        if (count == 64) half_of_64 = longer;
      }
      result.tables[0].rows.push_back(
          {number(count, 0), label(std::to_string(eighths) + "/8"), number(longer, 1),
           number(percent_longer(whole.simulated, narrow.simulated), 1),
           number(percent_longer(8, eighths), 1), number(static_cast<double>(narrow.trees), 0),
           number(narrow.height, 0)});
    }
  }
  for (int const count : {4, 8, 16}) {
    auto const whole = rate_of(machines::dgx_h100(count));
    auto const lost = rate_of(with_lost_nic(count));
    result.tables[1].rows.push_back({number(count, 0), number(8 * count, 0),
                                     number(percent_longer(whole.computed, lost.computed), 1),
                                     number(percent_longer(whole.simulated, lost.simulated), 1),
                                     number(static_cast<double>(lost.trees), 0),
                                     number(lost.height, 0)});
  }
  result.findings.push_back(
      {"OptCC: % longer with up to half of a server's bandwidth lost, at most",
       number(6, 0, origin::published), number(half_of_16, 1, origin::computed), "not comparable",
       "its numbers of servers are not at hand; this is the bound for 16, which is " +
           number(half_of_4, 1).text + " % for 4 and " + number(half_of_64, 1).text + " % for 64"});
  return result;
}

part_result orders_part() {
  part_result result{
      "Orders of ranks",
      "One ring in the order of the ranks, and in the order that `best_ring` finds. Traces of real "
      "allocations are not at hand: neither those of Cloud Collectives nor those of Leonardo and "
      "LUMI. Orders of hosts are random with ten fixed seeds, of which the median and the largest "
      "gain are shown. GB/s of each hop while all are busy.",
      {{"orders",
        "The ring as it is and reordered",
        {{"machine"},
         {"ranks"},
         {"order"},
         {"as it is", origin::computed},
         {"reordered", origin::computed},
         {"gain", origin::computed},
         {"largest gain", origin::computed}},
        {}}},
      {}};
  double most = 0;
  auto const add = [&](topology const& machine, std::string const& name,
                       std::vector<std::vector<int>> const& orders) {
    double const best = best_ring(machine).cost.bytes_per_second * 1e-9;
    std::vector<double> rates;
    for (auto const& order : orders) {
      rates.push_back(cost_of_ring(machine, order).bytes_per_second * 1e-9);
    }
    std::ranges::sort(rates);
    double const median = rates[rates.size() / 2];
    result.tables[0].rows.push_back({label(machine.name),
                                     number(static_cast<double>(orders.front().size()), 0),
                                     label(name), number(median, 2), number(best, 2),
                                     number(best / median, 2), number(best / rates.front(), 2)});
    return best / rates.front();
  };
  auto const random_orders = [](std::size_t count) {
    std::vector<std::vector<int>> orders;
    for (unsigned seed = 1; seed <= 10; ++seed) orders.push_back(shuffled(count, seed));
    return orders;
  };
  for (int const count : {2, 4, 8}) {
    auto const orders = random_orders(static_cast<std::size_t>(8 * count));
    most = std::max(most, add(racks(count), "random", orders));
  }
  for (int const servers : {2, 4}) {
    auto const machine = machines::dgx_h100(servers);
    std::vector<int> in_turn;
    for (int k = 0; k < 8; ++k) {
      for (int s = 0; s < servers; ++s) in_turn.push_back(8 * s + k);
    }
    (void)add(machine, "servers in turn", {in_turn});
    (void)add(machine, "random", random_orders(static_cast<std::size_t>(8 * servers)));
  }
  (void)add(machines::dgx1v_pcie(), "random", random_orders(8));
  result.findings.push_back(
      {"Cloud Collectives: all-reduce by another order, up to", number(3.7, 2, origin::published),
       number(most, 2, origin::computed), "not comparable",
       "measured on allocations of public clouds; here random orders of hosts in racks"});
  result.findings.push_back({"Bine trees: % less traffic on global links, up to",
                             number(33, 0, origin::published), absent(), "not comparable",
                             "the traces of Leonardo and LUMI are not at hand"});
  return result;
}

}  // namespace blink::bench
