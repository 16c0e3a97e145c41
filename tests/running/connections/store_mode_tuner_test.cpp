// SPDX-License-Identifier: Apache-2.0
// The store mode that a rank finds for large results, with simulated costs.

#include <blink/running/connections/detail/store_mode_tuner.hpp>
#include <blink/transports/host/slots.hpp>

#include <gtest/gtest.h>

#include <array>
#include <cstddef>
#include <cstdint>
#include <random>

namespace {

using blink::collective;
using blink::store_mode;
using blink::detail::store_mode_tuner;
using blink::detail::store_modes;

constexpr store_modes ways{{store_mode::plain, store_mode::pairs, store_mode::streams}, 3};

constexpr std::size_t size = std::size_t{3} << 20;

constexpr std::uint32_t tries = store_mode_tuner::tries_of(size);
constexpr std::uint32_t period = store_mode_tuner::period_of(size);
constexpr std::uint32_t first_calls = (1 + ways.count) * tries;

/// A machine with a cost in nanoseconds for each store mode.
struct machine {
  std::array<std::uint64_t, 3> cost{};
  std::array<int, 3> calls{};
  std::uint32_t made = 0;

  void call(store_mode_tuner& search, store_mode guess = store_mode::plain,
            collective kind = collective::all_reduce, std::uint64_t times = 1) {
    auto const chosen = search.next(kind, size, ways, guess);
    auto const at = static_cast<std::size_t>(chosen.way);
    EXPECT_EQ(chosen.is_timed, made++ >= tries);
    ++calls[at];
    if (chosen.is_timed) search.report(kind, size, chosen, cost[at] * times);
  }
};

/// The store mode of the next call that is no trial.
store_mode settled(store_mode_tuner& search, store_mode guess = store_mode::plain) {
  for (;;) {
    auto const chosen = search.next(collective::all_reduce, size, ways, guess);
    if (!chosen.is_trial) return chosen.way;
  }
}

TEST(store_mode_tuner, takes_the_fastest_after_some_trials) {
  for (auto const guess : {store_mode::plain, store_mode::pairs, store_mode::streams}) {
    for (std::size_t best = 0; best < 3; ++best) {
      machine here{{500, 500, 500}, {}};
      here.cost[best] = 100;
      store_mode_tuner search;
      for (std::uint32_t call = 0; call < first_calls; ++call) here.call(search, guess);
      for (std::size_t way = 0; way < 3; ++way) {
        int const trials = tries;
        EXPECT_EQ(here.calls[way], way == static_cast<std::size_t>(guess) ? 2 * trials : trials);
      }
      EXPECT_EQ(search.next(collective::all_reduce, size, ways, guess).way,
                static_cast<store_mode>(best));
    }
  }
}

TEST(store_mode_tuner, tries_what_a_transport_offers_and_nothing_else) {
  constexpr store_modes of_slots{{store_mode::plain, store_mode::slots, store_mode::streams}, 3};
  constexpr store_modes of_messages{{store_mode::plain, store_mode::streams}, 2};
  std::array<std::uint64_t, 4> const cost{300, 1, 200, 100};  // in the order of the enumerators
  for (auto const& offered : {of_slots, of_messages}) {
    std::array<int, 4> calls{};
    store_mode_tuner search;
    store_mode_tuner::choice chosen{};
    for (std::uint32_t call = 0; call < 20 * period; ++call) {
      chosen = search.next(collective::reduce, size, offered, store_mode::plain);
      ++calls[static_cast<std::size_t>(chosen.way)];
      if (!chosen.is_timed) continue;
      search.report(collective::reduce, size, chosen, cost[static_cast<std::size_t>(chosen.way)]);
    }
    EXPECT_EQ(chosen.way, offered.count == 3 ? store_mode::slots : store_mode::streams);
    EXPECT_EQ(calls[1], 0);
    EXPECT_EQ(calls[3] != 0, offered.count == 3);
    EXPECT_GT(calls[0], 7);
    EXPECT_GT(calls[2], 7);
  }
}

TEST(store_mode_tuner, interruptions_during_the_trials_do_not_count) {
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    std::mt19937_64 random(seed);
    machine here{{100, 150, 300}, {}};
    store_mode_tuner search;
    for (std::uint32_t call = 0; call < tries; ++call) here.call(search);
    std::array<std::uint32_t, 3> slow{};  // of each mode, all trials but at most one
    for (std::uint32_t call = 0; call < ways.count * tries; ++call) {
      auto const way = static_cast<std::size_t>(call / tries);
      bool const is_slow = random() % 2 == 0 && ++slow[way] < tries;
      here.call(search, store_mode::plain, collective::all_reduce, is_slow ? 50 : 1);
    }
    EXPECT_EQ(search.next(collective::all_reduce, size, ways, store_mode::streams).way,
              store_mode::plain);
  }
}

TEST(store_mode_tuner, tries_the_others_now_and_then) {
  machine here{{100, 150, 120}, {}};
  store_mode_tuner search;
  for (std::uint32_t call = 0; call < 20 * period; ++call) here.call(search);
  EXPECT_EQ(here.calls[1] + here.calls[2], static_cast<int>(21 * tries));
  EXPECT_GE(here.calls[1], 7);
  EXPECT_GE(here.calls[2], 7);
}

TEST(store_mode_tuner, follows_a_machine_that_changes) {
  std::mt19937 random(1);
  store_mode_tuner search;
  machine here;
  for (int change = 0; change < 50; ++change) {
    std::size_t best = random() % 3;
    for (std::size_t way = 0; way < 3; ++way) {
      here.cost[way] = way == best ? 100 : 200 + random() % 800;
    }
    for (std::uint32_t call = 0; call < 3 * period + 10; ++call) here.call(search);
    EXPECT_EQ(settled(search), static_cast<store_mode>(best));
  }
}

TEST(store_mode_tuner, a_way_that_gets_slow_is_left_soon) {
  machine here{{100, 150, 300}, {}};
  store_mode_tuner search;
  for (std::uint32_t call = 0; call < first_calls; ++call) here.call(search);
  here.cost[0] = 1000;
  for (int call = 0; call < 4; ++call) here.call(search);
  EXPECT_EQ(search.next(collective::all_reduce, size, ways, store_mode::plain).way,
            store_mode::pairs);
}

TEST(store_mode_tuner, one_interruption_does_not_count) {
  machine here{{100, 150, 300}, {}};
  store_mode_tuner search;
  for (std::uint32_t call = 0; call < first_calls; ++call) here.call(search);
  here.call(search, store_mode::plain, collective::all_reduce, 1000);
  EXPECT_EQ(search.next(collective::all_reduce, size, ways, store_mode::plain).way,
            store_mode::plain);
}

// Other programs use the caches: the quickest of several calls counts, for the best mode and for
// tried ones.
TEST(store_mode_tuner, stays_with_the_best_where_times_vary) {
  std::mt19937_64 random(1);
  for (int round = 0; round < 20; ++round) {
    store_mode_tuner search;
    machine here{{100, 150, 300}, {}};
    for (std::uint32_t call = 0; call < first_calls; ++call) here.call(search);
    for (std::uint32_t call = 0; call < period / 2; ++call) {
      here.cost[0] = 100 + random() % 80;
      here.call(search);
    }
    EXPECT_EQ(here.calls[1] + here.calls[2], static_cast<int>(2 * tries));
  }
}

TEST(store_mode_tuner, quick_calls_are_timed_now_and_then) {
  constexpr std::size_t quick = store_mode_tuner::quick_bytes - 1;
  std::array<std::uint64_t, 3> cost{300, 100, 200};
  store_mode_tuner search;
  int timed = 0;
  auto const call = [&] {
    auto const chosen = search.next(collective::reduce, quick, ways, store_mode::plain);
    if (!chosen.is_timed) return chosen;
    ++timed;
    search.report(collective::reduce, quick, chosen, cost[static_cast<std::size_t>(chosen.way)]);
    return chosen;
  };
  constexpr std::uint32_t in_a_row = store_mode_tuner::tries_of(quick);
  for (std::uint32_t k = 0; k < (1 + ways.count) * in_a_row; ++k) {
    EXPECT_EQ(call().is_timed, k >= in_a_row);
  }
  timed = 0;
  for (std::uint32_t k = 0; k < 10 * (store_mode_tuner::untimed_calls + 1); ++k) {
    EXPECT_EQ(call().way, store_mode::pairs);
  }
  EXPECT_EQ(timed, 10);
  cost[1] = 1000;  // it is found even so
  for (std::uint32_t k = 0; k < 10 * (store_mode_tuner::untimed_calls + 1); ++k) (void)call();
  EXPECT_EQ(call().way, store_mode::streams);
}

// Ranks with shared memory know the times of a call when all have entered the next one.
TEST(store_mode_tuner, times_may_come_a_call_later) {
  for (std::size_t best = 0; best < 3; ++best) {
    std::array<std::uint64_t, 3> cost{500, 500, 500};
    cost[best] = 100;
    store_mode_tuner search;
    blink::detail::timed_store_mode last;
    std::array<int, 3> calls{};
    for (std::uint32_t call = 0; call < 20 * period; ++call) {
      auto const chosen = search.next(collective::reduce, size, ways, store_mode::plain);
      last.report(cost[static_cast<std::size_t>(last.chosen.way)]);
      last = {};
      if (chosen.is_timed) last = {&search, collective::reduce, size, chosen};
      ++calls[static_cast<std::size_t>(chosen.way)];
    }
    for (std::size_t way = 0; way < 3; ++way) {
      EXPECT_EQ(calls[way] > static_cast<int>(period), way == best) << way;
    }
  }
}

TEST(store_mode_tuner, what_is_empty_is_not_measured) {
  store_mode_tuner search;
  EXPECT_FALSE(search.next(collective::reduce, 0, ways, store_mode::plain).is_timed);
}

TEST(store_mode_tuner, short_messages_are_tried_until_they_have_filled_much_of_the_slots) {
  EXPECT_EQ(store_mode_tuner::tries_of(std::size_t{1} << 16), 16U);
  EXPECT_EQ(store_mode_tuner::tries_of((std::size_t{1} << 17) - 1), 16U);
  EXPECT_EQ(store_mode_tuner::tries_of(8), 32U);
  EXPECT_EQ(store_mode_tuner::tries_of(size), 4U);
  EXPECT_EQ(store_mode_tuner::tries_of(store_mode_tuner::uncached_bytes), 2U);
}

TEST(store_mode_tuner, the_first_calls_do_not_count) {
  machine here{{100, 150, 300}, {}};
  store_mode_tuner search;
  for (std::uint32_t call = 0; call < first_calls; ++call) {
    here.call(search, store_mode::plain, collective::all_reduce, call < tries ? 100 : 1);
  }
  EXPECT_EQ(search.next(collective::all_reduce, size, ways, store_mode::plain).way,
            store_mode::plain);
}

// The mode past the caches is interrupted once. The slower another mode is, the less often it is
// tried again.
TEST(store_mode_tuner, tries_what_no_cache_holds_twice_and_then_now_and_then) {
  for (std::size_t const huge : {store_mode_tuner::uncached_bytes, std::size_t{1} << 28}) {
    std::uint32_t const huge_period = store_mode_tuner::period_of(huge);
    std::array<std::uint64_t, 3> cost{580, 120, 100};
    std::array<int, 3> calls{};
    store_mode_tuner search;
    int made = 0;
    auto const call = [&] {
      auto const chosen = search.next(collective::reduce, huge, ways, store_mode::streams);
      EXPECT_EQ(chosen.is_timed, made > 0);
      auto const at = static_cast<std::size_t>(chosen.way);
      ++calls[at];
      if (chosen.is_timed) {
        search.report(collective::reduce, huge, chosen, (made == 1 ? 1000 : cost[at]) * huge);
      }
      ++made;
      return chosen.way;
    };
    while (made < 1 + 2 * 3) call();  // the first call is not timed
    EXPECT_EQ(calls, (std::array{2, 2, 3}));
    EXPECT_EQ(call(), store_mode::streams);
    calls = {};
    constexpr int turns = 300;
    for (std::uint32_t k = 0; k < turns * huge_period; ++k) call();
    EXPECT_NEAR(calls[0], turns * 2 / 3 / 5, 10);  // also in the rounds of the best mode
    EXPECT_NEAR(calls[1], turns / 3, 3);
    // A mode that becomes the best is found within some rounds, even if it was slow before.
    cost = {50, 120, 100};
    for (std::uint32_t k = 0; k < 16 * huge_period; ++k) call();
    EXPECT_EQ(search.next(collective::reduce, huge, ways, store_mode::streams).way,
              store_mode::plain);
  }
}

TEST(store_mode_tuner, kinds_and_sizes_are_apart) {
  store_mode_tuner search;
  machine here{{100, 150, 300}, {}};
  machine there{{300, 150, 100}, {}};
  for (std::uint32_t call = 0; call < first_calls; ++call) {
    here.call(search);
    there.call(search, store_mode::plain, collective::broadcast);
  }
  EXPECT_EQ(search.next(collective::all_reduce, size, ways, store_mode::pairs).way,
            store_mode::plain);
  EXPECT_EQ(search.next(collective::broadcast, size, ways, store_mode::pairs).way,
            store_mode::streams);
  EXPECT_EQ(search.next(collective::all_reduce, 2 * size, ways, store_mode::pairs).way,
            store_mode::pairs);
}

TEST(store_mode_tuner, what_no_cache_holds_stays_as_guessed_if_the_transport_says_so) {
  auto limited = ways;
  limited.measured_below = size;
  for (auto const guess : {store_mode::plain, store_mode::streams}) {
    store_mode_tuner search;
    for (std::uint32_t call = 0; call < 2 * period; ++call) {
      auto const chosen = search.next(collective::broadcast, size, limited, guess);
      EXPECT_EQ(chosen.way, guess);
      EXPECT_FALSE(chosen.is_timed);
    }
    EXPECT_TRUE(search.next(collective::broadcast, size - 1, limited, guess).way == guess);
  }
  using blink::detail::store_modes_over;
  EXPECT_EQ(store_modes_over<blink::direct_transport>.measured_below, std::size_t{1} << 26);
  EXPECT_EQ(store_modes_over<blink::slot_transport>.measured_below, SIZE_MAX);
}

TEST(store_mode_tuner, who_writes_nothing_stays_as_guessed) {
  for (auto const guess : {store_mode::plain, store_mode::streams}) {
    store_mode_tuner search;
    for (std::uint32_t call = 0; call < 2 * period; ++call) {
      auto const chosen = search.next(collective::all_reduce, size, ways, guess);
      search.report(collective::all_reduce, size, chosen, 0);
    }
    EXPECT_EQ(settled(search, guess), guess);
  }
}

}  // namespace
