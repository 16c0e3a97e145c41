// SPDX-License-Identifier: Apache-2.0

#include <blink/collectives.hpp>
#include <blink/collectives/all_reduce_blocks.hpp>
#include <blink/collectives/all_reduce_sparse.hpp>
#include <blink/reducers/accumulate_in.hpp>
#include <blink/reducers/small_float.hpp>
#include <blink/transports/host/processes.hpp>
#include <blink/transports/host/slots.hpp>

#include "support/expect_error.hpp"
#include "support/forked_ranks.hpp"
#include "support/message_ranks.hpp"
#include <gtest/gtest.h>

#include <atomic>
#include <bit>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <random>
#include <string>
#include <thread>
#include <vector>

namespace blocks_test { namespace {

template <class T>
std::vector<T> drawn(std::size_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::vector<T> result;
  for (std::size_t i = 0; i < count; ++i) {
    auto const magnitude = static_cast<float>(random() % 4096) / 64.0F;
    result.push_back(static_cast<T>(random() % 2 == 0 ? magnitude : -1.0F / (1.0F + magnitude)));
  }
  return result;
}

// Element i of blocks [from, from + many), each of `count` elements.
template <class Total, class T>
Total serial(std::vector<T> const& blocks, std::size_t count, std::size_t i, std::size_t from,
             std::size_t many) {
  if (many == 1) return static_cast<Total>(blocks[from * count + i]);
  std::size_t left = many - 1;
  if (many % 2 == 0) {
    left = many / 2;
  } else if (many % 3 == 0) {
    left = 2 * (many / 3);
  }
  return static_cast<Total>(serial<Total>(blocks, count, i, from, left) +
                            serial<Total>(blocks, count, i, from + left, many - left));
}

template <class T>
bool equal_bits(std::vector<T> const& a, std::vector<T> const& b) {
  return a.size() == b.size() &&
         (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(T)) == 0);
}

template <class Ranks>
class all_reduce_blocks : public testing::Test {};
using rank_owners =
    testing::Types<blink::thread_ranks, blink::basic_thread_ranks<blink::slot_transport>>;
TYPED_TEST_SUITE(all_reduce_blocks, rank_owners);

template <class Ranks, class Total, class T, class Reducer>
void expect_equal_bits_on_all_rank_counts(Reducer const& reduce) {
  for (std::size_t const blocks : {1U, 5U, 12U, 24U}) {
    for (std::size_t const ranks : {1U, 2U, 3U, 4U, 5U, 6U, 8U, 12U}) {
      if (blocks % ranks != 0) continue;
      Ranks owner(static_cast<int>(ranks));
      for (std::size_t const count : {0U, 1U, 7U, 512U, 1000U, 4099U}) {
        SCOPED_TRACE(std::to_string(blocks) + " blocks, " + std::to_string(ranks) + " ranks, " +
                     std::to_string(count));
        auto const data = drawn<T>(blocks * count, blocks + count);
        std::vector<T> expected;
        for (std::size_t i = 0; i < count; ++i) {
          expected.push_back(static_cast<T>(serial<Total>(data, count, i, 0, blocks)));
        }
        std::vector<std::vector<T>> results(ranks, std::vector<T>(count));
        owner.run([&](auto& comm) {
          auto const rank = static_cast<std::size_t>(comm.rank());
          auto const own = blocks / ranks * count;
          std::vector<T> const input(data.begin() + static_cast<std::ptrdiff_t>(rank * own),
                                     data.begin() + static_cast<std::ptrdiff_t>((rank + 1) * own));
          blink::all_reduce_blocks(comm, input.data(), results[rank].data(), count, blocks, reduce);
          std::vector<T> again(count);
          blink::all_reduce_blocks(comm, input, again, blocks, reduce);
          EXPECT_TRUE(equal_bits(again, results[rank]));
        });
        for (auto const& result : results) EXPECT_TRUE(equal_bits(result, expected));
      }
    }
  }
}

TYPED_TEST(all_reduce_blocks, gives_the_same_bits_on_all_numbers_of_ranks) {
  expect_equal_bits_on_all_rank_counts<TypeParam, float, float>(blink::sum{});
  expect_equal_bits_on_all_rank_counts<TypeParam, float, blink::bfloat16>(
      blink::accumulate_in<float>(blink::sum{}));
}

TYPED_TEST(all_reduce_blocks, averages_over_blocks) {
  TypeParam owner(2);
  owner.run([&](auto& comm) {
    std::vector<double> const input{1.0 + comm.rank(), 2.0, 3.0, 6.0};  // two blocks of two
    std::vector<double> output(2);
    blink::all_reduce_blocks(comm, input, output, 4, blink::avg{});
    EXPECT_EQ(output[0], (1 + 3 + 2 + 3) / 4.0);
    EXPECT_EQ(output[1], 4.0);
  });
}

// Layers that are served in batches of other sizes.
TYPED_TEST(all_reduce_blocks, rows_have_the_same_bits_in_any_batch) {
  constexpr std::size_t width = 96, blocks = 24;
  auto const rows = drawn<float>(20 * blocks * width, 3);  // by row and block
  std::vector<std::vector<float>> first;
  for (int const ranks : {1, 2, 3, 4, 6, 8}) {
    TypeParam owner(ranks);
    std::mt19937 random(7);
    for (int batch = 0; batch < 20; ++batch) {
      std::vector<std::size_t> members(1 + random() % 12);
      for (auto& row : members) row = random() % 20;
      auto const count = members.size() * width;
      std::vector<float> result(count);
      owner.run([&](auto& comm) {
        auto const own = blocks / static_cast<std::size_t>(comm.rank_count());
        std::vector<float> input, output(count);
        for (std::size_t b = 0; b < own; ++b) {
          auto const block = static_cast<std::size_t>(comm.rank()) * own + b;
          for (auto const row : members) {
            auto const from =
                rows.begin() + static_cast<std::ptrdiff_t>((row * blocks + block) * width);
            input.insert(input.end(), from, from + width);
          }
        }
        blink::all_reduce_blocks(comm, input, output, blocks);
        if (comm.rank() == 0) result = output;
      });
      for (std::size_t m = 0; m < members.size(); ++m) {
        std::vector<float> const row(result.begin() + static_cast<std::ptrdiff_t>(m * width),
                                     result.begin() + static_cast<std::ptrdiff_t>((m + 1) * width));
        first.resize(20);
        if (first[members[m]].empty()) first[members[m]] = row;
        EXPECT_TRUE(equal_bits(row, first[members[m]])) << ranks << " ranks, batch " << batch;
      }
    }
  }
}

TYPED_TEST(all_reduce_blocks, refuses_parts_that_do_not_fit) {
  TypeParam owner(2);
  owner.run([&](auto& comm) {
    std::vector<float> buffer(12), output(4);
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer, output, 5), "5 blocks on 2 ranks");
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer, output, 0), "0 blocks on 2 ranks");
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer, output, 4), "12");
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer.data(), buffer.data() + 4, 4, 4),
                 "the output overlaps the input");
    float* const none = nullptr;
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer.data(), none, 4, 4), "output is null");
    auto* const askew = reinterpret_cast<float*>(reinterpret_cast<char*>(output.data()) + 2);
    EXPECT_ERROR(blink::all_reduce_blocks(comm, buffer.data(), askew, 1, 4),
                 "the output lies 2 bytes behind a multiple of 4");
    EXPECT_ERROR(blink::all_reduce_sparse(comm, askew, 1, 1), "the data lies 2 bytes behind");
    blink::all_reduce_blocks(comm, buffer.data(), output.data(), 4, 6);
  });
}

// `order_promise::ranks`: the same bits along every schedule, whatever the count.

/// The sum of element i of all ranks' inputs, along the tree of the ranks.
template <class T, class Total = float>
std::vector<T> summed_along_tree(std::vector<T> const& inputs, std::size_t ranks) {
  std::size_t const count = inputs.size() / ranks;
  std::vector<T> result;
  for (std::size_t i = 0; i < count; ++i) {
    result.push_back(static_cast<T>(serial<Total>(inputs, count, i, 0, ranks)));
  }
  return result;
}

/// Runs reductions on a rank and compares them with the serial sums. `trees` empty: no schedule.
template <class Comm, class Reducer>
void expect_tree_of_ranks(Comm& comm, std::vector<blink::schedule> const& all_reduces,
                          std::vector<std::size_t> const& counts, Reducer const& reduce) {
  auto const ranks = static_cast<std::size_t>(comm.rank_count());
  auto const rank = static_cast<std::size_t>(comm.rank());
  for (auto const count : counts) {
    auto const inputs = drawn<float>(ranks * count, 5 + ranks + count);
    auto const expected = summed_along_tree(inputs, ranks);
    auto const own = inputs.begin() + static_cast<std::ptrdiff_t>(rank * count);
    std::vector<float> const input(own, own + static_cast<std::ptrdiff_t>(count));
    auto const name = std::to_string(ranks) + " ranks, count " + std::to_string(count);
    std::vector<float> output(count);
    blink::all_reduce(comm, input, output, reduce);
    EXPECT_TRUE(equal_bits(output, expected)) << "tuned all_reduce, " << name;
    for (std::size_t k = 0; k < all_reduces.size(); ++k) {
      output = input;
      blink::all_reduce(comm, all_reduces[k], output.data(), output.data(), count, reduce);
      EXPECT_TRUE(equal_bits(output, expected)) << "all_reduce " << k << ", " << name;
    }
    for (std::size_t root = 0; root < ranks; root += ranks - 1) {
      output.assign(count, 0);
      blink::reduce(comm, input, output, static_cast<int>(root), reduce);
      EXPECT_TRUE(rank != root || equal_bits(output, expected)) << "reduce, " << name;
      if (ranks == 1) break;
    }
    // The blocks of one rank after the other, each of `count` elements.
    std::vector<float> blocks;
    for (std::size_t block = 0; block < ranks; ++block) {
      for (std::size_t i = 0; i < count; ++i) {
        blocks.push_back(input[i] * static_cast<float>(1 << block));  // exact
      }
    }
    blink::reduce_scatter(comm, blocks, output, reduce);
    auto scaled = expected;
    for (auto& value : scaled) value *= static_cast<float>(1 << rank);
    EXPECT_TRUE(equal_bits(output, scaled)) << "reduce_scatter, " << name;
  }
}

std::vector<std::size_t> const some_counts{1, 7, 513, 3000, 70001};

TYPED_TEST(all_reduce_blocks, promise_of_ranks_holds_along_all_schedules_that_are_accepted) {
  auto const reduce = blink::with_order<blink::order_promise::ranks>(blink::sum{});
  for (int const ranks : {1, 2, 3, 4, 5, 6, 7, 8, 9, 12}) {
    std::vector<blink::schedule> schedules{blink::star_schedule(ranks),
                                           blink::one_shot_schedule(ranks),
                                           blink::flat_schedule(ranks, ranks / 2)};
    if (std::has_single_bit(static_cast<unsigned>(ranks))) {
      schedules.push_back(blink::binomial_schedule(ranks, 0));
    }
    if (ranks == 12) {  // three hosts: the first two have a node together
      schedules.push_back(blink::hosts_schedule({1, 1, 1, 2, 2, 2, 3, 3, 3, 3, 3, 3}));
    }
    TypeParam owner(ranks);
    owner.run([&](auto& comm) { expect_tree_of_ranks(comm, schedules, some_counts, reduce); });
  }
}

TYPED_TEST(all_reduce_blocks, promise_of_ranks_is_an_option) {
  blink::communicator_options options;
  options.order = blink::order_promise::ranks;
  for (int const ranks : {3, 4, 7, 8}) {
    TypeParam owner(ranks, options);
    owner.run([&](auto& comm) {
      expect_tree_of_ranks(comm, {}, some_counts, blink::sum{});
      // Reducers that promise less, and others.
      expect_tree_of_ranks(comm, {}, some_counts,
                           blink::with_order<blink::order_promise::any>(blink::sum{}));
      expect_tree_of_ranks(comm, {}, some_counts,
                           blink::with_order<blink::order_promise::shape>(blink::sum{}));
      auto const own = drawn<blink::bfloat16>(1000, 50 + static_cast<std::uint64_t>(comm.rank()));
      std::vector<blink::bfloat16> all(1000 * static_cast<std::size_t>(ranks)), output(1000);
      blink::all_gather(comm, own, all);
      blink::all_reduce(comm, own, output, blink::accumulate_in<float>(blink::sum{}));
      EXPECT_TRUE(equal_bits(output, summed_along_tree(all, static_cast<std::size_t>(ranks))));
      blink::barrier(comm);
      EXPECT_ERROR(
          blink::all_reduce(comm, blink::chain_schedule(ranks, 0), own.data(), output.data(), 1000,
                            blink::accumulate_in<float>(blink::sum{})),
          "order_promise::ranks");
    });
  }
  options.order = blink::order_promise::shape;
  EXPECT_ERROR(TypeParam(2, options), "order is neither run nor ranks");
}

TEST(tree_of_ranks, holds_among_hosts_and_processes) {
  auto const reduce = blink::with_order<blink::order_promise::ranks>(blink::sum{});
  for (int const ranks : {4, 6}) {
    for (int const of_host : {1, 2, 3}) {
      blink_test::message_options with;
      with.ranks_of_host = of_host;
      if (of_host == 3) with.options.order = blink::order_promise::ranks;
      blink_test::run_over_messages(ranks, with, [&](auto& comm) {
        if (of_host == 3) {
          expect_tree_of_ranks(comm, {}, some_counts, blink::sum{});
        } else {
          expect_tree_of_ranks(comm, {}, some_counts, reduce);
        }
      });
    }
  }
  blink_test::forked_ranks all(5, std::size_t{256} << 20);
  all.start([&](int rank) {
    blink::communicator_options options;
    options.order = blink::order_promise::ranks;
    blink::process_communicator comm(all.path(), rank, options);
    expect_tree_of_ranks(comm, {blink::star_schedule(5)}, some_counts, blink::sum{});
    return std::string(testing::Test::HasFailure() ? "wrong" : "right");
  });
  for (auto const& end : all.finish()) EXPECT_EQ(end.text, "right");
}

TEST(tree_of_ranks, ranks_with_another_order_do_not_match) {
  blink_test::forked_ranks all(2, std::size_t{64} << 20);
  all.start([&](int rank) {
    blink::communicator_options options;
    if (rank == 1) options.order = blink::order_promise::ranks;
    blink::process_communicator comm(all.path(), rank, options);
    std::vector<float> data(100, 1);
    try {
      blink::all_reduce(comm, data.data(), data.data(), data.size());
    } catch (blink::collective_error const& failure) {
      return std::string(failure.what());
    }
    return std::string("no error");
  });
  for (auto const& end : all.finish()) {
    EXPECT_NE(end.text.find("order"), std::string::npos) << end.text;
  }
}

/// A sum of arrivals as they come, which says when rank 0 has combined something.
struct watched_sum {
  static constexpr bool is_commutative = true;
  static constexpr auto order = blink::order_promise::any;
  bool is_root;
  std::atomic<bool>* has_combined;
  int operator()(int a, int b) const {
    if (is_root) *has_combined = true;
    return a + b;
  }
};

// With the default options `any` remains what the reducer says: the root combines what has arrived
// before the last rank enters.
TEST(tree_of_ranks, the_default_option_leaves_the_order_of_arrival) {
  blink::communicator_options options;
  options.eager_payload = 0;
  options.waits.deadline = std::chrono::seconds(20);
  blink::basic_thread_ranks<blink::slot_transport> threads(3, options);
  auto& flat = threads.prepare(blink::flat_schedule(3, 0));
  std::atomic<bool> has_combined = false;
  threads.run([&](auto& comm) {
    if (comm.rank() == 2) {
      auto const end = std::chrono::steady_clock::now() + std::chrono::seconds(10);
      while (!has_combined && std::chrono::steady_clock::now() < end) std::this_thread::yield();
      EXPECT_TRUE(has_combined);
    }
    std::vector<int> const in(1000, 1 + comm.rank());
    std::vector<int> out(1000);
    blink::reduce(comm, flat, in.data(), out.data(), in.size(),
                  watched_sum{comm.rank() == 0, &has_combined});
    EXPECT_TRUE(comm.rank() != 0 || out[999] == 6);
  });
}

TEST(tree_of_ranks, schedules_say_in_which_order_they_combine) {
  using enum blink::operand_order;
  EXPECT_EQ(blink::operands_of(blink::star_schedule(6)), tree_of_ranks);
  EXPECT_EQ(blink::operands_of(blink::binomial_schedule(8, 0)), tree_of_ranks);
  EXPECT_EQ(blink::operands_of(blink::binomial_schedule(6, 0)), in_order);  // 6 is 3 and 3
  EXPECT_EQ(blink::operands_of(blink::binomial_schedule(4, 1)), any);
  EXPECT_EQ(blink::operands_of(blink::chain_schedule(3, 0)), in_order);
  EXPECT_EQ(blink::operands_of(blink::hosts_schedule({1, 1, 2, 2})), tree_of_ranks);
  EXPECT_EQ(blink::operands_of(blink::hosts_schedule({1, 2, 1, 2})), any);
  EXPECT_EQ(blink::operands_of(blink::hosts_schedule({1, 1, 1, 2})), in_order);
}

}}  // namespace blocks_test
