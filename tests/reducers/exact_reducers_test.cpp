// SPDX-License-Identifier: Apache-2.0
// Reducers whose results have the same bits in every order.

#include <blink/reducers.hpp>

#include "support/reducer_conformance.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <limits>
#include <numeric>
#include <vector>

// A folder may be compiled as one source.
namespace exact_reducers_test {

namespace {

using blink_test::dice;
using blink_test::reducer_case;

template <class T, class Reducer>
struct integers : reducer_case<T, Reducer> {
  static T input(dice& random) { return static_cast<T>(random()); }
  template <class Combine>
  static T fold(std::vector<T> const& inputs, Combine const& combine) {
    return std::accumulate(inputs.begin() + 1, inputs.end(), inputs[0], combine);
  }
};

struct wrapping_sum : integers<std::int64_t, blink::sum> {
  static std::int64_t expected(std::vector<std::int64_t> const& inputs) {
    std::uint64_t total = 0;
    for (auto const input : inputs) total += static_cast<std::uint64_t>(input);
    return static_cast<std::int64_t>(total);
  }
  static std::int64_t neutral() { return 0; }
};
struct wrapping_prod : integers<std::int16_t, blink::prod> {
  static std::int16_t expected(std::vector<std::int16_t> const& inputs) {
    std::uint32_t total = 1;
    for (auto const input : inputs) total *= static_cast<std::uint32_t>(input);
    return static_cast<std::int16_t>(total);
  }
  static std::int16_t neutral() { return 1; }
};
struct scaled_integers : integers<std::uint32_t, blink::scaled_sum<unsigned>> {
  static blink::scaled_sum<unsigned> reducer() { return {7}; }
  static std::uint32_t expected(std::vector<std::uint32_t> const& inputs) {
    return 7 * std::accumulate(inputs.begin(), inputs.end(), 0U);
  }
  static std::uint32_t neutral() { return 0; }
};
struct integer_average : integers<std::uint8_t, blink::avg> {
  static std::uint8_t expected(std::vector<std::uint8_t> const& inputs) {
    auto const sum = std::accumulate(inputs.begin(), inputs.end(), 0);
    return static_cast<std::uint8_t>(sum / static_cast<int>(inputs.size()));
  }
};
struct smallest : integers<int, blink::min> {
  static int expected(std::vector<int> const& inputs) {
    return *std::min_element(inputs.begin(), inputs.end());
  }
  static int neutral() { return std::numeric_limits<int>::max(); }
};
struct largest : integers<std::uint8_t, blink::max> {
  static std::uint8_t expected(std::vector<std::uint8_t> const& inputs) {
    return *std::max_element(inputs.begin(), inputs.end());
  }
  static std::uint8_t neutral() { return 0; }
};
struct common_bits : integers<std::uint32_t, blink::bit_and> {
  static std::uint32_t expected(std::vector<std::uint32_t> const& inputs) {
    return fold(inputs, std::bit_and<>{});
  }
  static std::uint32_t neutral() { return ~0U; }
};
struct all_bits : integers<std::int8_t, blink::bit_or> {
  static std::int8_t expected(std::vector<std::int8_t> const& inputs) {
    return static_cast<std::int8_t>(fold(inputs, std::bit_or<>{}));
  }
  static std::int8_t neutral() { return 0; }
};
struct odd_bits : integers<std::uint64_t, blink::bit_xor> {
  static std::uint64_t expected(std::vector<std::uint64_t> const& inputs) {
    return fold(inputs, std::bit_xor<>{});
  }
  static std::uint64_t neutral() { return 0; }
};

template <class T, class Reducer>
struct truths : reducer_case<T, Reducer> {
  static T input(dice& random) { return static_cast<T>(random() % 3 == 0 ? 0 : random() % 5); }
  static std::ptrdiff_t how_many(std::vector<T> const& inputs) {
    return std::count_if(inputs.begin(), inputs.end(), [](T value) { return value != T{}; });
  }
};
struct all_true : truths<std::uint8_t, blink::logical_and> {
  static std::uint8_t expected(std::vector<std::uint8_t> const& inputs) {
    return how_many(inputs) == static_cast<std::ptrdiff_t>(inputs.size()) ? 1 : 0;
  }
  static std::uint8_t neutral() { return 1; }
};
struct one_true : truths<int, blink::logical_or> {
  static int expected(std::vector<int> const& inputs) { return how_many(inputs) > 0 ? 1 : 0; }
  static int neutral() { return 0; }
};
struct odd_true : truths<int, blink::logical_xor> {
  static int expected(std::vector<int> const& inputs) { return how_many(inputs) % 2 != 0 ? 1 : 0; }
  static int neutral() { return 0; }
};

/// Few distinct values, so that many are equal; some are NaN.
struct placed_input {
  static blink::located<float> input(dice& random) {
    float const value = random() % 20 == 0 ? std::nanf("") : static_cast<float>(random.below(4));
    return {value, static_cast<std::int64_t>(random() % 1000)};
  }
  using places = std::vector<blink::located<float>>;
  static bool same(blink::located<float> const& a, blink::located<float> const& b) {
    return a.index == b.index &&
           (a.value == b.value || (std::isnan(a.value) && std::isnan(b.value)));
  }
};
template <class Reducer, bool IsLargest, bool IsLowest>
struct place_case : reducer_case<blink::located<float>, Reducer>, placed_input {
  using placed_input::input;
  static constexpr bool is_exact = false;  // NaN does not equal itself; `agrees` is as strict
  static blink::located<float> expected(places inputs) {
    auto const key = [](blink::located<float> const& entry) {
      return std::isnan(entry.value) ? 100.0F : (IsLargest ? entry.value : -entry.value);
    };
    std::sort(inputs.begin(), inputs.end(), [&](auto const& a, auto const& b) {
      if (key(a) != key(b)) return key(a) > key(b);
      return IsLowest ? a.index < b.index : a.index > b.index;
    });
    return inputs[0];
  }
  static bool agrees(blink::located<float> const& got, blink::located<float> const& expected,
                     places const&) {
    return same(got, expected);
  }
};
using lowest_place_of_min = place_case<blink::min_location<>, false, true>;
using highest_place_of_max =
    place_case<blink::max_location<blink::tie::highest_index>, true, false>;

/// Numbers that include both zeros, infinities and NaN.
template <class Reducer, bool IsLargest, bool Propagates>
struct extremes : reducer_case<float, Reducer> {
  static float input(dice& random) {
    switch (random() % 12) {
      case 0:
        return std::nanf("");
      case 1:
        return -std::nanf("7");
      case 2:
        return -0.0F;
      case 3:
        return 0.0F;
      case 4:
        return std::numeric_limits<float>::infinity() * (random() % 2 == 0 ? 1.0F : -1.0F);
      default:
        return static_cast<float>(random.below(3));
    }
  }
  static float expected(std::vector<float> const& inputs) {
    float best = std::nanf("");
    for (float const input : inputs) {
      if (std::isnan(input)) {
        if (Propagates) return std::nanf("");
        continue;
      }
      bool const is_lower = input < best || (input == best && std::signbit(input));
      bool const is_higher = input > best || (input == best && !std::signbit(input));
      if (std::isnan(best) || (IsLargest ? is_higher : is_lower)) best = input;
    }
    return best;
  }
  // A single rank keeps its own NaN.
  static bool agrees(float got, float expected, std::vector<float> const& inputs) {
    if (inputs.size() == 1) return std::isnan(got) == std::isnan(expected);
    return blink_test::same_bits(got, expected);
  }
};
using least_or_nan = extremes<blink::minimum, false, true>;
using most_or_nan = extremes<blink::maximum, true, true>;
using least_number = extremes<blink::minimum_number, false, false>;
using most_number = extremes<blink::maximum_number, true, false>;

using list = blink::largest_values<int, 4>;
struct four_largest : reducer_case<list, blink::merge_largest> {
  static constexpr bool is_exact = false;  // `agrees` ignores entries beyond `size`
  static list input(dice& random) {
    list result;
    for (int k = random.below(7); k > 0; --k) {
      result.add({random.below(10), static_cast<std::int64_t>(random())});
    }
    return result;
  }
  static list expected(std::vector<list> const& inputs) {
    std::vector<blink::located<int>> all;
    for (auto const& input : inputs) {
      all.insert(all.end(), input.entries, input.entries + input.size);
    }
    std::sort(all.begin(), all.end(), [](auto const& a, auto const& b) {
      return a.value != b.value ? a.value > b.value : a.index < b.index;
    });
    list result;
    result.size = static_cast<std::uint32_t>(std::min<std::size_t>(4, all.size()));
    std::copy_n(all.begin(), result.size, result.entries);
    return result;
  }
  static bool agrees(list const& got, list const& expected, std::vector<list> const&) {
    return got.size == expected.size &&
           std::equal(got.entries, got.entries + got.size, expected.entries);
  }
};

/// The map x -> a x + b modulo 2^8. Composition of such maps is not commutative.
struct map {
  std::uint8_t a, b;
  friend bool operator==(map const&, map const&) = default;
};
struct compose_maps {
  static constexpr bool is_commutative = false;
  map operator()(map const& f, map const& g) const {
    return {static_cast<std::uint8_t>(f.a * g.a), static_cast<std::uint8_t>(f.a * g.b + f.b)};
  }
};
struct composition : reducer_case<map, compose_maps> {
  static map input(dice& random) {
    return {static_cast<std::uint8_t>(random() | 1U), static_cast<std::uint8_t>(random())};
  }
  // The last map acts first: composed from the right, on two points that determine a and b.
  static map expected(std::vector<map> const& inputs) {
    auto const at = [&](std::uint8_t x) {
      for (auto f = inputs.rbegin(); f != inputs.rend(); ++f) {
        x = static_cast<std::uint8_t>(f->a * x + f->b);
      }
      return x;
    };
    return {static_cast<std::uint8_t>(at(1) - at(0)), at(0)};
  }
  static map neutral() { return {1, 0}; }
};

/// Any callable: one of the standard library, and a lambda.
struct standard_functor : integers<std::uint32_t, std::plus<>> {
  static std::uint32_t expected(std::vector<std::uint32_t> const& inputs) {
    return std::accumulate(inputs.begin(), inputs.end(), 0U);
  }
};
struct user_lambda : integers<std::uint32_t, int> {
  static auto reducer() {
    return [modulus = 1009U](std::uint32_t a, std::uint32_t b) { return (a + b) % modulus; };
  }
  static std::uint32_t input(dice& random) { return static_cast<std::uint32_t>(random() % 1009); }
  static std::uint32_t expected(std::vector<std::uint32_t> const& inputs) {
    return std::accumulate(inputs.begin(), inputs.end(), 0U) % 1009;
  }
};

}  // namespace

using namespace blink_test;

using arithmetic_cases =
    testing::Types<wrapping_sum, wrapping_prod, scaled_integers, integer_average, smallest, largest,
                   common_bits, all_bits, odd_bits, all_true, one_true, odd_true>;
INSTANTIATE_TYPED_TEST_SUITE_P(integers, reducer_conformance, arithmetic_cases);

using choosing_cases = testing::Types<lowest_place_of_min, highest_place_of_max, least_or_nan,
                                      most_or_nan, least_number, most_number, four_largest>;
INSTANTIATE_TYPED_TEST_SUITE_P(choices, reducer_conformance, choosing_cases);

using user_cases = testing::Types<composition, standard_functor, user_lambda>;
INSTANTIATE_TYPED_TEST_SUITE_P(users, reducer_conformance, user_cases);

}  // namespace exact_reducers_test
