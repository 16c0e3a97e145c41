// SPDX-License-Identifier: Apache-2.0
#include <blink/core/error.hpp>
#include <blink/core/rational.hpp>
#include <blink/graph/concepts.hpp>
#include <blink/packing/joint/joint_packing.hpp>
#include <blink/packing/joint/joint_routing.hpp>
#include <blink/packing/lp/simplex.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <numeric>
#include <random>
#include <span>
#include <string>
#include <utility>
#include <vector>

// Test folders may be compiled as one source.
namespace joint_routing_test { namespace {

using blink::rational;

struct network {
  blink::arc_list graph;
  std::vector<std::int64_t> capacity;
  std::vector<bool> is_switch;
  std::vector<bool> copies = {}, reduces = {};

  [[nodiscard]] blink::routed_network roles() const { return {is_switch, copies, reduces}; }
};

/// Ranks, then switches, in a random directed cycle with additional random edges.
network random_network(std::uint64_t seed, int ranks, int switches, int more, std::int64_t most) {
  std::mt19937_64 random(seed);
  auto const below = [&](std::int64_t n) {
    return static_cast<std::int64_t>(random() % static_cast<std::uint64_t>(n));
  };
  int const n = ranks + switches;
  network result{{n, {}}, {}, std::vector<bool>(static_cast<std::size_t>(n), false)};
  for (int v = ranks; v < n; ++v) result.is_switch[static_cast<std::size_t>(v)] = true;
  std::vector<int> cycle(static_cast<std::size_t>(n));
  std::iota(cycle.begin(), cycle.end(), 0);
  std::shuffle(cycle.begin(), cycle.end(), random);
  for (std::size_t i = 0; i < cycle.size(); ++i) {
    result.graph.arcs.push_back({cycle[i], cycle[(i + 1) % cycle.size()]});
    result.capacity.push_back(1 + below(most));
  }
  for (int i = 0; i < more; ++i) {
    result.graph.arcs.push_back({static_cast<int>(below(n)), static_cast<int>(below(n))});
    result.capacity.push_back(below(most + 1));
  }
  return result;
}

/// Ranks behind a switch. A second switch is linked to a rank, and perhaps to another rank or the
/// first switch. Capacities differ by direction.
network random_switches(std::uint64_t seed, int ranks) {
  std::mt19937_64 random(seed);
  network result{
      {ranks + 2, {}}, {}, std::vector<bool>(static_cast<std::size_t>(ranks) + 2, false)};
  auto const join = [&](int a, int b) {
    for (auto const& arc : {blink::arc{a, b}, blink::arc{b, a}}) {
      result.graph.arcs.push_back(arc);
      result.capacity.push_back(4 + static_cast<std::int64_t>(random() % 2));
    }
  };
  for (int v = 0; v < ranks; ++v) join(v, ranks);
  join(static_cast<int>(random() % 2), ranks + 1);
  join(ranks + static_cast<int>(random() % 2) - static_cast<int>(random() % 2), ranks + 1);
  std::erase_if(result.graph.arcs, [](blink::arc const& a) { return a.tail == a.head; });
  result.capacity.resize(result.graph.arcs.size());
  result.is_switch[static_cast<std::size_t>(ranks)] = true;
  result.is_switch.back() = true;
  return result;
}

/// Lists every pair of trees with a common root, by routes over switches, as columns. Trees may
/// also span any of the switches that can be spanned.
class all_pairs {
 public:
  explicit all_pairs(network const& net) : net_(net) {
    int const n = net.graph.vertex_count;
    for (int root = 0; root < n; ++root) {
      if (net.is_switch[static_cast<std::size_t>(root)]) continue;
      auto const in = trees(root, true);
      auto const out = trees(root, false);
      for (auto const& a : in) {
        for (auto const& b : out) {
          columns_.push_back(a);
          columns_.back().insert(columns_.back().end(), b.begin(), b.end());
        }
      }
    }
  }
  template <class Price>
  void operator()(std::span<Price const> prices, std::vector<blink::packing_column>& columns) {
    blink::packing_column const* best = nullptr;
    Price least{};
    for (auto const& c : columns_) {
      Price cost{};
      for (int const row : c) cost += prices[static_cast<std::size_t>(row)];
      if (best == nullptr || cost < least) {
        best = &c;
        least = cost;
      }
    }
    columns.push_back(*best);
  }
  [[nodiscard]] std::size_t size() const { return columns_.size(); }

 private:
  void find_routes() {
    int const n = net_.graph.vertex_count;
    routes_.assign(static_cast<std::size_t>(n * n), {});
    for (int from = 0; from < n; ++from) {
      if (!spanned_[static_cast<std::size_t>(from)]) continue;
      std::vector<int> path;
      std::vector<bool> seen(static_cast<std::size_t>(n), false);
      walk(from, from, path, seen);
    }
  }
  void walk(int from, int at, std::vector<int>& path, std::vector<bool>& seen) {
    seen[static_cast<std::size_t>(at)] = true;
    for (std::size_t e = 0; e < net_.graph.arcs.size(); ++e) {
      auto const [tail, head] = net_.graph.arcs[e];
      if (tail != at || net_.capacity[e] == 0 || seen[static_cast<std::size_t>(head)]) continue;
      path.push_back(static_cast<int>(e));
      if (!spanned_[static_cast<std::size_t>(head)]) {
        walk(from, head, path, seen);
      } else {
        routes_[static_cast<std::size_t>(from * net_.graph.vertex_count + head)].push_back(path);
      }
      path.pop_back();
    }
    seen[static_cast<std::size_t>(at)] = false;
  }
  /// Distinct load vectors of the trees at a root, over all sets of switches.
  std::vector<std::vector<int>> trees(int root, bool inward) {
    auto const& able = inward ? net_.reduces : net_.copies;
    std::vector<int> optional;
    for (std::size_t v = 0; v < able.size(); ++v) {
      if (able[v]) optional.push_back(static_cast<int>(v));
    }
    std::vector<std::vector<int>> result;
    for (unsigned chosen = 0; chosen < 1U << optional.size(); ++chosen) {
      spanned_ = net_.is_switch;
      spanned_.flip();
      for (std::size_t i = 0; i < optional.size(); ++i) {
        if ((chosen >> i & 1U) != 0) spanned_[static_cast<std::size_t>(optional[i])] = true;
      }
      find_routes();
      auto const more = trees_over_spanned(root, inward);
      result.insert(result.end(), more.begin(), more.end());
    }
    std::sort(result.begin(), result.end());
    result.erase(std::unique(result.begin(), result.end()), result.end());
    return result;
  }
  std::vector<std::vector<int>> trees_over_spanned(int root, bool inward) const {
    std::vector<int> others;
    for (int v = 0; v < net_.graph.vertex_count; ++v) {
      if (v != root && spanned_[static_cast<std::size_t>(v)]) others.push_back(v);
    }
    std::vector<std::vector<int>> result;
    std::map<int, int> parent;
    std::vector<int> rows;
    std::function<void(std::size_t)> const extend = [&](std::size_t i) {
      if (i == others.size()) {
        for (int v : others) {
          for (std::size_t steps = 0; v != root; ++steps) {
            if (steps > others.size()) return;
            v = parent[v];
          }
        }
        result.push_back(rows);
        std::sort(result.back().begin(), result.back().end());
        return;
      }
      for (int up = 0; up < net_.graph.vertex_count; ++up) {
        int const v = others[i];
        auto const& ways = routes_[static_cast<std::size_t>(
            inward ? v * net_.graph.vertex_count + up : up * net_.graph.vertex_count + v)];
        for (auto const& way : ways) {
          parent[v] = up;
          rows.insert(rows.end(), way.begin(), way.end());
          extend(i + 1);
          rows.resize(rows.size() - way.size());
        }
      }
    };
    extend(0);
    return result;
  }

  network const& net_;
  std::vector<bool> spanned_;                          // by vertex, for the present set of switches
  std::vector<std::vector<std::vector<int>>> routes_;  // by from * n + to
  std::vector<blink::packing_column> columns_;
};
static_assert(blink::pricing_oracle<all_pairs>);

/// Checks the trees against their definition. Returns the load of each ordered pair of vertices.
void check_packing(network const& net, blink::routed_joint_packing const& packing) {
  std::map<std::pair<int, int>, rational> load, room;
  for (std::size_t e = 0; e < net.capacity.size(); ++e) {
    auto const [tail, head] = net.graph.arcs[e];
    if (tail != head) room[{tail, head}] += net.capacity[e];
  }
  auto const ranks = std::count(net.is_switch.begin(), net.is_switch.end(), false);
  rational sum;
  for (auto const& pair : packing.pairs) {
    EXPECT_GT(pair.weight, rational(0));
    sum += pair.weight;
    for (bool const inward : {true, false}) {
      std::map<int, int> parent;
      for (auto const& path : inward ? pair.in : pair.out) {
        ASSERT_GE(path.size(), 2U);
        int const child = inward ? path.front() : path.back();
        int const upper = inward ? path.back() : path.front();
        EXPECT_TRUE(parent.emplace(child, upper).second);
        if (net.is_switch[static_cast<std::size_t>(upper)]) {
          EXPECT_TRUE((inward ? net.reduces : net.copies)[static_cast<std::size_t>(upper)]);
        }
        for (std::size_t i = 0; i + 1 < path.size(); ++i) {
          load[{path[i], path[i + 1]}] += pair.weight;
          if (i > 0) {
            EXPECT_TRUE(net.is_switch[static_cast<std::size_t>(path[i])]);
          }
        }
      }
      EXPECT_EQ(std::ranges::count_if(parent,
                                      [&](auto const& p) {
                                        return !net.is_switch[static_cast<std::size_t>(p.first)];
                                      }),
                ranks - 1);
      for (auto const& entry : parent) {
        int at = entry.first;
        for (int steps = 0; at != pair.root; ++steps) {
          ASSERT_LE(steps, net.graph.vertex_count);
          ASSERT_TRUE(parent.contains(at));
          at = parent[at];
        }
      }
    }
  }
  EXPECT_EQ(sum, packing.rate);
  for (auto const& [ends, amount] : load) EXPECT_LE(amount, room[ends]);
  rational value;
  for (std::size_t e = 0; e < net.capacity.size(); ++e) {
    EXPECT_GE(packing.prices[e], rational(0));
    value += packing.prices[e] * net.capacity[e];
  }
  EXPECT_EQ(value, packing.rate);
}

TEST(pack_joint_routes, equals_the_program_over_all_pairs) {
  std::size_t most_pairs = 0;
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    auto const net = random_network(seed, 3, 1 + static_cast<int>(seed % 3),
                                    3 + static_cast<int>(seed % 4), seed % 2 == 0 ? 4 : 50);
    auto const packing = pack_joint_routes(net.graph, net.capacity, net.roles());
    check_packing(net, packing);
    all_pairs pairs(net);
    most_pairs = std::max(most_pairs, pairs.size());
    auto usable = net;  // the program needs positive capacities; no tree uses the other edges
    for (std::size_t e = 0; e < net.capacity.size(); ++e) {
      usable.capacity[e] = std::max<std::int64_t>(net.capacity[e], 1);
    }
    auto const listed = blink::simplex(usable.capacity, pairs);
    ASSERT_EQ(listed.stopped_because, blink::simplex_stop::optimal);
    EXPECT_EQ(packing.rate, listed.rate);
  }
  EXPECT_GT(most_pairs, 100U);
}

TEST(pack_joint_routes, equals_the_program_over_all_pairs_of_four_ranks) {
  for (std::uint64_t seed = 100; seed < 112; ++seed) {
    SCOPED_TRACE(seed);
    auto const net = random_network(seed, 4, 1 + static_cast<int>(seed % 2), 4, 5);
    auto const packing = pack_joint_routes(net.graph, net.capacity, net.roles());
    check_packing(net, packing);
    all_pairs pairs(net);
    auto usable = net;
    for (auto& c : usable.capacity) c = std::max<std::int64_t>(c, 1);
    auto const listed = blink::simplex(usable.capacity, pairs);
    ASSERT_EQ(listed.stopped_because, blink::simplex_stop::optimal);
    EXPECT_EQ(packing.rate, listed.rate);
  }
}

TEST(pack_joint_routes, equals_the_program_over_all_pairs_with_switches_that_copy_or_reduce) {
  int better = 0;
  for (std::uint64_t seed = 200; seed < 260; ++seed) {
    SCOPED_TRACE(seed);
    auto net = seed % 2 == 0 ? random_network(seed, 3, 2, 3 + static_cast<int>(seed % 3), 5)
                             : random_switches(seed, 3 + static_cast<int>(seed % 4) / 2);
    auto const plain = pack_joint_routes(net.graph, net.capacity, net.roles()).rate;
    auto const n = net.is_switch.size();
    net.copies = net.reduces = std::vector<bool>(n, false);
    net.copies[n - 2] = seed % 3 != 0;
    net.copies[n - 1] = seed % 4 != 0;
    net.reduces[n - 2] = seed % 7 < 4;
    net.reduces[n - 1] = seed % 5 < 3;
    auto const packing = pack_joint_routes(net.graph, net.capacity, net.roles());
    check_packing(net, packing);
    all_pairs pairs(net);
    auto usable = net;
    for (auto& c : usable.capacity) c = std::max<std::int64_t>(c, 1);
    auto const listed = blink::simplex(usable.capacity, pairs);
    ASSERT_EQ(listed.stopped_because, blink::simplex_stop::optimal);
    EXPECT_EQ(packing.rate, listed.rate);
    EXPECT_GE(packing.rate, plain);
    better += packing.rate > plain ? 1 : 0;
  }
  EXPECT_GT(better, 10);
}

TEST(pack_joint_routes, switches_that_copy_and_reduce_carry_the_whole_port) {
  for (int n = 2; n <= 9; ++n) {
    network net{{n + 1, {}}, {}, std::vector<bool>(static_cast<std::size_t>(n) + 1, false)};
    net.is_switch.back() = true;
    net.copies = net.reduces = net.is_switch;
    for (int v = 0; v < n; ++v) {
      for (auto const& a : {blink::arc{v, n}, blink::arc{n, v}}) {
        net.graph.arcs.push_back(a);
        net.capacity.push_back(6);
      }
    }
    auto const packing = pack_joint_routes(net.graph, net.capacity, net.roles());
    check_packing(net, packing);
    EXPECT_EQ(packing.rate, rational(6));
  }
}

TEST(pack_joint_routes, holds_on_larger_random_networks) {
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    auto const net =
        random_network(seed, 4 + static_cast<int>(seed % 7), 1 + static_cast<int>(seed % 5), 30, 9);
    check_packing(net, pack_joint_routes(net.graph, net.capacity, net.roles()));
  }
}

/// Checks trees and prices whose values may differ. Returns the gap.
double check_gap(network const& net, blink::routed_joint_packing packing) {
  rational value;
  for (std::size_t e = 0; e < net.capacity.size(); ++e) {
    value += packing.prices[e] * net.capacity[e];
  }
  EXPECT_EQ(value, packing.bound);
  EXPECT_LE(packing.rate, packing.bound);
  auto const gap = ratio(packing.bound, packing.rate) - 1;
  // Scale the prices to the value of the trees, to check the trees alone.
  for (auto& p : packing.prices) p = p * packing.rate / packing.bound;
  check_packing(net, packing);
  return gap;
}

TEST(pack_joint_routes, states_the_gap_where_work_was_not_enough_for_the_optimum) {
  int inexact = 0;
  for (std::uint64_t seed = 0; seed < 12; ++seed) {
    SCOPED_TRACE(seed);
    auto const net =
        random_network(seed, 6 + static_cast<int>(seed % 5), static_cast<int>(seed % 4), 30, 1'000);
    auto const exact = pack_joint_routes(net.graph, net.capacity, net.roles());
    EXPECT_EQ(exact.bound, exact.rate);
    for (double work = 4'000; work < 2e6; work *= 1.5) {
      blink::joint_packing_options hasty;
      hasty.max_work = work;
      hasty.gap = 1;
      blink::routed_joint_packing found;
      try {
        found = pack_joint_routes(net.graph, net.capacity, net.roles(), hasty);
      } catch (blink::overflow_error const&) {
        continue;  // ended so early that some pair is still free
      }
      EXPECT_LE(found.rate, exact.rate);
      EXPECT_GE(found.bound, exact.rate);
      if (found.rate == rational(0)) continue;
      double const gap = check_gap(net, found);
      inexact += gap > 0 ? 1 : 0;
      hasty.gap = 0.01;
      if (gap > 0.0102) {
        EXPECT_THROW(
            static_cast<void>(pack_joint_routes(net.graph, net.capacity, net.roles(), hasty)),
            blink::overflow_error);
      }
    }
  }
  EXPECT_GT(inexact, 0);
}

TEST(pack_joint_routes, capacities_from_one_to_two_to_the_power_of_57) {
  int inexact = 0;
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    auto net = random_network(seed, 3 + static_cast<int>(seed % 4), static_cast<int>(seed % 3), 9,
                              seed % 2 == 0 ? std::int64_t{1} << 57 : std::int64_t{1} << 40);
    for (std::size_t e = 0; e < net.capacity.size(); e += 3) {
      net.capacity[e] = std::min<std::int64_t>(net.capacity[e], 1 + static_cast<int>(e));
    }
    blink::joint_packing_options options;
    options.gap = 0.01;
    try {
      auto const packing = pack_joint_routes(net.graph, net.capacity, net.roles(), options);
      EXPECT_LE(check_gap(net, packing), 0.0102);
      inexact += packing.rate < packing.bound ? 1 : 0;
    } catch (blink::overflow_error const& e) {
      EXPECT_NE(std::string(e.what()), "");
    }
  }
  RecordProperty("inexact", inexact);
}

TEST(pack_joint_routes, without_switches_is_the_packing_of_direct_links) {
  for (std::uint64_t seed = 0; seed < 10; ++seed) {
    SCOPED_TRACE(seed);
    auto const net = random_network(seed, 6, 0, 12, 7);
    EXPECT_EQ(pack_joint_routes(net.graph, net.capacity, net.roles()).rate,
              pack_joint_trees(net.graph, net.capacity).rate);
  }
}

TEST(pack_joint_routes, a_switch_with_equal_ports_has_its_closed_form) {
  for (int n = 2; n <= 9; ++n) {
    network net{{n + 1, {}}, {}, std::vector<bool>(static_cast<std::size_t>(n) + 1, false)};
    net.is_switch.back() = true;
    for (int v = 0; v < n; ++v) {
      for (auto const& a : {blink::arc{v, n}, blink::arc{n, v}}) {
        net.graph.arcs.push_back(a);
        net.capacity.push_back(6);
      }
    }
    auto const packing = pack_joint_routes(net.graph, net.capacity, net.roles());
    check_packing(net, packing);
    EXPECT_EQ(packing.rate, rational(6 * n, 2 * (n - 1)));
  }
}

TEST(pack_joint_routes, says_what_is_wrong) {
  blink::arc_list const star{3, {{0, 2}, {2, 1}, {1, 2}}};  // no path to vertex 0
  std::vector<bool> const switch_node{false, false, true};
  EXPECT_THROW(static_cast<void>(pack_joint_routes(star, std::vector<int>{1, 1, 1}, {switch_node})),
               blink::planning_error);
  blink::arc_list const both{3, {{0, 2}, {2, 1}, {1, 2}, {2, 0}}};
  EXPECT_NO_THROW(
      static_cast<void>(pack_joint_routes(both, std::vector<int>{1, 1, 1, 1}, {switch_node})));
  EXPECT_THROW(static_cast<void>(pack_joint_routes(both, std::vector<int>{1, 1, 1}, {switch_node})),
               blink::precondition_error);
  EXPECT_THROW(
      static_cast<void>(pack_joint_routes(both, std::vector<int>{1, 1, 1, -1}, {switch_node})),
      blink::precondition_error);
  EXPECT_THROW(static_cast<void>(
                   pack_joint_routes(both, std::vector<int>{1, 1, 1, 1}, {{false, true, true}})),
               blink::precondition_error);
}

}}  // namespace joint_routing_test
