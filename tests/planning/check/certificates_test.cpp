// SPDX-License-Identifier: Apache-2.0
#include <blink/planning/check/check_plan.hpp>
#include <blink/planning/check/complete_cut.hpp>
#include <blink/planning/make_plan.hpp>
#include <blink/topology/machines.hpp>
#include <blink/topology/subset.hpp>

#include "support/brute_force.hpp"
#include "support/random_machines.hpp"
#include "support/small_machines.hpp"
#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <variant>
#include <vector>

// Each condition of each certificate, for every collective. Rooms may be compiled as one source.
namespace certificates_test { namespace {

using namespace blink;

constexpr std::array cut_kinds{collective::broadcast, collective::reduce, collective::all_gather,
                               collective::reduce_scatter, collective::all_reduce};

// Four ranks, with large capacities that no small number divides, and different by direction.
test::capacity_matrix uneven_matrix() {
  return {{0, 999'983, 524'287, 3},
          {1'000'003, 0, 104'729, 65'537},
          {7, 999'979, 0, 1'299'709},
          {611'953, 5, 350'377, 0}};
}
topology uneven() {
  return test::direct_machine(uneven_matrix());
}

std::string fault_of(topology const& machine, plan const& p) {
  return check_plan(machine, p).fault.value_or("sound");
}

void expect_fault(topology const& machine, plan const& p, std::string const& expected) {
  auto const fault = fault_of(machine, p);
  EXPECT_NE(fault.find(expected), std::string::npos) << fault << "\nexpected: " << expected;
}

// The plan with the cut around these nodes, and the bound that this cut would prove if it were
// valid.
plan with_cut(plan p, std::vector<int> nodes, rational const& bound) {
  p.proof = cut_certificate{std::move(nodes)};
  p.bound = bound;
  return p;
}

TEST(certificates, cuts_hold_and_miss_what_the_collective_needs) {
  auto const machine = uneven();
  auto const matrix = uneven_matrix();
  std::vector<int> const all{0, 1, 2, 3};
  for (auto const kind : cut_kinds) {
    SCOPED_TRACE(std::string(to_text(kind)));
    plan_request request{kind};
    if (has_one_root(kind)) request.root = 2;
    auto p = make_plan(machine, request);
    // Every set of ranks, with the bound as in the definition of `cut_certificate`.
    for (unsigned inside = 0; inside < 16; ++inside) {
      std::vector<int> nodes;
      for (int const rank : all) {
        if ((inside >> rank & 1U) != 0) nodes.push_back(rank);
      }
      auto const count = static_cast<std::int64_t>(nodes.size());
      rational const leaving(test::capacity_leaving(matrix, inside));
      bool const holds_root = (inside >> 2 & 1U) != 0;
      bool is_valid = count > 0 && count < 4;
      rational bound = leaving;
      if (kind == collective::broadcast) is_valid = is_valid && holds_root;
      if (kind == collective::reduce) is_valid = is_valid && !holds_root;
      if (kind == collective::all_gather && count > 0) bound = leaving * 4 / count;
      if (kind == collective::reduce_scatter && count < 4) bound = leaving * 4 / (4 - count);
      // A rate far below any cut: what is tested is the certificate.
      auto slow = with_cut(p, nodes, bound);
      for (auto& t : slow.trees) t.weight /= 1'000'000'000;
      slow.rate = p.rate / 1'000'000'000;
      SCOPED_TRACE(inside);
      if (!is_valid) {
        expect_fault(machine, slow, "certificate: the cut must ");
        continue;
      }
      EXPECT_EQ(fault_of(machine, slow), "sound");
      for (int const off : {-1, 1}) {
        auto other = slow;
        other.bound = bound + rational(off, 1'000'000);
        expect_fault(machine, other, "the certificate proves a bound of " + bound.to_text());
      }
    }
  }
}

TEST(certificates, a_rate_above_the_bound_is_a_fault) {
  auto const machine = test::direct_machine({{0, 1'000'003}, {999'983, 0}});
  for (auto const kind : cut_kinds) {
    SCOPED_TRACE(std::string(to_text(kind)));
    auto p = make_plan(machine, {kind});
    EXPECT_EQ(fault_of(machine, p), "sound");
    EXPECT_EQ(p.rate, p.bound);
    // A machine with one step less in each direction: the loads come first there, so the plan is
    // made lighter in its loads but not in its claim.
    auto lighter = machine;
    for (auto& l : lighter.links) --l.capacity;
    EXPECT_NE(fault_of(lighter, p), "sound");
  }
}

// Prices on the links of a cut: valid for the cut's collective.
price_certificate prices_of_cut(topology const& machine, cut_certificate const& cut,
                                rational const& price) {
  std::set<int> const side(cut.nodes.begin(), cut.nodes.end());
  price_certificate result;
  for (auto const& l : machine.links) {
    int const from = machine.nodes[static_cast<std::size_t>(l.tail)].id;
    int const to = machine.nodes[static_cast<std::size_t>(l.head)].id;
    if (side.contains(from) && !side.contains(to)) result.prices.push_back({from, to, price});
  }
  return result;
}

TEST(certificates, prices_hold_for_every_collective_of_trees) {
  auto const machine = uneven();
  for (auto const kind : cut_kinds) {
    if (has_both_phases(kind)) continue;  // in the next test
    SCOPED_TRACE(std::string(to_text(kind)));
    auto p = make_plan(machine, {kind});
    auto const cut = std::get<cut_certificate>(p.proof);
    auto const inside = static_cast<std::int64_t>(cut.nodes.size());
    // Trees of the roots on one side cross the cut, the others need not.
    rational price = 1;
    if (kind == collective::all_gather) price = rational(4, inside);
    if (kind == collective::reduce_scatter) price = rational(4, 4 - inside);
    p.proof = prices_of_cut(machine, cut, price);
    EXPECT_EQ(fault_of(machine, p), "sound");
    auto& prices = std::get<price_certificate>(p.proof).prices;
    for (std::size_t i = 0; i < prices.size(); ++i) {
      SCOPED_TRACE(i);
      auto const kept = prices[i];
      prices[i].price -= rational(1, 1'000'000'000'000);
      expect_fault(machine, p, "expected at least 1");
      prices[i].price = -kept.price;
      expect_fault(machine, p, "is negative, given twice, or of no usable link");
      prices[i] = {kept.from, kept.from, kept.price};
      expect_fault(machine, p, "is negative, given twice, or of no usable link");
      prices[i] = kept;
      prices.push_back({kept.from, kept.to, rational(0)});
      expect_fault(machine, p, "is negative, given twice, or of no usable link");
      prices.pop_back();
    }
    p.bound += rational(1, 1'000'000);
    expect_fault(machine, p, "the certificate proves a bound of");
  }
}

TEST(certificates, prices_of_an_all_reduce_are_tight) {
  for (unsigned seed = 1; seed <= 30; ++seed) {
    SCOPED_TRACE(seed);
    auto const machine = test::make_random_machine(seed, 3 + seed % 4, seed % 3, 8, 1'000'000);
    auto p = make_plan(machine, {collective::all_reduce});
    if (!std::holds_alternative<price_certificate>(p.proof)) continue;
    EXPECT_EQ(fault_of(machine, p), "sound");
    if (p.rate != p.bound) continue;
    // All prices are needed: with less of all of them some tree is too cheap.
    auto cheap = p;
    for (auto& each : std::get<price_certificate>(cheap.proof).prices) {
      each.price *= rational(999'999, 1'000'000);
    }
    cheap.bound = p.bound * rational(999'999, 1'000'000);
    expect_fault(machine, cheap, "expected at least 1");
  }
}

TEST(certificates, prices_of_flows_are_tight) {
  for (auto const kind : {collective::all_to_all, collective::gather, collective::scatter}) {
    SCOPED_TRACE(std::string(to_text(kind)));
    auto const machine = uneven();
    auto p = make_plan(machine, {kind});
    if (auto const* cut = std::get_if<cut_certificate>(&p.proof)) {
      rational separated = 0;
      std::set<int> const side(cut->nodes.begin(), cut->nodes.end());
      for (int const from : p.ranks) {
        for (int const to : p.ranks) {
          bool const moves =
              kind == collective::all_to_all ||
              (kind == collective::gather ? to : from) ==
                  (kind == collective::gather ? p.trees[0].members[1] : p.trees[0].root);
          if (moves && side.contains(from) && !side.contains(to)) separated += 1;
        }
      }
      if (separated == rational(0)) separated = 1;
      p.proof = prices_of_cut(machine, *cut, rational(1) / separated);
    }
    EXPECT_EQ(fault_of(machine, p), "sound");
    for (auto& each : std::get<price_certificate>(p.proof).prices) {
      each.price *= rational(999'999, 1'000'000);
    }
    p.bound *= rational(999'999, 1'000'000);
    expect_fault(machine, p, "expected at least 1");
  }
}

TEST(certificates, a_bound_without_a_certificate_is_a_fault) {
  for (auto const kind : cut_kinds) {
    auto p = make_plan(uneven(), {kind});
    p.proof = no_certificate{};
    expect_fault(uneven(), p, "no certificate proves the bound of");
    p.bound = 0;
    EXPECT_EQ(fault_of(uneven(), p), "sound");
  }
}

// --- parts of machines ---

// Adds switches at dead ends: with one neighbour, in a chain, only entered, only left.
topology with_dead_ends(topology machine, unsigned seed) {
  std::mt19937 random(seed);
  int const ranks = static_cast<int>(machine.rank_positions().size());
  int id = 1000;
  auto const add_switch = [&] {
    machine.nodes.push_back({id++, node_kind::switch_node, "", 0});
    return static_cast<int>(machine.nodes.size()) - 1;
  };
  auto const join = [&](int from, int to) {
    machine.links.push_back(
        {from, to, 1 + static_cast<std::int64_t>(random() % 1000), 0, link_kind::nvlink});
  };
  for (int k = 0; k < 3; ++k) {
    int at = static_cast<int>(random() % static_cast<unsigned>(ranks));
    for (auto length = 1 + random() % 3; length > 0; --length) {
      int const next = add_switch();
      join(at, next);
      join(next, at);
      at = next;
    }
    int const sink = add_switch();
    int const source = add_switch();
    for (auto links = 1 + random() % 3; links > 0; --links) {
      join(static_cast<int>(random() % static_cast<unsigned>(ranks)), sink);
      join(source, static_cast<int>(random() % static_cast<unsigned>(ranks)));
    }
  }
  return machine;
}

// The capacity that leaves the cut, over all links of the machine.
rational leaving(topology const& machine, cut_certificate const& cut) {
  std::set<int> const side(cut.nodes.begin(), cut.nodes.end());
  rational result;
  for (auto const& l : machine.links) {
    if (side.contains(machine.nodes[static_cast<std::size_t>(l.tail)].id) &&
        !side.contains(machine.nodes[static_cast<std::size_t>(l.head)].id)) {
      result += machine.in_units(l.capacity);
    }
  }
  return result;
}

TEST(certificates, of_a_part_hold_on_the_whole_machine) {
  for (unsigned seed = 1; seed <= 60; ++seed) {
    auto const machine =
        with_dead_ends(test::make_random_machine(seed, 3 + seed % 4, seed % 3, 8), seed);
    std::vector<int> ids;
    for (int const at : machine.rank_positions()) {
      ids.push_back(machine.nodes[static_cast<std::size_t>(at)].id);
    }
    auto const part = subset(machine, ids);
    EXPECT_LT(part.nodes.size(), machine.nodes.size());
    for (auto const kind : cut_kinds) {
      SCOPED_TRACE(std::string(to_text(kind)) + " seed " + std::to_string(seed));
      plan p;
      try {
        plan_request request{kind};
        p = make_plan(part, request);
      } catch (planning_error const&) {
        continue;
      }
      EXPECT_EQ(fault_of(part, p), "sound");
      EXPECT_EQ(fault_of(machine, p), "sound");
      auto const whole = complete_cut(machine, p);
      EXPECT_EQ(fault_of(machine, whole), "sound");
      EXPECT_EQ(fault_of(part, whole), "sound");
      if (auto const* cut = std::get_if<cut_certificate>(&p.proof)) {
        EXPECT_EQ(leaving(machine, std::get<cut_certificate>(whole.proof)), leaving(part, *cut));
      }
      // Planned on the machine with its dead ends, the rate is the same.
      plan_request request{kind};
      if (has_one_root(kind)) request.root = p.trees.front().root;
      auto const direct = make_plan(machine, request);
      EXPECT_EQ(fault_of(machine, direct), "sound");
      EXPECT_EQ(direct.bound, p.bound);
    }
  }
}

}}  // namespace certificates_test
