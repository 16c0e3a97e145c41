// SPDX-License-Identifier: Apache-2.0
#include <blink/topology/boost_graph.hpp>

#include "support/small_machines.hpp"
#include <boost/graph/bellman_ford_shortest_paths.hpp>
#include <boost/graph/dijkstra_shortest_paths.hpp>
#include <boost/graph/graph_concepts.hpp>
#include <boost/graph/strong_components.hpp>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <random>
#include <set>
#include <vector>

// Rooms may be compiled as one source.
namespace boost_graph_test { namespace {

using blink::topology;

BOOST_CONCEPT_ASSERT((boost::VertexListGraphConcept<topology>));
BOOST_CONCEPT_ASSERT((boost::EdgeListGraphConcept<topology>));
BOOST_CONCEPT_ASSERT((boost::IncidenceGraphConcept<topology>));
BOOST_CONCEPT_ASSERT((boost::BidirectionalGraphConcept<topology>));
BOOST_CONCEPT_ASSERT((boost::ReadablePropertyMapConcept<blink::link_index_map, blink::link_edge>));

topology random_machine(std::mt19937& random) {
  topology machine;
  int const n = 1 + static_cast<int>(random() % 9);
  for (int i = 0; i < n; ++i) machine.nodes.push_back({i, blink::node_kind::rank, "", 0});
  for (int links = n == 1 ? 0 : static_cast<int>(random() % 30); links > 0; --links) {
    int const tail = static_cast<int>(random() % static_cast<unsigned>(n));
    int const step = 1 + static_cast<int>(random() % static_cast<unsigned>(n - 1));
    machine.links.push_back({tail, (tail + step) % n, 1, 0, blink::link_kind::nvlink});
  }
  return machine;
}

TEST(boost_graph, shortest_paths_agree_with_relaxation_to_a_fixed_point) {
  constexpr int infinity = 1'000'000;
  for (std::uint32_t seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const machine = random_machine(random);
    auto const n = machine.nodes.size();
    std::vector<int> costs;
    for (std::size_t i = 0; i < machine.links.size(); ++i) {
      costs.push_back(static_cast<int>(random() % 20));
    }
    auto const cost_map =
        boost::make_iterator_property_map(costs.begin(), get(boost::edge_index, machine));
    auto const vertex_map = get(boost::vertex_index, machine);

    std::vector<int> expected(n, infinity);
    expected[0] = 0;
    for (std::size_t round = 0; round < n; ++round) {
      for (std::size_t i = 0; i < machine.links.size(); ++i) {
        auto& to = expected[static_cast<std::size_t>(machine.links[i].head)];
        to = std::min(to, expected[static_cast<std::size_t>(machine.links[i].tail)] + costs[i]);
      }
    }
    for (auto& distance : expected) distance = std::min(distance, infinity);

    std::vector<int> found(n, infinity);
    boost::dijkstra_shortest_paths(
        machine, 0,
        boost::weight_map(cost_map)
            .vertex_index_map(vertex_map)
            .distance_inf(infinity)
            .distance_map(boost::make_iterator_property_map(found.begin(), vertex_map)));
    EXPECT_EQ(found, expected);

    std::vector<int> by_edges(n, infinity);
    by_edges[0] = 0;
    EXPECT_TRUE(boost::bellman_ford_shortest_paths(
        machine, static_cast<int>(n),
        boost::weight_map(cost_map).distance_inf(infinity).distance_map(
            boost::make_iterator_property_map(by_edges.begin(), vertex_map))));
    EXPECT_EQ(by_edges, expected);
  }
}

TEST(boost_graph, every_link_is_an_edge_out_of_and_into_its_ends) {
  for (std::uint32_t seed = 0; seed < 100; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    auto const machine = random_machine(random);
    auto const index = get(boost::edge_index, machine);
    std::multiset<std::size_t> seen;
    auto const [first, last] = vertices(machine);
    for (auto v = first; v != last; ++v) {
      auto const [out, out_end] = out_edges(*v, machine);
      for (auto e = out; e != out_end; ++e) {
        EXPECT_EQ(source(*e, machine), *v);
        seen.insert(get(index, *e));
      }
      auto const [in, in_end] = in_edges(*v, machine);
      for (auto e = in; e != in_end; ++e) {
        EXPECT_EQ(target(*e, machine), *v);
        seen.insert(get(index, *e));
      }
    }
    EXPECT_EQ(seen.size(), 2 * num_edges(machine));
    for (std::size_t i = 0; i < num_edges(machine); ++i) EXPECT_EQ(seen.count(i), 2U);
  }
}

TEST(boost_graph, a_switch_machine_is_one_strong_component) {
  auto machine = blink::test::star_machine(5, 50);
  std::vector<int> component(num_vertices(machine));
  auto const count = [&] {
    return boost::strong_components(
        machine,
        boost::make_iterator_property_map(component.begin(), get(boost::vertex_index, machine)),
        boost::vertex_index_map(get(boost::vertex_index, machine)));
  };
  EXPECT_EQ(count(), 1);
  EXPECT_EQ(out_degree(5, machine), 5U);
  EXPECT_EQ(degree(0, machine), 2U);
  machine.links.pop_back();  // the last port's link back
  EXPECT_EQ(count(), 2);
}

}}  // namespace boost_graph_test
