// SPDX-License-Identifier: Apache-2.0
// Reductions whose elements are chosen at run time: every type and operation against a loop,
// functions of the program, types of other libraries. The functions of all types are compiled at
// the end of this file.

#define BLINK_EXTERN_ARRAY_KERNELS

#include <blink/collectives.hpp>
#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/call_queue.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/array_reducers.hpp>
#include <blink/reducers/operation_of.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/collective_case.hpp"
#include "support/expect_error.hpp"
#include "support/random_schedules.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <complex>
#include <concepts>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <memory>
#include <random>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

namespace run_time_reductions_test {

/// A type of another library with the bytes of bfloat16.
struct brain {
  std::uint16_t x;
};

}  // namespace run_time_reductions_test

template <>
struct blink::element_trait<run_time_reductions_test::brain>
    : blink::same_element<run_time_reductions_test::brain, blink::bfloat16> {};

namespace run_time_reductions_test { namespace {

using blink::element_type;
using blink::operation;

static_assert(blink::element_type_of<brain> == element_type::bfloat16);
static_assert(blink::element_type_of<std::complex<double>> == element_type::complex128);
static_assert(!blink::has_element_type<std::complex<long double>>);
static_assert(blink::element_type_of<char> ==
              (std::is_signed_v<char> ? element_type::int8 : element_type::uint8));

constexpr std::size_t types = blink::element_type_names.size();
constexpr std::size_t operations = blink::operation_names.size();

/// Calls `run(T{})` with the C++ type of an element type.
template <class Run>
auto with_type(element_type type, Run const& run) {
  switch (type) {
    case element_type::int8:
      return run(std::int8_t{});
    case element_type::uint8:
      return run(std::uint8_t{});
    case element_type::int16:
      return run(std::int16_t{});
    case element_type::uint16:
      return run(std::uint16_t{});
    case element_type::int32:
      return run(std::int32_t{});
    case element_type::uint32:
      return run(std::uint32_t{});
    case element_type::int64:
      return run(std::int64_t{});
    case element_type::uint64:
      return run(std::uint64_t{});
    case element_type::float16:
      return run(blink::float16(0.0F));
    case element_type::bfloat16:
      return run(blink::bfloat16(0.0F));
    case element_type::float32:
      return run(0.0F);
    case element_type::float64:
      return run(0.0);
    case element_type::boolean:
      return run(false);
    case element_type::complex64:
      return run(std::complex<float>());
    case element_type::complex128:
      return run(std::complex<double>());
  }
  return run(0.0);
}

/// Small numbers, which all types and their sums and products represent exactly; any integer.
template <class T>
T input_of(std::uint64_t seed, int rank, std::size_t index) {
  auto const bits = blink_test::input_element<std::uint64_t>(seed, rank, index);
  auto const small = static_cast<float>(static_cast<int>(bits % 5) - 2);
  if constexpr (std::is_same_v<T, bool>) {
    return bits % 3 == 0;
  } else if constexpr (std::is_integral_v<T>) {
    return bits % 4 == 0 ? T{0} : static_cast<T>(bits);  // often false
  } else if constexpr (requires { std::declval<T>().imag(); }) {
    using part = typename T::value_type;
    return {static_cast<part>(small), static_cast<part>(static_cast<int>(bits >> 8 & 3) - 1)};
  } else {
    return static_cast<T>(small);
  }
}

template <class T>
inline constexpr bool is_complex = requires(T const value) { value.imag(); };

/// The result of all ranks, by the plainest code.
template <std::integral T>
T expected_of(operation what, std::vector<T> const& inputs) {
  __extension__ using wide = __int128;
  wide sum = 0, product = 1;
  T least = inputs[0], most = inputs[0], all = inputs[0], any = inputs[0], odd = 0;
  std::size_t trues = 0;
  for (T const x : inputs) {
    sum += x;
    product = static_cast<std::int64_t>(static_cast<std::uint64_t>(product * x));
    least = std::min(least, x);
    most = std::max(most, x);
    all = static_cast<T>(all & x);
    any = static_cast<T>(any | x);
    odd = static_cast<T>(odd ^ x);
    trues += x != T{} ? 1 : 0;
  }
  bool const is_wide = sizeof(T) >= 4;  // wraps around before it is divided
  switch (what) {
    case operation::sum:
      return static_cast<T>(sum);  // of bool: whether it is 0
    case operation::product:
      return static_cast<T>(product);
    case operation::min:
      return least;
    case operation::max:
      return most;
    case operation::bit_and:
      return all;
    case operation::bit_or:
      return any;
    case operation::bit_xor:
      return odd;
    case operation::logical_and:
      return static_cast<T>(trues == inputs.size());
    case operation::logical_or:
      return static_cast<T>(trues > 0);
    case operation::logical_xor:
      return static_cast<T>(trues % 2 == 1);
    case operation::average:
      break;
  }
  auto const total = is_wide ? static_cast<wide>(static_cast<T>(sum)) : sum;
  return static_cast<T>(total / static_cast<wide>(inputs.size()));
}
template <class T>
T expected_of(operation what, std::vector<T> const& inputs) {
  using exact = std::conditional_t<is_complex<T>, std::complex<double>, double>;
  exact sum = 0.0, product = 1.0;
  for (T const& x : inputs) {
    sum += static_cast<exact>(x);
    product *= static_cast<exact>(x);
  }
  auto const n = static_cast<double>(inputs.size());
  if constexpr (is_complex<T>) {
    using part = typename T::value_type;
    exact const result = what == operation::sum       ? sum
                         : what == operation::product ? product
                                                      : sum / n;
    return {static_cast<part>(result.real()), static_cast<part>(result.imag())};
  } else {
    double least = inputs[0], most = inputs[0];
    for (double const x : inputs) {
      least = std::min(least, x);
      most = std::max(most, x);
    }
    double const result = what == operation::sum       ? sum
                          : what == operation::product ? product
                          : what == operation::min     ? least
                          : what == operation::max     ? most
                                                       : sum / n;
    if constexpr (std::is_same_v<T, double>) return result;
    return T(static_cast<float>(result));
  }
}

template <class T>
bool is_same(T const& a, T const& b) {
  if constexpr (std::is_convertible_v<T, double>) {
    return static_cast<double>(a) == static_cast<double>(b);
  } else {
    return a == b;
  }
}

/// An operation of a type in all reducing collectives; empty if nothing is wrong.
template <class Ranks, class T>
std::string fault_of(Ranks& threads, operation what, std::size_t count, std::uint64_t seed) {
  auto const type = blink::element_type_of<T>;
  auto const how = blink::operation_of(type, what);
  auto const ranks = static_cast<std::size_t>(threads.rank_count());
  std::vector<std::string> faults(ranks);
  std::vector<blink::block> blocks;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    blocks.push_back({blocks.empty() ? 0 : blocks.back().begin + blocks.back().count,
                      (seed * 7 + rank * 5) % (count + 1)});
  }
  threads.run([&](auto& comm) {
    auto const me = static_cast<std::size_t>(comm.rank());
    auto const all = count * ranks;
    auto const input = [&] {
      auto data = std::make_unique<T[]>(all + 1);
      for (std::size_t k = 0; k < all; ++k) data[k] = input_of<T>(seed, comm.rank(), k);
      return data;
    };
    auto const check = [&](char const* where, T const* got, std::size_t begin, std::size_t n) {
      for (std::size_t k = 0; k < n; ++k) {
        std::vector<T> inputs;
        for (int rank = 0; rank < comm.rank_count(); ++rank)
          inputs.push_back(input_of<T>(seed, rank, begin + k));
        if (is_same(got[k], expected_of<T>(what, inputs))) continue;
        faults[me] = std::string(where) + ", element " + std::to_string(k) + " of rank " +
                     std::to_string(me) + "\n";
        return;
      }
    };
    auto const mine = input();
    void const* const from = mine.get();
    auto results = std::make_unique<T[]>(all + 1);
    void* const to = results.get();
    blink::all_reduce(comm, from, to, count, how);
    check("all_reduce", results.get(), 0, count);
    auto in_place = input();
    blink::all_reduce(comm, static_cast<void*>(in_place.get()), count, how);
    check("all_reduce in place", in_place.get(), 0, count);
    blink::reduce(comm, from, to, count, comm.rank_count() - 1, how);
    if (comm.rank() == comm.rank_count() - 1) check("reduce", results.get(), 0, count);
    blink::reduce_scatter(comm, from, to, count, how);
    check("reduce_scatter", results.get(), me * count, count);
    blink::reduce_scatter_v(comm, mine.get(), results.get(), blocks, how);
    check("reduce_scatter_v", results.get(), blocks[me].begin, blocks[me].count);
    auto const star = blink::star_schedule(comm.rank_count());
    blink::call_queue queue(comm);
    auto started = input();
    auto call =
        queue.start(blink::collective::all_reduce, star, started.get(), started.get(), count, how);
    auto other = queue.start(blink::collective::reduce_scatter, star, from, to, blocks, how);
    call.wait();
    other.wait();
    check("started all_reduce", started.get(), 0, count);
    check("started reduce_scatter_v", results.get(), blocks[me].begin, blocks[me].count);
  });
  std::string result;
  for (auto const& fault : faults) result += fault;
  return result;
}

class run_time_reductions : public testing::TestWithParam<int> {};
INSTANTIATE_TEST_SUITE_P(ranks, run_time_reductions, testing::Range(1, 6));

TEST_P(run_time_reductions, give_what_a_loop_gives_for_every_type_and_operation) {
  blink::communicator_options options;
  options.slot_bytes = 256;
  blink::thread_ranks reaching(GetParam());
  blink::basic_thread_ranks<blink::slot_transport> copying(GetParam(), options);
  std::size_t defined = 0;
  for (std::size_t t = 0; t < types; ++t) {
    for (std::size_t o = 0; o < operations; ++o) {
      auto const type = static_cast<element_type>(t);
      auto const what = static_cast<operation>(o);
      SCOPED_TRACE(testing::Message() << to_text(what) << " of " << to_text(type));
      if (!blink::has_operation(type, what)) {
        EXPECT_ERROR((void)blink::operation_of(type, what),
                     "operation_of: " + std::string(to_text(type)) + " has no " +
                         std::string(to_text(what)));
        continue;
      }
      ++defined;
      with_type(type, [&](auto const& zero) {
        using T = std::remove_cvref_t<decltype(zero)>;
        EXPECT_EQ(sizeof(T), blink::bytes_of(type));
        EXPECT_EQ((fault_of<decltype(reaching), T>(reaching, what, 700, t * 16 + o)), "");
        EXPECT_EQ((fault_of<decltype(copying), T>(copying, what, o % 2 == 0 ? 333 : 3, t + o)), "");
      });
    }
  }
  EXPECT_EQ(defined, 8 * 11 + 4 * 5 + 10 + 2 * 3U);
}

template <class T>
void check_large_sums() {
  blink::communicator_options options;
  options.measured_bytes = 1;
  blink::thread_ranks threads(2, options);
  constexpr std::size_t count = 50021;
  threads.run([&](auto& comm) {
    auto const mine = 3 * static_cast<std::size_t>(comm.rank());
    for (int call = 0; call < 24; ++call) {
      std::vector<T> data;
      for (std::size_t k = 0; k < count; ++k) {
        data.push_back(static_cast<T>(static_cast<float>((k + mine) % 7)));
      }
      blink::all_reduce(comm, data, blink::operation_of<T>(operation::sum));
      for (std::size_t k = 0; k < count; ++k) {
        ASSERT_EQ(static_cast<float>(data[k]), static_cast<float>(k % 7 + (k + 3) % 7)) << k;
      }
    }
  });
}

TEST(calls_of_run_time_reductions, of_large_buffers_are_right_in_every_store_mode) {
  check_large_sums<float>();
  check_large_sums<blink::bfloat16>();
  check_large_sums<std::int8_t>();
}

TEST(calls_of_run_time_reductions, of_numbers_of_16_bits_round_once) {
  blink::thread_ranks threads(4);
  threads.run([&](auto& comm) {
    // One at a time, ones are lost beside 256, because bfloat16 has 8 digits.
    std::vector<blink::bfloat16> data(100, blink::bfloat16(comm.rank() == 0 ? 256.0F : 1.0F));
    blink::all_reduce(comm, blink::binomial_schedule(4, 0), data, data,
                      blink::operation_of<blink::bfloat16>(operation::sum));
    for (float const value : data) ASSERT_EQ(value, 260.0F);  // of 259
  });
}

template <class T>
void check_nan_and_zeros() {
  auto const nan = std::numeric_limits<float>::quiet_NaN();
  blink::thread_ranks threads(3);
  threads.run([&](auto& comm) {
    std::vector<T> data;
    for (std::size_t k = 0; k < 300; ++k) {  // every rank has a NaN or a -0 for some elements
      bool const is_mine = static_cast<int>(k % 3) == comm.rank();
      float const value = k % 2 == 0 ? (is_mine ? nan : 2.0F) : (is_mine ? -0.0F : 0.0F);
      data.push_back(T(value));
    }
    auto least = data;
    blink::all_reduce(comm, least, blink::operation_of<T>(operation::min));
    blink::all_reduce(comm, data, blink::operation_of<T>(operation::max));
    for (std::size_t k = 0; k < 300; ++k) {
      auto const low = static_cast<float>(least[k]);
      auto const high = static_cast<float>(data[k]);
      if (k % 2 == 0) {
        ASSERT_TRUE(std::isnan(low) && std::isnan(high)) << k;
      } else {
        ASSERT_TRUE(low == 0 && std::signbit(low) && high == 0 && !std::signbit(high)) << k;
      }
    }
  });
}

TEST(calls_of_run_time_reductions, keep_nan_and_the_signs_of_zeros) {
  check_nan_and_zeros<blink::float16>();
  check_nan_and_zeros<blink::bfloat16>();
  check_nan_and_zeros<float>();
}

TEST(calls_of_run_time_reductions, take_types_of_other_libraries) {
  blink::thread_ranks threads(2);
  threads.run([&](auto& comm) {
    std::vector<brain> data(50, brain{blink::bfloat16(3.0F).code()});
    blink::all_reduce(comm, data, blink::operation_of<brain>(operation::sum));
    blink::all_reduce(comm, blink::as_elements(data.data()), data.size(),
                      blink::accumulate_in<float>(blink::sum{}));
    for (auto const& value : data) {
      ASSERT_EQ(static_cast<float>(blink::bfloat16::from_code(value.x)), 12.0F);
    }
  });
}

// --- functions of the program ---

TEST(functions_of_a_program, reduce_elements_of_any_size) {
  for (std::uint64_t seed = 0; seed < 40; ++seed) {
    std::mt19937_64 random(seed);
    int const ranks = 1 + static_cast<int>(seed % 5);
    std::size_t const bytes = 1 + random() % (seed % 4 == 0 ? 16384 : 300);
    std::size_t const count = random() % 200;
    SCOPED_TRACE(testing::Message() << "seed " << seed << ", " << bytes << " bytes");
    auto const add = [bytes](void const* a, void const* b, void* result, std::size_t n) {
      auto const* x = static_cast<unsigned char const*>(a);
      auto const* y = static_cast<unsigned char const*>(b);
      auto* to = static_cast<unsigned char*>(result);
      for (std::size_t first = 0; first < n * bytes; first += bytes) {
        unsigned carry = 0;  // of numbers of `bytes` bytes
        for (std::size_t k = first; k < first + bytes; ++k) {
          carry += x[k] + y[k];
          to[k] = static_cast<unsigned char>(carry);
          carry >>= 8;
        }
      }
    };
    auto const add_into = [&add](void const* in, void* inout, std::size_t n) {
      add(in, inout, inout, n);
    };
    blink::communicator_options options;
    options.slot_bytes = 20000;
    auto const plan = blink_test::random_schedule(random, ranks, blink::collective::all_reduce);
    blink::basic_thread_ranks<blink::slot_transport> threads(ranks, options);
    threads.run([&](auto& comm) {
      auto const input = [&](int rank) {
        std::vector<unsigned char> data(bytes * count);
        for (std::size_t k = 0; k < data.size(); ++k)
          data[k] = blink_test::input_element<std::uint8_t>(seed, rank, k);
        return data;
      };
      auto total = input(0);
      for (int rank = 1; rank < ranks; ++rank) add_into(input(rank).data(), total.data(), count);
      auto data = input(comm.rank());
      blink::all_reduce(comm, plan, static_cast<void*>(data.data()),
                        static_cast<void*>(data.data()), count, blink::over_arrays(bytes, add));
      ASSERT_EQ(data, total);
      auto const mine = input(comm.rank());
      blink::all_reduce(comm, plan, static_cast<void const*>(mine.data()),
                        static_cast<void*>(data.data()), count,
                        blink::into_second(bytes, add_into));
      ASSERT_EQ(data, total);
    });
  }
}

TEST(functions_of_a_program, keep_the_order_of_the_ranks) {
  // x -> a x + b modulo 251, as pairs of bytes.
  auto const compose = [](void const* in, void* inout, std::size_t count) {
    auto const* f = static_cast<blink_test::affine const*>(in);
    auto* g = static_cast<blink_test::affine*>(inout);
    for (std::size_t k = 0; k < count; ++k) g[k] = blink_test::compose{}(f[k], g[k]);
  };
  auto const ordered =
      blink::in_order_of_ranks(blink::into_second(sizeof(blink_test::affine), compose));
  static_assert(!blink::is_commutative<std::remove_cvref_t<decltype(ordered)>>);
  for (int ranks = 1; ranks <= 5; ++ranks) {
    for (std::size_t const count : {3U, 5000U}) {
      blink::thread_ranks threads(ranks);
      threads.run([&](auto& comm) {
        auto const value = [&](int rank, std::size_t k) {
          return blink_test::input_element<blink_test::affine>(5, rank, k);
        };
        std::vector<blink_test::affine> data;
        for (std::size_t k = 0; k < count; ++k) data.push_back(value(comm.rank(), k));
        blink::all_reduce(comm, data, ordered);
        for (std::size_t k = 0; k < count; ++k) {
          auto total = value(0, k);
          for (int rank = 1; rank < ranks; ++rank)
            total = blink_test::compose{}(total, value(rank, k));
          ASSERT_EQ(data[k], total) << k;
        }
      });
    }
  }
  blink::thread_ranks four(4);
  auto const refused = [&] {
    four.run([&](auto& comm) {
      std::vector<blink_test::affine> data(8, {1, 1});
      blink::all_reduce(comm, blink::binomial_schedule(4, 1), data, data, ordered);
    });
  };
  EXPECT_ERROR(refused(), "the reducer is not commutative");
}

// --- mistakes ---

TEST(calls_of_run_time_reductions, that_differ_between_ranks_are_named) {
  blink::thread_ranks threads(2);
  std::array<std::string, 2> errors;
  threads.run([&](auto& comm) {
    std::array<float, 4> data{};
    auto const how = comm.rank() == 0 ? blink::operation_of<float>(operation::sum)
                                      : blink::operation_of<int>(operation::max);
    try {
      blink::all_reduce(comm, static_cast<void*>(data.data()), 4, how);
    } catch (blink::collective_error const& error) {
      errors[static_cast<std::size_t>(comm.rank())] = error.what();
    }
  });
  for (auto const& error : errors) {  // as one of the two ranks sees it
    bool const is_named =
        error.find("reduction sum of float32, rank 1 has max of int32") != std::string::npos ||
        error.find("reduction max of int32, rank 0 has sum of float32") != std::string::npos;
    EXPECT_TRUE(is_named) << error;
  }
}

TEST(calls_of_run_time_reductions, refuse_wrong_buffers_and_operations) {
  blink::thread_ranks threads(1);
  threads.run([&](auto& comm) {
    auto const add = blink::operation_of<float>(operation::sum);
    std::vector<double> wide(4);
    EXPECT_ERROR(blink::all_reduce(comm, wide, add),
                 "all_reduce on rank 0: buffers with elements of 8 bytes and an operation on "
                 "elements of 4, expected the same");
    alignas(8) std::array<std::byte, 64> bytes{};
    EXPECT_ERROR(blink::all_reduce(comm, static_cast<void*>(bytes.data() + 1), 4, add),
                 "the input lies 1 bytes behind a multiple of 4");
    EXPECT_ERROR(blink::all_reduce(comm, static_cast<void*>(bytes.data()),
                                   std::numeric_limits<std::size_t>::max() / 2, add),
                 "more than an address can name");
    EXPECT_ERROR(blink::all_reduce(comm, static_cast<void*>(nullptr), 4, add), "the input is null");
    auto const join = [](void const*, void*, std::size_t) {};
    EXPECT_ERROR(blink::all_reduce(comm, static_cast<void*>(bytes.data()), 1,
                                   blink::into_second(16385, join)),
                 "an operation on elements of 16385 bytes, expected 1 to 16384");
    EXPECT_ERROR(
        blink::all_reduce(comm, static_cast<void*>(bytes.data()), 1, blink::into_second(0, join)),
        "an operation on elements of 0 bytes");
    EXPECT_ERROR(
        blink::all_reduce(comm, static_cast<void*>(bytes.data()), 1, blink::array_operation{}),
        "an operation without a function");
    auto growing = add;
    growing.total_bytes = 8;
    EXPECT_ERROR(blink::all_reduce(comm, static_cast<void*>(bytes.data()), 1, growing),
                 "an operation on elements of 4 bytes with accumulators of 8");
  });
}

}}  // namespace run_time_reductions_test

BLINK_ARRAY_KERNELS();
