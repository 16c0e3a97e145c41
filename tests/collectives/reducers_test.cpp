// SPDX-License-Identifier: Apache-2.0
// Each reducer over each type that it takes, on all ranks, exact against a loop.

#include <blink/collectives.hpp>
#include <blink/transports/slots.hpp>

#include "support/collective_case.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

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

namespace {

using blink_test::collective_case;
using blink_test::run_case;

constexpr std::array<std::size_t, 6> counts{0, 1, 2, 63, 64, 1031};

template <class T>
class reducers : public testing::Test {
 protected:
  template <class Reducer>
  void all_cases(Reducer const& reducer) {
    if constexpr (blink::reducer_for<Reducer, T>) {
      for (int const ranks : {1, 2, 3, 5, 8}) {
        blink::thread_world world(ranks);
        std::mt19937_64 random(static_cast<std::uint64_t>(ranks));
        for (auto const kind : {blink::collective::all_reduce, blink::collective::reduce_scatter}) {
          for (std::size_t const count : counts) {
            SCOPED_TRACE(testing::Message()
                         << to_text(kind) << ", " << ranks << " ranks, count " << count);
            collective_case const what{kind, count, count % 2 == 1, count % 4, count + 1};
            auto const plan = blink_test::random_schedule(random, ranks, kind);
            ASSERT_EQ(run_case<T>(world, plan, what, reducer), "");
          }
        }
      }
    } else {
      static_assert(std::floating_point<T>, "only bits of floats are refused");
    }
  }
};

using types = testing::Types<std::int8_t, std::uint8_t, std::int32_t, std::int64_t, float, double>;
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

TEST(reducer, ties_keep_the_first) {
  EXPECT_TRUE(std::signbit(blink::min{}(-0.0, 0.0)));
  EXPECT_FALSE(std::signbit(blink::max{}(0.0, -0.0)));
}

TEST(reducer, lambdas_with_state) {
  blink::thread_world world(3);
  world.run([](auto& me) {
    int const modulus = me.rank_count() + 4;
    std::vector<int> data{me.rank() + 3, 6};
    blink::all_reduce(me, blink::star_schedule(3), data.data(), data.data(), 2,
                      [modulus](int a, int b) { return (a + b) % modulus; });
    EXPECT_EQ(data[0], (3 + 4 + 5) % 7);
    EXPECT_EQ(data[1], 18 % 7);
  });
}

// Order matters, and is kept where the schedule can.
TEST(reducer, not_commutative_keeps_the_order_of_the_ranks) {
  for (int const ranks : {1, 2, 3, 6, 8}) {
    for (auto const kind : {blink::collective::all_reduce, blink::collective::reduce}) {
      for (bool const is_binomial : {false, true}) {
        auto const plan =
            is_binomial ? blink::binomial_schedule(ranks, 0) : blink::chain_schedule(ranks, 0);
        collective_case const what{kind, 777, false, 0, 5};
        blink::thread_world reaching(ranks);
        EXPECT_EQ(run_case<blink_test::affine>(reaching, plan, what, blink_test::compose{}), "");
        blink::basic_world<blink::slot_link> copying(ranks);
        EXPECT_EQ(run_case<blink_test::affine>(copying, plan, what, blink_test::compose{}), "");
      }
    }
  }
}

// Sums that are rounded: the same plan and input give the same bits, whatever the timing.
TEST(reducer, equal_inputs_give_equal_bits) {
  constexpr std::size_t count = 5000;
  std::mt19937_64 random(42);
  auto const plan = blink_test::random_schedule(random, 6, blink::collective::all_reduce);
  std::vector<std::vector<float>> results;
  for (int repeat = 0; repeat < 5; ++repeat) {
    blink::thread_world world(6);
    std::vector<float> kept(count);
    world.run([&](auto& me) {
      std::vector<float> data(count);
      for (std::size_t k = 0; k < count; ++k) {
        data[k] = 1.0F / static_cast<float>(k * 6 + static_cast<std::size_t>(me.rank()) + 1);
      }
      blink::all_reduce(me, plan, data.data(), data.data(), count, blink::sum{});
      if (me.rank() == repeat) kept = data;  // all ranks hold the same
    });
    results.push_back(kept);
    EXPECT_EQ(results.front(), results.back());
  }
}

}  // namespace
