// SPDX-License-Identifier: Apache-2.0
// Reducers that round, each within its stated error, and sums with reproducible bits.

#include <blink/reducers.hpp>

#include "support/reducer_conformance.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <complex>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <vector>

// A folder may be compiled as one source.
namespace rounded_reducers_test {

namespace {

using blink_test::dice;
using blink_test::reducer_case;

/// True if |got - expected| <= units * (half an ulp of T at the sum of sizes).
template <class T>
bool within(T got, long double expected, long double sum_of_sizes, long double units) {
  long double const unit = std::numeric_limits<T>::epsilon() / 2;
  return std::abs(static_cast<long double>(got) - expected) <= units * unit * sum_of_sizes;
}
template <class T>
long double sum_of(std::vector<T> const& inputs) {
  long double total = 0;
  for (T const input : inputs) total += static_cast<long double>(input);
  return total;
}
template <class T>
long double sizes_of(std::vector<T> const& inputs) {
  long double total = 0;
  for (T const input : inputs) total += std::abs(static_cast<long double>(input));
  return total;
}

/// Numbers of very different sizes and both signs.
template <class T>
struct wild {
  static T input(dice& random) {
    return static_cast<T>(std::ldexp(random.signed_unit(), random.below(40) - 20));
  }
};

template <class Reducer>
struct float_sum : reducer_case<float, Reducer>, wild<float> {
  static constexpr bool is_exact = false;
  static float expected(std::vector<float> const& inputs) {
    return static_cast<float>(sum_of(inputs));
  }
  static bool agrees(float got, float, std::vector<float> const& inputs) {
    return within(got, sum_of(inputs), sizes_of(inputs), static_cast<long double>(inputs.size()));
  }
};
struct plain_sum : float_sum<blink::sum> {
  static float neutral() { return 0; }
};
struct plain_average : float_sum<blink::avg> {
  static float expected(std::vector<float> const& inputs) {
    return static_cast<float>(sum_of(inputs) / static_cast<long double>(inputs.size()));
  }
  static bool agrees(float got, float, std::vector<float> const& inputs) {
    auto const n = static_cast<long double>(inputs.size());
    return within(got, sum_of(inputs) / n, sizes_of(inputs) / n, n + 1);
  }
};
struct scaled_floats : float_sum<blink::scaled_sum<float>> {
  static blink::scaled_sum<float> reducer() { return {0.3F}; }
  static bool agrees(float got, float, std::vector<float> const& inputs) {
    auto const n = static_cast<long double>(inputs.size());
    return within(got, sum_of(inputs) * 0.3F, sizes_of(inputs), n + 1);
  }
};
struct product : reducer_case<double, blink::prod> {
  static constexpr bool is_exact = false;
  static double input(dice& random) { return random.signed_unit() * 2; }
  static double expected(std::vector<double> const& inputs) {
    long double total = 1;
    for (double const input : inputs) total *= input;
    return static_cast<double>(total);
  }
  static bool agrees(double got, double expected, std::vector<double> const& inputs) {
    return within(got, expected, std::abs(expected), static_cast<long double>(inputs.size()) + 1);
  }
  static double neutral() { return 1; }
};

template <class Reducer>
struct complex_case : reducer_case<std::complex<double>, Reducer> {
  using element = std::complex<double>;
  static constexpr bool is_exact = false;
  static element input(dice& random) { return {random.signed_unit(), random.signed_unit()}; }
  static bool agrees(element got, element expected, std::vector<element> const& inputs) {
    return std::abs(got - expected) <= 1e-15 * static_cast<double>(inputs.size() + 1);
  }
};
struct complex_sum : complex_case<blink::sum> {
  static element expected(std::vector<element> const& inputs) {
    std::complex<long double> total;
    for (auto const input : inputs) total += input;
    return {static_cast<double>(total.real()), static_cast<double>(total.imag())};
  }
  static element neutral() { return 0; }
};
struct complex_product : complex_case<blink::prod> {
  static element input(dice& random) { return std::polar(1.0, 3 * random.signed_unit()); }
  static element expected(std::vector<element> const& inputs) {
    long double angle = 0;
    for (auto const input : inputs) angle += std::arg(std::complex<long double>(input));
    return {static_cast<double>(std::cos(angle)), static_cast<double>(std::sin(angle))};
  }
  static element neutral() { return 1; }
};
struct complex_average : complex_case<blink::avg> {
  static element expected(std::vector<element> const& inputs) {
    return complex_sum::expected(inputs) / static_cast<double>(inputs.size());
  }
};

/// Large numbers that cancel: a plain sum loses all digits of the rest.
struct cancelling : float_sum<blink::compensated_sum> {
  static bool agrees(float got, float, std::vector<float> const& inputs) {
    long double const unit = 0x1p-24L;
    auto const n = static_cast<long double>(inputs.size());
    long double const exact = sum_of(inputs);
    return std::abs(got - exact) <=
           unit * std::abs(exact) + 2 * n * n * unit * unit * sizes_of(inputs);
  }
  static blink::compensated<float> neutral() { return {}; }
};

struct logarithms : reducer_case<double, blink::log_sum_exp> {
  static constexpr bool is_exact = false;
  static double input(dice& random) {
    int const size = random.below(20);
    if (size == 0) return -std::numeric_limits<double>::infinity();
    return random.signed_unit() * (size > 15 ? 2000 : 3);  // exp would overflow, underflow
  }
  static double expected(std::vector<double> const& inputs) {
    long double const largest = *std::max_element(inputs.begin(), inputs.end());
    if (std::isinf(largest)) return static_cast<double>(largest);
    long double total = 0;
    for (double const input : inputs) total += std::exp(input - largest);
    return static_cast<double>(largest + std::log(total));
  }
  static bool agrees(double got, double expected, std::vector<double> const& inputs) {
    if (std::isinf(expected)) return got == expected;
    return within(got, expected, std::max(1.0, std::abs(expected)),
                  8 * static_cast<long double>(inputs.size()));
  }
  static blink::scaled_exponential<double> neutral() {
    return {-std::numeric_limits<double>::infinity(), 0};
  }
};

/// Numbers near 10^4 that differ by about 1: the textbook formula loses all digits.
template <class Reducer>
struct far_from_zero : reducer_case<float, Reducer> {
  static constexpr bool is_exact = false;
  static float input(dice& random) { return static_cast<float>(1e4 + random.signed_unit()); }
  static long double mean(std::vector<float> const& inputs) {
    return sum_of(inputs) / static_cast<long double>(inputs.size());
  }
  static long double variance(std::vector<float> const& inputs) {
    long double total = 0;
    for (float const input : inputs) total += (input - mean(inputs)) * (input - mean(inputs));
    return total / static_cast<long double>(inputs.size());
  }
  static blink::moments<float> neutral() { return {}; }
};
struct mean : far_from_zero<blink::mean_of_ranks> {
  static float expected(std::vector<float> const& inputs) {
    return static_cast<float>(far_from_zero::mean(inputs));
  }
  static bool agrees(float got, float expected, std::vector<float> const& inputs) {
    return within(got, expected, 1e4L, 2 * static_cast<long double>(inputs.size()));
  }
};
struct variance : far_from_zero<blink::variance_of_ranks> {
  static float expected(std::vector<float> const& inputs) {
    return static_cast<float>(far_from_zero::variance(inputs));
  }
  // Means are off by an ulp of 10^4, which is 10^-3.
  static bool agrees(float got, float expected, std::vector<float> const&) {
    return got >= 0 && std::abs(got - expected) <= 0.005F;
  }
};
using double_moments = blink::moments<double>;
struct merged_moments : reducer_case<double_moments, blink::merge_moments> {
  static constexpr bool is_exact = false;
  static double_moments input(dice& random) {
    double_moments result;
    for (int k = random.below(5); k > 0; --k) result.add(random.signed_unit() * 100);
    return result;
  }
  // Through sums of powers, which are harmless for numbers around 0.
  static double_moments expected(std::vector<double_moments> const& inputs) {
    long double n = 0, first = 0, second = 0;
    for (auto const& input : inputs) {
      n += input.count;
      first += static_cast<long double>(input.count) * input.mean;
      second += input.squares + static_cast<long double>(input.count) * input.mean * input.mean;
    }
    if (n == 0) return {};
    return {static_cast<double>(n), static_cast<double>(first / n),
            static_cast<double>(second - first * first / n)};
  }
  static bool agrees(double_moments const& got, double_moments const& expected,
                     std::vector<double_moments> const&) {
    return got.count == expected.count && std::abs(got.mean - expected.mean) < 1e-12 &&
           std::abs(got.squares - expected.squares) < 1e-9;
  }
};

/// The bits do not depend on the order, and the error is below one rounding.
template <class T>
struct reproducible : reducer_case<T, blink::reproducible_sum> {
  static T input(dice& random) {
    switch (random() % 30) {
      case 0:
        return std::numeric_limits<T>::denorm_min() * static_cast<T>(random.below(100));
      case 1:
        return static_cast<T>(std::ldexp(random.signed_unit(), 100));
      case 2:
        return T{0};
      default:
        return wild<T>::input(random);
    }
  }
  static T expected(std::vector<T> const& inputs) { return static_cast<T>(sum_of(inputs)); }
  static bool agrees(T got, T expected, std::vector<T> const& inputs) {
    T largest = 0;
    for (T const input : inputs) largest = std::max(largest, std::abs(input));
    long double const lost =
        std::ldexp(static_cast<long double>(largest), sizeof(T) <= 4 ? -40 : -80) *
        static_cast<long double>(inputs.size());
    long double const half =
        std::abs(static_cast<long double>(std::nextafter(expected, T{0})) - expected);
    // The reference sum has 64 digits.
    return std::abs(static_cast<long double>(got) - expected) <=
           lost + half + sizes_of(inputs) * 0x1p-62L;
  }
  static blink::binned<T> neutral() { return {}; }
};
struct merged_bins : reducer_case<blink::binned<double>, blink::merge_binned> {
  using bins = blink::binned<double>;
  static constexpr bool is_exact = false;  // bins have no comparison; `agrees` is as strict
  static bins input(dice& random) {
    bins result;
    for (int k = random.below(4); k > 0; --k) result.add(wild<double>::input(random));
    return result;
  }
  static bins expected(std::vector<bins> const& inputs) {
    bins total;
    for (auto const& input : inputs) total = total.plus(input);
    return total;
  }
  static bool agrees(bins const& got, bins const& expected, std::vector<bins> const&) {
    return got.top == expected.top && std::equal(got.digits, got.digits + 3, expected.digits) &&
           blink_test::same_bits(got.value(), expected.value());
  }
};

}  // namespace

using namespace blink_test;

using arithmetic_cases = testing::Types<plain_sum, plain_average, scaled_floats, product,
                                        complex_sum, complex_product, complex_average>;
INSTANTIATE_TYPED_TEST_SUITE_P(arithmetic, reducer_conformance, arithmetic_cases);

using careful_cases = testing::Types<cancelling, logarithms, mean, variance, merged_moments,
                                     reproducible<float>, reproducible<double>, merged_bins>;
INSTANTIATE_TYPED_TEST_SUITE_P(careful, reducer_conformance, careful_cases);

namespace {

// Compared with exact sums of integers: numbers whose last digits have one place.
TEST(reproducible_sum, is_correctly_rounded_where_no_place_is_left_out) {
  for (std::uint64_t seed = 0; seed < 3000; ++seed) {
    dice random{seed};
    int const place = random.below(400) - 200;
    __extension__ __int128 exact = 0;
    blink::binned<double> total;
    for (int k = random.below(20); k >= 0; --k) {
      auto const number = static_cast<std::int64_t>(random()) >> (10 + random.below(50));
      exact += number;
      total.add(std::ldexp(static_cast<double>(number), place));
    }
    // Conversions of wide integers round to the nearest.
    ASSERT_EQ(total.value(), std::ldexp(static_cast<double>(exact), place)) << seed;
  }
}

// Many numbers push the digits of the highest place beyond those that are rounded exactly. The
// digits below still break ties.
TEST(reproducible_sum, the_lowest_place_breaks_ties) {
  blink::binned<double> total;
  double const large = std::ldexp(0x1p40 - 1, 80);
  for (int k = 0; k < 300; ++k) total.add(large);
  EXPECT_EQ(total.value(), 300 * large);
  total.add(0x1p75);  // half of the last digit
  EXPECT_EQ(total.value(), 300 * large);
  total.add(1);
  EXPECT_EQ(total.value(), 300 * large + 0x1p76);
}

// The same numbers, divided differently among different numbers of ranks.
TEST(reproducible_sum, bits_do_not_depend_on_who_has_which_number) {
  constexpr std::size_t count = 50;
  constexpr std::size_t numbers = 60;
  std::vector<std::vector<double>> results;
  for (int const ranks : {1, 2, 3, 5, 8}) {
    std::mt19937_64 random(static_cast<std::uint64_t>(ranks));
    auto const plan = blink_test::random_schedule(random, ranks, blink::collective::all_reduce);
    std::vector<std::size_t> owner(numbers);
    for (auto& who : owner) who = random() % static_cast<std::uint64_t>(ranks);
    blink::thread_ranks threads(ranks);
    auto& result = results.emplace_back(count);
    threads.run([&](auto& comm) {
      std::vector<blink::binned<double>> sums(count);
      for (std::size_t k = 0; k < count; ++k) {
        for (std::size_t which = 0; which < numbers; ++which) {
          dice at{k * numbers + which};
          double const number = std::ldexp(at.signed_unit(), at.below(200) - 100);
          if (owner[which] == static_cast<std::size_t>(comm.rank())) sums[k].add(number);
        }
      }
      blink::all_reduce(comm, plan, sums.data(), sums.data(), count, blink::merge_binned{});
      for (std::size_t k = 0; k < count; ++k) {
        if (comm.rank() == 0) result[k] = sums[k].value();
      }
    });
    EXPECT_EQ(results.front(), result) << ranks;
  }
}

TEST(reproducible_sum, infinities_and_nan) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto const sum_of_three = [](double a, double b, double c) {
    auto const reduce = blink::reproducible_sum{};
    return reduce.finish(reduce(reduce(reduce.lift(a), reduce.lift(b)), reduce.lift(c)), 3);
  };
  EXPECT_EQ(sum_of_three(1, infinity, -3), infinity);
  EXPECT_EQ(sum_of_three(-infinity, 2, -infinity), -infinity);
  EXPECT_TRUE(std::isnan(sum_of_three(infinity, 2, -infinity)));
  EXPECT_TRUE(std::isnan(sum_of_three(std::nan(""), 2, 3)));
  double const most = std::numeric_limits<double>::max();
  EXPECT_EQ(sum_of_three(most, most, -most), most);  // no intermediate overflow
  EXPECT_EQ(sum_of_three(most, most, 0), infinity);
  EXPECT_EQ(sum_of_three(5e-324, 5e-324, 0), 1e-323);
  EXPECT_FALSE(std::signbit(sum_of_three(-0.0, 1, -1)));
}

TEST(log_sum_exp, infinities_and_nan) {
  constexpr double infinity = std::numeric_limits<double>::infinity();
  auto const reduce = blink::log_sum_exp{};
  auto const of_two = [&](double a, double b) {
    return reduce.finish(reduce(reduce.lift(a), reduce.lift(b)), 2);
  };
  EXPECT_EQ(of_two(infinity, 3), infinity);
  EXPECT_EQ(of_two(infinity, -infinity), infinity);
  EXPECT_EQ(of_two(-infinity, -infinity), -infinity);
  EXPECT_TRUE(std::isnan(of_two(std::nan(""), 1)));
  EXPECT_TRUE(std::isnan(of_two(infinity, std::nan(""))));
}

TEST(compensated_sum, keeps_what_a_plain_sum_loses) {
  auto const reduce = blink::compensated_sum{};
  auto total = reduce.lift(1e8F);
  for (int k = 0; k < 1000; ++k) total = reduce(total, reduce.lift(0.5F));
  total = reduce(total, reduce.lift(-1e8F));
  EXPECT_EQ(reduce.finish(total, 1002), 500.0F);
  EXPECT_EQ(reduce.finish(reduce(reduce.lift(3e38F), reduce.lift(3e38F)), 2),
            std::numeric_limits<float>::infinity());
}

}  // namespace

}  // namespace rounded_reducers_test
