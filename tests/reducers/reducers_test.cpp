// SPDX-License-Identifier: Apache-2.0
// Each reducer with each type that it accepts, on all ranks, exact against a loop.

#include <blink/collectives.hpp>
#include <blink/running/walk/team_group.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/collective_case.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <type_traits>
#include <vector>

// A folder may be compiled as one source.
namespace reducers_test { namespace {

using blink_test::collective_case;
using blink_test::run_case;
using copying = blink::basic_thread_ranks<blink::slot_transport>;
using teams = blink::basic_thread_ranks<blink::slot_transport, blink::team_group>;

constexpr std::array<std::size_t, 4> counts{0, 1, 64, 1031};

template <class T>
class reducers : public testing::Test {
 protected:
  template <class Reducer>
  void all_cases(Reducer const& reducer) {
    if constexpr (blink::reducer_for<Reducer, T>) {
      for (int const ranks : {1, 2, 5}) {
        blink::thread_ranks threads(ranks);
        std::mt19937_64 random(static_cast<std::uint64_t>(ranks));
        for (auto const kind : {blink::collective::all_reduce, blink::collective::reduce_scatter}) {
          for (std::size_t const count : counts) {
            SCOPED_TRACE(testing::Message()
                         << to_text(kind) << ", " << ranks << " ranks, count " << count);
            collective_case const what{kind, count, count % 2 == 1, count % 4, count + 1};
            auto const plan = blink_test::random_schedule(random, ranks, kind);
            ASSERT_EQ(run_case<T>(threads, plan, what, reducer), "");
          }
        }
      }
    } else {
      static_assert(std::floating_point<T>, "only bits of floats are refused");
    }
  }
};

using types = testing::Types<std::int8_t, std::uint64_t, float>;
TYPED_TEST_SUITE(reducers, types);

TYPED_TEST(reducers, sum) {
  this->all_cases(blink::sum{});
}
TYPED_TEST(reducers, prod) {
  this->all_cases(blink::prod{});
}
TYPED_TEST(reducers, min) {
  this->all_cases(blink::min{});
}
TYPED_TEST(reducers, max) {
  this->all_cases(blink::max{});
}
TYPED_TEST(reducers, avg) {
  this->all_cases(blink::avg{});
}
TYPED_TEST(reducers, bit_and) {
  this->all_cases(blink::bit_and{});
}
TYPED_TEST(reducers, bit_or) {
  this->all_cases(blink::bit_or{});
}
TYPED_TEST(reducers, bit_xor) {
  this->all_cases(blink::bit_xor{});
}

static_assert(!blink::reducer_for<blink::bit_and, double>);
static_assert(!blink::reducer_for<blink::max, std::complex<float>>);
static_assert(blink::reducer_for<blink::sum, std::complex<float>>);
static_assert(!blink::reducer_for<blink::sum, blink_test::triple>);
static_assert(blink::is_commutative<blink::sum> && !blink::is_commutative<blink_test::compose>);
static_assert(blink::is_commutative<decltype([](int a, int b) { return a + b; })>);

TEST(reducer, integers_wrap_around) {
  constexpr auto most = std::numeric_limits<int>::max();
  EXPECT_EQ(blink::sum{}(most, 1), std::numeric_limits<int>::min());
  EXPECT_EQ(blink::prod{}(most, 2), -2);
  EXPECT_EQ(blink::prod{}(std::uint16_t{65535}, std::uint16_t{65535}), 1);
  EXPECT_EQ(blink::sum{}(std::int8_t{127}, std::int8_t{1}), -128);
  EXPECT_EQ(blink::avg{}.finish(-7, 2), -3);
  EXPECT_EQ(blink::avg{}.finish(std::uint8_t{200}, 3), 66);
}

TEST(reducer, averages_of_narrow_integers_do_not_wrap_around) {
  blink::thread_ranks(140).run([](auto& comm) {
    std::vector<std::int8_t> const small(3, 100);
    std::vector<std::uint8_t> const large(3, 255);
    std::vector<std::int16_t> const negative(3, -32768);
    std::vector<std::int8_t> a(3);
    std::vector<std::uint8_t> b(3);
    std::vector<std::int16_t> c(3);
    blink::all_reduce(comm, blink::binomial_schedule(140, 0), small.data(), a.data(), 3,
                      blink::avg{});
    blink::all_reduce(comm, large, b, blink::avg{});
    blink::reduce(comm, negative, c, 0, blink::avg{});
    EXPECT_EQ(a, small);
    EXPECT_EQ(b, large);
    if (comm.rank() == 0) {
      EXPECT_EQ(c, negative);
    }
  });
}

TEST(reducer, ties_keep_the_first) {
  EXPECT_TRUE(std::signbit(blink::min{}(-0.0, 0.0)));
  EXPECT_FALSE(std::signbit(blink::max{}(0.0, -0.0)));
}

/// Three types: bytes in the buffer, eighths in 64 bits, halves on connections. The result shows
/// every step, and nothing is rounded, so that all trees give equal results.
template <class Wire>
struct eighths {
  std::int64_t lift(std::uint8_t value, blink::element_place const& place) const {
    return value * std::int64_t{8} + static_cast<std::int64_t>(place.index % 3) * 8 +
           static_cast<std::int64_t>(place.rank) * 8;
  }
  std::int64_t operator()(std::int64_t a, std::int64_t b) const { return a + b; }
  Wire send(std::int64_t total) const { return static_cast<Wire>(total / 4); }
  std::int64_t recv(Wire sent) const { return std::int64_t{sent} * 4; }
  std::uint8_t finish(std::int64_t total, int rank_count, blink::element_place const& place) const {
    return static_cast<std::uint8_t>(total / 8 + rank_count +
                                     static_cast<std::int64_t>(place.index % 5));
  }
};

/// Elements of four bytes that cross connections as one byte, also from leaves.
struct bytes_sent {
  int operator()(int a, int b) const { return a + b; }
  std::int8_t send(int total) const { return static_cast<std::int8_t>(total); }
  int recv(std::int8_t sent) const { return sent; }
};

template <class Ranks, class T, class Reducer>
void three_types(std::uint64_t seed) {
  std::mt19937_64 random(seed);
  int const ranks = 1 + blink_test::below(random, 7);
  blink::communicator_options options;
  options.slot_bytes = 64 + random() % 500;
  options.team_size = std::is_same_v<Ranks, teams> ? 3 : 1;
  Ranks threads(ranks, options);
  for (auto const kind : {blink::collective::all_reduce, blink::collective::reduce,
                          blink::collective::reduce_scatter}) {
    collective_case const what{kind, random() % 2000, seed % 2 == 0, seed % 4, seed};
    auto const plan = blink_test::random_schedule(random, ranks, kind);
    EXPECT_EQ(run_case<T>(threads, plan, what, Reducer{}), "");
  }
}

TEST(reducer, buffers_accumulators_and_connections_of_different_types) {
  static_assert(std::is_same_v<blink::accumulator_t<eighths<int>, std::uint8_t>, std::int64_t>);
  static_assert(std::is_same_v<blink::sent_t<eighths<int>, std::uint8_t>, int>);
  static_assert(blink::reducer_for<eighths<int>, std::uint8_t>);
  for (std::uint64_t seed = 0; seed < 30; ++seed) {
    SCOPED_TRACE(seed);
    three_types<blink::thread_ranks, std::uint8_t, eighths<std::int32_t>>(seed);
    three_types<blink::thread_ranks, std::int32_t, bytes_sent>(seed);
    three_types<copying, std::uint8_t, eighths<std::int16_t>>(seed);
    three_types<copying, std::int32_t, bytes_sent>(seed);
    if (seed < 8) three_types<teams, std::uint8_t, eighths<std::int32_t>>(seed);
  }
}

TEST(reducer, lambdas_with_state) {
  blink::thread_ranks threads(3);
  threads.run([](auto& comm) {
    int const modulus = comm.rank_count() + 4;
    std::vector<int> data{comm.rank() + 3, 6};
    blink::all_reduce(comm, blink::star_schedule(3), data.data(), data.data(), 2,
                      [modulus](int a, int b) { return (a + b) % modulus; });
    EXPECT_EQ(data[0], (3 + 4 + 5) % 7);
    EXPECT_EQ(data[1], 18 % 7);
  });
}

/// Adds a random subtree of the consecutive ranks [first, last) below `above`. Its root is random,
/// and the remaining ranks are split into random rows.
void add_row(std::mt19937_64& random, int first, int last, int above, std::vector<int>& parents) {
  if (first == last) return;
  int const root = first + blink_test::below(random, last - first);
  parents[static_cast<std::size_t>(root)] = above;
  for (int from = first; from < last;) {
    int const end = from < root ? root : last;
    int const to = from == root ? from : from + 1 + blink_test::below(random, end - from);
    if (from != root) add_row(random, from, to, root, parents);
    from = from == root ? from + 1 : to;
  }
}

template <class Ranks>
void keeps_order(blink::schedule const& plan, blink::collective kind, std::uint64_t seed) {
  collective_case const what{kind, 100 + seed, seed % 2 == 0, 0, seed};
  Ranks threads(plan.rank_count);
  EXPECT_EQ(run_case<blink_test::affine>(threads, plan, what, blink_test::compose{}), "");
}

// The order matters, and is kept if the schedule can keep it.
TEST(reducer, not_commutative_keeps_the_order_of_the_ranks) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const ranks = 1 + blink_test::below(random, 8);
    auto plan = blink::star_schedule(ranks);
    EXPECT_TRUE(blink::reduces_in_order(plan));
    keeps_order<blink::thread_ranks>(plan, blink::collective::reduce_scatter, seed);
    keeps_order<copying>(plan, blink::collective::reduce_scatter, seed);
    for (auto& tree : plan.trees) {
      auto parents = tree.reduce_parent.values();
      add_row(random, 0, ranks, -1, parents);
      tree.root = static_cast<int>(std::find(parents.begin(), parents.end(), -1) - parents.begin());
      tree.reduce_parent = parents;
      tree.broadcast_parent = blink_test::random_parents(random, ranks, tree.root);
    }
    EXPECT_TRUE(blink::reduces_in_order(plan));
    keeps_order<blink::thread_ranks>(plan, blink::collective::all_reduce, seed);
    keeps_order<copying>(plan, blink::collective::all_reduce, seed);
  }
}

// Rounded sums: equal plans and inputs give equal bits, with any timing.
TEST(reducer, equal_inputs_give_equal_bits) {
  constexpr std::size_t count = 5000;
  std::mt19937_64 random(42);
  auto const plan = blink_test::random_schedule(random, 6, blink::collective::all_reduce);
  std::vector<std::vector<float>> results;
  for (int repeat = 0; repeat < 5; ++repeat) {
    blink::thread_ranks threads(6);
    std::vector<float> kept(count);
    threads.run([&](auto& comm) {
      std::vector<float> data(count);
      for (std::size_t k = 0; k < count; ++k) {
        data[k] = 1.0F / static_cast<float>(k * 6 + static_cast<std::size_t>(comm.rank()) + 1);
      }
      blink::all_reduce(comm, plan, data.data(), data.data(), count, blink::sum{});
      if (comm.rank() == repeat) kept = data;  // all ranks have the same result
    });
    results.push_back(kept);
    EXPECT_EQ(results.front(), results.back());
  }
}

}}  // namespace reducers_test
