// SPDX-License-Identifier: Apache-2.0
// Reducers over arrays: results, the order of the ranks, the places of results, items of several
// elements.

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/all_reduce_blocks.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/array_reducers.hpp>
#include <blink/reducers/small_float.hpp>
#include <blink/running/walk/team_group.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/collective_case.hpp"
#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include "support/reducer_conformance.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <numeric>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

// A folder may be compiled as one source.
namespace array_reducers_test { namespace {

using blink_test::below;
using blink_test::dice;

/// Combines arrays by a loop, and checks the places that it is given.
template <class Single>
struct by_loop {
  template <class T>
  void operator()(T const* a, T const* b, T* result, std::size_t count) const {
    auto const is_apart = [&](T const* from) {
      return result + count <= from || from + count <= result;
    };
    if (count == 0 || (result != a && !is_apart(a)) || (result != b && !is_apart(b)))
      throw std::logic_error("combined no elements, or into a part of an operand");
    for (std::size_t i = 0; i < count; ++i) result[i] = Single{}(a[i], b[i]);
  }
};
template <class T, class Single>
auto arrays_of() {
  return blink::over_arrays<T>(by_loop<Single>{});
}

/// The same in MPI's form.
template <class Single>
struct into_by_loop {
  template <class T>
  void operator()(T const* in, T* inout, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) inout[i] = Single{}(in[i], inout[i]);
  }
};
template <class T, class Single>
auto second_of() {
  return blink::into_second<T>(into_by_loop<Single>{});
}

/// The sum of bfloat16 in float, with all its steps on arrays.
struct wide_arrays {
  float lift(blink::bfloat16 value) const { return value; }
  template <class T>
  void lift(T const* values, float* totals, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) totals[i] = values[i];
  }
  float operator()(float a, float b) const { return a + b; }
  void combine(float const* a, float const* b, float* result, std::size_t count) const {
    for (std::size_t i = 0; i < count; ++i) result[i] = a[i] + b[i];
  }
  template <class T>
  void finish(float const* totals, T* results, std::size_t count, int) const {
    for (std::size_t i = 0; i < count; ++i) results[i] = T(totals[i]);
  }
};
static_assert(blink::combines_arrays<wide_arrays, blink::bfloat16>);

/// Numbers whose sums are exact.
struct small_number : blink::bfloat16 {
  using blink::bfloat16::bfloat16;
  static small_number from_bits(std::uint64_t bits) {
    return small_number(static_cast<float>(bits % 16));
  }
  friend bool operator==(small_number a, small_number b) { return a.code() == b.code(); }
};

// --- the requirements of every reducer ---

struct wrapping_arrays : blink_test::reducer_case<std::uint32_t, void> {
  static auto reducer() { return arrays_of<std::uint32_t, blink::sum>(); }
  static std::uint32_t input(dice& random) { return static_cast<std::uint32_t>(random()); }
  static std::uint32_t expected(std::vector<std::uint32_t> const& inputs) {
    return std::accumulate(inputs.begin(), inputs.end(), 0U);
  }
  static std::uint32_t neutral() { return 0; }
};
struct largest_in_second : blink_test::reducer_case<std::int16_t, void> {
  static auto reducer() { return second_of<std::int16_t, blink::max>(); }
  static std::int16_t input(dice& random) { return static_cast<std::int16_t>(random()); }
  static std::int16_t expected(std::vector<std::int16_t> const& inputs) {
    return *std::max_element(inputs.begin(), inputs.end());
  }
};
struct ordered_maps : blink_test::reducer_case<blink_test::affine, void> {
  static auto reducer() {
    return blink::in_order_of_ranks(arrays_of<blink_test::affine, blink_test::compose>());
  }
  static blink_test::affine input(dice& random) {
    return blink_test::value_from<blink_test::affine>(random());
  }
  static blink_test::affine expected(std::vector<blink_test::affine> const& inputs) {
    auto total = inputs[0];
    for (std::size_t k = 1; k < inputs.size(); ++k) total = blink_test::compose{}(total, inputs[k]);
    return total;
  }
};
struct wide_sums : blink_test::reducer_case<blink::bfloat16, void> {
  static wide_arrays reducer() { return {}; }
  static blink::bfloat16 input(dice& random) {
    return blink::bfloat16(static_cast<float>(random.below(64)));  // sums of up to 9 are exact
  }
  static blink::bfloat16 expected(std::vector<blink::bfloat16> const& inputs) {
    float total = 0;
    for (float const input : inputs) total += input;
    return blink::bfloat16(total);
  }
  static bool agrees(blink::bfloat16 got, blink::bfloat16 expected,
                     std::vector<blink::bfloat16> const&) {
    return got.code() == expected.code();
  }
  static constexpr bool is_exact = false;  // compared by value only
};

}}  // namespace array_reducers_test

namespace blink_test {
using array_cases =
    testing::Types<array_reducers_test::wrapping_arrays, array_reducers_test::largest_in_second,
                   array_reducers_test::ordered_maps, array_reducers_test::wide_sums>;
INSTANTIATE_TYPED_TEST_SUITE_P(arrays, reducer_conformance, array_cases);
}  // namespace blink_test

namespace array_reducers_test { namespace {

constexpr std::array reducing{blink::collective::all_reduce, blink::collective::reduce,
                              blink::collective::reduce_scatter};

// --- collectives ---

/// Runs a case along all transports; empty if nothing is wrong.
template <class T, class Reducer>
std::string run_everywhere(blink::schedule const& plan, blink_test::collective_case const& what,
                           blink::communicator_options const& options, Reducer const& reducer) {
  blink::thread_ranks reaching(plan.rank_count, options);
  blink::basic_thread_ranks<blink::slot_transport> copying(plan.rank_count, options);
  return blink_test::run_case<T>(reaching, plan, what, reducer, 2) +
         blink_test::run_case<T>(copying, plan, what, reducer, 2) +
         blink_test::run_case<T, blink::fixed_chunks<7>>(copying, plan, what, reducer);
}

TEST(array_reducers, give_what_a_loop_gives_on_one_to_five_ranks) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    std::mt19937_64 random(seed);
    int const ranks = 1 + static_cast<int>(seed % 5);
    blink::communicator_options options;
    options.slot_bytes = 12 + random() % 2000;
    options.streaming_bytes = seed % 3 == 0 ? 1 : options.streaming_bytes;
    options.measured_bytes = seed % 4 == 0 ? 1 : options.measured_bytes;
    for (auto const kind : reducing) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << to_text(kind));
      auto const plan = blink_test::random_schedule(random, ranks, kind);
      blink_test::collective_case const what{kind, random() % 5000, seed % 2 == 0, seed % 4, seed};
      EXPECT_EQ((run_everywhere<std::uint32_t>(plan, what, options,
                                               arrays_of<std::uint32_t, blink::sum>())),
                "");
      EXPECT_EQ(
          (run_everywhere<std::int8_t>(plan, what, options, second_of<std::int8_t, blink::max>())),
          "");
      EXPECT_EQ(
          (run_everywhere<blink_test::triple>(
              plan, what, options, arrays_of<blink_test::triple, blink_test::triple_reducer>())),
          "");
    }
  }
}

TEST(array_reducers, keep_the_order_of_the_ranks) {
  auto const maps = arrays_of<blink_test::affine, blink_test::compose>();
  auto const by_second = second_of<blink_test::affine, blink_test::compose>();
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (auto const kind : reducing) {
      for (std::size_t const count : {1U, 37U, 5000U}) {
        for (bool const in_place : {false, true}) {
          SCOPED_TRACE(testing::Message() << ranks << " ranks, " << to_text(kind) << ", count "
                                          << count << ", in place " << in_place);
          auto const plan = kind == blink::collective::reduce ? blink::chain_schedule(ranks, 0)
                                                              : blink::star_schedule(ranks);
          blink::communicator_options options;
          options.slot_bytes = 512;
          blink_test::collective_case const what{kind, count, in_place, 1, count};
          EXPECT_EQ((run_everywhere<blink_test::affine>(plan, what, options,
                                                        blink::in_order_of_ranks(maps))),
                    "");
          EXPECT_EQ((run_everywhere<blink_test::affine>(plan, what, options,
                                                        blink::in_order_of_ranks(by_second))),
                    "");
        }
      }
    }
  }
}

TEST(array_reducers, of_which_operands_may_not_change_places_are_refused_elsewhere) {
  blink::thread_ranks threads(4);
  auto const maps = blink::in_order_of_ranks(arrays_of<blink_test::affine, blink_test::compose>());
  auto const plan = blink::binomial_schedule(4, 1);
  blink_test::collective_case const what{blink::collective::all_reduce, 10};
  EXPECT_ERROR(blink_test::run_case<blink_test::affine>(threads, plan, what, maps),
               "the reducer is not commutative");
}

// Early arrivals, teams of threads, and the tree of ranks.
TEST(array_reducers, keep_every_promise_of_order) {
  auto const triples = arrays_of<blink_test::triple, blink_test::triple_reducer>();
  auto const any = blink::with_order<blink::order_promise::any>(triples);
  auto const shape = blink::with_order<blink::order_promise::shape>(triples);
  auto const of_ranks = blink::with_order<blink::order_promise::ranks>(triples);
  auto const wide = blink::with_order<blink::order_promise::any>(wide_arrays{});
  for (std::uint64_t seed = 0; seed < 24; ++seed) {
    std::mt19937_64 random(seed);
    int const ranks = 1 + static_cast<int>(seed % 6);
    blink::communicator_options options;
    options.slot_bytes = 100 + random() % 1000;
    options.window = 1 + static_cast<std::uint32_t>(random() % 3);
    auto team = options;
    team.team_size = 3;
    blink::basic_thread_ranks<blink::slot_transport, blink::team_group> teams(3, team);
    auto const star = blink::star_schedule(ranks);
    auto const of_three = blink::star_schedule(3);
    for (auto const kind : reducing) {
      SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << to_text(kind));
      auto const plan = blink_test::random_schedule(random, ranks, kind);
      blink_test::collective_case const what{kind, random() % 4000, seed % 2 == 0, seed % 4, seed};
      EXPECT_EQ(run_everywhere<blink_test::triple>(plan, what, options, any), "");
      EXPECT_EQ(run_everywhere<blink_test::triple>(plan, what, options, shape), "");
      if (kind == blink::collective::reduce) continue;  // a star has a tree for each root
      EXPECT_EQ(run_everywhere<blink_test::triple>(star, what, options, of_ranks), "");
      EXPECT_EQ(blink_test::run_case<blink_test::triple>(teams, of_three, what, triples, 2), "");
      EXPECT_EQ(run_everywhere<small_number>(plan, what, options, wide), "");
    }
  }
}

/// Sums whose bits show their brackets: an operand is a binary tree in 64 bits.
struct brackets {
  std::uint64_t operator()(std::uint64_t a, std::uint64_t b) const {
    return (a * 0x9e3779b97f4a7c15u ^ b) * 0xbf58476d1ce4e5b9u + 1;
  }
};
std::uint64_t bracketed(blink::detail::block_node const& node, std::size_t index) {
  if (node.size() == 1) {
    return blink_test::input_element<std::uint64_t>(3, static_cast<int>(node.begin), index);
  }
  auto const [left, right] = blink::detail::children_of(node);
  return brackets{}(bracketed(left, index), bracketed(right, index));
}

TEST(array_reducers, follow_the_tree_of_ranks_in_small_and_large_calls) {
  auto const sums =
      blink::with_order<blink::order_promise::ranks>(arrays_of<std::uint64_t, brackets>());
  for (int ranks = 1; ranks <= 6; ++ranks) {
    for (std::size_t const count : {std::size_t{5}, std::size_t{3000}, std::size_t{40000}}) {
      SCOPED_TRACE(testing::Message() << ranks << " ranks, count " << count);
      blink::thread_ranks threads(ranks);
      threads.run([&](auto& comm) {
        std::vector<std::uint64_t> data(count);
        for (std::size_t k = 0; k < count; ++k)
          data[k] = blink_test::input_element<std::uint64_t>(3, comm.rank(), k);
        blink::all_reduce(comm, data, sums);
        for (std::size_t k = 0; k < count; ++k) {
          ASSERT_EQ(data[k], bracketed({0, static_cast<std::size_t>(ranks)}, k)) << k;
        }
      });
    }
  }
}

TEST(array_reducers, combine_blocks_along_their_tree) {
  for (int const ranks : {1, 2, 3, 4}) {
    blink::thread_ranks threads(ranks);
    threads.run([&](auto& comm) {
      constexpr std::size_t count = 1500;
      std::size_t const own = 12 / static_cast<std::size_t>(ranks);
      std::vector<std::uint64_t> blocks;
      for (std::size_t k = 0; k < own; ++k) {
        int const number = comm.rank() * static_cast<int>(own) + static_cast<int>(k);
        for (std::size_t i = 0; i < count; ++i)
          blocks.push_back(blink_test::input_element<std::uint64_t>(3, number, i));
      }
      std::vector<std::uint64_t> result(count);
      blink::all_reduce_blocks(comm, blocks, result, 12, arrays_of<std::uint64_t, brackets>());
      for (std::size_t i = 0; i < count; ++i) ASSERT_EQ(result[i], bracketed({0, 12}, i)) << i;
    });
  }
}

/// Counts calls; single elements are never combined.
struct counting_sum {
  std::atomic<std::size_t>* calls;
  std::atomic<std::size_t>* elements;
  int operator()(int, int) const { throw std::logic_error("combined a single element"); }
  void combine(int const* a, int const* b, int* result, std::size_t count) const {
    ++*calls;
    *elements += count;
    for (std::size_t i = 0; i < count; ++i) result[i] = a[i] + b[i];
  }
};

TEST(array_reducers, are_called_for_many_elements_at_a_time) {
  for (std::size_t const count : {std::size_t{1}, std::size_t{100}, std::size_t{1} << 20}) {
    std::atomic<std::size_t> calls = 0, elements = 0;
    blink::thread_ranks threads(2);
    threads.run([&](auto& comm) {
      std::vector<int> data(count, comm.rank() + 1);
      blink::all_reduce(comm, data, counting_sum{&calls, &elements});
      ASSERT_TRUE(std::all_of(data.begin(), data.end(), [](int x) { return x == 3; }));
    });
    EXPECT_GE(elements, count);
    EXPECT_LE(calls, 2 + elements / 128);
  }
}

TEST(array_reducers, end_calls_by_exceptions) {
  blink::thread_ranks threads(2);
  auto const refuses = blink::over_arrays<int>(
      [](int const*, int const*, int*, std::size_t) { throw std::runtime_error("does not add"); });
  std::vector<std::string> errors(2);
  threads.run([&](auto& comm) {
    std::vector<int> data(10000, 1);
    try {
      blink::all_reduce(comm, data, refuses);
    } catch (std::exception const& error) {
      errors[static_cast<std::size_t>(comm.rank())] = error.what();
    }
  });
  for (auto const& error : errors)
    EXPECT_NE(error.find("does not add"), std::string::npos) << error;
}

// --- items of several elements ---

/// Adds numbers of `length` bytes, the lowest first, so that an item that is cut loses a carry.
struct item_sum {
  static constexpr std::size_t most_unit = 5000;
  std::size_t length;
  [[nodiscard]] std::size_t unit() const { return length; }
  [[nodiscard]] std::uint64_t common_state() const { return length; }
  std::byte operator()(std::byte a, std::byte) const;  // for its type only
  void combine(std::byte const* a, std::byte const* b, std::byte* result, std::size_t count) const {
    if (count % length != 0) throw std::logic_error("an item is cut");
    for (std::size_t first = 0; first < count; first += length) {
      unsigned carry = 0;
      for (std::size_t k = first; k < first + length; ++k) {
        carry += std::to_integer<unsigned>(a[k]) + std::to_integer<unsigned>(b[k]);
        result[k] = static_cast<std::byte>(carry & 0xff);
        carry >>= 8;
      }
    }
  }
};
static_assert(blink::has_unit<item_sum> && !blink::has_unit<wide_arrays>);

std::vector<std::byte> items_of(std::uint64_t seed, int rank, std::size_t bytes) {
  std::vector<std::byte> result(bytes);
  for (std::size_t k = 0; k < bytes; ++k) {
    result[k] = static_cast<std::byte>(blink_test::input_element<std::uint8_t>(seed, rank, k));
  }
  return result;
}
std::vector<std::byte> total_of(std::uint64_t seed, int ranks, std::size_t bytes,
                                item_sum const& reduce) {
  auto total = items_of(seed, 0, bytes);
  for (int rank = 1; bytes > 0 && rank < ranks; ++rank) {
    reduce.combine(total.data(), items_of(seed, rank, bytes).data(), total.data(), bytes);
  }
  return total;
}

template <class Ranks>
void check_items(int ranks, blink::communicator_options const& options, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  item_sum const reduce{seed % 5 == 0 ? 1 : 1 + random() % (seed % 3 == 0 ? 5000 : 90)};
  std::size_t const items = random() % 300;
  std::size_t const bytes = items * reduce.length;
  auto const everything = blink_test::random_schedule(random, ranks, blink::collective::all_reduce);
  auto const star = blink::star_schedule(ranks);
  auto const total = total_of(seed, ranks, bytes * static_cast<std::size_t>(ranks), reduce);
  std::vector<blink::block> blocks;  // in items
  for (int rank = 0; rank < ranks; ++rank) {
    std::size_t const before = blocks.empty() ? 0 : blocks.back().begin + blocks.back().count;
    blocks.push_back({before, random() % (items + 1)});
  }
  Ranks threads(ranks, options);
  threads.run([&](auto& comm) {
    auto const rank = static_cast<std::size_t>(comm.rank());
    auto const begins = [&](std::vector<std::byte> const& data, std::size_t from, std::size_t n) {
      return std::equal(data.begin(), data.begin() + static_cast<std::ptrdiff_t>(n),
                        total.begin() + static_cast<std::ptrdiff_t>(from));
    };
    auto data = items_of(seed, comm.rank(), bytes);
    blink::all_reduce(comm, everything, data, data, reduce);
    EXPECT_TRUE(begins(data, 0, bytes));
    auto small = items_of(seed, comm.rank(), reduce.length);
    if (items > 0) {
      blink::all_reduce(comm, small, reduce);  // sent with the call
      EXPECT_TRUE(begins(small, 0, reduce.length));
    }
    auto const all = items_of(seed, comm.rank(), bytes * static_cast<std::size_t>(ranks));
    std::vector<std::byte> own(bytes);
    blink::reduce_scatter(comm, star, all, own, reduce);
    EXPECT_TRUE(begins(own, rank * bytes, bytes));
    blink::reduce(comm, items_of(seed, comm.rank(), bytes), own, 0, reduce);
    if (rank == 0) {
      EXPECT_TRUE(begins(own, 0, bytes));
    }
    blink::reduce_scatter_v(comm, star, all.data(), own.data(), blocks, reduce);
    EXPECT_TRUE(
        begins(own, blocks[rank].begin * reduce.length, blocks[rank].count * reduce.length));
    blink::call_queue queue(comm);
    auto late = items_of(seed, comm.rank(), bytes);
    auto call = queue.start(blink::collective::all_reduce, star, late.data(), late.data(),
                            late.size(), reduce);
    call.wait();
    EXPECT_TRUE(begins(late, 0, bytes));
  });
}

TEST(items_of_several_elements, are_never_cut) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    SCOPED_TRACE(seed);
    int const ranks = 1 + static_cast<int>(seed % 5);
    blink::communicator_options options;
    options.slot_bytes = 5000 + seed * 37;
    options.streaming_bytes = seed % 3 == 0 ? 1 : options.streaming_bytes;
    check_items<blink::thread_ranks>(ranks, options, seed);
    check_items<blink::basic_thread_ranks<blink::slot_transport>>(ranks, options, seed + 1000);
  }
}

TEST(items_of_several_elements, that_do_not_fit_are_refused) {
  blink::thread_ranks threads(1);
  threads.run([&](auto& comm) {
    std::vector<std::byte> data(30);
    EXPECT_ERROR(blink::all_reduce(comm, data, item_sum{7}),
                 "all_reduce on rank 0: 30 elements and a reducer of items of 7, expected whole "
                 "items of 1 to 5000 elements");
    EXPECT_ERROR(blink::all_reduce(comm, data, item_sum{0}), "items of 0");
    data.resize(6000);
    EXPECT_ERROR(blink::all_reduce(comm, data, item_sum{6000}), "items of 6000");
  });
  blink::communicator_options options;
  options.slot_bytes = 128;
  blink::basic_thread_ranks<blink::slot_transport> small(2, options);
  small.run([&](auto& comm) {
    std::vector<std::byte> data(300);
    EXPECT_ERROR(blink::all_reduce(comm, data, item_sum{300}),
                 "a slot has 128 bytes, an element 300");
  });
}

TEST(items_of_several_elements, of_other_lengths_do_not_match) {
  blink::thread_ranks threads(2);
  std::vector<std::string> errors(2);
  threads.run([&](auto& comm) {
    std::vector<std::byte> data(60);
    try {
      blink::all_reduce(comm, data, item_sum{comm.rank() == 0 ? std::size_t{4} : std::size_t{6}});
    } catch (blink::collective_error const& error) {
      errors[static_cast<std::size_t>(comm.rank())] = error.what();
    }
  });
  for (auto const& error : errors) EXPECT_NE(error.find("count 1"), std::string::npos) << error;
}

}}  // namespace array_reducers_test
