// SPDX-License-Identifier: Apache-2.0
// Segments anywhere in memory, in other orders and distances on each rank.

#include <blink/collectives/all_gather_v.hpp>
#include <blink/collectives/segment_list.hpp>
#include <blink/transports/host/slots.hpp>
#include <blink/transports/host/threads.hpp>

#include "support/expect_error.hpp"
#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

namespace segment_list_test { namespace {

using blink::segments_at;
using ranks_with_slots = blink::basic_thread_ranks<blink::slot_transport>;

/// Memory with a place for each segment, in a random order, with gaps.
class scattered_segments {
 public:
  scattered_segments(std::mt19937_64& random, std::vector<std::size_t> const& counts)
      : starts(counts.size()) {
    std::vector<std::size_t> order(counts.size());
    std::iota(order.begin(), order.end(), std::size_t{0});
    std::shuffle(order.begin(), order.end(), random);
    std::vector<std::size_t> begins(counts.size());
    std::size_t end = 0;
    for (auto const k : order) {
      begins[k] = end + random() % 50;
      end = begins[k] + counts[k];
    }
    memory_.assign(end + 1, -7);
    for (std::size_t k = 0; k < counts.size(); ++k) starts[k] = memory_.data() + begins[k];
    written_ = std::accumulate(counts.begin(), counts.end(), std::size_t{0});
  }
  /// Elements that are no part of a segment, if all of those are positive.
  [[nodiscard]] bool gaps_are_untouched() const {
    auto const rest = std::count(memory_.begin(), memory_.end(), -7);
    return static_cast<std::size_t>(rest) == memory_.size() - written_;
  }

  std::vector<int*> starts;

 private:
  std::vector<int> memory_;
  std::size_t written_ = 0;
};

std::vector<std::size_t> random_counts(std::mt19937_64& random, int ranks) {
  std::vector<std::size_t> result;
  for (int k = 0; k < ranks; ++k) result.push_back(random() % 3 == 0 ? 0 : random() % 400);
  return result;
}

TEST(segment_list, are_gathered_to_other_places_on_each_rank) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const count = 1 + static_cast<int>(random() % 5);
    auto const counts = random_counts(random, count);
    ranks_with_slots(count).run([&](auto& comm) {
      auto const me = static_cast<std::size_t>(comm.rank());
      std::mt19937_64 own(seed * 31 + me);
      scattered_segments to(own, counts);
      std::vector<int> apart(counts[me], comm.rank() + 1);
      bool const is_in_place = seed % 2 == 0;
      if (is_in_place) std::copy(apart.begin(), apart.end(), to.starts[me]);
      auto const all = segments_at(to.starts, counts);
      blink::all_gather_v(comm, is_in_place ? to.starts[me] : apart.data(), all.base, all.blocks);
      for (std::size_t from = 0; from < counts.size(); ++from) {
        for (std::size_t k = 0; k < counts[from]; ++k) {
          ASSERT_EQ(to.starts[from][k], static_cast<int>(from) + 1);
        }
      }
      EXPECT_TRUE(to.gaps_are_untouched());
    });
  }
}

TEST(segment_list, are_reduced_from_other_places_on_each_rank) {
  for (std::uint64_t seed = 0; seed < 60; ++seed) {
    SCOPED_TRACE(seed);
    std::mt19937_64 random(seed);
    int const count = 1 + static_cast<int>(random() % 5);
    auto const counts = random_counts(random, count);
    ranks_with_slots(count).run([&](auto& comm) {
      auto const me = static_cast<std::size_t>(comm.rank());
      std::mt19937_64 own(seed * 31 + me);
      scattered_segments from(own, counts);
      for (std::size_t k = 0; k < counts.size(); ++k) {
        std::fill_n(from.starts[k], counts[k], (comm.rank() + 1) * static_cast<int>(k + 1));
      }
      auto const all = segments_at(from.starts, counts);
      std::vector<int> result(counts[me], 0);
      blink::reduce_scatter_v(comm, static_cast<int const*>(all.base), result.data(), all.blocks);
      int const sum = count * (count + 1) / 2 * (comm.rank() + 1);
      EXPECT_TRUE(std::all_of(result.begin(), result.end(), [&](int each) { return each == sum; }));
    });
  }
}

TEST(segment_list, the_other_buffer_may_lie_between_segments) {
  ranks_with_slots(2).run([&](auto& comm) {
    std::vector<int> memory(30, comm.rank() + 1);  // a segment, the input, a segment
    auto const all = segments_at(std::vector<int*>{&memory[0], &memory[20]}, 10);
    blink::all_gather_v(comm, memory.data() + 10, all.base, all.blocks);
    EXPECT_EQ(memory[0], 1);
    EXPECT_EQ(memory[10], comm.rank() + 1);
    EXPECT_EQ(memory[29], 2);
  });
}

TEST(segment_list, an_input_in_a_segment_of_another_rank_is_refused) {
  ranks_with_slots(1).run([&](auto& comm) {
    std::vector<int> memory(20, 1);
    auto const all = segments_at(std::vector<int*>{memory.data()}, 10);
    EXPECT_THROW(blink::all_gather_v(comm, memory.data() + 5, all.base, all.blocks),
                 blink::precondition_error);
  });
}

TEST(segment_list, wrong_lists_are_refused) {
  std::vector<int> memory(8);
  std::vector<int*> const two{memory.data(), memory.data() + 4};
  EXPECT_ERROR((void)segments_at(two, std::vector<std::size_t>{1}), "one for each");
  EXPECT_ERROR((void)segments_at(std::vector<int*>{memory.data(), nullptr}, 2),
               "segment 1 is null");
  auto* const odd = reinterpret_cast<int*>(reinterpret_cast<std::byte*>(memory.data()) + 6);
  EXPECT_ERROR((void)segments_at(std::vector<int*>{memory.data(), odd}, 1), "6 bytes behind");
}

TEST(segment_list, empty_segments_need_no_address) {
  auto const none = segments_at(std::vector<int*>{nullptr, nullptr}, 0);
  EXPECT_EQ(none.base, nullptr);
  EXPECT_EQ(none.blocks.size(), 2U);
}

}}  // namespace segment_list_test
