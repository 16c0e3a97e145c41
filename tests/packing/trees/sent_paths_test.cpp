// SPDX-License-Identifier: Apache-2.0
#include <blink/packing/trees/detail/sent_paths.hpp>

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <set>
#include <span>
#include <vector>

// Test folders may be compiled as one source.
namespace sent_paths_test { namespace {

using namespace blink;

TEST(flow_division, divides_flows_with_cycles_into_simple_paths) {
  constexpr std::size_t vertices = 9, sink = 8;
  for (unsigned seed = 0; seed < 200; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937 random(seed);
    std::vector<int> tails, heads;
    for (std::size_t tail = 0; tail < sink; ++tail) {
      for (std::size_t head = 0; head < vertices; ++head) {
        if (tail == head) continue;
        tails.push_back(static_cast<int>(tail));
        heads.push_back(static_cast<int>(head));
      }
    }
    std::vector<std::int64_t> flow(heads.size(), 0), sent(vertices, 0);
    auto const add = [&](std::vector<std::size_t> const& along, std::int64_t amount) {
      for (std::size_t i = 0; i + 1 < along.size(); ++i) {
        for (std::size_t e = 0; e < heads.size(); ++e) {
          bool const is_it =
              tails[e] == static_cast<int>(along[i]) && heads[e] == static_cast<int>(along[i + 1]);
          if (is_it) flow[e] += amount;
        }
      }
    };
    for (int k = 0; k < 6; ++k) {
      std::vector<std::size_t> order(sink);
      std::iota(order.begin(), order.end(), std::size_t{0});
      std::shuffle(order.begin(), order.end(), random);
      order.resize(2 + random() % 4);
      auto const amount = static_cast<std::int64_t>(1 + random() % 9);
      bool const is_cycle = k % 3 == 2;
      if (!is_cycle) sent[order.front()] += amount;
      order.push_back(is_cycle ? order.front() : sink);
      add(order, amount);
    }
    std::vector<int> first_out(vertices, -1), next_out(heads.size(), -1);
    std::vector<std::size_t> with_flow;
    for (std::size_t e = 0; e < heads.size(); ++e) {
      if (flow[e] == 0) continue;
      with_flow.push_back(e);
      next_out[e] = first_out[static_cast<std::size_t>(tails[e])];
      first_out[static_cast<std::size_t>(tails[e])] = static_cast<int>(e);
    }

    detail::flow_division division(vertices, heads.size());
    detail::sent_paths paths;
    division.start(with_flow, flow, first_out);
    for (std::size_t from = 0; from < sink; ++from) {
      for (auto open = sent[from]; open > 0;) {
        auto const amount = division.take(from, sink, open, next_out, heads);
        ASSERT_GT(amount, 0);
        paths.add({0, from, amount, 0}, division.edges());
        open -= amount;
      }
    }
    auto left = flow;
    auto to_send = sent;
    paths.for_each([&](detail::sent_path const& path, std::span<int const> edges) {
      to_send[path.vertex] -= path.amount;
      std::set<int> seen{static_cast<int>(path.vertex)};
      int at = static_cast<int>(path.vertex);
      for (int const e : edges) {
        EXPECT_EQ(tails[static_cast<std::size_t>(e)], at);
        at = heads[static_cast<std::size_t>(e)];
        EXPECT_TRUE(seen.insert(at).second);
        left[static_cast<std::size_t>(e)] -= path.amount;
      }
      EXPECT_EQ(at, static_cast<int>(sink));
    });
    EXPECT_EQ(to_send, std::vector<std::int64_t>(vertices, 0));
    EXPECT_GE(*std::min_element(left.begin(), left.end()), 0);
  }
}

}}  // namespace sent_paths_test
